"""The kernels of images in shared memory, as printed."""

from __future__ import annotations

import torch

from tests.kernel.test_kept_columns import kernel_of
from tests.programs import H200, chain, total
from tests.schedule.segments import segment_of
from tests.schedule.test_kept_columns import centred
from tests.schedule.test_kept_tiles import walked
from tests.test_kept_kernels import spread
from tests.test_turned_image_kernels import along, turned
from thunder_fuser.analysis.digits import add, atom, divmod_form, scale
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.domain import axis
from thunder_fuser.ir.scalar import constant
from thunder_fuser.kernel.image_accesses import ImageAccesses
from thunder_fuser.kernel.image_ir import DealtRows
from thunder_fuser.kernel.kept_columns import lower_kept_columns
from thunder_fuser.presegment.stages import constants
from thunder_fuser.schedule import kept_columns
from thunder_fuser.schedule.column_axes import ColumnAxes


def test_planes_are_read_where_they_lie_in_a_slot() -> None:
    x = tensor(DataType.BFloat16, 2674, 512, 49)
    kernel = kernel_of(segment_of([x], centred(x)))
    assert kernel.images is not None
    text = str(kernel)
    assert "image T0 -> T4, 25088 x bf16, 1 slots" in text
    assert "load T0_image[49*row + place], 1 x bf16" in text
    assert "-> T0_image[49*row + place], 1 x bf16" in text
    assert kernel.kept == ()
    assert kernel.shared_bytes == 2 * 25088
    assert kernel.reach == 2674 * 25088


def test_equal_values_leave_together() -> None:
    x, y = (tensor(DataType.BFloat16, 2674, 512, 49) for _ in range(2))
    made = call("sub", y, spread(total(x, 1), y))
    kernel = kernel_of(
        segment_of([x, y], made, call("reshape", made, new_shape=constants(x.shape)))
    )
    assert kernel.images is not None
    assert sorted(len(plane.stored) for plane in kernel.images.planes) == [0, 2]


def test_each_plane_takes_the_place_of_one_of_its_type() -> None:
    x, y = tensor(DataType.BFloat16, 2674, 512, 49), tensor(DataType.Half, 2674, 512, 49)
    left = call("sub", chain(y, "neg"), spread(total(y, 1), y))
    made = call("cast", call("add", call("cast", x, dtype=DataType.Half), left), dtype=x.dtype)
    kernel = kernel_of(segment_of([x, y], made))
    assert kernel.images is not None
    stored = {plane.dtype: len(plane.stored) for plane in kernel.images.planes}
    assert stored == {DataType.BFloat16: 1, DataType.Half: 0}


def test_threads_at_rows_find_what_there_is_of_places() -> None:
    kernel = lower_kept_columns(walked((2674, 512, 49), torch.bfloat16), strict=False)
    assert kernel.images is not None
    (array,) = kernel.images.at_places.arrays
    assert (array.name, array.dtype, array.count) == ("f32_known", DataType.Float, 2)
    text = str(kernel)
    assert "f32_known_at[place].v[0] = " in text
    assert "f32_known[0].v[1]" in text
    assert "at places" in text


def test_places_of_what_is_turned_lie_a_pitch_apart() -> None:
    planned = walked((2674, 512, 49), torch.bfloat16, is_turned=True)
    kernel = lower_kept_columns(planned, strict=False)
    assert kernel.images is not None
    straight, other = sorted(kernel.images.planes, key=lambda plane: plane.pitch or 0)
    assert (straight.pitch, other.pitch, kernel.images.vector) == (None, 520, 8)
    assert (len(straight.stored), len(other.stored)) == (1, 0)
    text = str(kernel)
    assert f"  turned image {other.pointer}, 49 x 512 x bf16, 2 slots" in text
    assert f"load {other.name}[520*place + row], 1 x bf16" in text
    assert f"load {straight.name}[49*row + place], 1 x bf16" in text
    sizes = kernel.images.bytes_of_slots
    assert sizes[straight.name] == 2 * 50176
    assert sizes[other.name] == 2 * 51072  # whole lines


def test_a_plane_may_be_read_as_it_lies_and_turned() -> None:
    """Of as many rows as places."""
    x = tensor(DataType.BFloat16, 5, 48, 48)
    axes = ColumnAxes(axis(5 * 48), None, axis(48))
    image, place = divmod_form(atom(axes.vector), 48)
    row = atom(axes.row)
    found = ImageAccesses({x: Layout((5, 48, 48), (2304, 48, 1))}, axes, 48, {x: "T0"})
    for inner, outer in ((place, row), (row, place)):
        found.request(x, add(scale(image, 2304), add(scale(outer, 48), inner)), ())
    loads = found.group_loads()
    assert [a.pointer for a in loads] == ["T0_image", "T0_image_turned"]
    assert [plane.pitch for plane in found.planes.values()] == [None, 56]


def test_what_is_stored_turned_has_no_slot() -> None:
    x = tensor(DataType.BFloat16, 2674, 512, 49)
    b = turned(x)
    made = call("sub", b, along(b, total(b, 2)))
    planned = kept_columns.schedule_turned(segment_of([x], made), H200)
    kernel = lower_kept_columns(planned, strict=False)
    assert kernel.images is not None
    assert kernel.images.turns_out
    assert [plane.stored for plane in kernel.images.planes] == [()]
    assert "[512*vector + row], 1 x bf16" in str(kernel)


def test_what_is_the_same_along_a_row_is_computed_once_per_place() -> None:
    """Also behind what repeats it along the rows."""
    x = tensor(DataType.BFloat16, 2674, 512, 49)
    b = turned(x)
    repeated = along(b, total(b, 2))
    made = call("sub", b, call("mul", chain(repeated, "neg", "exp"), constant(3.0)))
    planned = kept_columns.schedule_turned(segment_of([x], made), H200)
    text = str(lower_kept_columns(planned, strict=False))
    at_places, per_row = text[text.index("at places") :].split("  per row")
    assert at_places.count("mul(") == at_places.count("exp(") == 1
    assert "mul(" not in per_row
    assert "exp(" not in per_row


def test_rows_are_dealt_to_threads() -> None:
    assert DealtRows.of(512, 512, 49) == DealtRows(512, 1, 1)
    assert DealtRows.of(128, 384, 49) == DealtRows(128, 3, 1)
    assert DealtRows.of(16, 192, 5) == DealtRows(16, 5, 1)  # no more than there are places
    assert DealtRows.of(1032, 1024, 33) == DealtRows(1024, 1, 2)

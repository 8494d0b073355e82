"""Which sums down columns are summed over several rows at a time, and what they become."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent

import pytest
import torch

from tests.programs import cat, chain, expand, ints, like, machine, piece, reshape, total, unsqueeze
from tests.schedule.segments import floats, halves
from thunder_fuser.analysis.layout import Layout, output_layout
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import apply, call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops.reductions import SQUARED_DEVIATION
from thunder_fuser.presegment.pack_rows import MIN_BYTES, MIN_TERMS, pack_rows
from thunder_fuser.runtime.evaluate import evaluate

SMS = 4
ROWS = 8 * MIN_TERMS


def packed(program: Fusion, lies: Mapping[TensorView, Layout] | None = None) -> Fusion:
    """Inputs are dense and aligned but for those that `lies` names."""
    layouts = {tv: output_layout(tv) for tv in program.inputs if isinstance(tv, TensorView)}
    return pack_rows(program, layouts | dict(lies or {}), machine(SMS))


def rows_at_a_time(program: Fusion, lies: Mapping[TensorView, Layout] | None = None) -> int | None:
    """None where the sum was left."""
    made = packed(program, lies)
    if made is program:
        return None
    (out,) = made.outputs
    found = [tv for tv in made.tensors if tv.definition and tv.definition.op.name == "reshape"]
    assert out.shape == found[-1].shape[1:]
    return found[-1].shape[0]


def column_sum(x: TensorView) -> Fusion:
    return Fusion((x,), (total(x, 0),))


def test_rows_are_summed_eight_at_a_time_in_the_accumulators_type() -> None:
    assert str(packed(column_sum(halves(16384, 4097)))) == dedent("""\
        fusion(T0: bf16[i16384, i4097]) {
          T1: f32[i16384, i4097] = cast(T0, dtype=f32)
          T2: f32[i2048, i32776] = reshape(T1, new_shape=[2048, 32776])
          T3: f32[r2048, i32776] = sum(T2, dims=[0])
          T4: f32[i8, i4097] = reshape(T3, new_shape=[8, 4097])
          T5: f32[r8, i4097] = sum(T4, dims=[0])
          T6: bf16[i4097] = cast(T5, dtype=bf16)
          return T6
        }""")


def test_rows_that_are_left_over_are_summed_behind_the_parts() -> None:
    lines = str(packed(column_sum(floats(16386, 4097)))).splitlines()
    assert "T1: f32[i16384, i4097] = slice(T0, start_indices=[0, 0], end_indices=[16384" in lines[1]
    assert "T4: f32[i4, i4097] = reshape(T3, " in lines[4]
    assert "T5: f32[i2, i4097] = slice(T0, start_indices=[16384, 0], end_indices=[16386" in lines[5]
    assert lines[6].strip() == "T6: f32[i6, i4097] = cat(T4, T5, dim=0)"
    assert lines[7].strip() == "T7: f32[r6, i4097] = sum(T6, dims=[0])"


def test_left_over_rows_whose_terms_need_sums_are_no_piece() -> None:
    """The pieces of the plane would sum the rows again, and be stored."""
    x = floats(ROWS + 1, 3, 343)
    away = call("sub", x, expand(unsqueeze(total(x, 2), 2), *x.shape))
    program = Fusion((x,), (total(away, 0),))
    assert packed(program) is program
    assert rows_at_a_time(Fusion((x,), (total(x, 0),))) is not None


def test_planes_of_odd_rows_are_one_dim() -> None:
    assert str(packed(column_sum(halves(4096, 16, 49)))) == dedent("""\
        fusion(T0: bf16[i4096, i16, i49]) {
          T1: f32[i4096, i16, i49] = cast(T0, dtype=f32)
          T2: f32[i4096, i784] = reshape(T1, new_shape=[4096, 784])
          T3: f32[r4096, i784] = sum(T2, dims=[0])
          T4: f32[i16, i49] = reshape(T3, new_shape=[16, 49])
          T5: bf16[i16, i49] = cast(T4, dtype=bf16)
          return T5
        }""")


@pytest.mark.parametrize(
    ("dtype", "columns", "expected"),
    [
        (DataType.BFloat16, 4097, 8),
        (DataType.Half, 50257, 8),
        (DataType.BFloat16, 4098, 4),
        (DataType.BFloat16, 4100, None),  # accesses of 8 bytes
        (DataType.BFloat16, 4096, None),
        (DataType.Float, 4097, 4),
        (DataType.Float, 4098, None),
        (DataType.Int8, 4097, 16),
        (DataType.Double, 4097, None),
    ],
    ids=str,
)
def test_as_many_rows_are_packed_as_fill_vectors(
    dtype: DataType, columns: int, expected: int | None
) -> None:
    assert rows_at_a_time(column_sum(tensor(dtype, 16 * MIN_TERMS, columns))) == expected


@pytest.mark.parametrize("op", ["sum", "prod", "max", "min"])
def test_parts_of_every_plain_reduction_are_reduced_alike(op: str) -> None:
    x = floats(ROWS, 1031)
    made = packed(Fusion((x,), (call(op, x, dims=(0,)),)))
    assert [tv.definition.op.name for tv in made.tensors if tv.definition].count(op) == 2


def test_leading_dims_are_rows_together() -> None:
    x = halves(8, ROWS // 8, 1031)
    assert rows_at_a_time(Fusion((x,), (total(x, 0, 1),))) == 8


@pytest.mark.parametrize(
    "shape",
    [(8 * MIN_TERMS - 1, 4097), (ROWS, SMS * MIN_BYTES // (2 * ROWS) - 1)],
    ids=["few rows", "a small plane"],
)
def test_other_planes_are_left(shape: tuple[int, int]) -> None:
    assert rows_at_a_time(column_sum(halves(*shape))) is None


@pytest.mark.parametrize(
    "layout",
    [
        Layout((ROWS, 1031), (1100, 1)),
        Layout((ROWS, 1031), (0, 1)),
        Layout((ROWS, 1031), (1, ROWS)),
        Layout((ROWS, 1031), (1031, 1), 2),
    ],
    ids=["rows apart", "expanded", "columns first", "misaligned"],
)
def test_a_plane_that_lies_otherwise_is_left(layout: Layout) -> None:
    x, y = halves(ROWS, 1031), halves(ROWS, 1031)
    program = Fusion((x, y), (total(call("mul", x, y), 0),))
    assert rows_at_a_time(program) == 8
    assert rows_at_a_time(program, {y: layout}) is None


def test_a_plane_of_pieces_is_left() -> None:
    x, y = halves(ROWS, 1031), halves(ROWS, 500)
    assert rows_at_a_time(column_sum_of(x, y)) is None
    wide = halves(ROWS, 1100)
    assert rows_at_a_time(Fusion((wide,), (total(piece(wide, 1, 0, 1031), 0),))) is None


def column_sum_of(x: TensorView, y: TensorView) -> Fusion:
    """The sum of a plane that two pieces are joined to."""
    joined = cat(piece(x, 1, 0, 531), y)
    return Fusion((x, y), (total(joined, 0),))


def test_a_plane_that_only_repeats_is_left() -> None:
    x = halves(1031)
    repeated = call("broadcast_in_dim", x, shape=ints((ROWS, 1031)), broadcast_dims=(1,))
    assert rows_at_a_time(Fusion((x,), (total(repeated, 0),))) is None


def test_what_repeats_beside_the_plane_is_no_matter() -> None:
    x, bias = halves(ROWS, 1031), halves(1031)
    assert rows_at_a_time(Fusion((x, bias), (total(call("add", x, bias), 0),))) == 8


def test_a_plane_whose_rows_are_summed_too_is_left() -> None:
    x = halves(ROWS, 1031)
    program = Fusion((x,), (total(x, 0), total(x, 1)))
    assert packed(program) is program


def test_a_plane_whose_running_sums_are_wanted_too_is_left() -> None:
    x = floats(ROWS, 1031)
    program = Fusion((x,), (total(x, 0), call("cumsum", x, dim=0)))
    assert packed(program) is program


def test_sums_of_one_plane_are_packed_alike() -> None:
    """So that one kernel still has them all."""
    x, y = halves(ROWS, 1031), floats(ROWS, 1031)
    made = packed(Fusion((x, y), (total(y, 0), total(call("mul", x, y), 0))))
    shapes = [tv.shape for tv in made.tensors if tv.definition and tv.definition.op.name == "sum"]
    assert shapes == [(8 * 1031,), (1031,)] * 2


def deviation(x: TensorView) -> TensorView:
    made = apply(SQUARED_DEVIATION, [x], {"dims": (0,)})
    assert isinstance(made, TensorView)
    return made


@pytest.mark.parametrize("rows", [ROWS, ROWS + 3])
def test_a_variance_comes_from_the_pass_of_its_mean(rows: int) -> None:
    x = floats(rows, 1031)
    made = packed(Fusion((x,), (total(x, 0), deviation(x))))
    wide = [tv.definition for tv in made.tensors if tv.shape == (4 * 1031,) and tv.definition]
    assert [definition.op.name for definition in wide] == ["sum", "squared_deviation"]
    assert wide[0].inputs == wide[1].inputs


@pytest.mark.parametrize("rows", [ROWS, ROWS + 3])
def test_a_variance_stays_what_it_is(rows: int) -> None:
    x = torch.randn(rows, 1031) + 1e2
    (a,) = like(x)
    program = Fusion((a,), (deviation(a),))
    made = packed(program)
    assert made is not program
    (got,), (want,) = evaluate(made, [x]), evaluate(program, [x.double()])
    torch.testing.assert_close(got.double(), want.double(), rtol=1e-5, atol=0.0)


def test_a_plane_that_waits_for_the_sums_is_no_matter_for_rows_that_are_left_over() -> None:
    """Other than one that is stored beside them: of that pieces would be computed anew."""
    x = floats(ROWS + 1, 1031)
    away = call("sub", x, total(x, 0))
    assert "slice" in str(packed(Fusion((x,), (away,))))
    beside = Fusion((x,), (chain(x, "neg"), total(chain(x, "neg"), 0)))
    assert "slice" not in str(packed(beside))


def test_rows_are_added_to_the_last_pack_of_a_plane_that_is_stored() -> None:
    assert str(packed(gradient(ROWS + 7, 4097))) == dedent("""\
        fusion(T0: bf16[i1031, i4097]) {
          T1: bf16[i1031, i4097] = neg(T0)
          T2: f32[i1031, i4097] = cast(T1, dtype=f32)
          T3: f32[i1032, i4097] = pad(T2, 0, pad_widths=[0, 0, 0, 1])
          T4: f32[i129, i32776] = reshape(T3, new_shape=[129, 32776])
          T5: f32[r129, i32776] = sum(T4, dims=[0], packed=4224007)
          T6: f32[i8, i4097] = reshape(T5, new_shape=[8, 4097])
          T7: f32[r8, i4097] = sum(T6, dims=[0])
          T8: bf16[i4097] = cast(T7, dtype=bf16)
          return T1, T8
        }""")


@pytest.mark.parametrize("beside", ["a scale of rows", "columns in two dims"])
def test_rows_are_added_to_no_plane_beside_what_threads_would_read_behind_its_end(
    beside: str,
) -> None:
    x, scale = floats(ROWS + 3, 1031), floats(ROWS + 3)
    if beside == "a scale of rows":
        moved = call("mul", x, expand(unsqueeze(scale, 1), *x.shape))
        program = Fusion((x, scale), (moved, total(moved, 0)))
    else:
        x = floats(ROWS + 3, 3, 343)
        program = Fusion((x,), (chain(x, "neg"), total(chain(x, "neg"), 0)))
    assert packed(program) is program


def test_reshaped_planes_are_planes() -> None:
    x = halves(ROWS * 1031)
    assert rows_at_a_time(Fusion((x,), (total(reshape(x, ROWS, 1031), 0),))) == 8


def test_sums_that_are_spread_over_the_plane_are_stored_first() -> None:
    x = floats(ROWS, 1031)
    away = call("sub", x, total(x, 0))
    made = packed(Fusion((x,), (away,)))
    assert "segment_set" in str(made)
    assert "segment_set" not in str(packed(Fusion((x,), (chain(total(x, 0), "neg"),))))


def gradient(rows: int, columns: int) -> Fusion:
    """A plane that is stored and summed."""
    x = halves(rows, columns)
    moved = chain(x, "neg")
    return Fusion((x,), (moved, total(moved, 0)))


def in_stretches(program: Fusion, max_cluster: int = 8) -> bool:
    layouts = {tv: output_layout(tv) for tv in program.inputs if isinstance(tv, TensorView)}
    made = str(pack_rows(program, layouts, machine(SMS, max_cluster)))
    return "walked=" in made


def test_short_rows_of_another_number_are_dealt_in_stretches() -> None:
    """In 16 turns of twelve blocks, with 32 rows for each, the last ones not there."""
    program = gradient(16 * 12 * 32 - 3, 63)
    layouts = {tv: output_layout(tv) for tv in program.inputs if isinstance(tv, TensorView)}
    made = str(pack_rows(program, layouts, machine(SMS, 8)))
    assert "reshape(T3, new_shape=[16, 12, 32, 63])" in made
    assert "dims=[1, 2], walked=6141" in made


@pytest.mark.parametrize(
    ("rows", "columns", "max_cluster"),
    [(6141, 63, 1), (6144, 63, 8), (6141, 64, 8), (6141, 451, 8), (300, 63, 8)],
)
def test_others_are_not(rows: int, columns: int, max_cluster: int) -> None:
    """Where nothing copies stretches, rows that fill vectors or are packed, long ones, few."""
    assert not in_stretches(gradient(rows, columns), max_cluster)


@pytest.mark.parametrize(
    ("rows", "dtype", "count"),
    [
        (8 * ROWS, DataType.BFloat16, 8),
        (8 * ROWS + 4, DataType.BFloat16, 4),  # accesses of 8 bytes
        (8 * ROWS + 2, DataType.BFloat16, None),
        (8 * ROWS + 2, DataType.Float, 2),
        (8 * ROWS + 1, DataType.Float, None),
    ],
)
def test_those_of_two_dims_are_packed_in_halves_of_vectors(
    rows: int, dtype: DataType, count: int | None
) -> None:
    x = tensor(dtype, rows, 1, 1031)
    moved = chain(x, "neg")
    made = packed(Fusion((x,), (total(moved, 0), moved)))
    found = [tv.shape for tv in made.tensors if tv.shape[1:] == (1, 1031) and tv.ndim == 3]
    assert [shape[0] for shape in found if shape[0] < 16] == ([] if count is None else [count])
    assert "slice" not in str(made)


def test_sums_of_rows_that_are_not_stored_are_not_dealt() -> None:
    assert in_stretches(gradient(6141, 63))
    assert not in_stretches(column_sum(halves(6141, 63)))

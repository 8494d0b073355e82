"""The order in which threads walk a class, and which axes become one."""

from __future__ import annotations

from tests.programs import cat, chain, full, permute, reshape
from tests.schedule.segments import classes_of, floats, segment_of
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.order import arrange, merge_axes
from thunder_fuser.schedule.text import named, print_axes, print_element
from thunder_fuser.segment.segment import Segment


def walked(segment: Segment) -> str:
    """Axes of the first class, outermost first, and the index of its first store."""
    group = merge_axes(arrange(classes_of(segment, owned=1)[0]))
    names = named("i", group.axes)
    return f"{print_axes(group.axes, names)}: {print_element('T', group.nests[0].index, names)}"


def test_threads_walk_the_store_not_the_load() -> None:
    x = floats(40, 50)
    segment = segment_of([x], chain(permute(x, 1, 0), "neg"))
    assert walked(segment) == "i0{50}, i1{40}: T[i0, i1]"


def test_a_store_in_another_memory_order_is_walked_in_that_order() -> None:
    x = floats(40, 50)
    made = chain(permute(x, 1, 0), "neg")
    lies = {made: Layout((50, 40), (1, 50)), x: Layout((40, 50), (51, 1))}
    assert walked(segment_of([x], made, lies=lies)) == "i0{40}, i1{50}: T[i1, i0]"


def test_axes_that_every_access_walks_as_one_are_merged() -> None:
    x, y = floats(10, 20, 30), floats(10, 20, 30)
    assert walked(segment_of([x, y], call("add", x, y))) == (
        "i0{6000}: T[(i0/600), ((i0/30)%20), (i0%30)]"
    )


def test_a_row_gap_in_one_operand_keeps_that_axis_apart() -> None:
    x, y = floats(10, 20, 30), floats(10, 20, 30)
    lies = {y: Layout((10, 20, 30), (1000, 30, 1))}
    assert walked(segment_of([x, y], call("add", x, y), lies=lies)) == (
        "i0{10}, i1{600}: T[i0, (i1/30), (i1%30)]"
    )


def test_an_operand_that_repeats_along_rows_keeps_them_apart() -> None:
    x, bias = floats(10, 20, 30), floats(30)
    assert walked(segment_of([x, bias], call("add", x, bias))) == (
        "i0{200}, i1{30}: T[(i0/20), (i0%20), i1]"
    )


def test_an_index_that_is_a_value_keeps_its_axis() -> None:
    """iota along the rows: the row number must stay an axis; the rest is not read at all."""
    count = call(
        "iota",
        sc.constant(0),
        sc.constant(1),
        length=(sc.constant(30),),
        dtype=DataType.Int,
    )
    x = floats(20, 30)
    assert walked(segment_of([x], call("add", x, count))) == "i0{20}, i1{30}: T[i0, i1]"


def test_a_constant_is_stored_along_one_axis() -> None:
    assert walked(segment_of([], full(1.5, 10, 20))) == "i0{200}: T[(i0/20), (i0%20)]"


def test_merging_keeps_what_reshapes_split() -> None:
    x, y = floats(10, 600), floats(20, 300)
    segment = segment_of([x, y], call("add", reshape(x, 20, 300), y))
    assert walked(segment) == "i0{6000}: T[(i0/300), (i0%300)]"


def test_a_class_is_walked_like_its_first_store() -> None:
    x = floats(40, 50)
    first: TensorView = chain(x, "neg")
    segment = segment_of([x], first, chain(permute(x, 1, 0), "exp"))
    assert walked(segment) == "i0{40}, i1{50}: T[i0, i1]"


def test_unrolled_axes_come_last() -> None:
    x = floats(3, 16)
    segment = segment_of([x], cat(chain(x, "neg"), x, dim=0))
    (group,) = (arrange(g) for g in classes_of(segment))
    (nest,) = group.nests
    assert nest.axes[-1] in nest.unrolled
    assert nest.axes[: len(nest.parallel)] == nest.parallel

"""The text of a group kernel's parts: the first terms of several rows, and windows of terms."""

from __future__ import annotations

from tests.programs import H200, ints
from tests.schedule.segments import floats, halves, segment_of
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.codegen.group_text import group_lines
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.group_ir import GroupKernel
from thunder_fuser.kernel.groups import lower_groups
from thunder_fuser.schedule import groups
from thunder_fuser.segment.segment import Segment


def ahead(x: TensorView) -> GroupKernel:
    """The kernel of an order that is in memory and needs no check, in many rows."""
    index, ends = tensor(DataType.Int, 60), tensor(DataType.Int, 90000)
    order = call("group_order", index, count=ints([90000]))
    segment = segment_of([x, index, ends], call("group_sum", x, order, ends, dim=0, skip=-1))
    layouts = {**segment.layouts, order: segment.layouts[index]}
    stored = Segment(segment.stores, segment.leaves | {order}, layouts)
    return lower_groups(groups.schedule(stored, H200), strict=False)


def held(x: TensorView) -> str:
    """The text of an order whose ends are in memory too."""
    index, count = tensor(DataType.Int, x.shape[0]), ints([200000])
    order = call("group_order", index, count=count)
    ends = call("group_ends", call("group_keys", index, order, count=count), count=count)
    segment = segment_of([x, index], call("group_sum", x, order, ends, dim=0, skip=-1))
    layouts = {tv: Layout(tv.shape, (1,), 16) for tv in (order, ends)}
    leaves = segment.leaves | set(layouts)
    stored = Segment(segment.stores, leaves, {**segment.layouts, **layouts})
    lines = group_lines(lower_groups(groups.schedule(stored, H200), strict=False))
    return "\n".join(lines).replace("\x01", "").replace("\x02", "")


def test_the_first_terms_of_odd_rows_are_loaded_without_a_branch() -> None:
    """Of its own: one is around those of all rows. A row that has none loads nothing."""
    text = "\n".join(group_lines(ahead(halves(60, 577)))).replace("\x01", "").replace("\x02", "")
    few = "begins[turn] < ends[turn] && ends[turn] - begins[turn] <= 16"
    steps = (
        "v0_held[turn] = tf::load_row<tf::bf16, 8>(v0_from[turn], ",
        f"8 * vector), {few} ? 577 : 0);",
        "v0_first[turn][threadIdx.x] = v0_held[turn];",
        "v0 = &v0_first[turn][threadIdx.x];",
    )
    places = [text.index(step) for step in steps]
    assert places == sorted(places)
    assert "copy_async" not in text


def test_the_first_terms_of_rows_are_copied_after_all_of_their_places_are_read() -> None:
    text = "\n".join(group_lines(ahead(floats(60, 4096))))
    steps = (
        "stretch(row, begins[turn], ends[turn]);",
        "v0_from[turn] = tf::address_here(",
        "tf::copy_async<16>(v0_first[turn], threadIdx.x, v0_from[turn]);",
        "tf::await_copies<0>();",
        "v0 = &v0_first[turn][threadIdx.x];",
        "add(row, begin + 1, end, 1);",
    )
    places = [text.index(step) for step in steps]
    assert places == sorted(places)


def test_a_window_of_terms_is_on_its_way_while_the_one_before_is_added() -> None:
    text = held(halves(60, 20))
    steps = (
        "__shared__ tf::Vec<tf::bf16, 4> v0_terms[2560];",
        "stretches[k].v[0] = begin, stretches[k].v[1] = end;",
        "is_shared = __syncthreads_or(is_shared);",
        "const auto v0_own = tf::settled_address(T0 + (4 * vector));",
        "tf::copy_async<8>(v0_terms, slot, v0_from[k]);",
        "fetch(stop, side ^ 1, tf::Yes());",
        "tf::await_copies<1>();",
        "v0 = &v0_terms[(256 * side + int(term - start)) * 5 + own];",
        "if (end > stop) break;",
        "if (stop == to) break;",
    )
    places = [text.index(step) for step in steps]
    assert places == sorted(places)


def test_what_the_hardware_does_not_copy_is_loaded_of_all_terms_of_a_batch() -> None:
    text = held(halves(60, 9))
    assert "v0_read[k] = tf::load<tf::bf16, 1, 2>(v0_from[k]);" in text
    assert "v0_terms[slot] = v0_read[k];" in text


def test_long_rows_are_held_that_only_narrow_vectors_divide() -> None:
    assert "v0_terms[" not in held(halves(60, 160))  # rows of more than 256 bytes
    assert "v0_terms[" not in held(halves(60, 577))  # which no hardware copies
    text = held(halves(60, 578))
    assert "if (is_whole || start + part + 1 * k < to) {" in text
    assert text.count("if (vector < 289) {") == 3  # around all copies, and where rows end


def test_rows_of_many_terms_are_not_those_of_one_block() -> None:
    text = held(halves(60, 20))
    assert "const int first = blockIdx.x / 1 * 64;" in text
    assert "const int turn = blockIdx.x / 1 + 3125 * (k / 8);" in text
    assert "const int dealt = 8 * turn + k % 8;" in text
    assert "if (dealt == row && (end - begin > 64)) many[atomicAdd(&found, 1)] = row;" in text

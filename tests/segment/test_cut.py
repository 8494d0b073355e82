"""Where a region is cut, what travels between its segments, and in which order it is written."""

from __future__ import annotations

import pytest
import torch

from tests.devices import copies
from tests.programs import (
    STRICT,
    cat,
    chain,
    check,
    expand,
    flip,
    full,
    fusion,
    ints,
    like,
    pad,
    permute,
    piece,
    plan_of,
    reshape,
    stop,
    total,
    unsqueeze,
)
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.runtime.plan import Plan

pytestmark = [pytest.mark.usefixtures("device"), pytest.mark.sanitizer]


def edges(plan: Plan) -> list[str]:
    """The values between segments, as `dtype[shape]`."""
    found = plan.segmented.edges
    return [f"{tv.dtype}{list(tv.shape)}" for tv in found]


def constants_in(plan: Plan) -> list[bool]:
    return ["1.5f" in source for source in plan.sources]


# NVIDIA/Fuser#4269: a constant never travels between segments


def test_a_constant_used_on_both_sides_of_a_stop_is_in_both_kernels() -> None:
    x = torch.randn(1024)
    (a,) = like(x)
    constant = full(1.5, 1024)
    middle = call("add", a, constant)
    plan = check(fusion([a], call("mul", stop(middle), constant)), x)
    assert plan.launches == 2
    assert edges(plan) == ["f32[1024]"]
    assert plan.segmented.edge_bytes == 4096
    assert constants_in(plan) == [True, True]
    assert [len(k.parameters) for k in plan.kernels if k] == [2, 2]


def test_a_returned_constant_is_written_once_and_read_never() -> None:
    x = torch.randn(1024)
    (a,) = like(x)
    constant = full(1.5, 1024)
    middle = stop(call("add", a, constant))
    plan = check(fusion([a], call("mul", middle, constant), constant), x)
    assert edges(plan) == ["f32[1024]"]
    assert constants_in(plan) == [True, True]
    writers = [s for s in plan.segmented.segments for t in s.stores if t.value.ndim == 1]
    assert len(writers) == 3, "the edge, the constant, the product"


@pytest.mark.parametrize(
    "constant",
    [
        lambda: chain(full(1.5, 6, 4), "neg"),
        lambda: call("neg", call("cast", full(1.5, 6, 4), dtype=DataType.Float)),
        lambda: expand(full(1.5, 1, 4), 6, 4),
        lambda: pad(full(1.5, 4, 4), [0, 0, 1, 1], 1.5),
        lambda: reshape(
            call(
                "iota",
                sc.constant(3),
                sc.constant(2),
                length=(sc.constant(24),),
                dtype=DataType.Float,
            ),
            6,
            4,
        ),
    ],
    ids=["neg", "cast", "expand", "pad", "iota"],
)
def test_what_depends_on_no_data_is_recomputed_in_every_segment(constant: object) -> None:
    assert callable(constant)
    x = torch.randn(6, 4)
    (a,) = like(x)
    value = constant()
    middle = stop(call("add", a, value))
    plan = check(fusion([a], call("mul", middle, value)), x)
    assert edges(plan) == ["f32[6, 4]"]


def test_a_stop_of_a_constant_is_no_edge() -> None:
    x = torch.randn(6, 4)
    (a,) = like(x)
    plan = check(fusion([a], call("mul", a, stop(full(1.5, 6, 4)))), x)
    assert plan.launches == 1
    assert edges(plan) == []


def test_a_unary_chain_of_an_input_is_recomputed_behind_the_stop() -> None:
    x, y = torch.randn(7, 9), torch.randn(7, 9)
    a, b = like(x, y)
    cheap = chain(a, "neg", "abs")
    middle = stop(call("mul", cheap, b))
    plan = check(fusion([a, b], call("add", middle, cheap)), x, y)
    assert edges(plan) == ["f32[7, 9]"]
    assert [a_in for s in plan.segmented.segments for a_in in s.inputs].count(
        plan.segmented.fusion.tensors[0]
    ) == 2


@pytest.mark.parametrize(("rows", "is_recomputed"), [(40, True), (4, False)])
def test_what_two_planes_and_little_else_make_is_recomputed(rows: int, is_recomputed: bool) -> None:
    """Reading both is no more than writing the value and reading it. A scale of the columns counts
    as nothing beside 40 rows, but not beside 4."""
    x, y, scale = torch.randn(rows, 9), torch.randn(rows, 9), torch.randn(9)
    a, b, c = like(x, y, scale)
    value = call("mul", call("mul", a, b), expand(unsqueeze(c, 0), rows, 9))
    program = fusion([a, b, c], call("add", stop(chain(value, "neg")), value))
    plan = check(program, x, y, scale)
    assert len(edges(plan)) == (1 if is_recomputed else 2)


def test_a_gather_is_not_repeated_whose_rows_are_read_several_times() -> None:
    table, place, y = torch.randn(20, 9), torch.randint(20, (30,)), torch.randn(30, 9)
    t, i, b = like(table, place, y)
    value = call("mul", call("index_select", t, i, dim=0), b)
    plan = check(fusion([t, i, b], call("mul", stop(chain(value, "neg")), value)), table, place, y)
    assert edges(plan) == ["f32[30, 9]"] * 2
    assert [len(s.inputs) for s in plan.segmented.segments] == [3, 2]


# What an edge carries


def test_a_widened_value_travels_narrow() -> None:
    x, y = (torch.randn(6, 20, dtype=torch.bfloat16) for _ in range(2))
    a, b = like(x, y)
    wide = call("cast", call("mul", a, b), dtype=DataType.Float)
    plan = check(fusion([a, b], chain(stop(wide), "neg")), x, y)
    assert edges(plan) == ["bf16[6, 20]"]


def test_an_expanded_value_travels_once() -> None:
    x, y = torch.randn(5, 7), torch.randn(5, 4, 7)
    a, b = like(x, y)
    wide = expand(unsqueeze(chain(a, "neg"), 1), 5, 4, 7)
    plan = check(fusion([a, b], call("mul", stop(wide), b)), x, y)
    assert plan.segmented.edge_bytes == 5 * 7 * 4


def test_a_padded_value_travels_without_its_fill() -> None:
    x = torch.randn(5, 7)
    (a,) = like(x)
    plan = check(fusion([a], chain(stop(pad(chain(a, "neg"), [3, 4], 2.0)), "abs")), x)
    assert edges(plan) == ["f32[5, 7]"]


def test_a_reduction_is_never_recomputed() -> None:
    x = torch.randn(5, 7, 4)
    (a,) = like(x)
    short = total(a, 2)
    middle = stop(chain(short, "neg"))
    plan = check(fusion([a], call("mul", middle, short)), x)
    assert sorted(edges(plan)) == ["f32[5, 7]", "f32[5, 7]"]


# NVIDIA/Fuser#2577: a segment of metadata launches nothing


def test_a_stop_at_a_view_of_an_input_launches_nothing() -> None:
    x = torch.randn(12, 10)
    (a,) = like(x)
    view = stop(permute(piece(a, 0, 2, 9), 1, 0))
    plan = check(fusion([a], chain(view, "neg")), x)
    assert plan.launches == 1
    assert edges(plan) == []
    assert "T3 is a view of T0: shape [10, 7] strides [1, 10] offset 20" in str(plan)


def test_slices_behind_a_stored_stop_are_views_of_it() -> None:
    """Cuts after the reshaped q of LitGPT's RoPE and after each slice of it."""
    x = torch.randn(2, 6, 48)
    (a,) = like(x)
    heads = permute(reshape(a, 2, 6, 2, 6, 4), 0, 2, 3, 1, 4)
    query = stop(reshape(piece(heads, 2, 0, 4), 2, 8, 6, 4))
    roped = stop(piece(query, 3, 0, 2))
    low, high = stop(piece(roped, 3, 0, 1)), stop(piece(query, 3, 1, 4))
    outputs = [chain(low, "neg"), chain(high, "abs"), call("mul", roped, roped)]
    plan = check(fusion([a], *outputs), x)
    assert edges(plan) == ["f32[2, 8, 6, 4]"]
    (edge,) = plan.segmented.edges
    views = {tv: v for tv, v in plan.segmented.views.items() if plan.segmented.storage(tv) is edge}
    assert {v.strides for v in views.values()} == {(192, 24, 4, 1)}
    assert sorted(v.offset for v in views.values()) == [0, 0, 1]


def test_a_stop_right_after_split_leaves_views_of_the_input() -> None:
    x = torch.randn(2, 6, 48)
    (a,) = like(x)
    heads = permute(reshape(a, 2, 6, 2, 6, 4), 0, 2, 3, 1, 4)
    parts = [stop(piece(heads, 2, *ends)) for ends in ((0, 4), (4, 5), (5, 6))]
    wide = stop(expand(parts[1], 2, 2, 4, 6, 4))
    plan = check(fusion([a], *(chain(p, "neg") for p in (*parts, wide))), x)
    assert edges(plan) == []
    views = [plan.segmented.views[tv] for tv in plan.segmented.views]
    assert [v.offset for v in views] == [0, 16, 20]
    assert all(v.strides[:2] + v.strides[3:] == (288, 24, 48, 1) for v in views)
    assert views[0].strides[2] == 4


def test_only_views_are_launched_by_nobody(device: torch.device) -> None:
    x = torch.randn(4, 6, 10)
    (a,) = like(x)
    outputs = [permute(a, 2, 0, 1), piece(a, 2, 3, 8), reshape(a, 24, 10)]
    given = x.to(device)
    plan = plan_of(fusion([a], *outputs), given)
    assert plan.launches == 0
    found = plan.run(given)
    wanted = [given.permute(2, 0, 1), given[..., 3:8], given.view(24, 10)]
    for got, want in zip(found, wanted, strict=True):
        assert (got.data_ptr(), got.stride(), got.shape) == (
            want.data_ptr(),
            want.stride(),
            want.shape,
        )


# In-place writes


def test_a_diamond_with_a_stop_in_one_arm_reads_each_value_once() -> None:
    x, y = torch.randn(9, 11), torch.randn(9, 11)
    a, b = like(x, y)
    top = call("mul", a, b)
    left, right = stop(chain(top, "abs")), chain(top, "neg")
    plan = check(fusion([a, b], call("add", left, right)), x, y)
    assert plan.launches == 2


def test_a_target_read_behind_a_stop_is_written_last() -> None:
    x = torch.randn(8, 8)
    (a,) = like(x)
    first = stop(chain(a, "neg"))
    second = stop(call("add", first, permute(a, 1, 0)))
    third = call("mul", second, a)
    plan = check(fusion([a], second, third, writes=[(call("mul", first, a), a)]), x)
    assert [s.is_in_place for s in plan.segmented.segments[-1].stores] == [True]


@pytest.mark.parametrize("view", ["stop", "bare"])
@pytest.mark.parametrize("size", [5, 33])
def test_a_target_read_elsewhere_than_it_is_written_is_copied_first(view: str, size: int) -> None:
    x = torch.randn(size, size)
    (a,) = like(x)
    turned = permute(a, 1, 0)
    value = stop(turned) if view == "stop" else turned
    check(fusion([a], writes=[(value, a)]), x)
    check(fusion([a], writes=[(chain(value, "neg"), a)]), x)
    check(fusion([a], writes=[(flip(value, 1), a)]), x)


def test_a_target_read_where_it_is_written_needs_no_copy() -> None:
    x, y = torch.randn(16, 33), torch.randn(33)
    a, b = like(x, y)
    plan = check(fusion([a, b], writes=[(call("mul", a, b), a)]), x, y)
    assert plan.launches == 1
    assert "empty" not in plan.text


@pytest.mark.parametrize("is_turned", [False, True])
def test_two_inputs_can_be_swapped(is_turned: bool) -> None:
    x, y = torch.randn(5, 5), torch.randn(5, 5)
    y = y.t() if is_turned else y
    a, b = like(x, y)
    check(fusion([a, b], writes=[(b, a), (a, b)]), x, y)


@pytest.mark.parametrize("is_turned", [False, True])
def test_crossed_updates_read_the_old_values(is_turned: bool) -> None:
    x, y = torch.randn(7, 7), torch.randn(7, 7)
    y = y.t() if is_turned else y
    a, b = like(x, y)
    writes = [(call("add", a, b), a), (call("sub", b, flip(a, 0)), b)]
    check(fusion([a, b], writes=writes), x, y)


def test_a_copy_of_the_old_value_is_taken_before_the_write() -> None:
    x = torch.randn(6, 10)
    (a,) = like(x)
    old = [call("set", a), reshape(permute(a, 1, 0), 60), cat(a, a)]
    check(fusion([a], *old, writes=[(chain(a, "neg"), a)]), x)


def test_a_returned_view_of_a_target_shows_the_new_value(device: torch.device) -> None:
    x = torch.randn(6, 10).to(device)
    before = x.clone()
    (a,) = like(x)
    new = chain(a, "neg")
    program = fusion([a], permute(a, 1, 0), new, piece(a, 1, 2, 5), writes=[(new, a)])
    turned, target, part = plan_of(program, x).run(x)
    assert target is x
    assert torch.equal(turned, -before.t())
    assert torch.equal(part, -before[:, 2:5])
    assert turned.data_ptr() == x.data_ptr()


def test_a_returned_stop_of_a_target_is_read_before_the_write(device: torch.device) -> None:
    x = torch.randn(6, 10).to(device)
    before = x.clone()
    (a,) = like(x)
    part = stop(piece(a, 1, 2, 5))
    program = fusion([a], part, chain(part, "neg"), writes=[(chain(a, "abs"), a)])
    shown, negated = plan_of(program, x).run(x)
    assert torch.equal(shown, before.abs()[:, 2:5])
    assert torch.equal(negated, -before[:, 2:5])


def test_a_long_sum_is_written_in_place_without_being_computed_again() -> None:
    x, y = torch.randn(7, 1000).round(), torch.randn(7)
    a, b = like(x, y)
    plan = check(fusion([a, b], writes=[(total(a, 1), b)]), x, y)
    reads = [list(tv.shape) for s in plan.segmented.segments for tv in s.inputs]
    assert reads.count([7, 1000]) == 1


def test_a_view_of_an_output_is_computed_anew_in_the_kernel_that_writes_it() -> None:
    x = torch.randn(4, 8)
    (a,) = like(x)
    first = chain(stop(a), "neg")
    halves = reshape(first, 16, 2)
    padded = stop(pad(halves, [1, 2]))
    check(fusion([a], cat(padded, padded, dim=0), total(pad(halves, [1, 2]), 0), first), x)


def test_what_reads_a_row_sum_does_not_run_before_it() -> None:
    x, y = torch.randn(7, 100).round(), torch.randn(5, 7)
    a, b = like(x, y)
    rows = total(a, 1)
    check(fusion([a, b], rows, call("mul", rows, rows), chain(b, "abs")), x, y)
    check(fusion([a, b], rows, call("mul", flip(rows, 0), rows), chain(b, "abs")), x, y)


def centred_columns(x: torch.Tensor) -> Fusion:
    """Sums down the columns at two levels, and a plane that needs both."""
    (a,) = like(x)
    first = chain(total(a, 0), "neg")
    centred = call("add", a, expand(unsqueeze(first, 0), *a.shape))
    second = chain(total(call("mul", centred, centred), 0), "neg")
    return fusion([a], call("mul", centred, expand(unsqueeze(second, 0), *a.shape)))


@pytest.mark.usefixtures("one_multiprocessor")
def test_only_the_order_of_an_index_is_apart_from_rows_and_their_column_sums() -> None:
    """One kernel holds a plane and parts of its sums, none an order as well."""
    x, index = torch.randn(600, 96), torch.randint(30, (500,))
    a, i = like(x, index)
    scaled = call("mul", a, expand(unsqueeze(total(a, 1), 1), 600, 96))
    order = call("group_order", i, count=ints([30]))
    plan = plan_of(fusion([a, i], scaled, total(scaled, 0), order), *copies([x, index]))
    assert [len(segment.stores) for segment in plan.segmented.segments] == [2, 1, 1]
    assert plan.segmented.reasons[:2] == ("the region", "puts an index in order")


def test_columns_that_a_block_keeps_are_read_once() -> None:
    x = torch.randn(64, 48).round()
    assert check(centred_columns(x), x).launches == 1


def test_only_column_sums_travel_to_what_reads_them_row_by_row() -> None:
    """Of columns that no block keeps."""
    x = (torch.randint(999, (20000, 48)) == 0).double()
    plan = check(centred_columns(x), x)
    assert edges(plan) == ["f64[48]", "f64[48]"]
    assert [s.is_opaque for s in plan.segmented.segments] == [False] * 3


def test_rows_of_column_sums_have_a_launch_of_their_own() -> None:
    """Beside a plane with other rows no template holds them."""
    x = (torch.randint(999, (2, 20000, 48)) == 0).double()
    (a,) = like(x)
    columns = total(a, 1)
    shares = call("div", columns, expand(unsqueeze(total(columns, 1), 1), 2, 48))
    plan = check(fusion([a], call("mul", a, expand(unsqueeze(shares, 1), 2, 20000, 48))), x)
    assert edges(plan) == ["f64[2, 48]", "f64[2]"]
    assert [s.is_opaque for s in plan.segmented.segments] == [False] * 3


@pytest.mark.parametrize(("rows", "roots"), [(20000, [True, False]), (15, [True])])
def test_a_function_of_sums_is_not_computed_for_all_of_a_plane(
    rows: int, roots: list[bool]
) -> None:
    """Of columns that no block keeps."""
    x = torch.rand(rows, 48).double()
    (a,) = like(x)
    sizes = chain(total(a, 0), "sqrt")
    program = fusion([a], call("mul", a, expand(unsqueeze(sizes, 0), rows, 48)))
    plan = plan_of(program, *copies([x]), options=STRICT)
    assert ["tf::sqrt(" in source for source in plan.sources] == roots
    (found,) = plan.run(*copies([x]))
    torch.testing.assert_close(found.cpu(), x * x.sum(0).sqrt())


def test_running_sums_of_two_kinds_are_written_where_they_are_made(device: torch.device) -> None:
    """Kernels apart for sums down columns and for a number, each with its own in-place write."""
    x, mean, count = torch.randint(9, (70, 12)), torch.randint(9, (12,)), torch.tensor(3)
    a, m, c = like(x, mean, count)
    updated = call("add", m, total(a, 0))
    program = fusion([a, m, c], writes=[(updated, m), (call("add", c, sc.constant(1)), c)])
    plan = check(program, x, mean, count)
    assert plan.launches == 2


def test_a_write_that_another_kernel_of_its_depth_reads_comes_last(device: torch.device) -> None:
    x, y, mean = torch.randint(9, (70, 12)), torch.randint(9, (12, 70)), torch.randint(9, (12,))
    a, b, m = like(x, y, mean)
    updated = call("add", m, total(a, 0))
    program = fusion([a, b, m], call("mul", total(b, 1), m), writes=[(updated, m)])
    check(program, x, y, mean)


def test_what_reads_a_target_at_other_elements_is_no_part_of_the_kernel_that_writes_it(
    device: torch.device,
) -> None:
    """It sums nothing, so it could wait for the kernel behind the sums."""
    x = torch.randint(9, (96, 40))
    (a,) = like(x)
    turned = chain(piece(flip(a, 0), 0, 0, 50), "neg")
    new = call("sub", a, expand(unsqueeze(total(a, 0), 0), 96, 40))
    plan = check(fusion([a], turned, writes=[(new, a)]), x)
    assert plan.launches == 3


def test_one_value_is_written_to_two_targets() -> None:
    x, y = torch.randn(7, 10), torch.randn(10, 7).t()
    a, b = like(x, y)
    new: TensorView = chain(a, "neg")
    check(fusion([a, b], writes=[(new, a), (new, b)]), x, y)


def test_an_empty_target_is_left_alone() -> None:
    x = torch.randn(0, 10)
    (a,) = like(x)
    plan = check(fusion([a], chain(a, "neg"), writes=[(chain(a, "abs"), a)]), x)
    assert plan.launches == 0


def test_a_region_that_only_writes_is_one_launch() -> None:
    x, y = torch.randn(3, 5), torch.randn(3, 5)
    a, b = like(x, y)
    plan = check(fusion([a, b], writes=[(call("add", a, b), a)]), x, y)
    assert plan.launches == 1


@pytest.mark.usefixtures("device")
def test_a_plane_is_computed_again_from_the_small_reduction_it_needs() -> None:
    """Both kernels that read |x - max| compute it: 4 maxima are handed on, not the plane."""
    x = torch.randint(-9, 9, (4, 128)).float()  # exact in any order
    (a,) = like(x)
    parts = call("max", reshape(a, 4, 2, 64), dims=(2,))
    top = reshape(call("max", parts, dims=(1,)), 4, 1)
    terms = chain(call("sub", a, expand(top, 4, 128)), "abs")
    summed = total(total(reshape(terms, 4, 2, 64), 2), 1)
    made = call("mul", terms, expand(reshape(summed, 4, 1), 4, 128))
    plan = check(fusion([a], made), x)
    stored = [s.target.shape for k in plan.segmented.segments for s in k.stores]
    assert stored.count((4, 128)) == 1  # the result
    assert all(max(shape) <= 4 for shape in stored if shape != (4, 128))

"""What is read behind a cut: handed on in memory, or computed again."""

from __future__ import annotations

import sys

import pytest
import torch

from tests.devices import copies
from tests.programs import (
    STRICT,
    chain,
    check,
    expand,
    full,
    fusion,
    like,
    pad,
    plan_of,
    reshape,
    stop,
    total,
    unsqueeze,
)
from tests.segment.edges import constants_in, edges
from thunder_fuser.analysis.layout import output_layout
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.segment.cut import cut

pytestmark = [pytest.mark.usefixtures("device"), pytest.mark.sanitizer]


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


@pytest.mark.parametrize(("work", "is_recomputed"), [(128, True), (129, False)])
def test_what_takes_longer_than_memory_is_kept(work: int, is_recomputed: bool) -> None:
    x, y = torch.randn(7, 9), torch.randn(7, 9)
    a, b = like(x, y)
    value = chain(a, *["neg"] * work)
    plan = check(fusion([a, b], call("add", stop(call("mul", value, b)), value)), x, y)
    assert len(edges(plan)) == (1 if is_recomputed else 2)


def test_many_layers_are_cut_in_about_as_many_steps_each() -> None:
    """Each adds a function of what rows of it sum to, behind a stop."""

    def steps(layers: int) -> int:
        found = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal found
            found += event == "call"

        (base,) = like(torch.empty(64, 128))
        x = base
        for _ in range(layers):
            sums = expand(unsqueeze(total(x, 1), 1), 64, 128)
            x = call("add", x, stop(chain(call("mul", x, sums), "sin")))
        program = fusion([base], x)
        sys.setprofile(count)
        try:
            cut(program, {base: output_layout(base)}, lambda segment: None)
        finally:
            sys.setprofile(None)
        return found

    assert steps(32) < 2.5 * steps(16)


def test_a_reduction_is_never_recomputed() -> None:
    x = torch.randn(5, 7, 4)
    (a,) = like(x)
    short = total(a, 2)
    middle = stop(chain(short, "neg"))
    plan = check(fusion([a], call("mul", middle, short)), x)
    assert sorted(edges(plan)) == ["f32[5, 7]", "f32[5, 7]"]


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


@pytest.mark.parametrize(("readers", "is_kept"), [(1, False), (2, True)])
def test_who_has_the_sums_of_a_plane_stores_it_for_two_later_kernels(
    readers: int, is_kept: bool
) -> None:
    """Of two planes: both would read both."""
    x, y = (torch.randint(-3, 4, (6, 8, 48)).float() for _ in range(2))
    a, b = like(x, y)
    rows = expand(unsqueeze(total(call("mul", a, b), 2), 2), 6, 8, 48)
    plane = call("add", call("mul", a, rows), b)
    sums = total(plane, 0)
    apart = call("sub", plane, expand(unsqueeze(stop(sums), 0), 6, 8, 48))
    plan = check(fusion([a, b], [sums, apart][readers - 1]), x, y)
    assert ("f32[6, 8, 48]" in edges(plan)) is is_kept


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


@pytest.mark.parametrize("is_read_anyway", [True, False])
def test_a_mask_of_what_is_read_anyway_is_computed_again(is_read_anyway: bool) -> None:
    """Of a smooth loss: the sum behind the cut reads both planes, so that it need not read a mask
    of a byte, which alone would be less than they are."""
    x, y = torch.randint(-3, 4, (7, 16)).float(), torch.randn(7, 16)  # whose sums are exact
    a, b = like(x, y)
    size = call("abs", call("sub", a, b))
    is_small = call("lt", size, full(1.0, 7, 16))
    weight = stop(chain(total(a, 0, 1), "neg"))
    terms = size if is_read_anyway else full(2.0, 7, 16)
    scaled = call("mul", expand(unsqueeze(unsqueeze(weight, 0), 0), 7, 16), terms)
    plan = check(fusion([a, b], call("where", is_small, scaled, full(0.0, 7, 16))), x, y)
    kept = ["f32[]"] if is_read_anyway else ["f32[]", "bool[7, 16]"]
    assert sorted(edges(plan)) == sorted(kept)


def test_so_is_one_of_what_its_rows_came_to_before() -> None:
    """Which elements are the largest, of the gradient of a row's largest size: a number a row."""
    x = torch.randint(-30, 30, (4, 1024)).float()
    (a,) = like(x)
    size = call("abs", a)
    top = stop(call("max", size, dims=(1,)))
    is_top = call("eq", size, expand(unsqueeze(top, 1), 4, 1024))
    terms = call("mul", call("cast", is_top, dtype=DataType.Float), a)
    summed = expand(unsqueeze(stop(total(terms, 1)), 1), 4, 1024)
    plan = check(fusion([a], call("add", terms, call("mul", summed, a))), x)
    assert set(edges(plan)) == {"f32[4]"}

"""Running sums along rows: values in every thread order, both directions, and where a cut is."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import pytest
import torch

from tests.devices import CPU, ORDERS, copies, here
from tests.programs import (
    H200,
    STRICT,
    chain,
    check,
    cubin_of,
    cuda_kernels,
    expand,
    flip,
    fusion,
    like,
    pad,
    permute,
    piece,
    reshape,
    run,
    total,
    unsqueeze,
    whole,
)
from thunder_fuser import pipeline
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.options import Options
from thunder_fuser.presegment.chain_scans import chain_scans
from thunder_fuser.target import HOST

pytestmark = [pytest.mark.usefixtures("device"), pytest.mark.sanitizer]
# One thread a row, parts of a warp, a warp, several warps with and without lanes, long rows.
SHAPES = (
    (1, 1),
    (3, 5),
    (300, 33),
    (7, 131),
    (40, 64),
    (2, 3, 37),
    (5, 1000),
    (3, 5000),
    (2, 12000),
)


def running(tv: TensorView, reverse: bool = False) -> TensorView:
    return call("cumsum", tv, dim=tv.ndim - 1, reverse=reverse)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_element_is_the_sum_up_to_it(shape: tuple[int, ...], reverse: bool) -> None:
    x = whole(*shape)
    (a,) = like(x)
    plan = check(fusion([a], running(a, reverse)), x, options=Options(strict=True), orders=ORDERS)
    assert plan.launches == 1
    assert not any(s.is_opaque for s in plan.segmented.segments)


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.uint8, torch.bool]
)
def test_any_real_type_is_summed(dtype: torch.dtype) -> None:
    x = torch.randint(0, 3, (9, 131)).to(dtype)
    (a,) = like(x)
    check(fusion([a], running(a)), x)


def test_sixteen_bits_are_summed_in_thirty_two() -> None:
    x = torch.ones(3, 2000, dtype=torch.bfloat16)
    (a,) = like(x)
    (found,) = run(fusion([a], running(a)), *copies([x]))
    assert found[0, -1] == 2000  # added up in bf16 it would stop at 256


def test_what_leads_to_it_and_what_follows_are_one_kernel() -> None:
    x, w = whole(9, 131), whole(131)
    a, b = like(x, w)
    summed = running(call("mul", chain(a, "neg"), b))
    row = total(summed, 1)
    after = call("sub", summed, expand(unsqueeze(row, 1), 9, 131))
    assert check(fusion([a, b], after, row, running(after)), x, w).launches == 1


def test_two_sums_of_two_directions_share_a_kernel() -> None:
    x = whole(9, 300)
    (a,) = like(x)
    assert check(fusion([a], call("add", running(a), running(a, True))), x).launches == 1


@pytest.mark.parametrize("lies", ["transposed", "strided", "expanded", "one value", "misaligned"])
def test_an_operand_may_lie_anyhow(lies: str) -> None:
    x = {
        "transposed": whole(131, 9).t(),
        "strided": whole(9, 262)[:, ::2],
        "expanded": whole(1, 131).expand(9, 131),
        "one value": whole(9, 1).expand(9, 131),
        "misaligned": whole(9 * 128 + 1)[1:].view(9, 128),
    }[lies]
    (a,) = like(x)
    check(fusion([a], running(a)), x)


# Rows that pass through shared memory: a thread has one, threads have runs of it, of pairs or of
# more elements, all of a warp; the plane ends inside a vector, the last turn has fewer rows.
STRETCHES = (
    ((4567, 9), torch.float16),
    ((2049, 20), torch.bfloat16),
    ((1061, 63), torch.bfloat16),
    ((641, 65), torch.float16),
    ((401, 154), torch.bfloat16),
    ((301, 257), torch.bfloat16),
    ((171, 317), torch.bfloat16),
    ((1283, 33), torch.float32),
    ((701, 66), torch.int32),
)
WITH = {
    "alone": lambda a: [running(a)],
    "from its end": lambda a: [running(a, True)],
    "of two directions": lambda a: [running(a), running(chain(a, "neg"), True)],
    "beside a sum": lambda a: [call("mul", running(a), a), total(a, 1)],
}


@pytest.mark.usefixtures("one_multiprocessor")
@pytest.mark.parametrize("name", WITH)
@pytest.mark.parametrize(("shape", "dtype"), STRETCHES, ids=str)
def test_short_odd_rows_are_summed_in_runs(
    shape: tuple[int, int], dtype: torch.dtype, name: str
) -> None:
    x = torch.randint(-2, 3, shape).to(dtype)
    (a,) = like(x)
    options = Options(strict=dtype.itemsize == 2)
    plan = check(fusion([a], *WITH[name](a)), x, options=options, orders=ORDERS)
    (source,) = (s for s in plan.kernels if s is not None)
    assert "tf::scan_runs<" in source.text
    assert "tf::copy_stretch(" in source.text


@pytest.mark.usefixtures("one_multiprocessor")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(1061, 63), (301, 257), (4567, 9)])
def test_runs_are_summed_as_exactly_as_in_turn(shape: tuple[int, int], reverse: bool) -> None:
    """Beside fp64 and f32 sums from one element to the next: torch's are in fp64 on CPUs."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    (a,) = like(x)
    (found,) = run(fusion([a], running(a, reverse)), *copies([x]))
    turned = x.flip(1) if reverse else x
    exact = turned.double().cumsum(1)
    in_turn = torch.stack(list(accumulate(turned.unbind(1))), 1)
    made = found.cpu().flip(1) if reverse else found.cpu()
    assert (made - exact).abs().max() <= 2 * (in_turn - exact).abs().max()


AFTER = {
    "its end": lambda s: chain(piece(s, 1, 100, 131), "neg"),
    "turned": lambda s: chain(permute(s, 1, 0), "neg"),
    "in other rows": lambda s: total(reshape(s, 131, 9), 1),
    "down columns": lambda s: total(s, 0),
    "flipped": lambda s: chain(flip(s, 1), "neg"),
}


@pytest.mark.parametrize("name", AFTER)
def test_what_reads_other_elements_is_behind_a_cut(name: str) -> None:
    x = whole(9, 131)
    (a,) = like(x)
    plan = check(fusion([a], AFTER[name](running(a))), x)
    assert plan.launches == 2
    assert not any(s.is_opaque for s in plan.segmented.segments)


# Columns of one and of several lanes, planes, axes of size 1, rows that no block keeps.
OTHERWISE = (
    ((7, 9), 0),
    ((3, 4, 5), 1),
    ((200, 64), 0),
    ((5, 131, 1, 16), 1),
    ((40, 33, 6), 0),
    ((2, 16385), 1),
    ((3, 40000), 1),
    ((1, 65537), 1),
)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "dim"), OTHERWISE, ids=str)
def test_an_axis_is_walked_by_a_thread_and_a_long_row_by_a_block(
    shape: tuple[int, ...], dim: int, reverse: bool
) -> None:
    x = whole(*shape)
    (a,) = like(x)
    summed = call("cumsum", chain(a, "neg"), dim=dim, reverse=reverse)
    program = fusion([a], chain(summed, "abs"), total(a, dim))
    plan = check(program, x, options=Options(strict=True), orders=ORDERS)
    if here() == CPU:  # a GPU would be idle: it sums parts first
        assert plan.launches == 1
    assert not any(s.is_opaque for s in plan.segmented.segments)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int32])
@pytest.mark.parametrize(("shape", "dim"), [((200, 9), 0), ((2, 16386), 1)])
def test_any_real_type_is_walked(shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> None:
    x = torch.randint(0, 2, shape).to(dtype)
    (a,) = like(x)
    options = STRICT if dtype.is_floating_point and dtype.itemsize == 2 else Options()
    check(fusion([a], call("cumsum", a, dim=dim, reverse=False)), x, options=options)


@pytest.mark.parametrize("reverse", [False, True])
def test_what_follows_may_need_the_terms_of_a_walked_row(reverse: bool) -> None:
    x = whole(2, 20001)
    (a,) = like(x)
    program = fusion([a], call("mul", running(a, reverse), a))
    plan = check(program, x, options=Options(strict=True), orders=ORDERS)
    assert plan.launches == 1


@pytest.mark.parametrize("dims", [(0, 0), (0, 1), (1, 0)])
def test_a_sum_of_sums_that_no_block_has_is_a_second_kernel(dims: tuple[int, int]) -> None:
    x = whole(200, 90)
    (a,) = like(x)
    once = chain(call("cumsum", a, dim=dims[0], reverse=False), "neg")
    plan = check(fusion([a], call("cumsum", once, dim=dims[1], reverse=False)), x)
    assert plan.launches == 2
    assert not any(s.is_opaque for s in plan.segmented.segments)


@pytest.mark.parametrize(("shape", "dim"), [((200, 9), 0), ((2, 20000), 1)])
def test_sums_of_two_directions_are_two_kernels_or_torchs(shape: tuple[int, int], dim: int) -> None:
    x = whole(*shape)
    (a,) = like(x)
    both = [call("cumsum", a, dim=dim, reverse=reverse) for reverse in (False, True)]
    check(fusion([a], *both), x)


def test_what_a_walked_row_needs_whole_is_computed_before() -> None:
    x = whole(2, 20000)
    (a,) = like(x)
    spread = expand(unsqueeze(call("max", a, dims=(1,)), 1), 2, 20000)
    plan = check(fusion([a], running(call("sub", a, spread))), x)
    assert plan.launches == 2
    assert not any(s.is_opaque for s in plan.segmented.segments)


# Rows of a machine of 8 multiprocessors that blocks share, also where no part of them is aligned.
SHARED = (((2, 80001), 1), ((1, 65536), 1), ((2, 3, 40000), 2))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "dim"), SHARED, ids=str)
def test_blocks_share_few_long_rows(
    shape: tuple[int, ...],
    dim: int,
    reverse: bool,
    device: torch.device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if device.type == "cpu":
        wide = replace(HOST, multiprocessors=8)
        monkeypatch.setattr(pipeline, "target_for", lambda device: wide)
    x = whole(*shape)
    (a,) = like(x)
    summed = call("cumsum", chain(a, "neg"), dim=dim, reverse=reverse)
    plan = check(fusion([a], chain(summed, "abs")), x, options=Options(strict=True), orders=ORDERS)
    if device.type == "cpu":
        assert plan.launches == 1
    assert not any(s.is_opaque for s in plan.segmented.segments)


@pytest.mark.parametrize(("shape", "dim"), [((1, 12), 0), ((2, 1, 3), 1), ((7, 1), 1), ((7, 5), 0)])
def test_sums_are_written_into_an_argument(shape: tuple[int, ...], dim: int) -> None:
    """Of one row too, where there are as many columns as elements."""
    x, into = whole(*shape), whole(*shape)
    a, target = like(x, into)
    summed = call("cumsum", a, dim=dim, reverse=False)
    check(fusion([a, target], writes=[(chain(summed, "neg"), target)]), x, into)


def test_nothing_has_no_sums() -> None:
    for shape in ((0, 7), (7, 0)):
        x = whole(*shape)
        (a,) = like(x)
        check(fusion([a], running(a)), x)


@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((8192, 4096), 1),
        ((64, 16384), 1),
        ((1000000, 64), 1),
        ((9, 131), 1),
        ((500, 50257), 1),
        ((8, 1 << 20), 1),
        ((16384, 8192), 0),
        ((32, 4096, 1024), 1),
        ((5000, 4097), 0),
        ((1065220, 63), 1),
        ((261123, 257), 1),
        ((116306, 577), 1),
    ],
)
def test_nvrtc_compiles_it_without_spills(shape: tuple[int, ...], dim: int) -> None:
    x = torch.empty(shape, dtype=torch.bfloat16)
    (a,) = like(x)
    program = fusion([a], call("cumsum", a, dim=dim, reverse=False))
    segmented, kernels = cuda_kernels(chain_scans(program, H200), x)
    assert not any(s.is_opaque for s in segmented.segments)
    for kernel in kernels:
        assert cubin_of(kernel).spill_bytes == 0


@pytest.mark.parametrize("reverse", [False, True])
def test_what_all_rows_share_but_those_of_a_pad_is_loaded_in_each(reverse: bool) -> None:
    x, y = whole(2, 64, dtype=torch.float32), whole(1, dtype=torch.float32)
    a, b = like(x, y)
    padded = pad(call("mul", a, expand(unsqueeze(b, 0), 2, 64)), [0, -1, 0, 2], 1.0)
    check(fusion([a, b], call("cumsum", padded, dim=0, reverse=reverse)), x, y)

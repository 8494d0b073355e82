"""Regions: maximal runs or merged along data edges, and those that torch keeps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.executor.jitted import check, jit, regions


def two_arms(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    a = torch.sin(x) * 2
    b = torch.cumprod(y, 0)
    return a + torch.cos(x) + b * 3


def test_consecutive_cuts_at_an_unclaimed_op() -> None:
    jfn = check(two_arms, torch.randn(3, 5), torch.randn(3, 5), fuser_rematerialize=False)
    assert regions(jfn).forward == (("sin", "mul"), ("cos", "add", "mul", "add"))


def test_what_a_run_does_not_depend_on_moves_to_its_front() -> None:
    def swiglu(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(x @ gate) * (x @ up)

    jfn = check(swiglu, torch.randn(7, 5), torch.randn(5, 9), torch.randn(5, 9))
    (found,) = regions(jfn).forward
    assert found[-1] == "mul"
    x = torch.randn(7, 5, requires_grad=True)
    jfn = check(swiglu, x, torch.randn(5, 9), torch.randn(5, 9, requires_grad=True))
    assert len(regions(jfn).forward) == 1


def test_a_write_keeps_its_place_in_a_run() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a = torch.sin(x) * y
        torch.cumprod(a, 0)
        b = torch.cumprod(x, 0)
        x.mul_(2)
        c = torch.cumprod(x, 0)
        return a * b + c * x

    check(program, torch.randn(3, 5), torch.randn(3, 5))


def test_dataflow_merges_around_it() -> None:
    jfn = check(two_arms, torch.randn(3, 5), torch.randn(3, 5), fusion_type="dataflow")
    assert len(regions(jfn).forward) == 1


def test_an_unknown_fusion_type_is_refused() -> None:
    with pytest.raises(ValueError, match="'consecutive' or 'dataflow'"):
        jit(two_arms, fusion_type="greedy")(torch.randn(3), torch.randn(3))


def test_shape_ops_alone_stay_with_torch() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.t()[1:].unsqueeze(0)

    jfn = check(program, torch.randn(3, 5))
    assert regions(jfn).forward == ()
    jfn = check(program, torch.randn(3, 5), fuser_shape_only=True)
    assert len(regions(jfn).forward) == 1


def test_one_op_alone_stays_with_torch() -> None:
    jfn = check(lambda x: torch.sin(x), torch.randn(3, 5))
    assert regions(jfn).forward == ()
    jfn = check(lambda x, y: torch.mul(x[1:].t(), y), torch.randn(4, 5), torch.randn(3))
    assert regions(jfn).forward == ()
    jfn = check(lambda x: torch.sin(x), torch.randn(3, 5), fuser_single_op=True)
    assert regions(jfn).forward == (("sin",),)


@pytest.mark.parametrize(
    ("program", "size"),
    [
        (lambda x, i: F.embedding(i, x), 64),
        (lambda x, i: torch.index_select(x, 0, i), 64),
        (lambda x, i: F.pad(x, (1, 2)), 67),
        (lambda x, i: F.pad(x, (-1, 2)), 65),
    ],
    ids=["embedding", "index_select", "pad", "cut"],
)
def test_what_torch_picks_or_pads_slowly_is_fused_where_it_is_large(
    program: Callable[..., torch.Tensor], size: int
) -> None:
    least = -(-(4 << 20) // (4 * size))  # rows of 4 MiB
    for rows, is_fused in ((least - 1, False), (least, True)):
        index = torch.randperm(rows)
        jfn = check(program, torch.randn(rows, 64), index)
        assert (len(regions(jfn).forward) == 1) is is_fused


def test_rematerialisation_hands_over_the_smaller_value() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        wide = x.double() * 2
        return torch.cumprod(y, 0), (wide + 1).float()

    def consume(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a, b = program(x, y)
        return torch.sin(b) + a

    check(consume, torch.randn(3, 5), torch.randn(3, 5))


def test_a_saved_value_is_recomputed_from_the_inputs_in_the_backward() -> None:
    def program(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return torch.exp(x) * torch.sin(scale) * 2

    check(program, torch.randn(3, 5, requires_grad=True), torch.randn(3, 5))

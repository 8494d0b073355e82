"""Values of programs through Thunder judged against fp64, beside eager's own error; of fused ones
in two thread orders."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Sequence

import thunder
import torch

from tests.devices import CPU, ORDERS, reordering
from thunder_fuser import fuser

Program = Callable[..., torch.Tensor]


def judged(
    program: Program,
    args: Sequence[torch.Tensor],
    cotangent: torch.Tensor,
    device: torch.device,
) -> Callable[..., object]:
    """The fused program, whose result and gradients were run in order and in another order of
    threads, of which each run of the tests draws one: they have the same bits in both, and errors
    like those of eager or of the unfused trace."""
    first, *others = ORDERS
    order = random.SystemRandom().choice(others)
    with reordering() as reordered:
        jfn = thunder.jit(program, executors=[fuser], fuser_tune="off")  # as the model chooses
        found, again = (runs(reordered(jfn, o), args, cotangent, device) for o in (first, order))
    assert_near(found, program, args, cotangent)
    assert all(map(torch.equal, found, again)), f"threads that run {order} give other bits"
    return jfn


def runs(
    fn: Program,
    given: Sequence[torch.Tensor],
    cotangent: torch.Tensor,
    device: torch.device = CPU,
) -> tuple[torch.Tensor, ...]:
    """The result of `fn` and the gradients of its arguments but for integers: run on `device`, as
    f64 on the CPU."""
    args = [x.detach().to(device, copy=True) for x in given]
    wanted = [x.requires_grad_() for x in args if x.is_floating_point()]
    result = fn(*args)
    gradients = torch.autograd.grad(result, wanted, cotangent.to(device, result.dtype))
    return tuple(t.detach().cpu().double() for t in (result, *gradients))


def assert_near(
    found: Sequence[torch.Tensor],
    program: Program,
    args: Sequence[torch.Tensor],
    cotangent: torch.Tensor,
) -> None:
    """The errors of what `runs` found are like those of eager or of the unfused trace: Thunder's
    decomposition has errors of its own, its logsumexp has ten times eager's. It is traced where
    eager's do not allow for what was found."""
    wide = [x.double() if x.is_floating_point() else x for x in args]
    exact = runs(program, wide, cotangent)
    eps = torch.finfo(cotangent.dtype).eps

    def allowed(theirs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        roundings = (eps * value.abs().max() for value in exact)
        return [2 * e + 16 * r for e, r in zip(_errors(theirs, exact), roundings, strict=True)]

    errors, bounds = _errors(found, exact), allowed(runs(program, args, cotangent))
    if not all(map(operator.le, errors, bounds)):
        others = allowed(runs(thunder.jit(program, executors=[]), args, cotangent))
        assert all(map(operator.le, errors, map(max, bounds, others)))


def _errors(found: Sequence[torch.Tensor], exact: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [(x - value).abs().max() for x, value in zip(found, exact, strict=True)]

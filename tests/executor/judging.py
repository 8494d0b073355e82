"""Values of fused programs judged against fp64, beside eager's own error, in every thread order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import thunder
import torch

from tests.devices import ORDERS
from tests.executor.test_norms import runs
from thunder_fuser import fuser

Program = Callable[..., torch.Tensor]


def judged(
    program: Program,
    args: Sequence[torch.Tensor],
    cotangent: torch.Tensor,
    device: torch.device,
) -> Callable[..., object]:
    """The fused program, whose result and gradients were run in every order of threads: they have
    the same bits in each, and errors like those of eager or of the unfused trace."""
    exact = runs(program, [x.double() for x in args], cotangent)
    eager = runs(program, args, cotangent)
    unfused = runs(thunder.jit(program, executors=[]), args, cotangent)
    options = {"executors": [fuser], "fuser_tune": "off"}  # as the model chooses, on any machine
    jfns = [thunder.jit(program, fuser_thread_order=order, **options) for order in ORDERS]
    found = [runs(jfn, args, cotangent, device) for jfn in jfns]
    eps = torch.finfo(cotangent.dtype).eps
    for value, theirs, *ours in zip(exact, zip(eager, unfused, strict=True), *found, strict=True):
        assert all(torch.equal(ours[0], other) for other in ours[1:])
        rounding = eps * value.abs().max()
        allowed = 2 * max((t - value).abs().max() for t in theirs) + 16 * rounding
        assert (ours[0] - value).abs().max() <= allowed
    return jfns[0]

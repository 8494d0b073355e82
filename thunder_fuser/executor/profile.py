"""`fuser.profile(jfn, *args)`: time, bytes and grid of every segment of a compiled function."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import thunder
import torch
from torch.utils._pytree import tree_leaves

from thunder_fuser.executor.explain import regions_of
from thunder_fuser.runtime.profile import Profile, table


@dataclass(frozen=True)
class FunctionProfile:
    """The runs of all regions in one call, in order; `str()` is a table."""

    regions: tuple[Profile, ...]

    @property
    def seconds(self) -> float:
        """In regions, on the host, waits for the device included."""
        return sum(profile.seconds for profile in self.regions)

    def __str__(self) -> str:
        return table(self.regions)


def profile(jfn: Callable[..., Any], *args: Any, **kwargs: Any) -> FunctionProfile:
    """Call a function of thunder.jit twice, and time its regions in the second call.

    The first call compiles. Where a result has a gradient, so is the backward, with ones as
    cotangents; `.grad` of nothing changes. Arguments that the function writes in place are written
    twice. Raises ValueError for a function that thunder.jit did not compile.
    """
    if thunder.compile_data(jfn) is None:
        raise ValueError(f"{jfn!r} was not made by thunder.jit")
    _call(jfn, args, kwargs)
    with ExitStack() as stack:
        found = [stack.enter_context(region.profiled()) for region in regions_of(jfn)]
        _call(jfn, args, kwargs)
    return FunctionProfile(tuple(one for profiles in found for one in profiles))


def _call(jfn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Forward, and backward where there is one."""
    leaves = [t for t in tree_leaves(jfn(*args, **kwargs)) if isinstance(t, torch.Tensor)]
    results = [t for t in leaves if t.requires_grad]
    given = [*tree_leaves((args, kwargs)), *getattr(jfn, "parameters", tuple)()]
    wanted = [t for t in given if isinstance(t, torch.Tensor) and t.requires_grad]
    if results and wanted:
        ones = [torch.ones_like(t) for t in results]
        torch.autograd.grad(results, wanted, ones, allow_unused=True)

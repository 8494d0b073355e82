"""What a trace returns before Thunder splits it into forward and backward."""

from __future__ import annotations

from typing import Any

from thunder.core.trace import TraceCtx

# What a joint trace of both returns; one of a forward alone has no last of these.
GRADIENTS, INPUTS, RESULTS = "output", "flat_args", "fw_flat_out"


def returned(trace: TraceCtx) -> Any:
    """The first argument of the return, None where nothing is returned."""
    args = trace.bound_symbols[-1].args
    return args[0] if args else None


def is_joint(found: Any) -> bool:
    """True for what a trace of forward and backward returns."""
    return isinstance(found, dict) and {GRADIENTS, INPUTS, RESULTS} <= found.keys()

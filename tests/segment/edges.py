"""What travels between the segments of a plan."""

from __future__ import annotations

from thunder_fuser.runtime.plan import Plan


def edges(plan: Plan) -> list[str]:
    """The values between segments, as `dtype[shape]`."""
    found = plan.segmented.edges
    return [f"{tv.dtype}{list(tv.shape)}" for tv in found]


def constants_in(plan: Plan) -> list[bool]:
    """Whether the kernels have the constant 1.5."""
    return ["1.5f" in source for source in plan.sources]

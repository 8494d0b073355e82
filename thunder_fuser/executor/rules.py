"""Regions that torch runs as well: not worth a fusion unless an option says so."""

from __future__ import annotations

from thunder.core.prims import OpTags
from thunder.core.symbol import BoundSymbol, has_tags

from thunder_fuser.executor.claims import ALIAS_PRIMS, is_host_number, prim_name
from thunder_fuser.executor.inplace import CERTAIN_VIEWS, passed_through, write_results
from thunder_fuser.executor.liveness import Boundary
from thunder_fuser.executor.partition import Group
from thunder_fuser.executor.remat_cut import bytes_of
from thunder_fuser.executor.scatters import is_sum
from thunder_fuser.executor.settings import Settings
from thunder_fuser.executor.storage import leaves

LARGE_TABLE = 32 << 20  # bytes
LARGE_SPREAD = 4 << 20  # bytes, below which torch's fewer calls take less time


def leave_to_torch(group: Group, boundary: Boundary, settings: Settings) -> str | None:
    """The reason why a group does not become a region, None if it does."""
    if not group.claimed:
        return "an in-place write that its region cannot express"
    if not boundary.outputs:
        return "nothing uses its results"
    work = [leaf for leaf in leaves(group.bsyms) if _does_something(leaf)]
    entering = passed_through(group.bsyms, boundary.inputs)
    computes = any(p.name not in entering for p in boundary.outputs)
    if not work or not (computes or write_results(group.bsyms)):
        return "it only renames tensors"
    if must_fuse(group):
        return None
    compute = [leaf for leaf in work if not has_tags(leaf, {OpTags.SHAPE_OP})]
    if not compute and not settings.options.shape_only:
        return "a region of shape ops only (fuser_shape_only=True fuses it)"
    views = sum(prim_name(leaf) in CERTAIN_VIEWS for leaf in work)
    is_alone = len(compute) + views == len(work) and len(compute) == 1
    is_better = is_alone and (_writes_once(compute[0]) or _reads_spread(compute[0], group))
    if is_alone and not (settings.options.single_op or is_better):
        return "a region of one op (fuser_single_op=True fuses it)"
    return None


def must_fuse(group: Group) -> bool:
    """True if nobody else runs the group: torch takes a philox offset only as a constant."""
    return group.claimed and any(prim_name(x) == "UNIFORM_PHILOX" for x in leaves(group.bsyms))


def _writes_once(leaf: BoundSymbol) -> bool:
    """True for the gradient of a large table, which torch fills with zeros before it adds. Of a
    small one torch's fewer calls take less time."""
    return is_sum(leaf) and sum(map(bytes_of, leaf.flat_proxy_outs)) >= LARGE_TABLE


def _reads_spread(leaf: BoundSymbol, group: Group) -> bool:
    """True for an op that writes something large of what was broadcast, as the gradient of a sum:
    torch reads that element by element, at less than half of the rate of memory."""
    spread: set[str] = set()
    for part in leaves(group.bsyms):
        is_other_name = prim_name(part) in ALIAS_PRIMS
        read = any(p.name in spread for p in part.flat_proxy_args)
        if prim_name(part) == "BROADCAST_IN_DIM" or (is_other_name and read):
            spread |= {p.name for p in part.flat_proxy_outs}
    reads = any(p.name in spread for p in leaf.flat_proxy_args)
    return reads and sum(map(bytes_of, leaf.flat_proxy_outs)) >= LARGE_SPREAD


def _does_something(leaf: BoundSymbol) -> bool:
    """False for new names of a tensor and for arithmetic on numbers."""
    return prim_name(leaf) not in ALIAS_PRIMS and not is_host_number(leaf)

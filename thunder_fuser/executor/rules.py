"""Regions that torch runs as well: not worth a fusion unless an option says so."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from thunder.core.dtypes import bfloat16, to_strong_dtype
from thunder.core.prims import OpTags
from thunder.core.symbol import BoundSymbol, has_tags

from thunder_fuser.executor.claims import ALIAS_PRIMS, is_host_number, prim_name
from thunder_fuser.executor.inplace import CERTAIN_VIEWS, passed_through, write_results
from thunder_fuser.executor.liveness import Boundary
from thunder_fuser.executor.partition import Group
from thunder_fuser.executor.remat_cut import bytes_of
from thunder_fuser.executor.scans import is_scan
from thunder_fuser.executor.scatters import is_sum
from thunder_fuser.executor.settings import Settings
from thunder_fuser.executor.storage import leaves

LARGE_TABLE = 32 << 20  # bytes, and of the rows that are added up
LARGE = 4 << 20  # bytes, below which torch's fewer calls take less time
# Whose large results torch is slow to make, beside an H200's memory.
_SLOW = {
    "WHERE",  # half of its rate, after a launch that fills a tensor with the number
    "TAKE",  # a twentieth of short rows of an embedding, a fifth of odd ones
    "TAKE_ALONG_AXIS",
    "GATHER",
    "PAD",  # a quarter: it fills all of it first, and then copies element by element
}


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
    reason = _why_little(work, settings)
    if reason is None or must_fuse(group):
        return None
    strided = _strided(group)
    return None if any(_is_slow(leaf, strided) for leaf in work) else reason


def _why_little(work: Sequence[BoundSymbol], settings: Settings) -> str | None:
    """The reason why so little work is torch's, unless that is slow at it."""
    compute = [leaf for leaf in work if not has_tags(leaf, {OpTags.SHAPE_OP})]
    if not compute and not settings.options.shape_only:
        return "a region of shape ops only (fuser_shape_only=True fuses it)"
    views = sum(prim_name(leaf) in CERTAIN_VIEWS for leaf in work)
    is_alone = len(compute) + views == len(work) and len(compute) == 1
    if is_alone and not settings.options.single_op:
        return "a region of one op (fuser_single_op=True fuses it)"
    return None


def must_fuse(group: Group) -> bool:
    """True if nobody else runs the group: torch takes a philox offset only as a constant, what
    Thunder makes of a scatter_add of bf16 for torch is not complete once regions are formed, and of
    a lerp as a prim it makes nothing."""
    return group.claimed and any(_is_ours_alone(leaf) for leaf in leaves(group.bsyms))


def _is_ours_alone(leaf: BoundSymbol) -> bool:
    name = prim_name(leaf)
    adds = name == "SCATTER_ADD" and to_strong_dtype(leaf.args[0].dtype) is bfloat16
    return adds or name in {"LERP", "UNIFORM_PHILOX"}


def _is_slow(leaf: BoundSymbol, strided: _Strided) -> bool:
    """True where torch's kernel of one op takes well longer than its memory does."""
    is_slow = prim_name(leaf) in _SLOW and _written(leaf) >= LARGE
    return is_slow or _sums_much(leaf) or _reduces(leaf) or _reads_out_of_order(leaf, strided)


def _written(leaf: BoundSymbol) -> int:
    """Bytes of the results."""
    return sum(map(bytes_of, leaf.flat_proxy_outs))


def _read(leaf: BoundSymbol) -> int:
    """Bytes of the arguments."""
    return sum(map(bytes_of, leaf.flat_proxy_args))


def _sums_much(leaf: BoundSymbol) -> bool:
    """True for the gradient of a large table, which torch fills with zeros before it adds, or of
    many rows of one, which it reads at a tenth of the rate of memory. Of a small one torch's fewer
    calls take less time. So for elements that have an index each, which we add in one launch."""
    least = LARGE if prim_name(leaf) == "SCATTER_ADD" else LARGE_TABLE
    return is_sum(leaf) and max(_written(leaf), _read(leaf)) >= least


def _reduces(leaf: BoundSymbol) -> bool:
    """True for a reduction or running sum of something large. Torch's sums take 1.1 times as long
    as ours on an H200, its argmax 1.3 to 2.7, its var_mean 1.3 to 3.4, its running sums 2.2 to 60.
    """
    reduces = has_tags(leaf, {OpTags.REDUCTION_OP}) or is_scan(leaf)
    return reduces and _read(leaf) >= LARGE


@dataclass(frozen=True)
class _Strided:
    """Names of a group's tensors that do not lie in order: what was `broadcast` or `turned`, which
    is transposed, and what was `turned_apart`, which is that after a reshape."""

    broadcast: frozenset[str]
    turned: frozenset[str]
    turned_apart: frozenset[str]


def _strided(group: Group) -> _Strided:
    parts = list(leaves(group.bsyms))
    shaped = {p.name for b in parts if prim_name(b) == "RESHAPE" for p in b.flat_proxy_outs}
    return _Strided(
        _views(parts, "BROADCAST_IN_DIM"),
        _views(parts, "TRANSPOSE"),
        _views(parts, "TRANSPOSE", shaped),
    )


def _reads_out_of_order(leaf: BoundSymbol, strided: _Strided) -> bool:
    """True for an op that writes something large of what was broadcast, as the gradient of a sum,
    or transposed: torch reads that element by element, at a sixth to a half of the rate of memory.
    A reshape of what was transposed may be a view, as of what attention returns, but where it was
    reshaped before, as patches of an image are."""
    if prim_name(leaf) == "RESHAPE":
        copied = strided.broadcast | strided.turned_apart
    elif prim_name(leaf) != "STRIDE_ORDER" and has_tags(leaf, {OpTags.SHAPE_OP}):
        return False
    else:
        copied = strided.broadcast | strided.turned
    read = {p.name for p in leaf.flat_proxy_args}
    return not read.isdisjoint(copied) and _written(leaf) >= LARGE


def _views(
    parts: Iterable[BoundSymbol], kind: str, of: Container[str] | None = None
) -> frozenset[str]:
    """The results of the views that are of this `kind`, if anything of one `of` these, and the
    names of views of them."""
    found: set[str] = set()
    for part in parts:
        read = {p.name for p in part.flat_proxy_args}
        begins = prim_name(part) == kind and (of is None or any(name in of for name in read))
        goes_on = prim_name(part) in CERTAIN_VIEWS | ALIAS_PRIMS and not read.isdisjoint(found)
        if begins or goes_on:
            found |= {p.name for p in part.flat_proxy_outs}
    return frozenset(found)


def _does_something(leaf: BoundSymbol) -> bool:
    """False for new names of a tensor and for arithmetic on numbers."""
    return prim_name(leaf) not in ALIAS_PRIMS and not is_host_number(leaf)

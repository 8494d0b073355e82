"""In-place writes inside a region: which ones it can hold, and which results it must return.

Inside a region everything is a value: `update_aliases` renames, `copy_` gives its target a new
value, and the write happens once, after every read. That needs the target to be a tensor that
enters the region, and every later view of it to be one that we can take again from the new value.
Where it does not hold, the region is cut at the `update_aliases` around the write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from thunder.core.symbol import BoundSymbol

from thunder_fuser.executor.claims import WRITE_PRIM, is_backward, prim_name
from thunder_fuser.executor.joint import INPUTS, RESULTS, is_joint
from thunder_fuser.executor.partition import Group
from thunder_fuser.executor.storage import (
    VIEW_PRIMS,
    Storages,
    leaves,
    renamed,
    tensors,
    written_tensors,
)

# Results that are views whatever the strides, so that they show later writes in torch as well.
CERTAIN_VIEWS = frozenset({"BROADCAST_IN_DIM", "SLICE", "SQUEEZE", "TRANSPOSE"})


@dataclass(frozen=True)
class Ref:
    """A name inside a region: the views `chain` of `root`, which owns memory; outermost last."""

    root: str
    chain: tuple[BoundSymbol, ...] = ()


def view_of(leaf: BoundSymbol) -> Any | None:
    """The tensor that the leaf certainly gives a view of, or another name to; None if none."""
    name = prim_name(leaf)
    if name in CERTAIN_VIEWS or name == "SHALLOW_COPY" or is_identity_cast(leaf):
        return leaf.args[0]
    return None


def is_certain_view(bsym: BoundSymbol) -> bool:
    """True if the symbol makes no memory: each of its parts gives a view."""
    return all(view_of(leaf) is not None for leaf in leaves([bsym]))


def is_identity_cast(leaf: BoundSymbol) -> bool:
    """True for a conversion to the type that the tensor has, which gives the same tensor."""
    if prim_name(leaf) != "CONVERT_ELEMENT_TYPE":
        return False
    sources = tensors(leaf.flat_proxy_args)
    return bool(sources) and sources[0].dtype == leaf.flat_proxy_outs[0].dtype


def advance(leaf: BoundSymbol, refs: dict[str, Ref]) -> None:
    """Enter the results of an alias, view or write leaf into `refs`."""

    def ref(tensor: Any) -> Ref:
        return refs.get(tensor.name, Ref(tensor.name))

    outs = tensors(leaf.flat_proxy_outs)
    if pairs := renamed(leaf):
        refs.update({new.name: ref(old) for old, new in pairs})
    elif prim_name(leaf) == WRITE_PRIM:
        refs.update({out.name: ref(leaf.args[1]) for out in outs})
    elif (source := view_of(leaf)) is not None:
        moves = prim_name(leaf) in CERTAIN_VIEWS
        chain = (*ref(source).chain, leaf) if moves else ref(source).chain
        refs.update({out.name: Ref(ref(source).root, chain) for out in outs})


def split_at_writes(group: Group, storages: Storages) -> list[Group]:
    """The group itself, or the pieces in which each write can be expressed."""
    if not group.claimed:
        return [group]
    storage = _inexpressible(group.bsyms, storages)
    if storage is None:
        return [group]
    cut = [
        bsym
        for bsym in group.bsyms
        if any(storages.of(old.name) == storage for old, _ in renamed(bsym))
    ]
    if not cut:
        cut = [bsym for bsym in group.bsyms if storage in storages.writes(bsym)]
    return [piece for part in cut_out(group, cut) for piece in split_at_writes(part, storages)]


def cut_out(group: Group, outside: Sequence[BoundSymbol]) -> list[Group]:
    """The group with some of its members standing alone and unclaimed."""
    parts: list[Group] = []
    run: list[BoundSymbol] = []
    for bsym in group.bsyms:
        if any(bsym is other for other in outside):
            parts += [Group(tuple(run), True)] if run else []
            parts.append(Group((bsym,), False))
            run = []
        else:
            run.append(bsym)
    return parts + ([Group(tuple(run), True)] if run else [])


def move_writes_out_of_backward(groups: Sequence[Group], trace_return: Any) -> list[Group]:
    """Leave forward writes unfused where their region would end in the backward trace.

    Thunder gives to the forward what its results need, and rescues a bare `copy_`, but not a region
    that holds one.
    """
    if not is_joint(trace_return):
        return list(groups)
    groups = list(groups)
    while (late := _late_write(groups, trace_return)) is not None:
        position = next(i for i, group in enumerate(groups) if group is late)
        writers = [b for b in late.bsyms if any(written_tensors(leaf) for leaf in leaves([b]))]
        groups[position : position + 1] = cut_out(late, writers)
    return groups


def write_results(bsyms: Iterable[BoundSymbol]) -> list[Any]:
    """The results of all writes: a region must return them, or the writes are lost in DCE."""
    return [
        out
        for leaf in leaves(bsyms)
        if prim_name(leaf) == WRITE_PRIM
        for out in tensors(leaf.flat_proxy_outs)
    ]


def _inexpressible(bsyms: Sequence[BoundSymbol], storages: Storages) -> str | None:
    """The first storage whose writes the region cannot express.

    A region that writes one input while another shares its memory copies the other first. So what
    is read after a write, and every view that may leave the region, comes from the target.
    """
    refs: dict[str, Ref] = {}
    made: set[str] = set()
    source: dict[str, str] = {}  # view, certain or not -> root that it was taken of
    target_of: dict[str, str] = {}  # storage -> root of its writes
    for leaf in leaves(bsyms):
        args = tensors(leaf.flat_proxy_args)
        for tensor in args:
            root = refs.get(tensor.name, Ref(tensor.name)).root
            if target_of.get(storages.of(tensor.name), root) != root:
                return storages.of(tensor.name)
        for target in written_tensors(leaf):
            ref = refs.get(target.name, Ref(target.name))
            storage = storages.of(target.name)
            if prim_name(leaf) != WRITE_PRIM or ref.chain or ref.root in made:
                return storage
            target_of[storage] = ref.root
        advance(leaf, refs)
        if args and prim_name(leaf) in VIEW_PRIMS:
            root, storage = (
                refs.get(args[0].name, Ref(args[0].name)).root,
                storages.of(args[0].name),
            )
            if storage in target_of and view_of(leaf) is None:
                return storage  # whether it is a view of the target or a copy, strides decide
            source.update((p.name, source.get(root, root)) for p in leaf.flat_proxy_outs)
        known = {p.name for p in args}
        made.update(p.name for p in leaf.flat_proxy_outs if p.name not in known)
    beside = (
        storage
        for name, root in source.items()
        if target_of.get(storage := storages.of(name), root) != root
    )
    return next(beside, None)


def passed_through(bsyms: Iterable[BoundSymbol], inputs: Sequence[Any]) -> dict[str, int]:
    """Names that are an input itself, under a new name or written, with the input's position."""
    refs: dict[str, Ref] = {}
    for leaf in leaves(bsyms):
        advance(leaf, refs)
    position = {p.name: i for i, p in enumerate(inputs)}
    found = {n: position[r.root] for n, r in refs.items() if not r.chain and r.root in position}
    return found | position


def in_split_order(bsyms: Sequence[BoundSymbol], trace_return: Any) -> list[BoundSymbol]:
    """The bound symbols as they run once Thunder has split the joint trace: forward, backward."""
    if not is_joint(trace_return):
        return list(bsyms)
    groups = [Group((bsym,), False) for bsym in bsyms]
    forward = _in_forward(groups, trace_return)
    first = [bsym for bsym, is_forward in zip(bsyms, forward, strict=True) if is_forward]
    return first + [b for b, is_forward in zip(bsyms, forward, strict=True) if not is_forward]


def _late_write(groups: Sequence[Group], trace_return: dict[str, Any]) -> Group | None:
    """A claimed group with a forward write that Thunder's split would give to the backward."""
    for group, is_forward in zip(groups, _in_forward(groups, trace_return), strict=True):
        if group.claimed and not is_forward:
            forward = (b for b in group.bsyms if not is_backward(b))
            if any(written_tensors(leaf) for leaf in leaves(forward)):
                return group
    return None


def _in_forward(groups: Sequence[Group], trace_return: dict[str, Any]) -> list[bool]:
    """Which groups Thunder's split gives to the forward: what its results need, and `copy_`."""
    needed = _proxy_names(trace_return[RESULTS]) | _proxy_names(trace_return[INPUTS])
    found = []
    for group in reversed(groups):
        results = {p.name for bsym in group.bsyms for p in bsym.flat_proxy_outs}
        bare = group.bsyms[0]
        rescued = (
            not group.claimed
            and bare.sym.name == "copy_"
            and any(p.name in needed for p in bare.flat_proxy_args[1:2])
        )
        copied = _copied(group.bsyms) if group.claimed else {}
        found.append(not needed.isdisjoint(results - copied.keys()) or rescued)
        if found[-1]:
            needed |= {p.name for bsym in group.bsyms for p in bsym.flat_proxy_args} | results
        needed |= {copied[name] for name in needed & copied.keys()}
    return found[::-1]


def _copied(bsyms: Iterable[BoundSymbol]) -> dict[str, str]:
    """Names of shallow copies of what enters, each with that: later passes read it instead."""
    found: dict[str, str] = {}
    made: set[str] = set()
    for leaf in leaves(bsyms):
        if prim_name(leaf) == "SHALLOW_COPY" and leaf.args[0].name not in made:
            name = leaf.args[0].name
            found[leaf.output.name] = found.get(name, name)
        else:
            made |= {p.name for p in leaf.flat_proxy_outs}
    return found


def _proxy_names(proxies: Iterable[Any]) -> set[str]:
    return {p.name for p in proxies if hasattr(p, "name")}

"""Which names of a trace share memory, and which write follows which read.

    x1, = update_aliases((x,))        x, x1, v, t1: one storage
    v = slice(x1, ...)                v reads version 0
    t1 = copy_(y, x1)                 writes version 1
    z = sin(t1)                       z reads version 1

Thunder's data edges carry read-after-write through fresh names. Write-after-read is no data edge:
whoever reorders bound symbols asks `hazards`, and `check_versions` verifies the result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from thunder.core.prims import OpTags
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx, from_trace

from thunder_fuser.executor.claims import WRITE_PRIM, prim_name

# Prims whose result may be a view of their first tensor, in torch or in our plans.
VIEW_PRIMS = frozenset(
    {
        "BITCAST",
        "BROADCAST_IN_DIM",
        "CONVERT_ELEMENT_TYPE",
        "DEVICE_PUT",
        "IMAG",
        "REAL",
        "RESHAPE",
        "SHALLOW_COPY",
        "SLICE",
        "SQUEEZE",
        "STRIDE_ORDER",
        "TRANSPOSE",
        "UNFOLD",
        "VIEW",
    }
)


def leaves(bsyms: Iterable[BoundSymbol]) -> Iterator[BoundSymbol]:
    """The bound symbols that are not composed of others, in order."""
    stack = [iter(bsyms)]
    while stack:
        bsym = next(stack[-1], None)
        if bsym is None:
            stack.pop()
        elif bsym.subsymbols:
            stack.append(iter(bsym.subsymbols))
        else:
            yield bsym


def rebuilt(trace: TraceCtx, bsyms: Iterable[BoundSymbol]) -> TraceCtx:
    """The trace of those bound symbols in place of its own; itself where they are the same."""
    result = from_trace(trace)
    result.bound_symbols = [*bsyms]
    before, after = (list(map(id, t.bound_symbols)) for t in (trace, result))
    return trace if before == after else result


def tensors(proxies: Iterable[Any]) -> list[Any]:
    """The tensor proxies among `proxies`."""
    return [p for p in proxies if isinstance(p, TensorProxy)]


def written_tensors(leaf: BoundSymbol) -> list[Any]:
    """The tensors a leaf writes into."""
    if prim_name(leaf) == WRITE_PRIM or leaf.sym.name == "copy_":
        return [leaf.args[1]]
    if leaf.sym.tags is not None and OpTags.IN_PLACE in leaf.sym.tags:
        return tensors(leaf.flat_proxy_args)[:1]
    return []


def is_write(leaf: BoundSymbol) -> bool:
    return bool(written_tensors(leaf))


class Storages:
    """The storages of a trace: names joined where their tensors may share memory."""

    def __init__(self, bsyms: Iterable[BoundSymbol]) -> None:
        self._parent: dict[str, str] = {}
        written: list[str] = []
        for leaf in leaves(bsyms):
            targets = written_tensors(leaf)
            written += [t.name for t in targets]
            for group in _shared(leaf, targets):
                for other in group[1:]:
                    self._join(group[0].name, other.name)
        self.written = frozenset(self.of(name) for name in written)

    def of(self, name: str) -> str:
        """The storage that holds the tensor `name`, itself a name."""
        root = name
        while (above := self._parent.get(root, root)) != root:
            root = above
        while (above := self._parent.get(name, name)) != root:
            self._parent[name], name = root, above
        return root

    def is_written(self, name: str) -> bool:
        """True if anything in the trace writes the storage of `name`."""
        return self.of(name) in self.written

    def is_unwritten(self, bsym: BoundSymbol) -> bool:
        """True if nothing in the trace writes what a bound symbol reads or gives."""
        return not any(self.is_written(p.name) for p in _names(bsym))

    def reads(self, bsym: BoundSymbol) -> frozenset[str]:
        """The written-to storages that a bound symbol reads, its parts included."""
        return frozenset(
            storage
            for leaf in leaves([bsym])
            for storage in self._leaf_reads(leaf)
            if storage in self.written
        )

    def writes(self, bsym: BoundSymbol) -> frozenset[str]:
        """The storages that a bound symbol writes, its parts included."""
        return frozenset(self.of(t.name) for leaf in leaves([bsym]) for t in written_tensors(leaf))

    def may_precede(self, bsym: BoundSymbol, others: Iterable[BoundSymbol]) -> bool:
        """True if none of `others`, which stand before it, writes what a bound symbol reads or
        writes, or reads what it writes."""
        written = self.writes(bsym)
        touched = self.reads(bsym) | written
        return not touched or all(
            touched.isdisjoint(self.writes(other)) and written.isdisjoint(self.reads(other))
            for other in others
        )

    def _leaf_reads(self, leaf: BoundSymbol) -> list[str]:
        targets = {t.name for t in written_tensors(leaf)} if prim_name(leaf) == WRITE_PRIM else ()
        return [self.of(p.name) for p in tensors(leaf.flat_proxy_args) if p.name not in targets]

    def _join(self, a: str, b: str) -> None:
        self._parent[self.of(b)] = self.of(a)


def sources_of_views(bsyms: Sequence[BoundSymbol], names: Iterable[str]) -> set[str]:
    """`names`, and all whose memory those may show; of another type a conversion is a copy."""
    found = set(names)
    for leaf in reversed(list(leaves(bsyms))):
        is_cast = prim_name(leaf) == "CONVERT_ELEMENT_TYPE"
        for first, *others in _shared(leaf, written_tensors(leaf)):
            seen = (p.name for p in others if not is_cast or p.dtype == first.dtype)
            if not found.isdisjoint(seen):
                found.add(first.name)
    return found


def hazards(bsyms: Sequence[BoundSymbol], storages: Storages) -> list[tuple[int, int]]:
    """Pairs (earlier, later) of positions whose order must be kept because of a write."""
    edges: set[tuple[int, int]] = set()
    last_write: dict[str, int] = {}
    readers: defaultdict[str, list[int]] = defaultdict(list)
    for position, bsym in enumerate(bsyms):
        for storage in storages.reads(bsym):
            if storage in last_write:
                edges.add((last_write[storage], position))
            readers[storage].append(position)
        for storage in storages.writes(bsym):
            edges.update((reader, position) for reader in readers.pop(storage, ()))
            if storage in last_write:
                edges.add((last_write[storage], position))
            last_write[storage] = position
    return sorted((a, b) for a, b in edges if a != b)


def versions(bsyms: Iterable[BoundSymbol], storages: Storages) -> dict[str, Mapping[str, int]]:
    """For each leaf that reads a written-to storage, by its first result: storage -> version read.

    A leaf met twice, as rematerialisation makes them, must read the same versions each time; the
    first that does not is reported under its name with `'` appended.
    """
    current: defaultdict[str, int] = defaultdict(int)
    found: dict[str, Mapping[str, int]] = {}
    for leaf in leaves(bsyms):
        if prim_name(leaf) not in ("UPDATE_ALIASES", "PYTHON_RETURN", "RETURN", "DEL"):
            seen = {s: current[s] for s in storages.reads(leaf)}
            result = next((p.name for p in leaf.flat_proxy_outs if p is not None), "")
            if seen and result:
                found[result if found.get(result, seen) == seen else result + "'"] = seen
        for target in written_tensors(leaf):
            current[storages.of(target.name)] += 1
    return found


def check_versions(
    before: Sequence[BoundSymbol], after: Sequence[BoundSymbol], storages: Storages
) -> None:
    """Every read of `after` that can be observed sees what it saw in `before`.

    Raises NotImplementedError naming the reader and the writer for the first that does not.
    """
    if not storages.written:
        return
    wanted = versions(before, storages)
    for result, seen in versions(_observable(after, before[-1], storages), storages).items():
        for storage, version in seen.items():
            expected = wanted.get(result.rstrip("'"), seen).get(storage, version)
            if version != expected:
                number = max(version, expected)
                reader = _leaf_of(after, result.rstrip("'"))
                writer = _nth_write(before, storages, storage, number)
                raise NotImplementedError(
                    f"thunder_fuser would let `{reader}` read {storage} after {version} in-place "
                    f"writes instead of {expected}: it and `{writer}` changed places. Keep them "
                    'apart with thunder.jit(..., fusion_type="consecutive"), or report this trace.'
                )


def _observable(
    bsyms: Sequence[BoundSymbol], returns: BoundSymbol, storages: Storages
) -> list[BoundSymbol]:
    """The bound symbols that what is returned needs, or a write into an argument.

    Thunder keeps every write: one into an intermediate that nobody reads again ends somewhere in
    the backward, where what it reads does not matter.
    """
    arguments = [b for b in bsyms if prim_name(b) == "UNPACK_TRIVIAL"]
    needed = {p.name for p in returns.flat_proxy_args}
    seen = {storages.of(p.name) for b in (returns, *arguments) for p in _names(b)}
    kept = []
    for bsym in reversed(bsyms):
        if needed.isdisjoint(p.name for p in bsym.flat_proxy_outs) and seen.isdisjoint(
            storages.writes(bsym)
        ):
            continue
        kept.append(bsym)
        needed.update(p.name for p in bsym.flat_proxy_args)
        seen.update(storages.of(p.name) for p in tensors(bsym.flat_proxy_args))
    return kept[::-1]


def _names(bsym: BoundSymbol) -> list[Any]:
    return tensors((*bsym.flat_proxy_args, *bsym.flat_proxy_outs))


def renamed(bsym: BoundSymbol) -> list[tuple[Any, Any]]:
    """What an `update_aliases` takes, each with the name that it has from there on; nothing for any
    other symbol."""
    if prim_name(bsym) != "UPDATE_ALIASES" and bsym.sym.name != "update_aliases":
        return []
    olds, news = tensors(bsym.flat_proxy_args), tensors(bsym.flat_proxy_outs)
    return list(zip(olds, news, strict=True))


def _shared(leaf: BoundSymbol, targets: Sequence[Any]) -> list[list[Any]]:
    """Groups of tensors among the arguments and results of a leaf that share memory."""
    outs = tensors(leaf.flat_proxy_outs)
    if pairs := renamed(leaf):
        return [list(pair) for pair in pairs]
    if targets:
        return [[*targets, *outs]]
    if prim_name(leaf) in VIEW_PRIMS or leaf.sym.executor is not None:
        return _possible_views(tensors(leaf.flat_proxy_args), outs)
    return []


def _possible_views(args: Sequence[Any], outs: Sequence[Any]) -> list[list[Any]]:
    """Results that may be views of the first argument, or of the one in their place, as those of
    torch.broadcast_tensors. Ops of other executors are opaque."""
    pairs = [(a, out) for a in args[:1] for out in outs]
    pairs += list(zip(args, outs, strict=False))[1:]
    return [[a, out] for a, out in pairs if a.device == out.device]


def _leaf_of(bsyms: Iterable[BoundSymbol], result: str) -> str:
    for leaf in leaves(bsyms):
        if any(p is not None and p.name == result for p in leaf.flat_proxy_outs):
            return str(leaf).strip()
    return result


def _nth_write(bsyms: Iterable[BoundSymbol], storages: Storages, storage: str, number: int) -> str:
    for leaf in leaves(bsyms):
        if storage in storages.writes(leaf):
            number -= 1
            if number == 0:
                return str(leaf).strip()
    return "a write that is gone"

"""Group the bound symbols of a trace into regions and what stays outside.

    mul, add, matmul, tanh      =>      [mul, add]  matmul  [tanh]

Two bound symbols may share a region if `kind` gives them the same value (device, forward or
backward); None keeps one outside. "consecutive" takes maximal runs; what stands in a run and
neither reads nor feeds it moves to its front if the run then goes on: in silu(gate(x)) * up(x) the
second product of matrices does. "dataflow" merges along data edges and then sideways. Neither ever
changes the order of a read and a write of one storage.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from thunder.core.proxies import TensorProxy
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx
from thunder.executors.data_dependent_partition import Graph, Node, dataflow_merge, horizontal_merge

from thunder_fuser.executor.claims import SHAPE_PRIM, prim_name
from thunder_fuser.executor.storage import Storages, hazards

Kind = Callable[[BoundSymbol], Hashable]
FUSION_TYPES = ("consecutive", "dataflow")
_FIXED = ("UNPACK_TRIVIAL", "RETURN", "PYTHON_RETURN", "COMMENT", "GET_GRAD", "DEL")


@dataclass(frozen=True, eq=False)
class Group:
    """Bound symbols that stand together; a claimed group may become one region."""

    bsyms: tuple[BoundSymbol, ...]
    claimed: bool


def partition(
    trace: TraceCtx, kind: Kind, storages: Storages, fusion_type: str = "consecutive"
) -> list[Group]:
    """The groups of a trace in an order in which they can run.

    Raises ValueError for a fusion type other than "consecutive" and "dataflow".
    """
    if fusion_type == "consecutive":
        return _consecutive(trace.bound_symbols, kind, storages)
    if fusion_type == "dataflow":
        return _dataflow(trace, kind, storages)
    legal = " or ".join(map(repr, FUSION_TYPES))
    raise ValueError(f"fusion_type={fusion_type!r} is not legal: it has to be {legal}")


def _consecutive(bsyms: Sequence[BoundSymbol], kind: Kind, storages: Storages) -> list[Group]:
    groups: list[Group] = []
    run: list[BoundSymbol] = []
    held: list[BoundSymbol] = []  # stand after the run, and would do before it as well
    run_kind: Hashable = None

    def close() -> None:
        groups.extend([Group(tuple(run), True)] if run else [])
        groups.extend(Group((bsym,), False) for bsym in held)
        run.clear()
        held.clear()

    for bsym in bsyms:
        this = kind(bsym)
        if this is None and run and not held and _may_precede(bsym, run):
            groups.append(Group((bsym,), False))
            continue
        if this is None and run and _is_independent(bsym, run, storages):
            held.append(bsym)
            continue
        if held and this == run_kind and _reads(bsym, run):
            groups.extend(Group((before,), False) for before in held)
            held.clear()
        if this is None or this != run_kind or held:
            close()
        run_kind = this
        if this is None:
            groups.append(Group((bsym,), False))
        else:
            run.append(bsym)
    close()
    return groups


def _is_independent(bsym: BoundSymbol, run: Sequence[BoundSymbol], storages: Storages) -> bool:
    """True for an op (a product of matrices, say) that may as well run before `run`."""
    if prim_name(bsym) in _FIXED or not bsym.flat_proxy_outs or _reads(bsym, run):
        return False
    return storages.may_precede(bsym, run)


def _reads(bsym: BoundSymbol, run: Sequence[BoundSymbol]) -> bool:
    """True if an argument is a result of the run."""
    args = {p.name for p in bsym.flat_proxy_args}
    return any(p.name in args for member in run for p in member.flat_proxy_outs)


def _may_precede(bsym: BoundSymbol, run: Sequence[BoundSymbol]) -> bool:
    """True for host arithmetic (random state, sizes) that needs nothing of the run before it.

    Such a symbol moves in front of the run instead of cutting it.
    """
    if prim_name(bsym) in _FIXED or bsym.subsymbols or not bsym.sym.is_prim:
        return False
    results = bsym.flat_proxy_outs
    if not results or any(isinstance(p, TensorProxy) and p.ndim > 0 for p in results):
        return False
    reads_tensors = any(isinstance(p, TensorProxy) for p in bsym.flat_proxy_args)
    if reads_tensors and prim_name(bsym) != SHAPE_PRIM:
        return False
    return not _reads(bsym, run)


def _dataflow(trace: TraceCtx, kind: Kind, storages: Storages) -> list[Group]:
    def fits(a: Any, b: Any) -> bool:
        first = kind(a.group_bsyms[0])
        return first is not None and first == kind(b.group_bsyms[0])

    graph = Graph(trace)
    nodes = _nodes(graph)
    for earlier, later in hazards(trace.bound_symbols, storages):
        nodes[earlier].children.add(nodes[later])
        nodes[later].parents.add(nodes[earlier])
    graph.roots = [node for node in graph.roots if not node.parents]
    dataflow_merge(graph, fits)
    merged = horizontal_merge(graph, fits)
    # No data edge leads from a write whose result nobody reads to the return.
    merged.sort(key=lambda group: group[-1] is trace.bound_symbols[-1])
    return [Group(tuple(group), kind(group[0]) is not None) for group in merged]


def _nodes(graph: Graph) -> dict[int, Node]:
    """The nodes of a fresh graph by position in the trace."""
    found: dict[int, Node] = {}
    stack = list(graph.roots)
    while stack:
        node = stack.pop()
        if node.ID not in found:
            found[node.ID] = node
            stack.extend(node.children)
    return found

"""The elements of a shifted row that lie beside its whole vectors, as C++ text.

rows of 1023, 8 lanes     row 1 begins in lane 7 of a vector: its element 0, 127 vectors, its last 6

Each is one thread's, which does for it what it does for a lane of its vectors, behind those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from thunder_fuser.analysis.digits import Form, add, atom, scale, substitute
from thunder_fuser.codegen.blocks import when
from thunder_fuser.codegen.statements import (
    address,
    form_text,
    number,
    statement_text,
    vector_type,
    windows_text,
)
from thunder_fuser.codegen.types import index_type
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.kernel.scopes import Scope
from thunder_fuser.kernel.statements import VectorAccess


def edge_of_row(kernel: RowKernel) -> list[str]:
    """The vectors from `first` to `last` that lie in the row, which begins `before` elements behind
    an aligned one, and the place of the thread's element beside them, if it has one: those of a row
    that blocks share are of the first."""
    if not kernel.has_edges:
        return []
    axes, lanes, columns = kernel.axes, kernel.lanes, number(kernel.axes.columns)
    kind = index_type(kernel.reach + kernel.threads)
    is_first = "split == 0 && " if kernel.splits > 1 else ""
    start = substitute(axes.column, {a: Form() for a in (axes.vector, axes.lane) if a})
    return [
        f"const int before = {form_text(scale(start, -1), kernel.names)};",
        "const int first = before > 0;",
        f"const {kind} last = (before + {columns}) / {lanes};",
        f"const {kind} skipped = part < {lanes} * first - before ? 0 : {lanes} * (last - first);",
        f"const {kind} edge = before + part + skipped;",
        f"const bool has_edge = {is_first}edge < before + {columns};",
        f"const {kind} edge_vector = edge / {lanes}, edge_lane = edge % {lanes};",
    ]


def edge_loads(accesses: Sequence[VectorAccess], kernel: RowKernel) -> list[str]:
    """The thread's element of each of them, behind its vectors in registers."""
    if not kernel.has_edges:
        return []
    return _of_edge([f"{a.name}[k] = {_load(a, kernel)};" for a in accesses], kernel)


def edge_scope(scope: Scope, kernel: RowKernel) -> list[str]:
    """What is done for the thread's element."""
    if not kernel.has_edges:
        return []
    names = _names(kernel)
    vectors = {a.name: vector_type(a) for a in scope.stores}  # replicas share one
    stored = [(a, k) for a in scope.stores for k in range(_count(a, kernel))]
    lines = [
        *(f"const auto {a.name} = {_load(a, kernel)};" for a in scope.loads),
        *(f"{kind} {name};" for name, kind in vectors.items()),
        *(statement_text(s, names) for s in scope.statements),
        *(f"({_address(a, kernel)})[{k}] = {a.name}.v[{k}];" for a, k in stored),
    ]
    return _of_edge(lines, kernel)


def _of_edge(lines: list[str], kernel: RowKernel) -> list[str]:
    """Lane 0 of one more of the thread's places has the element."""
    if not lines:
        return []
    place = f"constexpr int k = {kernel.vectors_per_thread}, lane = 0;"
    return when(["has_edge"], [place, *lines])


def _load(access: VectorAccess, kernel: RowKernel) -> str:
    sizes, place = f"{access.length}, {_count(access, kernel)}", _address(access, kernel)
    test = f", {windows_text(access.guards, _names(kernel))}" if access.guards else ""
    return f"tf::load_first<{sizes}>({place}{test})"


def _count(access: VectorAccess, kernel: RowKernel) -> int:
    """How many of the elements of an access one lane has."""
    return 1 if access.lane is not None else access.length - access.step * (kernel.lanes - 1)


def _address(access: VectorAccess, kernel: RowKernel) -> str:
    """Where those begin."""
    assert kernel.lane is not None
    own = scale(atom(kernel.lane), access.step)
    return address(replace(access, offset=add(access.offset, own)), _names(kernel))


def _names(kernel: RowKernel) -> dict[IterDomain, str]:
    assert kernel.lane is not None
    return {**kernel.names, kernel.vector: "edge_vector", kernel.lane: "edge_lane"}

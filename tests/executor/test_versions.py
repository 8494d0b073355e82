"""The order of reads and writes: hazards as edges, and the check at the end of the pass."""

from __future__ import annotations

from typing import Any

import pytest
import thunder
import torch

from thunder_fuser.executor.storage import Storages, check_versions, hazards, versions


def trace_of(fn: Any, *args: torch.Tensor) -> Any:
    """The trace that an executor would get, without our passes."""
    jfn = thunder.jit(fn, executors=[])
    jfn(*args)
    trace = next(t for t in thunder.last_traces(jfn) if "Update aliases" in str(t.get_provenance()))
    return [b for b in trace.bound_symbols if b.sym.name not in ("unpack_trivial", "python_return")]


def write_between(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x * 2
    x.copy_(y)
    return z + torch.sin(x)


def test_a_write_follows_every_earlier_read_and_precedes_every_later_one() -> None:
    bsyms = trace_of(write_between, torch.randn(3), torch.randn(3))
    names = [b.sym.name for b in bsyms]
    assert names == [
        "update_aliases",
        "mul",
        "update_aliases",
        "copy_",
        "update_aliases",
        "sin",
        "add",
    ]
    edges = hazards(bsyms, Storages(bsyms))
    assert {(1, 3), (3, 5)} <= set(edges)
    assert all(earlier < later for earlier, later in edges)
    assert not any(6 in edge for edge in edges)


def test_versions_count_the_writes_before_each_read() -> None:
    bsyms = trace_of(write_between, torch.randn(3), torch.randn(3))
    counts = [dict(seen).popitem()[1] for seen in versions(bsyms, Storages(bsyms)).values()]
    assert counts == [0, 1]


def test_a_read_moved_past_a_write_names_both() -> None:
    bsyms = trace_of(write_between, torch.randn(3), torch.randn(3))
    moved = [b for b in bsyms if b.sym.name != "mul"]
    moved.insert(-1, next(b for b in bsyms if b.sym.name == "mul"))
    with pytest.raises(NotImplementedError, match=r"(?s)prims\.mul.*prims\.copy_"):
        check_versions(bsyms, moved, Storages(bsyms))


def test_the_order_of_the_trace_passes_the_check() -> None:
    bsyms = trace_of(write_between, torch.randn(3), torch.randn(3))
    check_versions(bsyms, bsyms, Storages(bsyms))

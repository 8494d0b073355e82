"""Views of a trace, taken of a tensor of torch."""

from __future__ import annotations

import thunder
import thunder.core.prims as prims
import torch
from thunder.core.symbol import BoundSymbol

from thunder_fuser.executor.claims import prim_name
from thunder_fuser.executor.storage import leaves
from thunder_fuser.executor.torch_views import taken


def views(function: object, x: torch.Tensor) -> list[BoundSymbol]:
    jfn = thunder.jit(function, executors=[])
    jfn(x)
    made = leaves(thunder.last_traces(jfn)[0].bound_symbols)
    return [leaf for leaf in made if leaf.sym.id in (prims.PrimIDs.SLICE, prims.PrimIDs.TRANSPOSE)]


def test_views_lie_where_torch_has_them() -> None:
    x = torch.randn(4, 6)
    found = x
    for view in views(lambda x: x[1:3, ::2].mT * 2, x):
        found = taken(found, view)
    expected = x[1:3, ::2].mT
    assert found.data_ptr() == expected.data_ptr()
    assert found.stride() == expected.stride()


def test_what_is_no_view_shows_the_tensor_itself() -> None:
    x = torch.randn(2)
    jfn = thunder.jit(torch.neg, executors=[])
    jfn(x)
    (neg,) = (b for b in leaves(thunder.last_traces(jfn)[0].bound_symbols) if prim_name(b) == "NEG")
    assert taken(x, neg) is x

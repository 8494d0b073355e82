"""A scope in two forms, one for operands near zero, as C++ text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from thunder_fuser.codegen.blocks import enclosed, otherwise, when
from thunder_fuser.codegen.pair_text import declared_pairs, unpaired
from thunder_fuser.codegen.statements import statement_text
from thunder_fuser.kernel.near import FARTHEST, near_of
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.kernel.scopes import Pairs, Scope


def where_near(
    scope: Scope, kernel: RowKernel, walk: Callable[[Scope, Sequence[Pairs]], list[str]]
) -> list[str]:
    """`walk` of a scope, and of what is taken in pairs beside it, is the text for all vectors of a
    thread."""
    found = near_of(scope, kernel.kept, kernel.lanes)
    if found is None:
        return walk(scope, ())
    is_near = [f"{found.reach.name} < {found.within}f"]
    lines = [
        f"float {FARTHEST.name} = 0.0f;",
        *declared_pairs(found.pairs),
        *walk(found.tests, found.pairs),
        *unpaired(found.pairs),
        *(statement_text(s, kernel.names) for s in found.scaled),
        *otherwise(when(is_near, walk(found.scope, ())), walk(scope, ())),
    ]
    return enclosed(lines)

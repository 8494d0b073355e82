"""A scope in two forms, one for operands near zero, as C++ text."""

from __future__ import annotations

from collections.abc import Callable

from thunder_fuser.codegen.statements import indent
from thunder_fuser.kernel.near import FARTHEST, near_of
from thunder_fuser.kernel.row_ir import Scope


def where_near(scope: Scope, walk: Callable[[Scope], list[str]]) -> list[str]:
    """`walk` of a scope is its text for all vectors of a thread."""
    found = near_of(scope)
    if found is None:
        return walk(scope)
    lines = [
        f"float {FARTHEST.name} = 0.0f;",
        *walk(found.tests),
        f"if ({FARTHEST.name} < {found.within}f) {{",
        *indent(walk(found.scope)),
        "} else {",
        *indent(walk(scope)),
        "}",
    ]
    return ["{", *indent(lines), "}"]

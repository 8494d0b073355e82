"""An index as C++ text: a function of the place."""

from __future__ import annotations

from thunder_fuser.codegen.statements import indent, statement_text
from thunder_fuser.codegen.types import index_type
from thunder_fuser.codegen.values import operand
from thunder_fuser.kernel.integers import INDEX, Index


def index_lines(index: Index) -> list[str]:
    """The definition of the function."""
    return [
        f"const auto {INDEX} = [&](const {index_type(index.reach)} place) {{",
        *indent([statement_text(s, index.names) for s in index.before]),
        f"  return {operand(index.value)};",
        "};",
    ]

"""An index as C++ text: a function of the place."""

from __future__ import annotations

from thunder_fuser.codegen.blocks import function
from thunder_fuser.codegen.statements import statement_text
from thunder_fuser.codegen.types import index_type
from thunder_fuser.codegen.values import operand
from thunder_fuser.kernel.integers import INDEX, Index


def index_lines(index: Index) -> list[str]:
    """The definition of the function."""
    lines = [statement_text(s, index.names) for s in index.before]
    lines.append(f"return {operand(index.value)};")
    return function(INDEX, [f"const {index_type(index.reach)} place"], lines)

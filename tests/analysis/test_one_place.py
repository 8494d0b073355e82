"""Division is reasoned about in one place: the rest of the analysis asks it."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "thunder_fuser"

ALLOWED = {
    "digits.py",  # forms
    "blocks.py",  # the [m, d, c] cut of a form
    "extents.py",  # monomials: exact division of coefficients
}


def test_only_the_digit_modules_divide() -> None:
    found = []
    for path in sorted((PACKAGE / "analysis").glob("*.py")):
        if path.name in ALLOWED:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            divides = isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.Mod)
            text = isinstance(node, ast.BinOp) and isinstance(
                node.left, ast.Constant | ast.JoinedStr
            )
            calls = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "divmod"
            if (divides and not text) or calls:
                found.append(f"{path.name}:{node.lineno}")
    assert found == []

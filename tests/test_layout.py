"""Every module of the package has a test file of its name, or is imported by one."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "thunder_fuser"


def imported_by_tests() -> set[str]:
    found = set()
    for path in TESTS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module)
                found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def untested_modules() -> list[str]:
    known, found = imported_by_tests(), []
    for module in PACKAGE.rglob("*.py"):
        path = module.relative_to(PACKAGE).with_suffix("")
        has_file = (TESTS / path.parent / f"test_{path.name}.py").exists()
        name = ".".join(("thunder_fuser", *path.parts))
        if not path.name.startswith("__") and not has_file and name not in known:
            found.append(name)
    return sorted(found)


def test_modules_that_only_others_exercise(golden: Callable[[str, str], None]) -> None:
    """The golden file names them; it should get shorter."""
    golden("untested_modules.txt", "".join(f"{name}\n" for name in untested_modules()))

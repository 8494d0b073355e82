"""Every column of a row is explained, once."""

from __future__ import annotations

from dataclasses import fields

from benchmarks.columns import names, table
from benchmarks.rows import Environment, Row


def test_the_columns_explained_are_those_of_rows() -> None:
    written = [field.name for kind in (Row, Environment) for field in fields(kind)]
    assert sorted(names()) == sorted(written)


def test_the_table_has_a_line_per_family_of_columns() -> None:
    lines = table().splitlines()
    assert lines[2].startswith("| identity | `suite` |")
    assert any(line.startswith("|  | `power_w`, `temp_c` |") for line in lines)

"""The op table of the documentation, rendered from the rows.

`python -m thunder_fuser.ops.docs docs/ops.md` writes it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from thunder_fuser.dtypes import DataType
from thunder_fuser.ops import dtype_sets
from thunder_fuser.ops.definition import REQUIRED, Family, Kind, OpDef, Param
from thunder_fuser.ops.table import OPS

_TITLES = {
    Family.POINTWISE: "Elementwise",
    Family.VIEW: "Views: an index map and nothing else",
    Family.PAD: "Pad",
    Family.CAT: "Cat",
    Family.GATHER: "Gathers: an index that a tensor holds",
    Family.GROUPED: "Sums of what an index sends to one place",
    Family.PICKED: "Sums of what an index of each element sends to one place of its row",
    Family.ORDER: "What puts an index in order",
    Family.STAGE: "What puts an index in order digit by digit",
    Family.FULL: "Constants",
    Family.IOTA: "Index functions",
    Family.RANDOM: "Random numbers",
    Family.REDUCTION: "Reductions",
    Family.SCAN: "Running sums",
    Family.SCALAR: "Arithmetic on sizes",
}
_SETS = {
    "all": dtype_sets.ALL,
    "all, 8-bit floats": dtype_sets.STORED,
    "no bool": dtype_sets.NUMBERS,
    "real": dtype_sets.REAL,
    "real, no bool": dtype_sets.REAL_NUMBERS,
    "bool, integers": dtype_sets.BITS,
    "integers": dtype_sets.INTEGERS,
    "floats, complex": dtype_sets.INEXACT,
    "floats": dtype_sets.FLOATS,
    "complex": dtype_sets.COMPLEX,
}


def render() -> str:
    """The Markdown text: one table per family, in the order of `Family`."""
    lines = [
        "# Operations",
        "",
        "Generated from the rows in `thunder_fuser/ops` by `python -m thunder_fuser.ops.docs "
        "docs/ops.md`.",
        "In the CUDA column `{t}` is the type of the result; operands are converted first.",
    ]
    for family, title in _TITLES.items():
        rows = [row for row in OPS.values() if row.family is family]
        if rows:
            lines += ["", f"## {title}", "", *_table(rows)]
    return "\n".join(lines) + "\n"


def _table(rows: Iterable[OpDef]) -> list[str]:
    header = ("`fd.ops.`", "operand types", "result", "CUDA", "torch", "Thunder prims", "recompute")
    lines = [_line(header), _line(["---"] * len(header))]
    for row in rows:
        cells = [
            _code(f"{row.name}({', '.join(map(_parameter, row.params))})"),
            _dtype_text(row.dtypes),
            _result_text(row),
            _code(row.cuda or row.combine),
            _code(row.torch),
            " ".join(row.prims),
            row.cost.value,
        ]
        lines.append(_line(cells))
    return lines


def _parameter(parameter: Param) -> str:
    default = parameter.default
    if default is REQUIRED:
        return parameter.name
    return f"{parameter.name}={default.name if isinstance(default, DataType) else default}"


def _dtype_text(dtypes: frozenset[DataType]) -> str:
    for name, members in _SETS.items():
        if members == dtypes:
            return name
    return ", ".join(str(d) for d in DataType if d in dtypes)


def _result_text(row: OpDef) -> str:
    """The rule's name: `same` and `promoted` are those of `ops/dtype_rules.py`."""
    if any(p.kind is Kind.DTYPE for p in row.params):
        return "`dtype`"
    return row.dtype.__name__.replace("_", " ")


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else ""


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render())

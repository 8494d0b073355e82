"""The op table: every op by name."""

from __future__ import annotations

from thunder_fuser.ops.definition import OpDef
from thunder_fuser.ops.gathers import GATHERS
from thunder_fuser.ops.groups import GROUPS
from thunder_fuser.ops.pointwise import POINTWISE
from thunder_fuser.ops.reductions import REDUCTIONS
from thunder_fuser.ops.scans import SCANS
from thunder_fuser.ops.shapes import SHAPES
from thunder_fuser.ops.sources import SOURCES

OPS: dict[str, OpDef] = {
    row.name: row for row in (*POINTWISE, *SHAPES, *GATHERS, *GROUPS, *REDUCTIONS, *SCANS, *SOURCES)
}


def op(name: str) -> OpDef:
    """The row of that name. Raises KeyError for an unknown one."""
    return OPS[name]

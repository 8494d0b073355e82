"""One row per operation: everything the package knows about an op stands in its row."""

from thunder_fuser.ops.definition import Cost, Family, Kind, OpDef, Param
from thunder_fuser.ops.table import OPS, op

__all__ = ["OPS", "Cost", "Family", "Kind", "OpDef", "Param", "op"]

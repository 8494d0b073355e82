"""The elementwise rows, all arities."""

from __future__ import annotations

from thunder_fuser.ops.binary import BINARY
from thunder_fuser.ops.ternary import TERNARY
from thunder_fuser.ops.unary import UNARY

POINTWISE = (*UNARY, *BINARY, *TERNARY)

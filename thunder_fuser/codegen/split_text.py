"""The states of reductions, and what blocks that share one leave for each other, as C++ text."""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.codegen.statements import number
from thunder_fuser.codegen.types import COMPUTE_TYPES
from thunder_fuser.codegen.values import round_text
from thunder_fuser.dtypes import DataType
from thunder_fuser.kernel.scopes import Accumulator
from thunder_fuser.kernel.split_ir import WORKSPACE, Split
from thunder_fuser.ops import OpDef


def parts_of(accumulators: Sequence[Accumulator], split: Split) -> list[str]:
    """The arrays `name_splits` in the workspace."""
    return [
        workspace_array(f"{total.name}_splits", state_type(total.op, total.dtype), start)
        for total, start in zip(accumulators, split.starts(accumulators), strict=False)
    ]


def workspace_array(name: str, kind: str, start: int) -> str:
    """An array of values of type `kind` from byte `start` of the workspace on."""
    address = f"{WORKSPACE} + {number(start)}" if start else WORKSPACE
    return f"{kind}* const {name} = reinterpret_cast<{kind}*>({address});"


def state_type(op: OpDef, dtype: DataType) -> str:
    """What an accumulator is a variable of."""
    return op.state.format(t=COMPUTE_TYPES[dtype])


def combining(op: OpDef, dtype: DataType, left: str, right: str) -> str:
    """Two states as one."""
    return op.combine.format(left, right, t=COMPUTE_TYPES[dtype])


def combiner(op: OpDef, dtype: DataType) -> str:
    """A function that makes two states one."""
    kind, body = state_type(op, dtype), combining(op, dtype, "a", "b")
    return f"[]({kind} a, {kind} b) -> {kind} {{ return {body}; }}"


def identity(op: OpDef, dtype: DataType) -> str:
    """The state that nothing was combined into."""
    return op.identity.format(t=COMPUTE_TYPES[dtype])


def finished(op: OpDef, dtype: DataType, state: str, rounded: DataType | None = None) -> str:
    """The result of a state, `rounded` as the trace does."""
    result = op.finish.format(state, t=COMPUTE_TYPES[dtype])
    return result if rounded is None else round_text(result, rounded)

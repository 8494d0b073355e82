"""What `fd.ops` offers, derived from the op table: one Operation per row, plus the composites.

    row sum(x, dims)    =>    fd.ops.sum(x, dims=None, keepdim=False, dtype=None)
                              sum, then broadcast of the removed dims; `dtype` casts first

An Operation is a signature and a function from built arguments to built results. Binding,
recording, printing and replaying need nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.scalar import Scalar, constant
from thunder_fuser.ir.tensor import Attr, TensorView, Value
from thunder_fuser.ops import OPS, Family, Kind, OpDef, Param, op

Built: TypeAlias = "Value | tuple[Value, ...]"
Argument: TypeAlias = "Built | Attr | None"


class Scope(Protocol):
    """What building may do: apply a row, ask for a number that is drawn at every run, or that an
    extent is not 0."""

    def apply(self, row: OpDef, inputs: Sequence[Value], attrs: Mapping[str, Attr]) -> Value: ...

    def draw(self, name: str) -> Scalar: ...

    def require_elements(self, extent: Scalar, what: str) -> None: ...


Build: TypeAlias = Callable[[Scope, Mapping[str, Argument]], tuple[Built, ...]]


@dataclass(frozen=True)
class Operation:
    """One callable of `fd.ops`. `returns_list`: results stay a list, whatever its length."""

    name: str
    params: tuple[Param, ...]
    build: Build
    returns_list: bool = False

    @cached_property
    def operands(self) -> tuple[Param, ...]:
        """The parameters that become record arguments; the rest are static attributes."""
        return tuple(p for p in self.params if p.kind in OPERAND_KINDS)

    @cached_property
    def statics(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if p.kind not in OPERAND_KINDS)


OPERAND_KINDS = frozenset(
    {Kind.TENSOR, Kind.TENSOR_OR_SCALAR, Kind.TENSORS, Kind.SCALAR, Kind.SHAPE, Kind.EXTENT}
)
_REDUCTION_TAIL = (Param("keepdim", Kind.FLAG, False), Param("dtype", Kind.DTYPE, None))


def of_row(row: OpDef) -> Operation:
    """The operation of a row, with `keepdim` and `dtype` for a reduction."""
    if row.family is Family.REDUCTION:
        return _reduction(row)
    return Operation(row.name, row.params, lambda scope, given: (apply_row(scope, row, given),))


def apply_row(scope: Scope, row: OpDef, given: Mapping[str, Argument]) -> Value:
    """`row` on the arguments named by its parameters."""
    inputs: list[Value] = []
    attrs: dict[str, Attr] = {}
    for param in row.params:
        argument = given[param.name]
        if param not in row.operands:
            attrs[param.name] = argument  # type: ignore[assignment]
        elif argument is None:
            inputs.append(_missing(scope, param))
        elif isinstance(argument, tuple):
            inputs.extend(argument)  # type: ignore[arg-type]
        else:
            inputs.append(argument)  # type: ignore[arg-type]
    return scope.apply(row, inputs, attrs)


def call(scope: Scope, name: str, *inputs: Value, **attrs: Attr) -> TensorView:
    """A tensor that the row of that name makes."""
    return tensor(scope.apply(op(name), inputs, attrs))


def product(scope: Scope, extents: Sequence[Scalar]) -> Scalar:
    """How many elements dims of these extents have."""
    count: Scalar = constant(1)
    for extent in extents:
        made = scope.apply(op("mul"), (count, extent), {})
        assert not isinstance(made, TensorView)
        count = made
    return count


def _missing(scope: Scope, param: Param) -> Scalar:
    return scope.draw(param.name) if param.absent is None else constant(param.absent)


def _reduction(row: OpDef) -> Operation:
    names = {p.name for p in row.params}
    tail = tuple(p for p in _REDUCTION_TAIL if p.name not in names)

    def build(scope: Scope, given: Mapping[str, Argument]) -> tuple[Built, ...]:
        x, dims, dtype = given["x"], dims_of(given), given["dtype"]
        assert isinstance(x, TensorView)
        if isinstance(dtype, DataType) and dtype is not x.dtype:
            x = call(scope, "cast", x, dtype=dtype)
        reduced = scope.apply(row, (x,), {"dims": dims})
        if not (given["keepdim"] and dims):
            return (reduced,)
        flags = tuple(k in dims for k in range(x.ndim))
        return (call(scope, "broadcast", reduced, is_broadcast_dim=flags),)

    return Operation(row.name, (*row.params, *tail), build)


def dims_of(given: Mapping[str, Argument]) -> tuple[int, ...]:
    """The argument `dims`."""
    dims = given["dims"]
    assert isinstance(dims, tuple)
    return tuple(d for d in dims if isinstance(d, int))


def tensor(value: Value) -> TensorView:
    """Narrow a value that is a tensor by construction."""
    assert isinstance(value, TensorView)
    return value


def row_operations() -> dict[str, Operation]:
    """One operation per row of the op table, by name."""
    return {name: of_row(row) for name, row in OPS.items()}

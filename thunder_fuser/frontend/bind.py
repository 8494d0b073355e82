"""From a call as written to the canonical arguments of a record.

    T4 = fd.ops.reshape(T0, [8, 64])    =>    S1 = 8, S2 = 64, V3 = [S1, S2], then reshape(T0, V3)

Numbers where a scalar is expected, and the ints of a list, are recorded first, in the order of the
signature: they take fids. Dims are wrapped, dim sets sorted, defaults filled in.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Protocol

from thunder_fuser.frontend.constants import is_number
from thunder_fuser.frontend.element_types import element_type
from thunder_fuser.frontend.handles import Handle, Scalar, Tensor, Vector
from thunder_fuser.frontend.layout import wrap
from thunder_fuser.frontend.operations import Operation
from thunder_fuser.frontend.records import Arg, Record, Ref, Static
from thunder_fuser.ops import Kind, Param
from thunder_fuser.ops.definition import REQUIRED


class Literals(Protocol):
    """Where inline literals are recorded, and which handles are at home."""

    def constant(self, value: object) -> Scalar: ...

    def vector(self, elements: Sequence[Scalar]) -> Vector: ...

    def check_owner(self, handle: Handle, name: str) -> None: ...


def bind(
    operation: Operation, args: Sequence[object], kwargs: Mapping[str, object], home: Literals
) -> Record:
    """The record of a call. Raises TypeError or ValueError for what does not fit the signature."""
    given = _match(operation, args, kwargs)
    operands = {p.name: _checked(p, given[p.name], home) for p in operation.operands}
    rank = _rank(operands.values())
    attrs = []
    for param in operation.statics:
        limit = _length(operands[param.wrapped_by]) if param.wrapped_by else rank
        attrs.append((param.name, _static(param, given[param.name], limit)))
    _check_rng(operands)
    bound = tuple(_operand(p, operands[p.name], rank, home) for p in operation.operands)
    return Record(operation.name, tuple(attrs), bound)


def _match(
    operation: Operation, args: Sequence[object], kwargs: Mapping[str, object]
) -> dict[str, object]:
    """Every parameter's value by name, as Python's own calls do it."""
    names = [p.name for p in operation.params]
    positional = [p.name for p in operation.params if not p.keyword_only]
    if len(args) > len(positional):
        raise TypeError(f"takes {len(positional)} positional arguments, {len(args)} given")
    given = dict(zip(positional, args, strict=False))
    for name, value in kwargs.items():
        name = "dims" if name == "dim" and "dim" not in names else name
        if name not in names:
            raise TypeError(f"unknown argument {name!r}; it takes {', '.join(names)}")
        if name in given:
            raise TypeError(f"argument {name!r} is given twice")
        given[name] = value
    for param in operation.params:
        if param.name not in given:
            if param.default is REQUIRED:
                raise TypeError(f"argument {param.name!r} ({param.kind.value}) is missing")
            given[param.name] = param.default
    return given


def _checked(param: Param, value: object, home: Literals) -> object:
    """`value` if its kind fits `param`; lists become tuples. Nothing is recorded yet."""
    match param.kind, value:
        case _, None if param.default is None:
            return None
        case ((Kind.TENSOR | Kind.TENSOR_OR_SCALAR), Tensor()):
            home.check_owner(value, param.name)
            return value
        case ((Kind.SCALAR | Kind.TENSOR_OR_SCALAR | Kind.EXTENT), Scalar()):
            home.check_owner(value, param.name)
            return value
        case ((Kind.SCALAR | Kind.TENSOR_OR_SCALAR | Kind.EXTENT), _) if is_number(value):
            return value
        case Kind.SHAPE, Vector():
            home.check_owner(value, param.name)
            return value
        case ((Kind.SHAPE | Kind.TENSORS), Sequence()) if not isinstance(value, str):
            elements = tuple(value)
            if param.kind is Kind.TENSORS and not elements:
                raise ValueError(f"argument {param.name!r} is empty")
            for k, element in enumerate(elements):
                _check_element(param, k, element, home)
            return elements
    raise TypeError(f"argument {param.name!r} wants {_wanted(param)}, not {_kind_of(value)}")


def _check_element(param: Param, position: int, element: object, home: Literals) -> None:
    wanted = Tensor if param.kind is Kind.TENSORS else Scalar
    name = f"{param.name}[{position}]"
    if isinstance(element, wanted):
        home.check_owner(element, name)
    elif param.kind is Kind.TENSORS or not _is_int(element):
        raise TypeError(f"argument {name} wants {_wanted(param)}, not {_kind_of(element)}")


def _wanted(param: Param) -> str:
    words = {
        Kind.SHAPE: "a Vector or a list of ints and Scalars",
        Kind.EXTENT: "an int or Scalar",
        Kind.SCALAR: "a Scalar or a number",
        Kind.TENSOR_OR_SCALAR: "a Tensor, a Scalar or a number",
        Kind.TENSORS: "a list of Tensors",
    }
    return words.get(param.kind, "a Tensor")


def _kind_of(value: object) -> str:
    return f"{type(value).__name__} {value!r}"


def _is_int(value: object) -> bool:
    return not isinstance(value, bool) and hasattr(value, "__index__")


def _rank(operands: object) -> int:
    """The rank of the first tensor operand; 0 without one."""
    for value in operands:  # type: ignore[attr-defined]
        first = value[0] if isinstance(value, tuple) and value else value
        if isinstance(first, Tensor):
            return first.ndim
    return 0


def _length(shape: object) -> int:
    return shape.size if isinstance(shape, Vector) else len(shape)  # type: ignore[arg-type]


def _check_rng(operands: Mapping[str, object]) -> None:
    seed, offset = operands.get("rng_seed"), operands.get("rng_offset")
    if (seed is None) != (offset is None):
        given, missing = ("rng_offset", "rng_seed") if seed is None else ("rng_seed", "rng_offset")
        raise ValueError(f"{given} is given without {missing}; give both or neither")


def _operand(param: Param, value: object, rank: int, home: Literals) -> Arg:
    """The reference that stands for `value`, recording the literals it is written with."""
    if value is None:
        if param.kind is not Kind.SHAPE:
            return None
        value = (param.absent,) * rank
    if isinstance(value, Handle):
        return value.ref
    if param.kind is Kind.TENSORS:
        assert isinstance(value, tuple)
        return tuple(Ref(t.kind, t.fid) for t in value)
    if isinstance(value, tuple):
        elements = [e if isinstance(e, Scalar) else home.constant(e) for e in value]
        return home.vector(elements).ref
    return home.constant(value).ref


def _static(param: Param, value: object, rank: int) -> Static:
    match param.kind:
        case Kind.DTYPE if value is None and param.default is None:
            return None
        case Kind.DTYPE:
            return element_type(value)
        case Kind.FLAG:
            return _flag(param.name, value)
        case Kind.BOOLS:
            return tuple(_flag(f"{param.name}[{k}]", v) for k, v in enumerate(_list(param, value)))
        case Kind.INT:
            return _int(param.name, value)
        case Kind.INTS:
            return tuple(_int(f"{param.name}[{k}]", v) for k, v in enumerate(_list(param, value)))
        case Kind.DIM if value is None and param.default is None:
            return None
        case Kind.DIM:
            return wrap(_int(param.name, value), rank, param.name)
        case Kind.DIM_SET if value is None:
            return tuple(range(rank))
    dims = (value,) if _is_int(value) else _list(param, value)
    wrapped = [
        wrap(_int(f"{param.name}[{k}]", d), rank, f"{param.name}[{k}]") for k, d in enumerate(dims)
    ]
    for dim in wrapped:
        if wrapped.count(dim) > 1:
            raise ValueError(f"{param.name} {list(dims)} names dim {dim} twice")
    return tuple(sorted(wrapped) if param.kind is Kind.DIM_SET else wrapped)


def _list(param: Param, value: object) -> Sequence[object]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return value
    raise TypeError(f"argument {param.name!r} wants a list, not {_kind_of(value)}")


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"argument {name!r} wants True or False, not {_kind_of(value)}")
    return value


def _int(name: str, value: object) -> int:
    if not _is_int(value):
        raise TypeError(f"argument {name!r} wants an int, not {_kind_of(value)}")
    return operator.index(value)  # type: ignore[arg-type]

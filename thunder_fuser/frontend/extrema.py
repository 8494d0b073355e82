"""Where the largest or smallest element lies: one reduction over keys that hold value and place.

    key = order_key(x) * 2^32 + (2^32 - 1 - index);  argmax = 2^32 - 1 - max(key) % 2^32

Integers order as the values do, and of equal values the first has the largest key, so the place
follows from an extremum that any template reduces in one pass and in any order. As in torch NaN
wins, the first of several. Keys of 16-bit floats have 32 bits where their places leave room for
them, which takes a third of the instructions. Values of 64 bits leave no room for a place: theirs
is the first one that holds the extremum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from thunder_fuser.dtypes import DataType
from thunder_fuser.frontend.operations import Argument, Built, Operation, Scope, call, product
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.scalar import Constant, constant
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Kind, Param

PLACES = 2**32  # values of the low half of a key
LEAST_KEY = -(2**31)
SHORT_KEY = 32  # bits
OF_VALUE = {DataType.BFloat16: 16, DataType.Half: 19}  # first bits of an order key, of a float then

_PARAMS = (
    Param("x", Kind.TENSOR),
    Param("dim", Kind.DIM, None),
    Param("keepdim", Kind.FLAG, False),
)


def _position(scope: Scope, given: Mapping[str, Argument], name: str) -> tuple[Built, ...]:
    """The index of the `name` (max or min) along `dim`, of all elements without one. int64."""
    x, dim, keepdim = given["x"], given["dim"], given["keepdim"]
    assert isinstance(x, TensorView)
    if x.dtype.is_complex or x.dtype is DataType.Bool:
        raise TypeError(f"arg{name}: operand 0 has dtype {x.dtype}; it takes integers and floats")
    rank = x.ndim
    if dim is None:
        x, dim = _flat(scope, x), 0
    assert isinstance(dim, int)
    if sc.is_constant(x.extents[dim], 0):
        raise ValueError(f"arg{name} along dim {dim} of extent 0 has no result")
    found = _packed(scope, x, dim, name) if _fits(x.dtype) else _first(scope, x, dim, name)
    if not keepdim or not rank:
        return (found,)
    kept = given["dim"] is None
    flags = (True,) * rank if kept else tuple(k == dim for k in range(rank))
    return (call(scope, "broadcast", found, is_broadcast_dim=flags),)


def _fits(dtype: DataType) -> bool:
    return dtype.itemsize <= 4


def _flat(scope: Scope, x: TensorView) -> TensorView:
    return call(scope, "reshape", x, new_shape=(product(scope, x.extents),))


def _packed(scope: Scope, x: TensorView, dim: int, name: str) -> TensorView:
    places = _short_places(x, dim)
    key = _key(scope, x, name)
    if places is None:
        last, index = constant(PLACES - 1), _index(scope, x, dim, DataType.Int)
        key = call(scope, "mul", key, constant(PLACES))
    else:
        last, index = constant(places - 1), _index(scope, x, dim, DataType.Int32)
        short = call(scope, "cast", key, dtype=DataType.Int32)
        key = call(scope, "bitwise_and", short, constant(-places))
    place = call(scope, "sub", last, index) if name == "max" else index
    best = call(scope, name, call(scope, "add", key, place), dims=(dim,))
    low = call(scope, "bitwise_and", best, last)
    found = call(scope, "sub", last, low) if name == "max" else low
    return found if places is None else call(scope, "cast", found, dtype=DataType.Int)


def _short_places(x: TensorView, dim: int) -> int | None:
    """As many as a key of 32 bits has room for, if these are enough; else None."""
    if x.dtype not in OF_VALUE or not isinstance(x.extents[dim], Constant):
        return None
    places = 1 << (SHORT_KEY - OF_VALUE[x.dtype])
    return places if x.logical[dim].size <= places else None


def _key(scope: Scope, x: TensorView, name: str) -> TensorView:
    """An integer of 32 bits that orders as the values do; where NaN is to win, it does."""
    if not x.dtype.is_floating:
        return call(scope, "cast", x, dtype=DataType.Int)
    key = call(scope, "order_key", x)
    if name == "max":
        return key
    return call(scope, "where", call(scope, "isnan", x), constant(LEAST_KEY), key)


def _first(scope: Scope, x: TensorView, dim: int, name: str) -> TensorView:
    flags = tuple(k == dim for k in range(x.ndim))
    extremum = call(scope, name, x, dims=(dim,))
    hit = call(scope, "eq", x, call(scope, "broadcast", extremum, is_broadcast_dim=flags))
    if x.dtype.is_floating:
        hit = call(scope, "logical_or", hit, call(scope, "isnan", x))
    places = call(scope, "where", hit, _index(scope, x, dim, DataType.Int), x.extents[dim])
    return call(scope, "min", places, dims=(dim,))


def _index(scope: Scope, x: TensorView, dim: int, dtype: DataType) -> TensorView:
    """The index along `dim`, which broadcasts with x."""
    zero, one = constant(0), constant(1)
    count = call(scope, "iota", zero, one, length=(x.extents[dim],), dtype=dtype)
    flags = tuple(k != dim for k in range(x.ndim))
    return call(scope, "broadcast", count, is_broadcast_dim=flags)


def _of(name: str) -> Callable[[Scope, Mapping[str, Argument]], tuple[Built, ...]]:
    return lambda scope, given: _position(scope, given, name)


EXTREMA = (Operation("argmax", _PARAMS, _of("max")), Operation("argmin", _PARAMS, _of("min")))

"""Where the largest or smallest element lies: one reduction over keys that hold value and place.

    key = order_key(x) * 2^32 | ~index;  argmax = ~max(key) % 2^32;  argmin(x) = argmax(-x)

Integers order as the values do, and of equal values the first has the largest key, so the place
follows from a maximum that any template reduces in one pass and in any order. As in torch NaN
wins, the first of several: it is above all numbers, of which the smallest is the largest of their
negatives. Keys of 16-bit floats have 32 bits where their places leave room for them, which takes a
third of the instructions, and in pieces of a long dim, of whose best the place is found then.
Values of 64 bits leave no room for a place: theirs is the first one that holds the extremum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from thunder_fuser.dtypes import DataType
from thunder_fuser.frontend.operations import Argument, Built, Operation, Scope, call, product
from thunder_fuser.ir.scalar import Constant, constant
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Kind, Param

PLACES = 2**32  # values of the low half of a key
SHORT_KEY = 32  # bits
OF_VALUE = {DataType.BFloat16: 16, DataType.Half: 19}  # first bits of an order key, of a float then
PIECES = (1 << 10, 1 << 14)  # elements of a piece: as many as rows that a block reads have
LONG = 1 << 20  # elements of a dim that is worth a launch for the best of its pieces

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
    scope.require_elements(x.extents[dim], f"arg{name} along dim {dim}")
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
    key, room = _key(scope, x, name), _room(x.dtype)
    size = x.logical[dim].size if isinstance(x.extents[dim], Constant) else None
    if room is None or size is None or not (size <= room or _piece(size, room)):
        key = call(scope, "mul", key, constant(PLACES))
        return _place(scope, _best(scope, key, dim, PLACES), PLACES)
    short = call(scope, "cast", key, dtype=DataType.Int32)
    short = call(scope, "bitwise_and", short, constant(-room))
    if size > room:
        return _of_pieces(scope, short, dim, room, _piece(size, room) or size)
    found = _place(scope, _best(scope, short, dim, room), room)
    return call(scope, "cast", found, dtype=DataType.Int)


def _room(dtype: DataType) -> int | None:
    """For so many places a key of 32 bits has room; None if for no value beside them."""
    return 1 << (SHORT_KEY - OF_VALUE[dtype]) if dtype in OF_VALUE else None


def _piece(size: int, room: int) -> int | None:
    """Elements of the equal pieces of a long dim, if there is a size of which a key has room."""
    if size < LONG:
        return None
    least, most = PIECES
    return next((n for n in range(min(most, room), least - 1, -1) if size % n == 0), None)


def _of_pieces(scope: Scope, short: TensorView, dim: int, room: int, piece: int) -> TensorView:
    """The place of the largest of short keys, from those of its pieces."""
    shape, count = short.extents, constant(short.logical[dim].size // piece)
    sizes = (*shape[:dim], count, constant(piece), *shape[dim + 1 :])
    pieces = call(scope, "reshape", short, new_shape=sizes)
    best = _best(scope, pieces, dim + 1, room)
    value = call(scope, "bitwise_and", best, constant(-room))
    key = call(scope, "mul", call(scope, "cast", value, dtype=DataType.Int), constant(PLACES))
    inner = call(scope, "cast", _place(scope, best, room), dtype=DataType.Int)
    before = call(scope, "mul", _index(scope, best, dim, DataType.Int), constant(piece))
    place = call(scope, "add", before, inner)
    return _place(scope, _largest(scope, key, place, dim, PLACES), PLACES)


def _best(scope: Scope, key: TensorView, dim: int, places: int) -> TensorView:
    """The largest key with its place among so many, of which the first is the largest number."""
    return _largest(scope, key, _index(scope, key, dim, key.dtype), dim, places)


def _largest(scope: Scope, key: TensorView, place: TensorView, dim: int, places: int) -> TensorView:
    low = call(scope, "bitwise_xor", place, constant(places - 1))
    return call(scope, "max", call(scope, "bitwise_or", key, low), dims=(dim,))


def _place(scope: Scope, best: TensorView, places: int) -> TensorView:
    low = call(scope, "bitwise_and", best, constant(places - 1))
    return call(scope, "bitwise_xor", low, constant(places - 1))


def _key(scope: Scope, x: TensorView, name: str) -> TensorView:
    """An integer of 32 bits that orders as the values do, or as their negatives."""
    if x.dtype.is_floating:
        return call(scope, "order_key", x if name == "max" else call(scope, "neg", x))
    key = call(scope, "cast", x, dtype=DataType.Int)
    return key if name == "max" else call(scope, "bitwise_not", key)


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

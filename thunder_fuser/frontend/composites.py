"""Operations that are no row of the op table: sizes, and what a few rows together mean.

Each is one record with one fid per result; values built on the way get hidden fids.
"""

from __future__ import annotations

from collections.abc import Mapping

from thunder_fuser.dtypes import DataType
from thunder_fuser.frontend.extrema import EXTREMA
from thunder_fuser.frontend.operations import (
    Argument,
    Built,
    Operation,
    Scope,
    call,
    dims_of,
    product,
    row_operations,
)
from thunder_fuser.ir.scalar import Scalar, constant
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.ops import Kind, Param, op

Given = Mapping[str, Argument]

_X = Param("x", Kind.TENSOR)
_INDEX = Param("index", Kind.TENSOR)
_SEED = (
    Param("rng_seed", Kind.SCALAR, None, keyword_only=True),
    Param("rng_offset", Kind.SCALAR, None, keyword_only=True),
)
_VARIANCE = (
    _X,
    Param("dims", Kind.DIM_SET, None),
    Param("correction", Kind.INT, 1),
    Param("keepdim", Kind.FLAG, False),
)


def _tensor_of(given: Given) -> TensorView:
    x = given["x"]
    assert isinstance(x, TensorView)
    return x


def _size(scope: Scope, given: Given) -> tuple[Built, ...]:
    dim = given["dim"]
    assert isinstance(dim, int)
    return (_tensor_of(given).extents[dim],)


def _shape(scope: Scope, given: Given) -> tuple[Built, ...]:
    return (_tensor_of(given).extents,)


def _tensor_sizes(scope: Scope, given: Given) -> tuple[Built, ...]:
    return _tensor_of(given).extents


def _at(scope: Scope, given: Given) -> tuple[Built, ...]:
    vector, index = given["vector"], given["index"]
    assert isinstance(vector, tuple)
    assert isinstance(index, int)
    return (vector[index],)  # type: ignore[return-value]


def _moments(scope: Scope, given: Given) -> tuple[TensorView, TensorView]:
    """Variance and mean over `dims`, in two passes: mean of x, then of the squared distance."""
    x, dims = _tensor_of(given), dims_of(given)
    flags = tuple(k in dims for k in range(x.ndim))
    count = product(scope, [x.extents[dim] for dim in dims])
    correction = given["correction"]
    assert isinstance(correction, int)
    freedom = _scalar(scope.apply(op("sub"), (count, constant(correction)), {}))
    mean = call(scope, "truediv", call(scope, "sum", x, dims=dims), count)
    kept = call(scope, "broadcast", mean, is_broadcast_dim=flags)
    distance = call(scope, "sub", x, kept)
    squares = call(scope, "sum", call(scope, "mul", distance, distance), dims=dims)
    variance = call(scope, "truediv", squares, freedom)
    if given["keepdim"]:
        return call(scope, "broadcast", variance, is_broadcast_dim=flags), kept
    return variance, mean


def _scalar(value: object) -> Scalar:
    assert not isinstance(value, TensorView)
    return value  # type: ignore[return-value]


def _var(scope: Scope, given: Given) -> tuple[Built, ...]:
    return _moments(scope, given)[:1]


def _triu(scope: Scope, given: Given) -> tuple[Built, ...]:
    """x where column - row >= diagonal in the last two dims, zero elsewhere."""
    x = _tensor_of(given)
    if x.ndim < 2:
        raise ValueError(f"triu needs rank 2 or more, x has rank {x.ndim}")
    zero, one = constant(0), constant(1)
    rows, columns = (
        call(scope, "iota", zero, one, length=(extent,), dtype=DataType.Int)
        for extent in x.extents[-2:]
    )
    diagonal = given["diagonal"]
    shift = constant(0) if diagonal is None else _scalar(diagonal)
    if not shift.dtype.is_integral:
        raise TypeError(f"triu: the diagonal has dtype {shift.dtype}; it is an integer")
    shifted = call(scope, "add", rows, shift)
    column = call(scope, "broadcast", shifted, is_broadcast_dim=(False, True))
    keep = call(scope, "ge", columns, column)
    return (call(scope, "where", keep, x, constant(0)),)


def _gather(scope: Scope, given: Given) -> tuple[Built, ...]:
    """x at the indices along `dim`, and at its first ones in the other dims, as torch.gather."""
    x, index, dim = _tensor_of(given), given["index"], given["dim"]
    assert isinstance(index, TensorView)
    assert isinstance(dim, int)
    if index.ndim != x.ndim:
        raise ValueError(f"the index has rank {index.ndim}, x has rank {x.ndim}")
    pairs = zip(x.extents, index.extents, strict=True)
    ends = tuple(a if k == dim else b for k, (a, b) in enumerate(pairs))
    if ends != x.extents:
        zeros, ones = (tuple(constant(n) for _ in ends) for n in (0, 1))
        x = call(scope, "slice", x, start_indices=zeros, end_indices=ends, strides=ones)
    return (call(scope, "take_along_axis", x, index, dim=dim),)


def _embedding(scope: Scope, given: Given) -> tuple[Built, ...]:
    """The row of the weight for each index: [..., features] of a weight [classes, features]."""
    index, weight = given["index"], given["weight"]
    assert isinstance(index, TensorView)
    assert isinstance(weight, TensorView)
    if weight.ndim != 2:
        raise ValueError(f"the weight has rank {weight.ndim}; legal: 2")
    flat = call(scope, "reshape", index, new_shape=(product(scope, index.extents),))
    rows = call(scope, "index_select", weight, flat, dim=0)
    return (call(scope, "reshape", rows, new_shape=(*index.extents, weight.extents[1])),)


def _index_sum(scope: Scope, given: Given) -> tuple[Built, ...]:
    """Along `dim` of the result, at v: the sum of what x has where the index is v."""
    x, index, dim, skip = _tensor_of(given), given["index"], given["dim"], given["skip"]
    assert isinstance(index, TensorView)
    return (_summed(scope, x, index, _count(given["count"]), dim=dim, skip=skip),)


def _count(extent: Argument) -> Scalar:
    assert isinstance(extent, tuple)
    return _scalar(extent[0])


def _summed(
    scope: Scope, x: TensorView, index: TensorView, count: Scalar, **attrs: Argument
) -> Value:
    """All indices are checked, those of `skip` are not added."""
    order = call(scope, "group_order", index, count=(count,))
    keys = call(scope, "group_keys", index, order, count=(count,))
    ends = call(scope, "group_ends", keys, count=(count,))
    return scope.apply(op("group_sum"), (x, order, ends), attrs)  # type: ignore[arg-type]


def _embedding_backward(scope: Scope, given: Given) -> tuple[Built, ...]:
    """The gradient of a weight of `num_weights` rows from that of its embedding at `index`."""
    grad, index = given["grad"], given["index"]
    assert isinstance(grad, TensorView)
    assert isinstance(index, TensorView)
    if grad.ndim != index.ndim + 1:
        raise ValueError(f"the gradient has rank {grad.ndim}, the index has rank {index.ndim}")
    count = product(scope, index.extents)
    flat = call(scope, "reshape", index, new_shape=(count,))
    rows = call(scope, "reshape", grad, new_shape=(count, grad.extents[-1]))
    weights = _count(given["num_weights"])
    return (_summed(scope, rows, flat, weights, dim=0, skip=given["padding_idx"]),)


def _rand_like(scope: Scope, given: Given) -> tuple[Built, ...]:
    x = _tensor_of(given)
    seed, offset = (
        scope.draw(name) if given[name] is None else _scalar(given[name])
        for name in ("rng_seed", "rng_offset")
    )
    low, high = constant(0.0), constant(1.0)
    drawn = call(scope, "uniform", low, high, seed, offset, shape=x.extents, dtype=x.dtype)
    return (drawn,)


_COMPOSITES = (
    Operation("size", (_X, Param("dim", Kind.DIM)), _size),
    Operation("shape", (_X,), _shape),
    Operation("tensor_sizes", (_X,), _tensor_sizes, returns_list=True),
    Operation(
        "at", (Param("vector", Kind.SHAPE), Param("index", Kind.DIM, wrapped_by="vector")), _at
    ),
    Operation("var", _VARIANCE, _var),
    Operation("var_mean", _VARIANCE, _moments),
    Operation("triu", (_X, Param("diagonal", Kind.SCALAR, None)), _triu),
    Operation("gather", (_X, _INDEX, Param("dim", Kind.DIM)), _gather),
    Operation("embedding", (_INDEX, Param("weight", Kind.TENSOR)), _embedding),
    Operation(
        "embedding_backward",
        (
            Param("grad", Kind.TENSOR),
            _INDEX,
            Param("num_weights", Kind.EXTENT),
            Param("padding_idx", Kind.INT, -1),
        ),
        _embedding_backward,
    ),
    Operation(
        "index_sum",
        (
            _X,
            _INDEX,
            Param("count", Kind.EXTENT),
            Param("dim", Kind.DIM, 0),
            Param("skip", Kind.INT, -1),
        ),
        _index_sum,
    ),
    Operation("rand_like", (_X, *_SEED), _rand_like),
)

OPERATIONS: dict[str, Operation] = {
    **{c.name: c for c in (*_COMPOSITES, *EXTREMA)},
    **row_operations(),
}

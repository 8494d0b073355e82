"""Apply an op to values: the one way in which expressions and tensors come to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.domain import IterType, axis, tensor_domain
from thunder_fuser.ir.domains import derive
from thunder_fuser.ir.fusion import Fusion, Write
from thunder_fuser.ir.scalar import Scalar
from thunder_fuser.ir.tensor import Attr, Expr, TensorView, Value
from thunder_fuser.ops import Family, OpDef, op
from thunder_fuser.ops.definition import Operand


def tensor(
    dtype: DataType,
    *extents: int | Scalar,
    stride_order: Sequence[int] | None = None,
    contiguity: Sequence[bool | None] | None = None,
    is_cpu: bool = False,
) -> TensorView:
    """A fusion input. Extents are ints or scalars; extent 1 is a broadcast axis.

    `stride_order[dim]` ranks dims by stride, the largest outermost; `contiguity` is in allocation
    order, True by default, None for a broadcast or expanded axis.
    """
    order = list(range(len(extents)))
    if stride_order is not None:
        order.sort(key=lambda d: -stride_order[d])
    flags = dict(zip(order, contiguity or (), strict=False))
    logical = []
    for dim, e in enumerate(extents):
        extent = sc.constant(e) if isinstance(e, int) else e
        is_broadcast = sc.is_constant(extent, 1) or flags.get(dim, True) is None
        logical.append(axis(extent, IterType.BROADCAST if is_broadcast else IterType.ITERATION))
    allocation = [logical[d] for d in order]
    return TensorView(
        dtype, tensor_domain(logical, allocation=allocation, contiguity=contiguity), is_cpu=is_cpu
    )


def apply(row: OpDef, inputs: Sequence[Value], attrs: Mapping[str, Attr] | None = None) -> Value:
    """The value of `row` on `inputs` (tensors and scalars in the order of the row's operands).

    Raises ValueError for shapes that contradict each other and TypeError for a dtype the op is not
    defined on.
    """
    attrs = dict(attrs or {})
    _check_dtypes(row, inputs)
    dtype = result_dtype(row, inputs, attrs)
    if row.results is not None and dtype not in row.results:
        raise TypeError(f"{row.name}: a result of dtype {dtype}; it gives {_listed(row.results)}")
    _check_numbers(row, inputs, dtype)
    tensors = [v for v in inputs if isinstance(v, TensorView)]
    if not tensors and row.family in (Family.POINTWISE, Family.SCALAR):
        if dtype.is_float8:
            raise TypeError(f"{row.name}: a scalar of dtype {dtype}; only tensors are of 8 bits")
        return sc.scalar_expr(row, tuple(v for v in inputs if not isinstance(v, TensorView)), dtype)
    derived = derive(row.domain, tensors, attrs)
    maps = iter(derived.axis_maps)
    axis_maps = tuple(next(maps) if isinstance(v, TensorView) else () for v in inputs)
    expr = Expr(row, tuple(inputs), tuple(attrs.items()), axis_maps)
    return TensorView(dtype, derived.domain, expr)


def result_dtype(row: OpDef, inputs: Sequence[Value], attrs: Mapping[str, Attr]) -> DataType:
    explicit = attrs.get("dtype")
    if isinstance(explicit, DataType):
        return explicit
    return row.dtype([Operand(v.dtype, not isinstance(v, TensorView)) for v in inputs])


def _check_dtypes(row: OpDef, inputs: Sequence[Value]) -> None:
    own = [p.dtypes for p in row.operands] if len(row.operands) == len(inputs) else []
    for position, value in enumerate(inputs):
        dtypes = (own[position] if own else None) or row.dtypes
        if value.dtype not in dtypes:
            wrong = f"{row.name}: operand {position} has dtype {value.dtype}"
            raise TypeError(f"{wrong}; it takes {_listed(dtypes)}")


def _listed(dtypes: frozenset[DataType]) -> str:
    return ", ".join(sorted(str(d) for d in dtypes))


# What these are given as a number becomes of the result's type.
_OF_THE_RESULT = frozenset({Family.FULL, Family.IOTA, Family.PAD, Family.RANDOM})


def _check_numbers(row: OpDef, inputs: Sequence[Value], dtype: DataType) -> None:
    numbers = (v for v in inputs if not isinstance(v, TensorView))
    if row.family in _OF_THE_RESULT and not dtype.is_complex:
        for number in numbers:
            if number.dtype.is_complex:
                raise TypeError(f"{row.name}: {number} is complex, its result has dtype {dtype}")


def call(name: str, *inputs: Value, **attrs: Attr) -> TensorView:
    """`apply` for a tensor result, by the op's name."""
    return produce(op(name), inputs, attrs)


def again(expr: Expr, inputs: Sequence[Value]) -> TensorView:
    """What the op of `expr` makes of other inputs."""
    return produce(expr.op, inputs, dict(expr.attrs))


def produce(
    row: OpDef, inputs: Sequence[Value], attrs: Mapping[str, Attr] | None = None
) -> TensorView:
    """`apply` for a tensor result."""
    made = apply(row, inputs, attrs)
    assert isinstance(made, TensorView)
    return made


def _write(value: TensorView, target: TensorView) -> Write:
    """Raises ValueError for extents that are known to differ."""
    sizes = [[sc.static_int(e) for e in tv.extents] for tv in (value, target)]
    if any(None not in pair and pair[0] != pair[1] for pair in zip(*sizes, strict=True)):
        raise ValueError(f"a value of shape {sizes[0]} cannot be written into shape {sizes[1]}")
    return Write(value, target)


def replay(
    fusion: Fusion, leaf: Callable[[TensorView], TensorView], scalar: Callable[[Scalar], Scalar]
) -> tuple[Fusion, dict[TensorView, TensorView]]:
    """The same fusion over other inputs and scalars, and the map from old tensors to new ones.

    `leaf` gives the new tensor of an undefined one, `scalar` the new scalar of an old one. Raises
    ValueError where the new extents contradict each other.
    """
    new: dict[TensorView, TensorView] = {}

    def value(v: Value) -> Value:
        return new[v] if isinstance(v, TensorView) else scalar(v)

    def attr(a: Attr) -> Attr:
        if isinstance(a, tuple):
            return tuple(attr(e) for e in a)
        return scalar(a) if isinstance(a, sc.Constant | sc.Symbol | sc.ScalarExpr) else a

    for tv in fusion.tensors:
        if tv.definition is None:
            new[tv] = leaf(tv)
            continue
        expr = tv.definition
        made = apply(expr.op, [value(v) for v in expr.inputs], {n: attr(a) for n, a in expr.attrs})
        assert isinstance(made, TensorView)
        new[tv] = made
    inputs = tuple(value(v) for v in fusion.inputs)
    writes = tuple(_write(new[w.value], new[w.target]) for w in fusion.writes)
    return Fusion(inputs, tuple(new[tv] for tv in fusion.outputs), writes), new

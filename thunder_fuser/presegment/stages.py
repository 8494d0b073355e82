"""What reductions in stages are made of: tensors of static sizes in other shapes, and stages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial, reduce

from thunder_fuser.analysis.reductions import terms_type
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call, produce
from thunder_fuser.ir.scalar import Constant
from thunder_fuser.ir.tensor import TensorView, Value


def constants(sizes: Sequence[int]) -> tuple[Constant, ...]:
    """A shape."""
    return tuple(map(sc.constant, sizes))


def reshaped(source: TensorView, sizes: Sequence[int]) -> TensorView:
    """`source` in so many elements a dim; the same tensor where it has these sizes."""
    if source.shape == tuple(sizes):
        return source
    return call("reshape", source, new_shape=constants(sizes))


def expanded(source: TensorView, sizes: Sequence[int]) -> TensorView:
    """`source` repeated to these sizes; the same tensor where it has them."""
    if source.shape == tuple(sizes):
        return source
    return call("expand", source, shape=constants(sizes))


def part(source: TensorView, dim: int, start: int, end: int) -> TensorView:
    """The elements from `start` to `end` along a dim."""
    starts, ends = [0] * source.ndim, list(source.shape)
    starts[dim], ends[dim] = start, end
    return box(source, starts, ends)


def box(source: TensorView, starts: Sequence[int], ends: Sequence[int]) -> TensorView:
    """The elements between these places along all dims."""
    sizes = {"start_indices": constants(starts), "end_indices": constants(ends)}
    return call("slice", source, **sizes, strides=constants([1] * source.ndim))


def padded(tv: TensorView, source: TensorView, rest: int, dim: int = 0) -> TensorView:
    """`source` with so many more rows, which do not change what `tv` makes of its columns."""
    neutral = tv.expr.op.neutral
    assert neutral is not None
    widths = [0] * (2 * source.ndim)
    widths[2 * (source.ndim - dim) - 1] = rest  # behind it; pairs are of the last dim first
    return call("pad", source, sc.constant(neutral), pad_widths=constants(widths))


def widened(tv: TensorView, source: Value) -> TensorView:
    """`source` in the type in which the parts of `tv` are summed."""
    assert isinstance(source, TensorView)
    wide = tv.dtype.compute_type if tv.expr.op.is_finished else terms_type(tv)
    if wide is source.dtype or source.dtype.compute_type.is_integral:
        return source
    return call("cast", source, dtype=wide)


def reduced(tv: TensorView, source: TensorView, *stages: tuple[int, ...]) -> TensorView:
    """`tv` as reductions of `source` over the dims of one stage after the other."""
    for dims in stages:
        source = produce(tv.expr.op, [source], {"dims": dims})
    return source if source.dtype is tv.dtype else call("cast", source, dtype=tv.dtype)


def product(factors: Iterable[TensorView]) -> TensorView:
    """Of one factor at least, from the first on."""
    return reduce(partial(call, "mul"), factors)


def marked(tv: TensorView, inputs: Sequence[Value], **marks: int) -> TensorView:
    """The reduction `tv` of other inputs, with such attributes."""
    return produce(tv.expr.op, inputs, {**dict(tv.expr.attrs), **marks})

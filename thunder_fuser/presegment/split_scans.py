"""Split a running sum along rows that are too few for the machine.

    T1: f32[i8, i1048576] = cumsum(T0, dim=1)
        =>   T2: f32[i8, i32, i32768] = reshape(T0);   T3: f32[i8, i32] = sum(T2, dims=[2])
             T4 = cumsum(T3, dim=1), moved by one so that each part has what is before it
             T1 = reshape(cumsum(T2 with T4 added to the first of each part, dim=2))

The operand is read twice, by as many times more threads. The order of summation is fixed.
"""

from __future__ import annotations

from functools import partial

from thunder_fuser.analysis.reductions import is_scan, row_shape, scanned_dim
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call, produce
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.presegment.stages import constants, part, reduced, reshaped, widened

MIN_PART = 4096  # elements of a part of a row
FEWEST = 8  # parts that an axis must have room for: a shorter one is walked as soon
MOST = 1024  # parts
BLOCKS = 4  # of a multiprocessor that are enough


def split_scans(fusion: Fusion, multiprocessors: int) -> Fusion:
    """`fusion` with such running sums in parts."""
    return rewrite(fusion, partial(_rule, multiprocessors))


def _rule(multiprocessors: int, tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    parts = _parts(tv, multiprocessors) if is_scan(tv) else None
    (x,) = inputs if parts is not None else (None,)
    return _in_parts(tv, x, parts) if parts is not None and isinstance(x, TensorView) else None


def _parts(tv: TensorView, multiprocessors: int) -> int | None:
    """How many parts an axis is split into: enough to fill the machine, if its size has such a
    divisor. None to leave it."""
    rows = row_shape(tv)
    if rows is None or rows[0] >= multiprocessors:
        return None
    size, wanted = tv.shape[scanned_dim(tv)], BLOCKS * multiprocessors // rows[0]
    limit = min(MOST, size // MIN_PART)
    if limit < FEWEST:
        return None
    found = [d for d in range(2, limit + 1) if size % d == 0]
    enough = [d for d in found if d >= wanted]
    return min(enough) if enough else max(found, default=None)


def _in_parts(tv: TensorView, x: TensorView, parts: int) -> TensorView:
    dim, reverse = scanned_dim(tv), tv.expr.attr("reverse")
    shape = (*tv.shape[:dim], parts, tv.shape[dim] // parts, *tv.shape[dim + 1 :])
    pieces = reshaped(widened(tv, x), shape)
    before = _moved(_scan(tv, call("sum", pieces, dims=(dim + 1,)), dim), dim, reverse is True)
    first = _first_of(pieces, before, dim + 1, reverse is True)
    return reduced(tv, reshaped(_scan(tv, first, dim + 1), tv.shape))


def _first_of(x: TensorView, before: TensorView, dim: int, reverse: bool) -> TensorView:
    """`x` with `before` added to the first element along `dim`, of a reverse sum to the last."""
    shape = constants(x.shape)
    zero, one = sc.constant(0), sc.constant(1)
    place = call("iota", zero, one, length=shape[dim : dim + 1], dtype=DataType.Int)
    at = call("broadcast_in_dim", place, shape=shape, broadcast_dims=(dim,))
    is_first = call("eq", at, sc.constant(x.shape[dim] - 1 if reverse else 0))
    axes = tuple(k for k in range(x.ndim) if k != dim)
    spread = call("broadcast_in_dim", before, shape=shape, broadcast_dims=axes)
    return call("where", is_first, call("add", spread, x), x)


def _scan(tv: TensorView, x: TensorView, dim: int) -> TensorView:
    attrs = {"dim": dim, "reverse": tv.expr.attr("reverse")}
    return produce(tv.expr.op, [x], attrs)


def _moved(tv: TensorView, dim: int, reverse: bool) -> TensorView:
    """The element before, or behind, each along `dim`; 0 where there is none."""
    extent = tv.shape[dim]
    kept = part(tv, dim, 1, extent) if reverse else part(tv, dim, 0, extent - 1)
    inner = [0, 0] * (tv.ndim - 1 - dim)
    widths = [*inner, *((0, 1) if reverse else (1, 0))]
    return call("pad", kept, sc.constant(0), pad_widths=constants(widths))

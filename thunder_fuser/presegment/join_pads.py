"""Join what is added side by side: a sum of pieces, each with zeros where the other one lies.

    T2 = pad(T0, 0.0, [0, 53]);  T3 = pad(T1, 0.0, [3, 0]);  T4 = add(T2, T3)     of i3 and i53
        =>   T4 = cat(T0, T1)

The gradient of a roll is such a sum. Each element is one piece's: one select, or none where a load
does for both, in place of two and an addition. A zero keeps its sign.
"""

from __future__ import annotations

from thunder_fuser.dtypes import promote
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import Expr, TensorView, Value, is_zero
from thunder_fuser.ops import OpDef


def join_pads(fusion: Fusion) -> Fusion:
    """`fusion` with such sums as what they join."""
    return rewrite(fusion, _rule)


def _rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    match tv.definition, inputs:
        case Expr(OpDef(name="add")), (TensorView() as left, TensorView() as right):
            joined = _joined(_behind_cast(left), _behind_cast(right))
            return None if joined is None else call("cast", joined, dtype=tv.dtype)
    return None


def _behind_cast(tv: TensorView) -> TensorView:
    """What a float was widened from."""
    match tv.definition:
        case Expr(OpDef(name="cast"), (TensorView() as source,)) if (
            source.dtype.is_floating and promote(source.dtype, tv.dtype) is tv.dtype
        ):
            return source
    return tv


def _joined(left: TensorView, right: TensorView) -> TensorView | None:
    """What two pads are that share out their elements."""
    match left.definition, right.definition:
        case Expr(OpDef(name="pad"), (TensorView() as a, _)), Expr(
            OpDef(name="pad"), (TensorView() as b, _)
        ) if a.dtype is b.dtype and left.shape == right.shape:
            for dim, size in enumerate(left.shape):
                if a.shape[dim] + b.shape[dim] != size:
                    continue
                if _lies(left, dim, 0) and _lies(right, dim, a.shape[dim]):
                    return call("cat", a, b, dim=dim)
                if _lies(right, dim, 0) and _lies(left, dim, b.shape[dim]):
                    return call("cat", b, a, dim=dim)
    return None


def _lies(padded: TensorView, dim: int, start: int) -> bool:
    """True where all that is padded lies from there on along a dim, and the rest is 0."""
    fill, given = padded.expr.inputs[1], padded.expr.attr("pad_widths")
    assert isinstance(given, tuple)
    widths = [*given, *[_ZERO] * (2 * padded.ndim - len(given))]  # pairs, the last dim first
    place = 2 * (padded.ndim - 1 - dim)
    is_whole = all(width == _ZERO for width in (*widths[:place], *widths[place + 2 :]))
    return is_whole and widths[place] == sc.constant(start) and is_zero(fill)


_ZERO = sc.constant(0)

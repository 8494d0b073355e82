"""Read what an earlier segment stored in 16 bits, rather than compute it again from more.

    segment 0: T12 = mul(T3, T11); T13 = cast(T12, dtype=bf16)      stores T13, a result
    segment 1: T14 = cast(sum(T12, dims=[0]), dtype=bf16)           reads what T12 is made of
        =>   T14 = cast(sum(cast(T13, dtype=f32), dims=[0]), dtype=bf16)

The gradient of a bias of attention scores is the sum, over all images, of the gradient of these,
which reads two planes of rows that are reduced along themselves. What is stored is one. The terms
are rounded before they are added then, as what travels between segments is, and as eager's are. Of
what a result of more bits is made nothing is read so: eager has all bits of that. Nor is what is
compared, which another kernel may find of the exact value, or what a function is taken of.
"""

from __future__ import annotations

from collections.abc import Iterator

from thunder_fuser.analysis.precision import compared, told_apart
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import again, call
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.rewrite import lying_like, rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.ops import Family
from thunder_fuser.segment.carry import bytes_of
from thunder_fuser.segment.segment import Segment
from thunder_fuser.segment.segmented import SegmentedFusion

_FACTORS = frozenset({"cast", "mul", "neg", "div", "truediv"})
_TERMS = frozenset({"add", "sub"})


def reading_results(segmented: SegmentedFusion) -> Fusion:
    """The fusion of `segmented` with such values read; itself where none is, or where something is
    written in place. Whether that moves less is to be seen."""
    fusion = segmented.fusion
    if fusion.writes:
        return fusion
    exact, sides = _exact_values(fusion), compared(fusion) | told_apart(fusion)
    found = {
        (tv, of): result
        for (tv, of), result in _readers(segmented)
        if tv not in exact and of not in sides and _keeps_errors_small(fusion, tv)
    }
    results = set(found.values())
    made = dict[TensorView, TensorView]()

    def narrow(result: TensorView, exact: Value) -> TensorView:
        """One and the same for who stores it and all who read it."""
        if result not in made:
            made[result] = lying_like(result, again(result.expr, [exact]))
        return made[result]

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        if tv in results:
            return narrow(tv, inputs[0])
        read = [found.get((tv, of)) for of in tv.expr.inputs]
        if not any(read):
            return None
        pairs = zip(read, inputs, strict=True)
        given = [x if r is None else _widened(narrow(r, x)) for r, x in pairs]
        return lying_like(tv, again(tv.expr, given))

    return rewrite(fusion, rule) if found else fusion


def _keeps_errors_small(fusion: Fusion, tv: TensorView) -> bool:
    """True for what goes on to sums and results with factors and other tensors added alone: an
    error of a rounding stays as small beside it, which a function, or a number close to it, may
    make large."""
    todo, seen = [tv], set[TensorView]()
    while todo:
        made = todo.pop()
        if made in seen or made.is_of("sum"):
            continue
        seen.add(made)
        are_tensors = len(made.producers) == len(made.expr.inputs)
        is_linear = made.expr.op.name in _FACTORS or (are_tensors and made.expr.op.name in _TERMS)
        if not (made.family is Family.VIEW or is_linear):
            return False
        todo += fusion.uses[made]
    return True


def bytes_read(segmented: SegmentedFusion) -> int:
    """By all segments."""
    return sum(bytes_of(tv) for segment in segmented.segments for tv in segment.inputs)


def _widened(result: TensorView) -> TensorView:
    return call("cast", result, dtype=DataType.Float)


def _readers(
    segmented: SegmentedFusion,
) -> Iterator[tuple[tuple[TensorView, Value], TensorView]]:
    """What a later segment makes of a value that it computes again, and that value; and the result
    that an earlier segment stores of it."""
    stored = dict[TensorView, TensorView]()  # by the exact value
    made = set[TensorView]()  # by earlier segments
    for segment in segmented.segments:
        if not segment.is_opaque:
            for tv in _computed(segment):
                if tv not in made:
                    yield from (((tv, v), stored[v]) for v in tv.producers if v in stored)
            made |= {*_computed(segment)}
        for store in segment.stores:
            if (exact := _exact(store.value)) is not None:
                stored[exact] = store.value


def _exact_values(fusion: Fusion) -> set[TensorView]:
    """What results are made of without a rounding to 16 bits."""
    rounded = {tv for tv in fusion.tensors if tv.dtype.is_reduced_precision}
    return {*topological((tv for tv in fusion.outputs if tv not in rounded), rounded)}


def _computed(segment: Segment) -> list[TensorView]:
    return [tv for tv in segment.tensors if tv not in segment.leaves]


def _exact(result: TensorView) -> TensorView | None:
    """What a stored value of 16 bits is rounded from; None for another."""
    if not (result.is_of("cast") and result.dtype.is_reduced_precision):
        return None
    (exact,) = result.producers
    return exact if exact.dtype is DataType.Float else None

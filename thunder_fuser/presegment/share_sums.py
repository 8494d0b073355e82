"""Sum once what sums over different dims of one plane have in common.

    T1 = sum(mul(w, mul(T0, x)), dims=[1, 2]);  T2 = sum(mul(rstd, mul(T0, x)), dims=[0, 2])
        =>   T3: f32[i64, i256, r4096] = sum(mul(T0, x), dims=[2])
             T1 = sum(mul(w, T3), dims=[1]);  T2 = sum(mul(rstd, T3), dims=[0])

A group norm's gradients are such sums: of its groups, over some channels each, and of its weights,
over images. In kernels of their own they would read the planes again, and those of groups keep rows
as long as a group until these are summed. What each channel of an image comes to is one pass over
the planes, whatever it is multiplied by behind that, and the gradient of the input a second one.
Where something larger depends on a sum, it is stored first, unless a block or a cluster of them has
all rows that are summed (`analysis/met_rows.py`): their sums meet in it, and the gradient of the
input is stored in the same pass.

    T1 = sum(T3: f32[i64, i32, i8], dims=[2])  =>  T1 = sum(T3, dims=[2], met=8)

The gradient of a batch norm has four sums over the same dims, which are two without their factors:

    T1 = sum(x);  T2 = sum(mul(w, x))  =>  T1 = sum(x);  T2 = mul(w, T1)

So has that of one whose channels are summed place by place (`sum_places.py`).

Only of f32 and f64, since nothing is rounded there that was not before. Where a factor that was
drawn out is infinite, and terms have both signs, the sum is infinite instead of NaN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

from thunder_fuser.analysis.access import demand
from thunder_fuser.analysis.digits import atom
from thunder_fuser.analysis.met_rows import MAX_MET, MAX_MET_APART, WIDTH, met_rows_held, vector_of
from thunder_fuser.analysis.reductions import (
    MAX_SHORT_REDUCTION,
    MET,
    inputs_of_size,
    is_long,
    terms_of,
    walked_rows,
)
from thunder_fuser.analysis.shared_rows import Test
from thunder_fuser.analysis.walked_rows import is_busy
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion, following, topological
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import Expr, TensorView, Value
from thunder_fuser.ops import Family
from thunder_fuser.presegment.stages import box, expanded, reshaped
from thunder_fuser.target import Target

MIN_TERMS = 4 * MAX_SHORT_REDUCTION  # of what they have in common, whose sums are read again, where
# they do not meet
MIN_PLANE = 32 * 1024  # elements per multiprocessor: of fewer, one more launch takes longer than
# reading them again from the cache

_Order = tuple[int, ...]  # of a permutation's dims


@dataclass(frozen=True)
class _Plane:
    """The dims of a plane that several sums reduce, and which of them all of these do: where these
    `are_alike` they reduce no others."""

    sizes: tuple[int, ...]
    common: frozenset[int]
    are_alike: bool

    @property
    def kept(self) -> tuple[int, ...]:
        return tuple(k for k in range(len(self.sizes)) if k not in self.common)

    @property
    def rows(self) -> tuple[int, ...]:
        """The shape of the sums over what is common."""
        return tuple(self.sizes[k] for k in self.kept)

    @property
    def columns(self) -> int:
        """Elements of each of them."""
        return prod(self.sizes[k] for k in self.common)

    def met(self, dims: frozenset[int]) -> int | None:
        """How many rows one sum over `dims` has; None where they are not neighbours."""
        summed = [k in dims for k in self.kept if self.sizes[k] != 1]
        return prod(self.sizes[k] for k in dims - self.common) if summed == sorted(summed) else None


def share_sums(fusion: Fusion, target: Target, is_by_places: Test) -> Fusion:
    """`fusion` with such sums in two stages, of planes with a row for each multiprocessor. Those
    that sum the same dims are summed without factors where these are fewer, or all of them are
    `is_by_places`, and stored where these are summed."""
    planes = _planes(fusion, target, is_by_places)
    apart = {tv for tv in _spread(fusion, planes) if not planes[tv].are_alike}
    meeting = _meeting(fusion, {tv: planes[tv] for tv in apart}, target)
    met = {planes[tv] for tv in meeting}
    planes = {tv: p for tv, p in planes.items() if p in met or _is_wide(p) or p.are_alike}
    apart = apart.intersection(planes) - meeting.keys()
    products = _Products()
    for tv in _needed_beside(fusion, planes):
        products.note(tv)

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        plane = planes.get(tv)
        if plane is None:
            return None
        (terms,) = inputs
        assert isinstance(terms, TensorView)
        made = _in_stages(tv, terms, plane, products, meeting.get(tv, 1))
        return call("segment_set", made) if tv in apart else made

    return rewrite(fusion, rule)


def _spread(fusion: Fusion, sums: Container[TensorView]) -> set[TensorView]:
    """Those of `sums` that something larger depends on: each element of that would sum parts."""
    depends: dict[TensorView, frozenset[TensorView]] = {}
    found = set[TensorView]()
    for tv in fusion.tensors:
        above = frozenset[TensorView]().union(*(depends[t] for t in tv.producers))
        found |= {total for total in above if prod(tv.shape) > prod(total.shape)}
        depends[tv] = above | {tv} if tv in sums else above
    return found


def _planes(fusion: Fusion, target: Target, is_by_places: Test) -> dict[TensorView, _Plane]:
    """The sums that share what they reduce with others that read the same in the same order."""
    groups: dict[tuple[TensorView, frozenset[_Order], int, DataType], list[TensorView]] = {}
    for tv in filter(_is_sum, fusion.tensors):
        count = prod(_operand_shape(tv))
        planes = [t for t in topological([tv]) if prod(t.shape) == count]
        turns = frozenset(t.expr.dims() for t in planes if _is_turned(t))
        for source in planes:
            if source.definition is None:
                groups.setdefault((source, turns, count, tv.dtype), []).append(tv)
    found: dict[TensorView, _Plane] = {}
    for (_, _, count, _), sums in groups.items():
        plane = _shared(sums)
        if plane is None or count < MIN_PLANE * target.multiprocessors:
            continue
        is_whole = all(map(is_by_places, sums)) or _are_fewer(sums, plane)
        if is_whole if plane.are_alike else prod(plane.rows) >= target.multiprocessors:
            found |= {tv: plane for tv in sums if tv not in found}
    return found


def _is_turned(tv: TensorView) -> bool:
    """True for a permutation of more than what is repeated."""
    return tv.is_of("permute") and not any(a.is_broadcast and a.size != 1 for a in tv.logical)


def _are_fewer(sums: Sequence[TensorView], plane: _Plane) -> bool:
    """True where some of the sums are the same without the factors that are drawn out of them."""
    products = _Products()
    kept = {products.ordered(_parted(terms_of(tv), plane)[1]) for tv in sums}
    return len(kept) < len(sums)


def _is_wide(plane: _Plane) -> bool:
    """True where what the sums have in common is worth a pass of its own."""
    return plane.columns >= MIN_TERMS


def _needed_beside(fusion: Fusion, planes: Mapping[TensorView, _Plane]) -> Iterable[TensorView]:
    """Products of elements of the planes, of memory alone, that results need beside the sums."""
    sizes = {prod(plane.sizes) for plane in planes.values()}
    late = following(planes, fusion.tensors)
    for tv in topological(fusion.roots, planes.keys()):
        is_exact = tv.dtype.is_floating and not tv.dtype.is_reduced_precision
        if tv.is_of("mul") and is_exact and tv not in late and prod(tv.shape) in sizes:
            yield tv


def _meeting(
    fusion: Fusion,
    planes: Mapping[TensorView, _Plane],
    target: Target,
) -> dict[TensorView, int]:
    """The sums of rows that meet in a block, and how many rows do: all those of a plane, or none,
    as one that is stored first is known to a kernel behind it alone."""
    found: dict[TensorView, int] = {}
    for plane in set(planes.values()):
        sums = [tv for tv, other in planes.items() if other == plane]
        counts = {plane.met(_reduced(tv, plane.sizes)) for tv in sums}
        count = counts.pop()
        if count and not counts and _do_meet(fusion, plane, count, target):
            found |= dict.fromkeys(sums, count)
    return found


def _do_meet(fusion: Fusion, plane: _Plane, count: int, target: Target) -> bool:
    """True where each block, or each cluster, has so many rows of the plane, and they keep the
    machine busy."""
    sizes = [tv.dtype.itemsize for tv in inputs_of_size(fusion, prod(plane.sizes))]
    lanes, registers = vector_of(plane.columns, sizes)
    vectors, groups = plane.columns // lanes, prod(plane.rows) // count
    is_whole = lanes == vector_of(WIDTH, sizes)[0]  # odd rows have other vectors when they are met
    held = met_rows_held(count, vectors, lanes, registers, target.max_cluster if is_whole else 1)
    if held is None or plane.columns <= MAX_SHORT_REDUCTION:
        return False
    most = MAX_MET if held.cluster <= 2 else MAX_MET_APART
    return count <= most and is_busy(groups * held.cluster, target.multiprocessors)


def _shared(sums: Sequence[TensorView]) -> _Plane | None:
    """The plane of several sums, in dims that are dims or parts of dims of each; None for those
    that have no dims in common."""
    sizes = _refined([_operand_shape(tv) for tv in sums])
    if sizes is None:
        return None
    reduced = {_reduced(tv, sizes) for tv in sums}
    common = frozenset.intersection(*reduced)
    return _Plane(sizes, common, len(reduced) == 1) if common and len(sums) > 1 else None


def _refined(shapes: Iterable[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The sizes, outermost first, whose products are the sizes of all of the shapes."""
    ends = sorted({prod(shape[k:]) for shape in shapes for k in range(len(shape) + 1)})
    if any(outer % inner for inner, outer in pairwise(ends)):
        return None
    return tuple(outer // inner for inner, outer in pairwise(ends))[::-1]


def _reduced(tv: TensorView, sizes: tuple[int, ...]) -> frozenset[int]:
    """Which of the refined dims `tv` reduces."""
    ends = [prod(sizes[k + 1 :]) for k in range(len(sizes))]
    shape, axes = _operand_shape(tv), tv.domain.logical
    found = set[int]()
    for k, axis in enumerate(axes):
        if axis.is_reduction:
            inner = prod(shape[k + 1 :])
            found |= {n for n, end in enumerate(ends) if inner <= end < inner * shape[k]}
    return frozenset(found)


def _operand_shape(tv: TensorView) -> tuple[int, ...]:
    return tuple(axis.size for axis in tv.domain.logical)


def _is_sum(tv: TensorView) -> bool:
    """True for a long sum of what is not rounded on the way."""
    if not tv.is_of("sum") or not is_long(tv):
        return False
    (terms,) = tv.producers
    is_exact = tv.dtype.is_floating and not tv.dtype.is_reduced_precision
    return is_exact and terms.dtype is tv.dtype and walked_rows(tv) is None


@dataclass
class _Products:
    """The sums of products over common dims that were made so far, and their factors: those that
    are computed alike, as are several casts of a gradient, are one."""

    made: dict[tuple[object, ...], TensorView] = field(default_factory=dict)
    known: dict[object, TensorView] = field(default_factory=dict)
    order: dict[TensorView, int] = field(default_factory=dict)
    needed: dict[tuple[TensorView, ...], TensorView] = field(default_factory=dict)

    def note(self, tv: TensorView) -> None:
        """A product that is needed beside the sums, which take it as it is."""
        factors, is_negative = factors_of(tv)
        if len(factors) > 1 and not is_negative:
            self.needed.setdefault(self.ordered(factors), tv)

    def summed(self, factors: Sequence[TensorView], plane: _Plane) -> TensorView:
        """The sum of the product of `factors`, in any order."""
        ordered = self.ordered(factors)
        key = (*ordered, plane)
        if key not in self.made:
            product, *others = (reshaped(factor, plane.sizes) for factor in self._grouped(ordered))
            for other in others:
                product = call("mul", product, other)
            self.made[key] = call("sum", product, dims=tuple(sorted(plane.common)))
        return self.made[key]

    def _grouped(self, ordered: tuple[TensorView, ...]) -> tuple[TensorView, ...]:
        """The factors, as many of them as can as one product that is needed anyway."""
        found = (f for f in self.needed if set(f) <= set(ordered) and len(set(f)) == len(f))
        most = max(found, key=len, default=None)
        if most is None:
            return ordered
        return self.needed[most], *(Counter(ordered) - Counter(most)).elements()

    def ordered(self, factors: Sequence[TensorView]) -> tuple[TensorView, ...]:
        return tuple(sorted(map(self._first, factors), key=self._number))

    def _first(self, factor: TensorView) -> TensorView:
        """The first factor that is computed like this one."""
        expr = factor.definition
        if expr is None or expr.op.family is not Family.POINTWISE:
            return factor
        return self.known.setdefault((expr.op.name, expr.inputs, expr.attrs, factor.dtype), factor)

    def _number(self, factor: TensorView) -> int:
        return self.order.setdefault(factor, len(self.order))


def _in_stages(
    tv: TensorView, terms: TensorView, plane: _Plane, products: _Products, met: int
) -> TensorView:
    """`tv` as a sum over what is common, times what was drawn out of it, summed over the rest, of
    which so many are `met`."""
    drawn, kept, is_negative = _parted(terms, plane)
    made = products.summed(kept, plane)
    for factor in drawn:
        made = call("mul", made, _of_rows(factor, plane))
    others = _reduced(tv, plane.sizes) - plane.common
    if others:
        dims = tuple(k for k, dim in enumerate(plane.kept) if dim in others)
        marks = {MET: met} if met > 1 else {}
        made = call("sum", made, dims=dims, **marks)
    made = call("neg", made) if is_negative else made
    return reshaped(made, tv.shape)


def _parted(terms: TensorView, plane: _Plane) -> tuple[list[TensorView], list[TensorView], bool]:
    """The factors that are drawn out of a sum over what is common, and those that are summed, one
    of them at least; whether the sum is to be negated."""
    factors, is_negative = factors_of(terms)
    drawn = [f for f in factors if _is_of_rows(f, plane)]
    kept = [f for f in factors if f not in drawn]
    return (drawn, kept, is_negative) if kept else (drawn[1:], drawn[:1], is_negative)


def factors_of(terms: TensorView) -> tuple[list[TensorView], bool]:
    """What the terms are the product of, and whether that is to be negated; reshapes between them
    are left out."""
    dtype, found, stack, is_negative = terms.dtype, list[TensorView](), [terms], False
    while stack:
        tv = stack.pop()
        match tv.definition:
            case Expr(op=row, inputs=(TensorView() as x, *_)) if row.name == "reshape":
                stack.append(x)
            case Expr(op=row, inputs=(TensorView() as x,)) if row.name == "neg":
                is_negative = not is_negative
                stack.append(x)
            case Expr(op=row, inputs=(TensorView() as a, TensorView() as b)) if (
                row.name == "mul" and a.dtype is b.dtype is dtype
            ):
                stack += [expanded(b, tv.shape), expanded(a, tv.shape)]  # as they are read
            case _:
                found.append(tv)
    return found, is_negative


def _is_of_rows(factor: TensorView, plane: _Plane) -> bool:
    """True for what is the same wherever the common dims are."""
    whole = reshaped(factor, plane.sizes)
    varying = {whole.logical[k] for k in plane.common}
    index = tuple(map(atom, whole.logical))
    leaves = demand([(whole, index)], _Sources()).leaves
    return all(form.bases.isdisjoint(varying) for _, place in leaves for form in place)


class _Sources:
    """What is computed by more than arithmetic of elements and views, or not at all."""

    def __contains__(self, tv: object) -> bool:
        assert isinstance(tv, TensorView)
        return tv.family not in (Family.POINTWISE, Family.VIEW, Family.FULL)


def _of_rows(factor: TensorView, plane: _Plane) -> TensorView:
    """A factor that is the same wherever the common dims are, where these are 0."""
    whole = reshaped(factor, plane.sizes)
    ends = [1 if k in plane.common else size for k, size in enumerate(plane.sizes)]
    return reshaped(box(whole, [0] * len(ends), ends), plane.rows)

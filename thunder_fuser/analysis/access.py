"""Demand: which elements of which tensors a set of results needs, as digit forms.

Starting from results at given indices, every producer's demanded indices are collected walking
consumers before producers, so each (tensor, index) pair is met once and depth is no limit. Pads and
cats are decided where their window is inside or outside for every value of the axes; where it
depends on an axis, the window is reported and both sides are demanded, each with what is then known
of the axes (`known.py`). A gather demands its producer at the index that an element of its other
operand holds, and that element.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from itertools import product
from typing import TypeAlias

from thunder_fuser.analysis.digits import Form, Loaded, atom, loads_in
from thunder_fuser.analysis.index_map import Edge, Window, edges_from, gathered_dim
from thunder_fuser.analysis.known import ANYWHERE, Known, bounds, either, narrowed, settled
from thunder_fuser.analysis.reductions import is_long
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.ir.fusion import topological
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Family

Index: TypeAlias = tuple[Form, ...]
Element: TypeAlias = tuple[TensorView, Index]  # of one of its elements

ELEMENTS = 4096  # that are remembered: what one result needs, most others of a kernel need too


def forget() -> None:
    """Let go of them, and of the fusions whose elements they are."""
    _anywhere.cache_clear()


class Side(Enum):
    INSIDE = "inside"
    OUTSIDE = "outside"
    DEPENDS = "depends"


@dataclass(frozen=True)
class Source:
    """Where a value comes from: one producer element, under windows that depend on axes, and what
    is `known` of axes where it is used."""

    producer: TensorView
    index: Index
    windows: tuple[Window, ...] = ()
    known: Known = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Made:
    """One tensor at one index. `sources` are in the order of the expression's tensor inputs; of a
    reduction, all terms in order; of a pad outside its window, none; of a gather, the element of
    its producer at the index that `place` holds."""

    tensor: TensorView
    index: Index
    sources: tuple[Source, ...]
    place: Loaded | None = None


@dataclass
class Demand:
    """Elements by (tensor, index), each after those that it needs; leaves have no sources, but what
    is known of axes wherever one is used."""

    elements: dict[Element, Made] = field(default_factory=dict)
    leaves: dict[Element, Known] = field(default_factory=dict)

    def windows(self) -> Iterable[Window]:
        """Every window that is neither always inside nor always outside."""
        for element in self.elements.values():
            for source in element.sources:
                yield from source.windows

    @property
    def places(self) -> tuple[Loaded, ...]:
        """The loaded indices of its gathers, each after those that its own index needs."""
        found = (e.place for e in reversed(self.elements.values()) if e.place is not None)
        every = dict.fromkeys(found)
        return tuple(sorted(every, key=_nesting))

    @property
    def places_read(self) -> frozenset[Loaded]:
        """Those at which leaves are read: a gather of numbers only checks its index."""
        return frozenset(place for _, index in self.leaves for place in loads_in(index))


def _nesting(place: Loaded) -> int:
    return 1 + max(map(_nesting, loads_in(place.index)), default=0)


def _never(place: Loaded) -> bool:
    return False


def demand(
    results: Iterable[Element],
    leaves: Container[TensorView],
    is_apart: Callable[[Loaded], bool] = _never,
) -> Demand:
    """Everything that `results` need, down to `leaves`, which are read from memory. What makes a
    loaded index that `is_apart` is left out."""
    wanted: dict[TensorView, dict[Index, Known]] = {}

    def want(tv: TensorView, index: Index, known: Known) -> None:
        others = wanted.setdefault(tv, {})
        others[index] = either(others[index], known) if index in others else known

    for tv, index in results:
        want(tv, index, ANYWHERE)
    order = tuple(topological(wanted, leaves))
    made: list[Made] = []
    found = Demand()
    for tv in reversed(order):
        for index, known in wanted.get(tv, {}).items():
            if tv in leaves:
                found.leaves[tv, index] = known
                continue
            element = _element(tv, index, known)
            made.append(element)
            for source in element.sources:
                want(source.producer, source.index, source.known)
            if (place := element.place) is not None and not is_apart(place):
                want(place.tensor, place.index, ANYWHERE)  # it is checked wherever threads are
    found.elements = {(e.tensor, e.index): e for e in reversed(made)}
    if any(e.place is not None for e in made):
        found.elements = _ordered(found.elements)
    return found


def reads_in_place(
    tv: TensorView, x: TensorView, reduced: TensorView, dims: tuple[int, ...]
) -> bool:
    """True where each element of `tv` reads that of `x`, and what it was `reduced` to over `dims`
    at its own place."""
    index = tuple(map(atom, tv.logical))
    kept = tuple(form for k, form in enumerate(index) if k not in dims)
    return set(demand([(tv, index)], {x, reduced}).leaves) == {(x, index), (reduced, kept)}


def _element(tv: TensorView, index: Index, known: Known) -> Made:
    return _anywhere(tv, index) if not known else _made(tv, index, known)


@lru_cache(maxsize=ELEMENTS)
def _anywhere(tv: TensorView, index: Index) -> Made:
    return _made(tv, index, ANYWHERE)


def _made(tv: TensorView, index: Index, known: Known) -> Made:
    assert tv.definition is not None, "a tensor without definition must be a leaf"
    if tv.definition.op.family is not Family.GATHER:
        return Made(tv, index, _sources(tv, index, known))
    x, places = edges_from(tv, dict(zip(tv.logical, index, strict=True)))
    place = Loaded(places.producer, places.index, x.producer.shape[gathered_dim(tv)])
    return Made(tv, index, (_plain(x, known),), place)


Elements: TypeAlias = dict[Element, Made]


def _ordered(elements: Elements) -> Elements:
    """Each element after those it needs: what is read at a loaded index needs the tensor that holds
    it, which comes later in the fusion perhaps. Iterative, as depth is no limit."""
    found: Elements = {}
    for start in elements:
        stack = [start]
        while stack:
            key = stack[-1]
            waiting = [k for k in _needed_by(elements[key]) if k in elements and k not in found]
            if key in found or not waiting:
                found[key] = elements[stack.pop()]
            else:
                stack += reversed(waiting)
    return found


def _needed_by(element: Made) -> Iterable[Element]:
    for source in element.sources:
        yield source.producer, source.index
    places = [*loads_in(element.index), *([element.place] if element.place else [])]
    while places:  # that of a leaf is no element, but there may be one that its own index needs
        place = places.pop()
        yield place.tensor, place.index
        places += loads_in(place.index)


def _sources(tv: TensorView, index: Index, known: Known) -> tuple[Source, ...]:
    expr = tv.definition
    assert expr is not None, "a tensor without definition must be a leaf"
    if expr.op.family is Family.REDUCTION:
        assert not is_long(tv), "a reduction of so many terms must be a leaf"
        return tuple(_plain(edge, known) for edge in reduced_edges(tv, index))
    values = dict(zip(tv.logical, index, strict=True))
    found = edges_from(tv, values)
    if expr.op.family is Family.PAD:
        return tuple(s for edge in found if (s := _in_window(edge, known)) is not None)
    if expr.op.family is Family.CAT:
        inside = [s for edge in found if (s := _in_window(edge, known)) is not None]
        certain = [s for s in inside if not s.windows]
        return tuple(certain[:1] or inside)
    # what is checked is wherever threads are
    return tuple(_plain(edge, ANYWHERE if expr.op.checks else known) for edge in found)


def reduced_edges(tv: TensorView, index: Index) -> list[Edge]:
    """The edges to every term of a reduction, the last reduced axis varying fastest."""
    reduced = [a for a in tv.domain.logical if a.is_reduction]
    kept = dict(zip(tv.logical, index, strict=True))
    terms: list[Edge] = []
    for point in product(*(range(a.size) for a in reduced)):
        values: dict[IterDomain, Form] = {
            **kept,
            **{a: Form(k) for a, k in zip(reduced, point, strict=True)},
        }
        terms += edges_from(tv, values)
    return terms


def _plain(edge: Edge, known: Known) -> Source:
    return Source(edge.producer, edge.index, known=known)


def _in_window(edge: Edge, known: Known) -> Source | None:
    """The source, with the windows that depend on axes; None where one is never inside."""
    if 0 in edge.producer.shape:
        return None
    open_windows = []
    for window in edge.windows:
        match side(window, known):
            case Side.OUTSIDE:
                return None
            case Side.DEPENDS:
                open_windows.append(settled(window, known))
            case Side.INSIDE:
                pass
    if not open_windows:
        return _plain(edge, known)
    inside = narrowed(known, open_windows)
    if any(low > high for low, high in inside.values()):
        return None
    return Source(edge.producer, edge.index, tuple(open_windows), inside)


def side(window: Window, known: Known = ANYWHERE) -> Side:
    """Of all values where axes are as `known`."""
    low, high = bounds(window.form, known)
    if low >= 0 and high < window.extent:
        return Side.INSIDE
    return Side.OUTSIDE if high < 0 or low >= window.extent else Side.DEPENDS

"""What results need of their segment: what is in memory, and the reductions that a kernel makes.

A template says for each of its reductions at which index it has the result, and rejects segments
that read one elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from thunder_fuser.analysis.access import Demand, Element, Index, demand
from thunder_fuser.analysis.digits import Form, atom, combine, unflatten
from thunder_fuser.analysis.elementwise import is_elementwise
from thunder_fuser.analysis.layout import offset_of
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.segment.segment import Segment, Store


def needs_of(
    segment: Segment, reductions: Iterable[TensorView], results: Sequence[Element]
) -> Demand:
    """What `results` need down to memory, the reductions, and whatever else is long."""
    return demand(results, segment.leaves.union(segment.long, reductions))


def reductions_read(
    results: Iterable[Element], needs: Demand, own: Mapping[TensorView, Index]
) -> list[Element]:
    """Of `own` reductions those that results are or `needs`, and where they read them."""
    return [(tv, index) for tv, index in (*results, *needs.leaves) if tv in own]


def check_places(segment: Segment, reductions: Iterable[TensorView], needs: Demand) -> None:
    """Indices that tensors hold are loaded before the reductions are known. Raises Rejected."""
    ends = frozenset(reductions)
    for place in needs.places:
        found = needs_of(segment, ends, [(place.tensor, place.index)])
        if any(tv in ends for tv, _ in found.leaves):
            raise Rejected("an index is read from what a reduction makes")


def check_in_place(
    segment: Segment,
    read: Iterable[Element],
    stores: Sequence[tuple[Store, Index]],
    apart: Iterable[Store] = (),
) -> None:
    """An in-place target is read by the thread that writes it, at that element: `stores` are those
    of who has `read`, and what is stored `apart` may be written at any time. Raises Rejected."""
    layouts = segment.layouts
    targets = {s.target for s in (*(s for s, _ in stores), *apart) if s.is_in_place}
    written = {(s.target, offset_of(layouts[s.target], index)) for s, index in stores}
    for tv, index in read:
        if tv in targets and (tv, offset_of(layouts[tv], index)) not in written:
            raise Rejected("an in-place target is read by others than the thread that writes it")


def check_sums(
    what: str,
    segment: Segment,
    own: Mapping[TensorView, Index],
    read: Sequence[Element],
    stores: Sequence[tuple[Store, Index]],
) -> None:
    """Sums by an index, each of them `what`, are read where they are made, and by nothing that is
    `read` before. An in-place target is read only at the element that is being written. Raises
    Rejected."""
    needs = needs_of(segment, own, read)
    check_places(segment, own, needs)
    if reductions_read(read, needs, own):
        raise Rejected(f"{what} needs another one of the same segment")
    check_in_place(segment, needs.leaves, (), [s for s, _ in stores])
    results = [(s.value, i) for s, i in stores]
    needs = needs_of(segment, own, results)
    if any(at != own[tv] for tv, at in reductions_read(results, needs, own)):
        raise Rejected(f"{what} is read at another place than it belongs to")
    check_in_place(segment, needs.leaves, stores)


def place_beside(
    store: Store, shape: Sequence[int], row: IterDomain, column: Form, columns: int
) -> Index:
    """The element of a store that goes with one of sums of that shape, which lies in a `row` of so
    many columns: the same in row-major order. Raises Rejected."""
    sizes = store.value.shape
    if prod(sizes) != prod(shape):
        raise Rejected(f"a result of shape {list(sizes)} beside sums {list(shape)}")
    for cut in range(len(sizes) + 1):
        if prod(sizes[:cut]) == row.size:
            return (*unflatten(atom(row), sizes[:cut]), *unflatten(column, sizes[cut:]))
    return unflatten(combine(atom(row), column, columns), sizes)


def check_index(segment: Segment, index: TensorView) -> None:
    """An index that is put in order is in memory, or computed of what is wherever it is read.
    Raises Rejected."""
    if not is_elementwise(index, segment.leaves):
        raise Rejected("the index is not in memory")

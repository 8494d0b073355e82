"""Images that a block keeps as a whole, or a cluster of blocks each with some of its rows.

    T0[i, r, c]   512 channels r of 14 x 14 places c, 16 bits: rows of 392 bytes, images of 200 KB

The columns of an image are its places. A tile of a line of each row would read a sector or two more
of every row, in pieces that lie apart; all rows of an image are one run of memory, also where
they lie along its places, *turned*. What is stored of a plane may take the place of what is read of
one in shared memory, element by element.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from thunder_fuser.analysis.access import Element, Index, Made
from thunder_fuser.analysis.digits import Form, add, atom, divmod_form, scale
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Family
from thunder_fuser.schedule.column_axes import ColumnAxes
from thunder_fuser.schedule.needs import needs_of
from thunder_fuser.segment.segment import Segment, Store


def vectors_of_row(offsets: Sequence[Form], axes: ColumnAxes) -> int | None:
    """Vectors of a row of an image, where all these `offsets` lie in planes of images, row after
    row; else None."""
    if not offsets:
        return None
    steps = [weight for weight, digit in offsets[0].terms if digit.base is axes.row]
    size = axes.vector.size * axes.lanes
    if len(steps) != 1 or steps[0] < 1 or steps[0] % axes.lanes or size % steps[0]:
        return None
    vectors = steps[0] // axes.lanes
    image, place = divmod_form(atom(axes.vector), vectors)
    own = add(scale(place, axes.lanes), axes.inner)
    rows = add(scale(image, axes.row.size), atom(axes.row))
    lies = add(scale(rows, steps[0]), own)
    return vectors if all(offset == lies for offset in offsets) else None


def are_turned(offsets: Sequence[Form], axes: ColumnAxes) -> bool:
    """True where all these `offsets` lie in planes of images, place after place."""
    lies = add(scale(axes.column, axes.row.size), atom(axes.row))
    return all(offset == lies for offset in offsets)


@dataclass(frozen=True)
class SlotNeeds:
    """What images in slots ask of shared memory: bytes of an element of each plane that is read, or
    read `turned`, of all that is read of a row, and of what threads at rows know of a place. Where
    it `turns_out` what it stores, these store it."""

    itemsizes: tuple[int, ...]
    turned: tuple[int, ...]
    turns_out: bool
    of_row: int
    of_place: int


@dataclass(frozen=True)
class Moved:
    """What is read and stored of a plane: tensors and where, and those of them that are turned."""

    reads: Sequence[tuple[TensorView, Form]]
    writes: Sequence[tuple[TensorView, Form]]
    turned: Sequence[tuple[TensorView, Form]]

    @property
    def turns_out(self) -> bool:
        """True where something is stored turned."""
        return any(write in self.turned for write in self.writes)

    def vectors_of_row(self, axes: ColumnAxes) -> int | None:
        """Of images, if all of it is of such."""
        straight = [a[1] for a in (*self.reads, *self.writes) if a not in self.turned]
        if not are_turned([offset for _, offset in self.turned], axes):
            return None
        return vectors_of_row(straight, axes)


def slot_needs(
    segment: Segment,
    moved: Moved,
    stores: Sequence[tuple[Store, Index]],
    rows: int,
    known: Sequence[Element],
) -> SlotNeeds | None:
    """Where every plane that is stored finds the slot of one of its type that is read, unless one
    of them is turned, and all begin at whole accesses; else none. `known` is what there is one of
    per place."""
    layouts, turned = segment.layouts, set(moved.turned)
    made = {
        (store.value, store.target.dtype, index)
        for (store, index), write in zip(stores, moved.writes, strict=True)
        if write not in turned
    }
    straight, beside = (
        [tv for tv, offset in moved.reads if ((tv, offset) in turned) == way]
        for way in (False, True)
    )
    if Counter(dtype for _, dtype, _ in made) - Counter(tv.dtype for tv in straight):
        return None
    if any(layouts[tv].alignment < MAX_ALIGNMENT for tv, _ in (*moved.reads, *moved.writes)):
        return None
    of_row = sum(tv.dtype.itemsize for tv in segment.inputs if prod(tv.shape) == rows)
    types = Counter(tv.dtype.compute_type for tv, _ in known)
    of_place = sum(found.itemsize * moved_together(count) for found, count in types.items())
    sizes, others = (tuple(tv.dtype.itemsize for tv in tvs) for tvs in (straight, beside))
    return SlotNeeds(sizes, others, moved.turns_out, of_row, of_place)


def of_places(segment: Segment, results: Sequence[Element], row: IterDomain) -> list[Element]:
    """What `results` need that does not depend on the row, where one that does needs it or it is a
    result, of tensors that are read at one index."""
    needs = needs_of(segment, segment.long, results)
    every = (*needs.elements, *needs.leaves)
    indices = Counter(tv for tv, _ in every)
    alike = {key for key in every if not any(row in form.bases for form in key[1])}
    for key, element in needs.elements.items():  # those that it needs are before it
        if is_as_its_sources(element) and all(
            (s.producer, s.index) in alike for s in element.sources
        ):
            alike.add(key)
    free = {key for key in alike if indices[key[0]] == 1}
    read = dict.fromkeys(result for result in results if result in free)
    for key, element in needs.elements.items():
        if key not in free:
            sources = ((s.producer, s.index) for s in element.sources)
            read |= dict.fromkeys(source for source in sources if source in free)
    return list(read)


def is_as_its_sources(element: Made) -> bool:
    """True where nothing but these makes elements of one index others than those of another: for
    what is computed from values along rows, all of which are the same."""
    made = element.tensor.definition
    if made is None or made.op.family not in (Family.POINTWISE, Family.VIEW, Family.FULL):
        return False
    return not any(source.windows for source in element.sources)


def moved_together(values: int) -> int:
    """Places for so many values of a place, which are moved at a time if they are few."""
    return 1 << (values - 1).bit_length()

"""From elements to accesses: runs of neighbouring elements become vector loads and stores.

reads at 64 + lane and lane, 8 lanes            two runs of 8
reads at 2*lane and 2*lane + 1, 8 lanes         one run of 16, element 2*lane + delta
reads at 4 + lane and lane, 4 lanes             one run of 8, element lane + delta
reads at 64 + lane where vector < 8, else at    one run, at the offset of the threads that read it:
    lane - 64, 8 lanes                          the two halves that a rotary embedding swaps
reads at lane and lane + 1, 8 lanes             one run of 8, and element 8 behind it
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

from thunder_fuser.analysis.carries import carry_of, straight
from thunder_fuser.analysis.digits import Digit, Form, add, atom, scale, shift, substitute
from thunder_fuser.analysis.exclusive import exclude, one_at_most
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.analysis.layout import MAX_ALIGNMENT, Layout
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.lane_parts import in_parts
from thunder_fuser.kernel.neighbours import Split, near_vectors
from thunder_fuser.kernel.statements import (
    Assign,
    Carried,
    Expression,
    Guarded,
    LaneStatement,
    Operand,
    ReadElement,
    ReadVector,
    VectorAccess,
    WriteElement,
    WriteVector,
)
from thunder_fuser.schedule.flat_stores import MOST_PLACES

Address = tuple[TensorView, Form]  # of an element, by its offset

FEW = 8192  # elements of a tensor, up to which an L1 cache soon has those that lanes meet next; the
# gradient of a cross entropy, which reads new ones all the time, was a tenth slower
CARRIED = 2  # elements that are loaded for all lanes, of which there are more
MAX_RUN_BYTES = 64  # a longer run would hold too many registers in one value


@dataclass(frozen=True)
class Place:
    """Element `weight * lane + delta` of a vector."""

    vector: str
    weight: int
    delta: int


class Accesses:
    """The memory accesses of one body, gathered first and then grouped into runs. What is read at
    an offset that `is_kept` longer than what is computed is a vector too where its lanes lie
    apart: in a loop it is loaded once. One that `leaves_out` loads has vectors that are loaded by
    those threads only that use them. Where it `carries`, what lanes have one of up to the end of a
    row, and another behind it, such as a scale of channels of 49, is two elements if there are
    few. Where it `reaches`, a vector has elements beside it that lanes next to it read."""

    def __init__(
        self,
        layouts: Mapping[TensorView, Layout],
        lane: IterDomain | None,
        names: Mapping[TensorView, str],
        streams: bool | None,
        suffix: Callable[[TensorView, Form], str] = lambda tv, offset: "",
        is_kept: Callable[[Form], bool] = lambda offset: False,
        leaves_out: bool = False,
        carries: bool = False,
        reaches: bool = False,
    ) -> None:
        self.layouts, self.names, self.suffix = layouts, names, suffix
        self.lane, self.lanes = lane, 1 if lane is None else lane.size
        self.streams, self.is_kept, self.leaves_out = streams, is_kept, leaves_out
        self.carries, self.reaches = carries, reaches
        self.requests: dict[Address, tuple[Window, ...]] = {}
        self.differing: set[Address] = set()
        self.places: dict[Address, Place] = {}
        self.guards: Mapping[Address, tuple[Window, ...]] = {}  # of stores
        self.zeros: dict[Address, tuple[Window, ...]] = {}  # that are loaded where a guard fails

    @property
    def lane_index(self) -> str:
        """Where arrays of a value a lane have that of this one."""
        return "0" if self.lane is None else "lane"

    def is_of_lanes(self, digit: Digit) -> bool:
        """True for a digit that differs from lane to lane."""
        return self.lane in Form(0, ((1, digit),)).bases

    def is_vector(self, offset: Form, is_single: bool) -> bool:
        """True where one access has what lies there for all lanes. Of a tensor of which lanes read
        elements one by one, an element of all is one of these."""
        parts = self._split(offset)
        return parts is not None and not (is_single and parts.weight == 0)

    def request(self, tv: TensorView, offset: Form, guards: tuple[Window, ...]) -> None:
        """Ask for an element. One that somebody reads at every index needs no guard for others:
        along an expanded axis different indices share an offset."""
        key = tv, offset
        if self.requests.setdefault(key, guards) not in ((), guards):
            self.differing.add(key)
        if not guards:
            self.requests[key] = ()

    def group_loads(self) -> tuple[VectorAccess, ...]:
        """Vector loads for every request that can be part of one."""
        self.places = {}
        near = self._near()
        rest = [key for key in self.requests if key not in self.places]
        free = [key for key in rest if not self.requests[key]]
        left_out = [key for key in self.requests if self._is_left_out(key)]
        vectors = [*free, *(key for key in left_out if key in rest)]
        loads, places = self._group(vectors, "v", self.requests, len(near))
        loads, self.places = (*near, *loads), self.places | places
        plain = {load.name for load in loads if not load.others and load.lane is None}
        self.zeros = {
            (tv, offset): self.requests[tv, offset]
            for tv, offset in left_out
            if (place := self.places.get((tv, offset)))
            and place.vector.removesuffix(self.suffix(tv, offset)) in plain
        }
        for tv, offset in free:
            name = f"v{len(loads)}"
            if (tv, offset) in self.places:
                continue
            access = self._carried(tv, offset, name)
            if access is None and self.is_kept(offset):
                access = self._apart(tv, offset, name)
            if access is not None:
                loads += (access,)
                self.places[tv, offset] = Place(name + self.suffix(tv, offset), 1, 0)
        return loads + self._behind_windows(len(loads))

    def _near(self) -> tuple[VectorAccess, ...]:
        """The vectors of which lanes read elements beside them too."""
        if not self.reaches or self.lane is None:
            return ()
        wanted = ((*key, g) for key, g in self.requests.items() if key not in self.differing)
        made: list[VectorAccess] = []
        for near in near_vectors(wanted, self.lane, self._split, self._width):
            name = f"v{len(made)}"
            if near.is_single:
                access = self._apart(near.tv, add(near.offset, atom(self.lane)), name)
            else:
                access = self._access(near.tv, near.offset, 1, 0, name)
            element = access.name + self.suffix(near.tv, near.offset)
            self.places |= {(near.tv, o): Place(element, 1, d) for o, d in near.places.items()}
            beside = replace(access, before=near.before, behind=near.behind)
            made.append(replace(beside, guards=near.guards))
        return tuple(made)

    def _width(self, tv: TensorView, offset: Form, is_requested: bool) -> int:
        """Bytes of an access to a vector; 0 for one that is too long, or that nobody requests and
        that may lie outside of memory or is more than one access."""
        layout, size = self.layouts[tv], self.lanes * tv.dtype.itemsize
        width = access_bytes(layout, offset, self.lanes, tv.dtype.itemsize)
        low, high = offset.bounds
        lies_inside = low >= 0 and high + self.lanes <= layout.span
        is_one = lies_inside and width == min(size, MAX_ALIGNMENT)
        return width if size <= MAX_RUN_BYTES and (is_requested or is_one) else 0

    def _behind_windows(self, count: int) -> tuple[VectorAccess, ...]:
        """What some lanes read and others do not, if there are few such loads: each of all lanes at
        once, whatever they use of it, as loads behind branches would wait for each other. Of
        several elements of which a lane needs one at most, it loads that one."""
        left = {key: g for key, g in self.requests.items() if key not in self.places}
        parted = {key: guards for key, guards in left.items() if self._is_parted(key)}
        found, loads = one_at_most(parted), list[VectorAccess]()
        if len(found) > MOST_PLACES:
            return ()
        for alike in found:
            name = f"v{count + len(loads)}"
            tv, offset = alike[0]
            first, *others = (Guarded(offset, self.requests[tv, offset]) for tv, offset in alike)
            access = self._apart(tv, offset, name)
            access = replace(access, guards=first.guards, others=tuple(others))
            if self.lane is not None:
                access = in_parts(access, self.lane, self.layouts[tv].alignment)
            loads.append(access)
            self.places |= {key: Place(name + self.suffix(*key), 1, 0) for key in alike}
        return tuple(loads)

    def _is_parted(self, key: Address) -> bool:
        """True for a request whose guards differ from lane to lane, and are the same for all who
        read it."""
        guards = self.requests[key]
        differ = any(self.lane in window.form.bases for window in guards)
        return self.leaves_out and self.lane is not None and differ and key not in self.differing

    def _is_left_out(self, key: Address) -> bool:
        """True for a guarded request whose guards are the same in all lanes, whoever reads it."""
        guards = self.requests[key]
        is_uniform = all(self.lane not in window.form.bases for window in guards)
        return self.leaves_out and bool(guards) and is_uniform and key not in self.differing

    def read(self, tv: TensorView, offset: Form, guards: tuple[Window, ...]) -> Expression:
        """How one lane gets a requested element that it needs where `guards` hold."""
        place = self.places.get((tv, offset))
        if place is None:
            needed = guards if self.requests[tv, offset] else ()
            return ReadElement(self.names[tv], offset, tv.dtype, needed)
        return ReadVector(place.vector, place.weight, place.delta, tv.dtype)

    def group_stores(
        self, targets: Sequence[tuple[TensorView, Form, Operand]]
    ) -> tuple[list[LaneStatement], tuple[VectorAccess, ...]]:
        """Lane statements that write every target, and the vector stores after them."""
        alone = {(tv, o): w for tv, o, _ in targets if (w := self.beside(o))}
        joint = [(tv, offset) for tv, offset, _ in targets if (tv, offset) not in alone]
        vectors, places = self._group(joint, "w", self.guards)
        writes: list[LaneStatement] = []
        for tv, offset, value in targets:
            place = places.get((tv, offset))
            if place is None:
                tests = alone.get((tv, offset), ())
                writes.append(WriteElement(self.names[tv], offset, value, tv.dtype, tests))
            else:
                writes.append(WriteVector(place.vector, place.weight, place.delta, value, tv.dtype))
        vectors = tuple(replace(v, is_streaming=self.streams) for v in vectors)
        return _share_equal(list(dict.fromkeys(writes)), vectors)

    def beside(self, offset: Form) -> tuple[Window, ...]:
        """What tells which lanes have an element there, where not all do and a vector there has no
        window: they are stored one by one."""
        return ()

    def _group(
        self,
        keys: Iterable[Address],
        prefix: str,
        guards: Mapping[Address, tuple[Window, ...]],
        count: int = 0,
    ) -> tuple[tuple[VectorAccess, ...], dict[Address, Place]]:
        """Accesses that move every key that can be part of a run, and its place in them; behind so
        many others."""
        families: dict[
            tuple[TensorView, Form, int, tuple[Window, ...]], list[tuple[int, Form]]
        ] = {}
        for tv, offset in keys:
            parts = self._split(offset)
            if parts is not None:
                alike = (tv, parts.base, parts.weight, guards.get((tv, offset), ()))
                family = families.setdefault(alike, [])
                family.append((parts.constant, offset))
        made: dict[str, VectorAccess] = {}
        places: dict[Address, Place] = {}
        for (tv, base, weight, tests), members in families.items():
            for run in _runs(sorted(members, key=lambda m: m[0]), weight, self.lanes, tv):
                start, name = run[0][0], f"{prefix}{count + len(made)}"
                offset = Form(base.constant + start, base.terms)
                access = self._access(tv, offset, weight, run[-1][0] - start, name)
                access = replace(access, guards=tests)
                suffix = self.suffix(tv, offset) if prefix == "v" else ""
                if tests:
                    near = [m for m in made.values() if self.suffix(tv, m.offset) == suffix]
                    access = _choosing(near, access)
                made[access.name] = access
                element = access.name + suffix
                places |= {(tv, o): Place(element, weight, c - start) for c, o in run}
        return tuple(made.values()), places

    def _apart(self, tv: TensorView, offset: Form, name: str) -> VectorAccess:
        """The elements of all lanes, one by one."""
        itemsize, pointer = tv.dtype.itemsize, self.names[tv]
        return VectorAccess(name, pointer, offset, self.lanes, itemsize, tv.dtype, lane=self.lane)

    def _carried(self, tv: TensorView, offset: Form, name: str) -> VectorAccess | None:
        """The two elements that all lanes have, of few; None for others."""
        if not self.carries or self.lane is None or self.lanes <= CARRIED or prod(tv.shape) > FEW:
            return None
        carry, first = carry_of((offset,), self.lane), straight(offset, self.lane)
        if carry is None or carry.modulus < self.lanes or self.lane in first.bases:
            return None
        left = shift(scale(carry.place, -1), carry.modulus)
        carried = Carried(left, substitute(offset, {self.lane: Form(self.lanes - 1)}))
        access = self._apart(tv, first, name)
        return replace(access, lane=None, carried=carried)

    def _access(
        self, tv: TensorView, offset: Form, weight: int, reach: int, name: str
    ) -> VectorAccess:
        length = weight * (self.lanes - 1) + reach + 1
        width = access_bytes(self.layouts[tv], offset, length, tv.dtype.itemsize)
        return VectorAccess(name, self.names[tv], offset, length, width, tv.dtype, step=weight)

    def _split(self, offset: Form) -> Split | None:
        """None where the lane is inside a division or walks backward."""
        if self.lane is None or self.lane not in offset.bases:
            return Split(Form(0, offset.terms), 0, offset.constant)
        terms = [t for t in offset.terms if t[1].base is not self.lane]
        own = [t for t in offset.terms if t[1].base is self.lane]
        base = Form(0, tuple(terms))
        if self.lane in base.bases or len(own) != 1 or not own[0][1].is_whole or own[0][0] < 0:
            return None
        return Split(base, own[0][0], offset.constant)


def _choosing(made: Iterable[VectorAccess], access: VectorAccess) -> VectorAccess:
    """The load, or one of those `made` that reads as much elsewhere and does this too: no index
    needs both."""
    for other in made:
        is_alike = replace(access, name=other.name, offset=other.offset) == replace(
            other, guards=access.guards, others=()
        )
        if is_alike and all(exclude(c.guards, access.guards) for c in other.choices):
            return replace(other, others=(*other.others, Guarded(access.offset, access.guards)))
    return access


def loads_read_by(
    loads: Iterable[VectorAccess], statements: Iterable[LaneStatement]
) -> tuple[VectorAccess, ...]:
    """The vector loads that statements read from."""
    read = {
        s.value.vector
        for s in statements
        if isinstance(s, Assign) and isinstance(s.value, ReadVector)
    }
    return tuple(a for a in loads if a.name in read)


def _share_equal(
    writes: list[LaneStatement], vectors: tuple[VectorAccess, ...]
) -> tuple[list[LaneStatement], tuple[VectorAccess, ...]]:
    """One vector for stores of the same values: the replicas of an expanded axis."""
    contents: dict[str, list[LaneStatement]] = {}
    for write in writes:
        if isinstance(write, WriteVector):
            contents.setdefault(write.vector, []).append(replace(write, vector=""))
    first: dict[object, str] = {}
    names = {
        v.name: first.setdefault((v.dtype, v.length, tuple(contents[v.name])), v.name)
        for v in vectors
    }
    kept = [w for w in writes if not isinstance(w, WriteVector) or names[w.vector] == w.vector]
    return kept, tuple(replace(v, name=names[v.name]) for v in vectors)


def _runs(
    members: list[tuple[int, Form]], weight: int, lanes: int, tv: TensorView
) -> list[list[tuple[int, Form]]]:
    """Cut sorted constants into runs whose elements, over all lanes, are neighbours.

    A run over constants c is dense where {weight * lane + c} is an interval: the constants tile one
    stride (interleaved), or follow one another lane block by lane block (adjacent).
    """
    limit = max(MAX_RUN_BYTES // tv.dtype.itemsize, lanes)
    if weight == 0:
        return _chunks(members, lambda previous, current: current == previous + 1, limit)
    if weight == 1:
        return _chunks(
            members, lambda previous, current: current == previous + lanes, limit // lanes
        )
    if weight * lanes > limit:
        return []
    runs = _chunks(members, lambda previous, current: current == previous + 1, weight)
    return [run for run in runs if len(run) == weight]


def _chunks(
    members: list[tuple[int, Form]], follows: Callable[[int, int], bool], longest: int
) -> list[list[tuple[int, Form]]]:
    chunks: list[list[tuple[int, Form]]] = []
    for member in members:
        last = chunks[-1] if chunks else None
        if last and len(last) < longest and follows(last[-1][0], member[0]):
            last.append(member)
        else:
            chunks.append([member])
    return chunks


def access_bytes(layout: Layout, offset: Form, length: int, itemsize: int) -> int:
    """The widest access that is aligned at every value of the offset and tiles the run."""
    width = gcd(MAX_ALIGNMENT, layout.alignment, length * itemsize, offset.constant * itemsize)
    for weight, _ in offset.terms:
        width = gcd(width, weight * itemsize)
    return max(width, min(itemsize, MAX_ALIGNMENT))

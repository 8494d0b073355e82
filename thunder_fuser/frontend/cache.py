"""The trie of definitions: equal records, one leaf.

    root - define_tensor - add(T0, T0) - add_output(T1) - end: leaf 0
                         \\ mul(T0, T0) - add_output(T1) - end: leaf 1

Looking up is a walk of `dict.get` and takes no lock. One lock guards what changes: nodes, ids, the
order of use. One lock per leaf under construction makes two threads that define the same build it
once. Only complete definitions enter; deterministic errors are kept apart and count as nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock, RLock
from typing import ClassVar

from thunder_fuser import log
from thunder_fuser.frontend import storage
from thunder_fuser.frontend.leaf import Definition, Leaf, Program
from thunder_fuser.frontend.records import END, Record, Result
from thunder_fuser.frontend.text import definition_lines
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.locks import new_lock, new_reentrant_lock
from thunder_fuser.program import Program as PipelineProgram

MAX_FUSIONS = 16384  # leaves kept by the default cache
MAX_ERRORS = 256  # stored errors, oldest dropped first

Key = tuple[Record, ...]


class Node:
    """A prefix of definitions: what its last record made, and the records that may follow."""

    __slots__ = ("children", "leaf", "results")

    def __init__(self, results: tuple[Result, ...] = ()) -> None:
        self.results = results
        self.children: dict[Record, Node] = {}
        self.leaf: Leaf | None = None


@dataclass(frozen=True)
class CacheStats:
    """Counts since the cache was made or reset. `kernels` are those of the live fusions' plans,
    `hits_of` has the hits of each live fusion id."""

    fusions: int
    kernels: int
    lookups: int
    hits: int
    evictions: int
    errors: int
    hits_of: tuple[tuple[int, int], ...]

    @property
    def misses(self) -> int:
        return self.lookups - self.hits

    def __str__(self) -> str:
        rate = 100.0 * self.hits / self.lookups if self.lookups else 0.0
        lines = [
            f"fusions: {self.fusions}, kernels: {self.kernels}, evictions: {self.evictions}, "
            f"stored errors: {self.errors}",
            f"lookups: {self.lookups}, hits: {self.hits}, misses: {self.misses}, "
            f"hit rate: {rate:.1f} %",
            *(f"fusion {id}: {hits} hits" for id, hits in self.hits_of),
        ]
        return "\n".join(lines)


class FusionCache:
    """Definitions by their records. `program` compiles a new fusion; `max_fusions` bounds the
    leaves, the least recently used leaving first. Raises ValueError for a bound below 1."""

    _default: ClassVar[FusionCache | None] = None
    _default_lock: ClassVar[RLock] = new_reentrant_lock()

    def __init__(
        self, program: Callable[[Fusion], Program], max_fusions: int = MAX_FUSIONS
    ) -> None:
        self._program = program
        self._lock = new_reentrant_lock()
        self._next_id = 0
        self._reset_counts()
        self.max_fusions = _positive(max_fusions)

    @staticmethod
    def get(max_fusions: int | None = None) -> FusionCache:
        """The default cache. `max_fusions` sets its bound, evicting; None leaves it alone."""
        with FusionCache._default_lock:
            if FusionCache._default is None:
                FusionCache._default = FusionCache(PipelineProgram)
            cache = FusionCache._default
        if max_fusions is not None:
            cache.resize(max_fusions)
        return cache

    def define(self, records: Key, node: Node | None, make: Callable[[], Definition]) -> Leaf:
        """The leaf of these records, built by `make` if it is new.

        `node` is where a walk along `records` ended, if it got that far. Raises what `make` raises;
        for an error seen before, a fresh exception of the same text.
        """
        end = node.children.get(END) if node is not None else self._walk((*records, END))
        if end is not None and end.leaf is not None:
            return self._hit(end.leaf)
        with self._lock:
            building = self._building.setdefault(records, new_lock())
        try:
            with building:
                end = self._walk((*records, END))
                if end is not None and end.leaf is not None:
                    return self._hit(end.leaf)
                return self._build(records, make)
        finally:
            with self._lock:
                self._building.pop(records, None)

    def failed(self, records: Key, error: Exception) -> Exception:
        """Store the error of a definition that ends in a bad record; a fresh copy of what is kept.

        Only TypeError and ValueError depend on the records alone; others come back unstored.
        """
        if type(error) not in (TypeError, ValueError):
            return error
        with self._lock:
            kind, text = self._errors.setdefault(records, (type(error), str(error)))
            self._errors.move_to_end(records)
            if len(self._errors) > MAX_ERRORS:
                self._errors.popitem(last=False)
        return kind(text)

    def leaf(self, id: int) -> Leaf:
        """The live leaf of that id. Raises RuntimeError for an unknown or evicted one."""
        with self._lock:
            found = self._leaves.get(id)
            if found is None:
                raise RuntimeError(
                    f"no fusion has id {id}: live ids are {_ranges(sorted(self._leaves))}, the "
                    f"cache keeps {self.max_fusions}; define it again to get a new id"
                )
            self._leaves.move_to_end(id)
        return found

    def touch(self, leaf: Leaf) -> None:
        """Note that `leaf` was executed: of all, it is evicted last."""
        with self._lock:
            if leaf.id in self._leaves:
                self._leaves.move_to_end(leaf.id)

    def num_fusions(self) -> int:
        """How many complete definitions the cache holds."""
        return len(self._leaves)

    def leaves(self) -> tuple[Leaf, ...]:
        """The live leaves by ascending id."""
        with self._lock:
            return tuple(self._leaves[id] for id in sorted(self._leaves))

    def stats(self) -> CacheStats:
        with self._lock:
            hits = tuple((id, self._visits[id] - 1) for id in sorted(self._leaves))
            return CacheStats(
                len(self._leaves),
                sum(len(p.sources) for x in self._leaves.values() for p in x.program.plans),
                self._lookups,
                self._hits,
                self._evictions,
                len(self._errors),
                hits,
            )

    def reset(self) -> None:
        """Forget everything but the next id. Live definitions keep their leaves and still run."""
        with self._lock:
            self._reset_counts()

    def resize(self, max_fusions: int) -> None:
        """Bound the leaves, evicting the least recently used. Raises ValueError below 1."""
        with self._lock:
            self.max_fusions = _positive(max_fusions)
            self._evict()

    def serialize(self, path: str | Path) -> int:
        """Write the definitions that have run, here or before they were loaded; how many.

        Raises OSError, and then changes no file.
        """
        leaves = [x for x in self.leaves() if x.id in self._loaded or x.program.plans]
        storage.write(Path(path), [leaf.records for leaf in leaves])
        return len(leaves)

    def deserialize(self, path: str | Path) -> int:
        """Load definitions into an empty cache; how many. A bad entry is skipped with a warning.

        Raises RuntimeError if the cache is not empty, OSError if the file cannot be read and
        ValueError if it is no file of this format.
        """
        if self._leaves:
            raise RuntimeError(
                f"the cache holds {len(self._leaves)} fusions; reset() it before deserializing"
            )
        for records, definition in storage.read(Path(path)):
            leaf = self.define(records, None, partial(_as_is, definition))
            with self._lock:
                self._loaded.add(leaf.id)
        with self._lock:
            self._lookups = 0
        return len(self._leaves)

    def walk(self) -> Node:
        """Where a definition begins."""
        return self._root

    def __str__(self) -> str:
        lines: list[str] = []
        for leaf in self.leaves():
            lines.append(f"{leaf.id}:")
            lines += definition_lines(leaf.records, leaf.definition.results)
        return "\n".join(lines)

    def _reset_counts(self) -> None:
        self._root = Node()
        self._leaves: OrderedDict[int, Leaf] = OrderedDict()
        self._visits: dict[int, int] = {}
        self._loaded: set[int] = set()
        self._errors: OrderedDict[Key, tuple[type[Exception], str]] = OrderedDict()
        self._building: dict[Key, Lock] = {}
        self._lookups = self._hits = self._evictions = 0

    def _walk(self, key: Sequence[Record]) -> Node | None:
        node: Node | None = self._root
        for record in key:
            if node is None:
                return None
            node = node.children.get(record)
        return node

    def _hit(self, leaf: Leaf) -> Leaf:
        log.event("cache", "fusion %s found", leaf.id)
        with self._lock:
            self._lookups += 1
            self._hits += 1
            if leaf.id in self._leaves:
                self._visits[leaf.id] += 1
                self._leaves.move_to_end(leaf.id)
        return leaf

    def _build(self, records: Key, make: Callable[[], Definition]) -> Leaf:
        with self._lock:
            self._lookups += 1
            stored = self._errors.get((*records, END))
        if stored is not None:
            raise stored[0](stored[1])
        try:
            definition = make()
            program = self._program(definition.fusion)
        except (TypeError, ValueError) as error:
            raise self.failed((*records, END), error) from error
        with self._lock:
            end = self._walk((*records, END))
            if end is not None and end.leaf is not None:  # one failed, and two who waited built it
                return end.leaf
            leaf = Leaf(self._next_id, definition, program)
            self._next_id += 1
            self._insert(leaf)
            log.event("cache", "fusion %s defined: %s records", leaf.id, len(leaf.records))
            self._evict()
        return leaf

    def _insert(self, leaf: Leaf) -> None:
        node = self._root
        for record, results in zip(leaf.records, leaf.definition.results, strict=True):
            node = node.children.setdefault(record, Node(results))
        node.children.setdefault(END, Node()).leaf = leaf
        self._leaves[leaf.id] = leaf
        self._visits[leaf.id] = 1

    def _evict(self) -> None:
        while len(self._leaves) > self.max_fusions:
            id, leaf = self._leaves.popitem(last=False)
            self._unlink((*leaf.records, END))
            del self._visits[id]
            self._loaded.discard(id)
            self._evictions += 1

    def _unlink(self, key: Key) -> None:
        """Remove a leaf, then every ancestor that no other definition shares."""
        path = list(self._path(key))
        for node, record in reversed(path):
            if node.children[record].children:
                return
            del node.children[record]

    def _path(self, key: Key) -> Iterator[tuple[Node, Record]]:
        node = self._root
        for record in key:
            yield node, record
            node = node.children[record]


def _as_is(definition: Definition) -> Definition:
    return definition


def _positive(max_fusions: int) -> int:
    if max_fusions < 1:
        raise ValueError(f"max_fusions is {max_fusions}; a cache keeps at least 1")
    return max_fusions


def _ranges(ids: Sequence[int]) -> str:
    """[0, 1, 2, 5] as `0-2, 5`; `none` for nothing."""
    runs: list[list[int]] = []
    for id in ids:
        if runs and runs[-1][1] == id - 1:
            runs[-1][1] = id
        else:
            runs.append([id, id])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs) or "none"

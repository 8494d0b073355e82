"""Which axes are the same axis: union-find with congruence closure and a proof for every union.

    i0 ~ j0,   i1, i2 = split(i0, 4),   j1, j2 = split(j0, 4)      =>      i1 ~ j1,   i2 ~ j2

Equal transforms of equal inputs have equal outputs (forward); equal outputs have equal inputs where
the outputs determine them (backward, see `determines_inputs`). docs/axes.md proves both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product

from thunder_fuser.analysis.transforms import (
    describe,
    determines_inputs,
    output_count,
    signature,
)
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.domain import IterDomain, Transform
from thunder_fuser.ir.scalar import Scalar

Pair = tuple[IterDomain, IterDomain]


@dataclass(frozen=True)
class Reason:
    """Why two axes were united: a sentence and the pairs it rests on."""

    text: str
    premises: tuple[Pair, ...] = ()


SAME_OUTPUT = Reason("the same output of one transform")


class ValGraph:
    """Groups of axes."""

    def __init__(self) -> None:
        self._parent: dict[IterDomain, IterDomain] = {}
        self._members: dict[IterDomain, list[IterDomain]] = {}
        self._definitions: dict[IterDomain, list[Transform]] = {}
        self._uses: dict[IterDomain, list[Transform]] = {}
        self._outputs: dict[Transform, dict[int, IterDomain]] = {}
        self._unmappable: dict[IterDomain, set[IterDomain]] = {}
        self._proofs: dict[IterDomain, list[tuple[IterDomain, Reason]]] = {}

    # ------------------------------------------------------------------ building

    def add(self, *axes: IterDomain) -> ValGraph:
        """Register axes and every axis and transform they are made from."""
        work: deque[tuple[Pair, Reason]] = deque()
        for axis in axes:
            for missing in self._unregistered(axis):
                work += self._register(missing)
        self._close(work)
        return self

    def map(self, a: IterDomain, b: IterDomain, reason: Reason) -> None:
        """Unite the groups of `a` and `b` and all that follows from it. Refused in silence where
        two unmappable axes would meet; `are_mapped` tells."""
        self.add(a, b)
        self._close(deque([((a, b), reason)]))

    def set_unmappable(self, axes: Iterable[IterDomain]) -> None:
        """No two of `axes` may ever share a group: two axes of one domain are two loops."""
        for a, b in combinations(axes, 2):
            self.add(a, b)
            self._unmappable.setdefault(a, set()).add(b)
            self._unmappable.setdefault(b, set()).add(a)

    def copy(self) -> ValGraph:
        made = ValGraph()
        made._parent = dict(self._parent)
        made._members = {k: list(v) for k, v in self._members.items()}
        made._definitions = {k: list(v) for k, v in self._definitions.items()}
        made._uses = {k: list(v) for k, v in self._uses.items()}
        made._outputs = {k: dict(v) for k, v in self._outputs.items()}
        made._unmappable = {k: set(v) for k, v in self._unmappable.items()}
        made._proofs = {k: list(v) for k, v in self._proofs.items()}
        return made

    # ------------------------------------------------------------------- asking

    def find(self, axis: IterDomain) -> IterDomain:
        """The representative of the group of `axis`. Raises KeyError for an axis never added."""
        root = axis
        while self._parent[root] is not root:
            root = self._parent[root]
        while self._parent[axis] is not root:
            self._parent[axis], axis = root, self._parent[axis]
        return root

    def are_mapped(self, a: IterDomain, b: IterDomain) -> bool:
        return a in self._parent and b in self._parent and self.find(a) is self.find(b)

    def group(self, axis: IterDomain) -> tuple[IterDomain, ...]:
        """All axes mapped to `axis`, itself included, in the order they joined."""
        return tuple(self._members[self.find(axis)])

    def groups(self) -> tuple[IterDomain, ...]:
        """One representative per group, in the order they were added."""
        return tuple(a for a, parent in self._parent.items() if a is parent)

    def definitions(self, axis: IterDomain) -> tuple[Transform, ...]:
        """The transforms that make an axis of this group."""
        return tuple(self._definitions[self.find(axis)])

    def outputs(self, transform: Transform) -> Mapping[int, IterDomain]:
        """The registered outputs of a transform, by position."""
        return self._outputs[transform]

    def extent(self, axis: IterDomain) -> Scalar:
        """The extent of the group, a static one where any member has it."""
        members = self._members[self.find(axis)]
        static = (m.extent for m in members if sc.static_int(m.extent) is not None)
        return next(static, members[0].extent)

    def is_unmappable(self, a: IterDomain, b: IterDomain) -> bool:
        """True where the groups hold two axes that `set_unmappable` keeps apart."""
        small, large = sorted((self.find(a), self.find(b)), key=lambda g: len(self._members[g]))
        return any(
            self.find(other) is large
            for member in self._members[small]
            for other in self._unmappable.get(member, ())
        )

    def proof(self, a: IterDomain, b: IterDomain) -> tuple[tuple[Pair, Reason], ...] | None:
        """The chain of unions that leads from `a` to `b`, None where they are not mapped."""
        if not self.are_mapped(a, b):
            return None
        came_from: dict[IterDomain, tuple[IterDomain, Reason]] = {}
        queue = deque([a])
        while queue and b not in came_from:
            here = queue.popleft()
            for there, reason in self._proofs.get(here, ()):
                if there not in came_from and there is not a:
                    came_from[there] = (here, reason)
                    queue.append(there)
        chain: list[tuple[Pair, Reason]] = []
        while b is not a:
            previous, reason = came_from[b]
            chain.append(((previous, b), reason))
            b = previous
        return tuple(reversed(chain))

    # ------------------------------------------------------------------ closure

    def _unregistered(self, axis: IterDomain) -> Iterator[IterDomain]:
        """`axis` and the axes it is made from that are new, inputs first."""
        stack = [axis]
        while stack:
            here = stack[-1]
            inputs = here.definition.inputs if here.definition is not None else ()
            waiting = [i for i in inputs if i not in self._parent]
            if here in self._parent:
                stack.pop()
            elif waiting:
                stack += waiting
            else:
                yield stack.pop()

    def _register(self, axis: IterDomain) -> list[tuple[Pair, Reason]]:
        """A group of its own for `axis`; the unions that its transform implies."""
        self._parent[axis], self._members[axis] = axis, [axis]
        self._definitions[axis], self._uses[axis] = [], []
        transform = axis.definition
        if transform is None:
            return []
        outputs = self._outputs.setdefault(transform, {})
        if axis.position in outputs:  # a copy that carries another parallel type
            return [((outputs[axis.position], axis), SAME_OUTPUT)]
        outputs[axis.position] = axis
        self._definitions[axis].append(transform)
        implied: list[tuple[Pair, Reason]] = []
        for source in transform.inputs:
            uses = self._uses[self.find(source)]
            if transform not in uses:
                uses.append(transform)
            for other in uses:
                implied += self._implied(other, transform, forward=True)
        return implied

    def _close(self, work: deque[tuple[Pair, Reason]]) -> None:
        while work:
            pair, reason = work.popleft()
            a, b = map(self.find, pair)
            if a is b or self.is_unmappable(a, b):
                continue
            if len(self._members[a]) < len(self._members[b]):
                a, b = b, a
            self._record(pair, reason)
            uses, definitions = (
                (self._uses[a], self._uses.pop(b)),
                (self._definitions[a], self._definitions.pop(b)),
            )
            meetings = [(s, t, True) for s, t in product(*uses)]
            meetings += [(s, t, False) for s, t in product(*definitions)]
            self._parent[b] = a
            self._members[a] += self._members.pop(b)
            uses[0].extend(t for t in uses[1] if t not in uses[0])
            definitions[0].extend(t for t in definitions[1] if t not in definitions[0])
            for s, t, forward in meetings:
                work += self._implied(s, t, forward)

    def _record(self, pair: Pair, reason: Reason) -> None:
        a, b = pair
        self._proofs.setdefault(a, []).append((b, reason))
        self._proofs.setdefault(b, []).append((a, reason))

    def _implied(self, s: Transform, t: Transform, forward: bool) -> list[tuple[Pair, Reason]]:
        """The unions that follow when `s` and `t` are one transform of equal inputs (outputs)."""
        if s is t or signature(s) != signature(t):
            return []
        inputs = list(zip(s.inputs, t.inputs, strict=True))
        mine, others = self._outputs[s], self._outputs[t]
        outputs = [(mine[k], others[k]) for k in mine if k in others]
        if forward:
            if not all(self.are_mapped(x, y) for x, y in inputs):
                return []
            reason = Reason(f"equal {describe(s)} of equal inputs", tuple(inputs))
            return [(pair, reason) for pair in outputs]
        complete = len(outputs) == output_count(s)
        if not complete or not all(self.are_mapped(x, y) for x, y in outputs):
            return []
        if not determines_inputs(s, inputs):
            return []
        reason = Reason(f"equal results of equal {describe(s)}", tuple(outputs))
        return [(pair, reason) for pair in inputs]

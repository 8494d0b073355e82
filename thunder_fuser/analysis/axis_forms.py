"""The digit form of every axis, as a function of the axes it is made from.

    i1, i2 = split(i0{24}, 6)        form(i1) = i0/6        form(i2) = i0%6

With a graph the forms are those of groups: what the graph unites is one base. Resizes are opaque
there, for equality through a resize holds on the window of one edge and must not be closed
transitively (docs/axes.md, section 5); `through_resize` opens them for a single edge.

A symbolic extent bounds nothing: its axis is a base of UNBOUNDED values, and a division by it is
opaque. So forms that are equal are equal for every value of the symbols.
"""

from __future__ import annotations

from thunder_fuser.analysis import digits
from thunder_fuser.analysis.digits import ZERO, Form, atom, combine, divmod_form, shift
from thunder_fuser.analysis.extents import Monomial, monomial
from thunder_fuser.analysis.transforms import inner_extent
from thunder_fuser.analysis.val_graph import ValGraph
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.domain import Flip, IterDomain, Merge, Resize, Split, Transform

UNBOUNDED = 1 << 62  # above every extent that an address space can hold


class AxisForms:
    """An axis without a definition is an atom."""

    def __init__(self, graph: ValGraph | None = None, through_resize: bool = False) -> None:
        self.graph, self.through_resize = graph, through_resize
        self._memo: dict[object, Form] = {}

    def form(self, axis: IterDomain) -> Form:
        """The index of `axis`; iterative, so the depth of a chain is no limit."""
        stack, above = [(axis, self._definition(axis, set()))], {self._name(axis)}
        while stack:
            here, transform = stack[-1]
            name = self._name(here)
            if name in self._memo:
                waiting = None
            else:
                inputs = transform.inputs if transform is not None else ()
                waiting = next((i for i in inputs if self._name(i) not in self._memo), None)
            if waiting is not None:
                above.add(self._name(waiting))
                stack.append((waiting, self._definition(waiting, above)))
                continue
            if name not in self._memo:
                self._memo[name] = (
                    self._atom(here) if transform is None else self._via(transform, here)
                )
            above.discard(name)
            stack.pop()
        return self._memo[self._name(axis)]

    def key(self, axis: IterDomain) -> tuple[Monomial, Form]:
        """Equal keys are equal axes: the declared extent is part of it (docs/axes.md, C)."""
        extent = axis.extent if self.graph is None else self.graph.extent(axis)
        return monomial(extent), self.form(axis)

    def same(self, a: IterDomain, b: IterDomain) -> bool:
        return self.key(a) == self.key(b)

    def via(self, transform: Transform, position: int) -> Form | None:
        """The form of one output of `transform`, None where the transform is opaque."""
        match transform:
            case Split(input=source):
                divisor = sc.static_int(inner_extent(transform))
                return divmod_form(self.form(source), divisor)[position] if divisor else None
            case Merge(outer=outer, inner=inner):
                outer_form, extent = self.form(outer), sc.static_int(inner.extent)
                if outer_form == ZERO:
                    return self.form(inner)
                return combine(outer_form, self.form(inner), extent) if extent else None
            case Resize(input=source, left=left):
                amount = sc.static_int(left)
                if not self.through_resize or amount is None:
                    return None
                return shift(self.form(source), amount)
            case Flip(input=source):
                extent = sc.static_int(source.extent)
                return digits.flip(self.form(source), extent) if extent else None

    def _via(self, transform: Transform, axis: IterDomain) -> Form:
        outputs = {axis.position: axis}
        if self.graph is not None:
            found = self.graph.outputs(transform)
            outputs = {k: a for k, a in found.items() if self.graph.are_mapped(a, axis)}
        form = self.via(transform, next(iter(outputs)))
        return self._atom(axis) if form is None else form

    def _atom(self, axis: IterDomain) -> Form:
        """The axis as a base of its own. Not evaluated further, so `position` must tell apart."""
        extent = axis.extent if self.graph is None else self.graph.extent(axis)
        size = sc.static_int(extent)
        base = self._name(axis)
        assert isinstance(base, IterDomain)
        return atom(base, UNBOUNDED if size is None else size)

    def _name(self, axis: IterDomain) -> object:
        return axis if self.graph is None else self.graph.find(axis)

    def _definition(self, axis: IterDomain, above: set[object]) -> Transform | None:
        """A transform to read the form from: one whose inputs do not wait for this very axis."""
        if self.graph is None:
            return axis.definition
        for transform in self.graph.definitions(axis):
            if not any(self._name(i) in above for i in transform.inputs):
                return transform
        return None

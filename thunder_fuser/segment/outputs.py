"""Which returned values are views, and of what: decided once for the region, before it is cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from thunder_fuser.analysis.layout import Layout, output_layout
from thunder_fuser.analysis.views import View, follow, is_stop, view_of
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.segment.carry import carried, constants


@dataclass(frozen=True)
class OutputPlan:
    """`computed` get storage of their own and a kernel that writes it; `views` share storage."""

    computed: tuple[TensorView, ...]
    views: Mapping[TensorView, View]


def plan_outputs(
    fusion: Fusion, layouts: Mapping[TensorView, Layout], copies: bool = False
) -> OutputPlan:
    """A view where eager returns one: a chain of metadata ops from an input, from another computed
    output, from a stop point that is stored, or from a value that the outputs together cover, each
    of which torch answers with a view. Behind one that copies a writer expects memory of its own.

    With `copies` every computed output gets storage of its own. What is written in place and views
    of it stay as they are, since they must show the new value; so does a returned input, which is
    no new tensor in eager either."""
    written = {w.value for w in fusion.writes}
    targets = {w.target for w in fusion.writes}
    stored = _stored_stops(fusion, layouts)
    views: dict[TensorView, View] = {}
    chained: dict[TensorView, list[TensorView]] = {}
    computed: dict[TensorView, None] = {}
    for tv in fusion.outputs:
        if tv in written or tv.definition is None:
            continue
        chain = follow(tv, lambda t: t.definition is None or t in stored)
        if chain is None or chain.root is tv or (copies and chain.root not in targets):
            computed[tv] = None
        elif chain.root.definition is None:
            view = None if chain.root.is_cpu else _view(tv, chain.root, layouts[chain.root])
            if view is not None:
                views[tv] = view
            else:
                computed[tv] = None
        else:
            chained.setdefault(chain.root, []).append(tv)
    for root, members in chained.items():
        is_stored = root in computed or root in stored
        _place_chained(root, is_stored, list(dict.fromkeys(members)), computed, views)
    return OutputPlan(tuple(computed), views)


def _stored_stops(fusion: Fusion, layouts: Mapping[TensorView, Layout]) -> dict[TensorView, None]:
    """The stop points that get storage of their own: no input and no other stop shows them."""
    constant, targets = constants(fusion), {w.target for w in fusion.writes}
    stored: dict[TensorView, None] = {}
    for tv in filter(is_stop, fusion.tensors):
        chain = follow(tv, lambda t: t.definition is None or t in stored)
        if chain is None or tv in constant or carried(tv) is not tv or chain.root in targets:
            continue
        if chain.root.definition is None and view_of(tv, chain, layouts[chain.root]) is not None:
            continue
        if chain.root not in stored:
            stored[tv] = None
    return stored


def _place_chained(
    root: TensorView,
    is_stored: bool,
    members: list[TensorView],
    computed: dict[TensorView, None],
    views: dict[TensorView, View],
) -> None:
    """Outputs that are metadata chains of one computed value: materialise it once if it is needed
    anyway or they cover it, else write each of them."""
    layout = output_layout(root)
    found: dict[TensorView, View] = {}
    for tv in members:
        view = _view(tv, root, layout)
        if view is not None:
            found[tv] = view
    covered = sum(Layout(view.shape, view.strides).distinct for view in found.values())
    if is_stored or covered >= layout.numel:
        computed[root] = None
        views.update(found)
    for tv in members:
        if tv not in views:
            computed[tv] = None


def _view(tv: TensorView, root: TensorView, layout: Layout) -> View | None:
    """`tv` as a view of `root`, which lies as `layout`. None if there is none, or if one of the
    metadata ops between them copies in torch: strides may express again what is behind it."""
    view = None
    step = tv
    while step is not root:
        chain, expr = follow(step, lambda t: t is root), step.expr
        seen = None if chain is None or expr.op.copies else view_of(step, chain, layout)
        if seen is None or not keeps_order(step, seen):
            return None
        view = view or seen
        (step,) = expr.tensors
    return view


def keeps_order(tv: TensorView, view: View) -> bool:
    """False where a memory order was asked for that the view does not have."""
    is_asked_for = tv.definition is not None and tv.definition.op.domain == "stride_order"
    if tv.domain.allocation == tv.domain.logical and not is_asked_for:
        return True
    wanted = output_layout(tv)
    return view.strides == wanted.strides or wanted.numel <= 1

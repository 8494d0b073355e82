"""Why are two axes mapped, why are they not: text for `explain`, errors and dumps.

T0.logical0{24} ~ T2.logical0{24}: equal digit forms and extents (docs/axes.md, theorem F)
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice, product

from thunder_fuser.analysis.axis_forms import UNBOUNDED, AxisForms
from thunder_fuser.analysis.digits import Form, Opaque, evaluate, format_form
from thunder_fuser.analysis.transforms import describe
from thunder_fuser.analysis.val_graph import ValGraph
from thunder_fuser.ir.domain import IterDomain, Resize
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.text import tensor_names

MAX_WITNESS_POINTS = 4096  # a counter-example is looked for among this many points
MAX_DEPTH = 8  # premises are explained this deep


def axis_names(fusion: Fusion) -> dict[IterDomain, str]:
    """`T2.root0`, `T2.logical1`, ...; the axes in between are `T2.x0`, `T2.x1`, ..."""
    names: dict[IterDomain, str] = {}
    for tensor, name in tensor_names(fusion).items():
        domain = tensor.domain
        for role in ("logical", "root", "allocation", "loop"):
            for k, axis in enumerate(getattr(domain, role)):
                names.setdefault(axis, f"{name}.{role}{k}")
        between = 0
        stack = [*domain.logical, *domain.loop]
        while stack:
            axis = stack.pop()
            if axis not in names:
                names[axis] = f"{name}.x{between}"
                between += 1
            stack += axis.definition.inputs if axis.definition is not None else ()
    return names


def why_mapped(fusion: Fusion, graph: ValGraph, a: IterDomain, b: IterDomain) -> str:
    """The chain of reasons, one union per line, premises indented below. Raises ValueError where
    the two are not mapped (ask `why_not`)."""
    names = axis_names(fusion)
    if not graph.are_mapped(a, b):
        raise ValueError(f"{_name(a, names)} and {_name(b, names)} are not mapped: ask why_not")
    if a is b:
        return f"{_name(a, names)} is one axis"
    return "\n".join(_chain(graph, a, b, names, depth=0))


def why_not(fusion: Fusion, graph: ValGraph, a: IterDomain, b: IterDomain) -> str:
    """Why `a` and `b` are not mapped: what was compared, and a point where they differ if there is
    one. Raises ValueError where they are mapped (ask `why_mapped`)."""
    names = axis_names(fusion)
    left, right = _name(a, names), _name(b, names)
    if graph.are_mapped(a, b):
        raise ValueError(f"{left} and {right} are mapped: ask why_mapped")
    head = f"{left} and {right} are not mapped"
    for axis in (a, b):
        if axis not in names:
            return f"{head}: {_name(axis, names)} is no axis of this fusion"
    if graph.is_unmappable(a, b):
        return f"{head}: their groups hold two axes of one domain, which are two loops"
    forms = AxisForms(graph=graph)
    (extent_a, form_a), (extent_b, form_b) = forms.key(a), forms.key(b)
    if extent_a != extent_b:
        return (
            f"{head}: the declared extents {extent_a} and {extent_b} are not provably equal "
            "(docs/axes.md, theorem C)"
        )
    text_a, text_b = (_format(form, graph, names) for form in (form_a, form_b))
    lines = [f"{head}: the index of one is {text_a}, of the other {text_b}"]
    lines += _opaque_reasons(form_a, form_b, graph, names)
    lines.append(_witness(form_a, form_b, graph, names))
    return "\n".join(lines)


def print_groups(fusion: Fusion, graph: ValGraph) -> str:
    """Every group that holds more than one axis, with its form."""
    names = axis_names(fusion)
    forms = AxisForms(graph=graph)
    lines = []
    for group in graph.groups():
        members = [names[m] for m in graph.group(group) if m in names]
        if len(members) > 1:
            text = _format(forms.form(group), graph, names)
            lines.append(f"{{{', '.join(members)}}}: extent {graph.extent(group)}, index {text}")
    return "\n".join(lines)


def _chain(
    graph: ValGraph, a: IterDomain, b: IterDomain, names: Mapping[IterDomain, str], depth: int
) -> list[str]:
    lines = []
    for (x, y), reason in graph.proof(a, b) or ():
        lines.append(f"{'  ' * depth}{_name(x, names)} ~ {_name(y, names)}: {reason.text}")
        if depth < MAX_DEPTH:
            for p, q in reason.premises:
                if p is not q:
                    lines += _chain(graph, p, q, names, depth + 1)
    return lines


def _name(axis: IterDomain, names: Mapping[IterDomain, str]) -> str:
    return f"{names.get(axis, 'an axis')}{{{axis.extent}}}"


def _format(form: Form, graph: ValGraph, names: Mapping[IterDomain, str]) -> str:
    """A form names groups by their first named member."""
    return format_form(form, {base: _format_axis(base, graph, names) for base in form.bases})


def _opaque_reasons(
    a: Form, b: Form, graph: ValGraph, names: Mapping[IterDomain, str]
) -> list[str]:
    lines = []
    for form in (a, b):
        for _, digit in form.terms:
            if isinstance(digit.base, Opaque):
                text = _format(digit.base.form, graph, names)
                lines.append(
                    f"division by {max(digit.stride, digit.extent)} does not line up with the "
                    f"digits of {text} (docs/axes.md, theorem E)"
                )
    for base in sorted(a.bases ^ b.bases, key=lambda axis: names.get(axis, "")):
        for transform in graph.definitions(base):
            if isinstance(transform, Resize):
                lines.append(
                    f"{names.get(base, 'an axis')} comes from {describe(transform)}: equality "
                    "through a resize is decided per edge (docs/axes.md, section 5)"
                )
    return list(dict.fromkeys(lines))


def _witness(a: Form, b: Form, graph: ValGraph, names: Mapping[IterDomain, str]) -> str:
    bases = sorted(a.bases | b.bases, key=lambda axis: names.get(axis, ""))
    ranges = [range(min(max(_limit(a, x), _limit(b, x)), MAX_WITNESS_POINTS)) for x in bases]
    tried = 0
    for point in islice(product(*ranges), MAX_WITNESS_POINTS):
        tried += 1
        at = dict(zip(bases, point, strict=True))
        x, y = evaluate(a, at), evaluate(b, at)
        if x != y:
            where = ", ".join(
                f"{_format_axis(base, graph, names)} = {index}" for base, index in at.items()
            )
            return f"they differ at {where}: {x} against {y}"
    return f"no difference in the first {tried} points: equal perhaps, but not provably so"


def _format_axis(axis: IterDomain, graph: ValGraph, names: Mapping[IterDomain, str]) -> str:
    return next((names[m] for m in graph.group(axis) if m in names), "?")


def _limit(form: Form, axis: IterDomain) -> int:
    """The number of values of `axis`, as far as `form` says."""
    found = 1
    for _, digit in form.terms:
        if isinstance(digit.base, Opaque):
            found = max(found, _limit(digit.base.form, axis))
        elif digit.base is axis:
            found = max(found, min(digit.limit, UNBOUNDED))
    return found

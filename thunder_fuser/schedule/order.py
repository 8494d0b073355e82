"""The order in which threads walk an iteration class: that of its first store.

Threads side by side then write one stretch of memory. Walking tiles in the order of the largest
load was measured instead and lost 5-10 % on every RoPE. Neighbouring axes that every access walks
as one are merged.
"""

from __future__ import annotations

from dataclasses import replace

from thunder_fuser.analysis.digits import Form, Opaque, atom, divmod_form, substitute
from thunder_fuser.analysis.layout import offset_of
from thunder_fuser.ir.domain import IterDomain, merge
from thunder_fuser.schedule.classes import IterationClass


def arrange(group: IterationClass) -> IterationClass:
    """`group` with its parallel axes in walking order, outermost first."""
    nest = group.nests[0]
    offset = offset_of(group.segment.layouts[nest.store.target], nest.index)
    stride = {d.base: abs(w) for w, d in offset.terms if d.is_whole}
    order = sorted(nest.parallel, key=lambda a: -stride.get(a, 0))
    nests = tuple(replace(n, axes=(*order, *n.unrolled)) for n in group.nests)
    return IterationClass(group.segment, nests)


def merge_axes(group: IterationClass) -> IterationClass:
    """Join neighbouring parallel axes that every form walks as one."""
    for outer, inner in zip(group.axes, group.axes[1:], strict=False):
        if all(walks_as_one(form, outer, inner) for form in group.forms):
            return merge_axes(merge_pair(group, outer, inner))
    return group


def walks_as_one(form: Form, outer: IterDomain, inner: IterDomain) -> bool:
    """True where a step of `outer` is as far as `inner` is long, in `form`."""
    if not form.bases & {outer, inner}:
        return True
    weight = {outer: 0, inner: 0}
    for w, digit in form.terms:
        if isinstance(digit.base, IterDomain):
            if digit.base in weight:
                if not digit.is_whole:
                    return False
                weight[digit.base] = w
        elif isinstance(digit.base, Opaque) and digit.base.form.bases & {outer, inner}:
            return False  # of a loaded index the own load decides
    return weight[outer] == weight[inner] * inner.size


def merge_pair(group: IterationClass, outer: IterDomain, inner: IterDomain) -> IterationClass:
    """`group` with two neighbouring axes as one, of which they are digits."""
    joined = merge(outer, inner)
    high, low = divmod_form(atom(joined), inner.size)
    nests = []
    for nest in group.nests:
        axes = tuple(joined if a is outer else a for a in nest.axes if a is not inner)
        index = tuple(substitute(f, {outer: high, inner: low}) for f in nest.index)
        nests.append(replace(nest, axes=axes, index=index))
    return IterationClass(group.segment, tuple(nests))

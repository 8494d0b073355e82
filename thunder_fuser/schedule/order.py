"""The order in which threads walk an iteration class.

    store [b, h, t, d]     load strides  h 128, t 6144, d 1
    axes   b, h, t, d      =>      b, t1, h, t0, d         with t0 * d one tile

Inside a tile threads walk in the order of the store, so that a block writes one stretch of memory;
tiles follow each other in the order of the largest load, so that blocks that run together read one.
Neighbouring axes that every access walks as one are merged.
"""

from __future__ import annotations

from dataclasses import replace

from thunder_fuser.analysis.digits import Form, atom, combine, divmod_form, substitute
from thunder_fuser.analysis.layout import offset_of
from thunder_fuser.ir.domain import IterDomain, merge, split
from thunder_fuser.schedule.classes import IterationClass
from thunder_fuser.schedule.nest import replace_axis


def arrange(group: IterationClass, tile: int) -> IterationClass:
    """`group` with its parallel axes in walking order; `tile` is in elements, 0 for none."""
    merged = _merge_axes(_reorder(group, _by_store(group)))
    return _tile(merged, tile) if tile else merged


def _reorder(group: IterationClass, order: list[IterDomain]) -> IterationClass:
    nests = tuple(replace(n, axes=(*order, *n.unrolled)) for n in group.nests)
    return IterationClass(group.segment, nests)


def _by_store(group: IterationClass) -> list[IterDomain]:
    """Outermost first by stride in the first nest's store."""
    nest = group.nests[0]
    stride = _strides(offset_of(group.segment.layouts[nest.store.target], nest.index))
    return sorted(nest.parallel, key=lambda a: -stride.get(a, 0))


def _strides(offset: Form) -> dict[IterDomain, int]:
    found = {}
    for weight, digit in offset.terms:
        if isinstance(digit.base, IterDomain) and digit.is_whole:
            found[digit.base] = abs(weight)
    return found


def _tile(group: IterationClass, tile: int) -> IterationClass:
    """Cut the store order where a tile is full, and order what is outside by the largest load."""
    if _largest_load(group) is None:
        return group
    axes, inside, room = group.axes, 0, tile
    while inside < len(axes) and axes[-1 - inside].size <= room:
        room //= axes[-1 - inside].size
        inside += 1
    if inside < len(axes) and (factor := _power_of_two(axes[-1 - inside].size, room)) > 1:
        group, inside = _split(group, axes[-1 - inside], factor), inside + 1
    load = _largest_load(group)
    assert load is not None
    stride = _strides(load)
    keep = len(group.axes) - inside
    outside = sorted(group.axes[:keep], key=lambda a: -stride.get(a, 0))
    return _merge_axes(_reorder(group, [*outside, *group.axes[keep:]]))


def _largest_load(group: IterationClass) -> Form | None:
    """The offset of a load from the tensor with the most bytes."""
    layouts, found, most = group.segment.layouts, None, 0
    for needs in group.needs:
        for tv, index in needs.leaves:
            size = layouts[tv].numel * tv.dtype.itemsize
            if size > most:
                found, most = offset_of(layouts[tv], index), size
    return found


def _power_of_two(size: int, limit: int) -> int:
    """The largest power of two, at most `limit`, that divides `size`."""
    factor = 1
    while size % (2 * factor) == 0 and 2 * factor <= limit:
        factor *= 2
    return factor


def _split(group: IterationClass, target: IterDomain, factor: int) -> IterationClass:
    outer, inner = split(target, factor)
    value = combine(atom(outer), atom(inner), factor)
    nests = tuple(replace_axis(n, target, (outer, inner), value) for n in group.nests)
    return IterationClass(group.segment, nests)


def _merge_axes(group: IterationClass) -> IterationClass:
    """Join neighbouring parallel axes that every form walks as one."""
    for outer, inner in zip(group.axes, group.axes[1:], strict=False):
        if all(_walks_as_one(form, outer, inner) for form in group.forms):
            return _merge_axes(_merge_pair(group, outer, inner))
    return group


def _walks_as_one(form: Form, outer: IterDomain, inner: IterDomain) -> bool:
    if not form.bases & {outer, inner}:
        return True
    weight = {outer: 0, inner: 0}
    for w, digit in form.terms:
        if isinstance(digit.base, IterDomain):
            if digit.base in weight:
                if not digit.is_whole:
                    return False
                weight[digit.base] = w
        elif digit.base.form.bases & {outer, inner}:
            return False
    return weight[outer] == weight[inner] * inner.size


def _merge_pair(group: IterationClass, outer: IterDomain, inner: IterDomain) -> IterationClass:
    joined = merge(outer, inner)
    high, low = divmod_form(atom(joined), inner.size)
    nests = []
    for nest in group.nests:
        axes = tuple(joined if a is outer else a for a in nest.axes if a is not inner)
        index = tuple(substitute(f, {outer: high, inner: low}) for f in nest.index)
        nests.append(replace(nest, axes=axes, index=index))
    return IterationClass(group.segment, tuple(nests))

"""What each shape op means: the consumer's root and logical axes, and how producers relate to root.

One function per op, named in the op's row (`OpDef.domain`). Each returns the consumer's domain and,
per tensor input, the map from its logical axes to the consumer's root axes (see `Expr.axis_maps`).
Extents may be symbolic. Raises ValueError where the arguments contradict each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.domain import (
    Derived,
    IterDomain,
    IterType,
    axis,
    axis_of,
    flip,
    like,
    merge,
    resize,
    split,
    tensor_domain,
)
from thunder_fuser.ir.group_domains import GROUP_DOMAINS, Attrs, DomainRule
from thunder_fuser.ir.scalar import Scalar
from thunder_fuser.ir.tensor import Attr, TensorView


def derive(name: str, inputs: Sequence[TensorView], attrs: Attrs) -> Derived:
    """The consumer's domain for the op whose row names `name`; empty means elementwise. Raises
    ValueError for shapes and attributes that contradict each other."""
    return _FUNCTIONS[name](inputs, attrs)


def pointwise(inputs: Sequence[TensorView], attrs: Attrs) -> Derived:
    """Right-aligned broadcasting, as in torch."""
    rank = max((tv.ndim for tv in inputs), default=0)
    root: list[IterDomain] = []
    for position in range(rank):
        column = [
            tv.logical[position - rank + tv.ndim] for tv in inputs if position - rank + tv.ndim >= 0
        ]
        root.append(like(_widest(column, inputs)))
    maps = []
    for tv in inputs:
        start = rank - tv.ndim
        maps.append(
            tuple(
                None if a.is_unit and not root[start + k].is_unit else start + k
                for k, a in enumerate(tv.logical)
            )
        )
    return Derived(tensor_domain(root), tuple(maps))


def _widest(column: Sequence[IterDomain], inputs: Sequence[TensorView]) -> IterDomain:
    wide = [a for a in column if not a.is_unit] or list(column)
    sizes = {size for a in wide if (size := sc.static_int(a.extent)) is not None}
    if len(sizes) > 1:
        shapes = ", ".join(f"({', '.join(map(str, tv.extents))})" for tv in inputs)
        raise ValueError(
            f"shapes {shapes} do not broadcast: extents {sorted(sizes)} meet in one axis"
        )
    iteration = [a for a in wide if not a.is_broadcast] or wide
    static = [a for a in iteration if sc.static_int(a.extent) is not None]
    return (static or iteration)[0]


def broadcast_in_dim(inputs: Sequence[TensorView], attrs: Attrs) -> Derived:
    (producer,) = inputs
    shape, dims = _scalars(attrs["shape"]), _ints(attrs["broadcast_dims"])
    if len(dims) != producer.ndim:
        raise ValueError(
            f"broadcast_dims has {len(dims)} entries for an input of rank {producer.ndim}"
        )
    if list(dims) != sorted(set(dims)):
        raise ValueError(f"broadcast_dims {list(dims)} must increase strictly")
    root = [axis(extent, IterType.BROADCAST) for extent in shape]
    mapped: list[int | None] = []
    for source, dim in zip(producer.logical, dims, strict=True):
        have, want = sc.static_int(source.extent), sc.static_int(shape[dim])
        if have is not None and want is not None and have != want and have != 1:
            raise ValueError(f"axis of extent {have} cannot become extent {want} at dim {dim}")
        stretches = source.is_unit and not sc.is_constant(shape[dim], 1)
        mapped.append(None if stretches else dim)
        if not stretches:
            root[dim] = IterDomain(shape[dim], source.iter_type)
    return Derived(tensor_domain(root), (tuple(mapped),))


def broadcast(inputs: Sequence[TensorView], attrs: Attrs) -> Derived:
    (producer,) = inputs
    flags = attrs["is_broadcast_dim"]
    assert isinstance(flags, tuple)
    if len(flags) - sum(map(bool, flags)) != producer.ndim:
        raise ValueError(
            f"is_broadcast_dim has {len(flags) - sum(map(bool, flags))} False entries "
            f"for an input of rank {producer.ndim}"
        )
    source = iter(producer.logical)
    root = [axis(1, IterType.BROADCAST) if flag else like(next(source)) for flag in flags]
    kept = tuple(k for k, flag in enumerate(flags) if not flag)
    return Derived(tensor_domain(root), (kept,))


def expand(inputs: Sequence[TensorView], attrs: Attrs) -> Derived:
    (producer,) = inputs
    shape = list(_scalars(attrs["shape"]))
    lead = len(shape) - producer.ndim
    if lead < 0:
        raise ValueError(f"expand to rank {len(shape)} of an input of rank {producer.ndim}")
    for k in range(lead):
        if sc.is_constant(shape[k], -1):
            raise ValueError(f"expand keeps the size of dim {k} (-1), but that dim is a new one")
    for k, source in enumerate(producer.logical):
        if sc.is_constant(shape[lead + k], -1):
            shape[lead + k] = source.extent
    dims = tuple(range(lead, len(shape)))
    return broadcast_in_dim(inputs, {"shape": tuple(shape), "broadcast_dims": dims})


def permute(inputs: Sequence[TensorView], attrs: Attrs) -> Derived:
    (producer,) = inputs
    dims = _ints(attrs["dims"])
    if sorted(dims) != list(range(producer.ndim)):
        raise ValueError(f"dims {list(dims)} are not a permutation of rank {producer.ndim}")
    root = [like(producer.logical[d]) for d in dims]
    return Derived(tensor_domain(root), (tuple(dims.index(k) for k in range(producer.ndim)),))


def squeeze(inputs: Sequence[TensorView], attrs: Attrs) -> Derived:
    (producer,) = inputs
    dims = _ints(attrs["dims"])
    for dim in dims:
        extent = sc.static_int(producer.logical[dim].extent)
        if extent not in (None, 1) and not attrs["squeeze_expanded"]:
            raise ValueError(f"dim {dim} has extent {extent}; only extent 1 can be squeezed")
    kept = [k for k in range(producer.ndim) if k not in dims]
    root = [like(producer.logical[k]) for k in kept]
    positions = {k: n for n, k in enumerate(kept)}
    return Derived(tensor_domain(root), (tuple(positions.get(k) for k in range(producer.ndim)),))


def reshape(inputs: Sequence[TensorView], attrs: Attrs) -> Derived:
    (producer,) = inputs
    shape = _infer(list(_scalars(attrs["new_shape"])), producer)
    root = [like(a) for a in producer.logical]
    logical: list[IterDomain] = []
    for source, target in _reshape_groups(root, shape):
        logical += _regroup(source, target)
    identity = tuple(range(producer.ndim))
    return Derived(tensor_domain(logical, root), (identity,))


def _infer(shape: list[Scalar], producer: TensorView) -> list[Scalar]:
    """Replace one -1 by what the element count leaves; check the count where it is known."""
    have = [sc.static_int(e) for e in producer.extents]
    known = [v for s in shape if (v := sc.static_int(s)) is not None and v != -1]
    open_dims = [k for k, s in enumerate(shape) if sc.is_constant(s, -1)]
    if len(open_dims) > 1:
        raise ValueError("only one dim of new_shape can be -1")
    if None in have or len(known) + len(open_dims) < len(shape):
        if open_dims:
            raise ValueError("new_shape with -1 needs extents known at definition time")
        return shape
    total, rest = prod(v for v in have if v is not None), prod(known)
    if open_dims:
        if rest == 0 or total % rest:
            raise ValueError(f"cannot infer -1: {total} elements into {list(map(str, shape))}")
        shape[open_dims[0]] = sc.constant(total // rest)
    elif total != rest:
        raise ValueError(
            f"reshape of {total} elements to shape {list(map(str, shape))} with {rest}"
        )
    return shape


def _reshape_groups(
    root: Sequence[IterDomain], shape: Sequence[Scalar]
) -> list[tuple[list[IterDomain], list[Scalar]]]:
    """Cut both sides into the smallest runs of equal element count, outermost first.

    [2, 12, 5] -> [2, 3, 4, 5]    =>    [2]->[2], [12]->[3, 4], [5]->[5]

    With symbolic extents only runs of identical extents are matched, from both ends.
    """
    sizes = [sc.static_int(a.extent) for a in root]
    target = [sc.static_int(s) for s in shape]
    if 0 in sizes:  # [0, 4] -> [0, 1]: there is no element that one axis could take from another
        return [(list(root), list(shape))]
    if None in sizes or None in target:
        return _symbolic_groups(root, shape)
    groups: list[tuple[list[IterDomain], list[Scalar]]] = []
    i = j = 0
    while i < len(root) or j < len(shape):
        left: list[IterDomain] = []
        right: list[Scalar] = []
        have = want = 1
        while True:
            if have <= want and i < len(root) and (have < want or not left):
                have *= sizes[i] or 1
                left.append(root[i])
                i += 1
            elif j < len(shape) and (want < have or not right):
                want *= target[j] or 1
                right.append(shape[j])
                j += 1
            else:
                break
        groups.append((left, right))
    return groups


def _symbolic_groups(
    root: Sequence[IterDomain], shape: Sequence[Scalar]
) -> list[tuple[list[IterDomain], list[Scalar]]]:
    front = 0
    while front < min(len(root), len(shape)) and root[front].extent is shape[front]:
        front += 1
    back = 0
    while back < min(len(root), len(shape)) - front and root[-1 - back].extent is shape[-1 - back]:
        back += 1
    middle = (list(root[front : len(root) - back]), list(shape[front : len(shape) - back]))
    return [
        *(([a], [a.extent]) for a in root[:front]),
        *([middle] if middle[0] or middle[1] else []),
        *(([a], [a.extent]) for a in root[len(root) - back :]),
    ]


def _regroup(source: list[IterDomain], target: list[Scalar]) -> list[IterDomain]:
    """Merge `source` into one axis and split it into `target`."""
    if len(source) == 1 and len(target) == 1 and source[0].extent is target[0]:
        return source
    if not source or any(sc.is_constant(a.extent, 0) for a in source):
        return list(map(axis_of, target))
    merged = source[0]
    for inner in source[1:]:
        merged = merge(merged, inner)
    made: list[IterDomain] = []
    for extent in reversed(target[1:]):
        merged, inner = split(merged, extent)
        made.append(inner)
    return [merged, *reversed(made)] if target else []


def slice_(inputs: Sequence[TensorView], attrs: Attrs) -> Derived:
    (producer,) = inputs
    starts, ends, strides = (
        _scalars(attrs[n]) for n in ("start_indices", "end_indices", "strides")
    )
    if not len(starts) == len(ends) == len(strides) == producer.ndim:
        raise ValueError(
            f"slice of rank {producer.ndim} has {len(starts)} starts, {len(ends)} ends, "
            f"{len(strides)} strides"
        )
    root = [like(a) for a in producer.logical]
    logical = [
        _slice_axis(dim, *bounds)
        for dim, bounds in enumerate(zip(root, starts, ends, strides, strict=True))
    ]
    return Derived(tensor_domain(logical, root), (tuple(range(producer.ndim)),))


def _slice_axis(
    dim: int, source: IterDomain, start: Scalar, end: Scalar, stride: Scalar
) -> IterDomain:
    first, last, step = sc.static_int(start), sc.static_int(end), sc.static_int(stride)
    extent = sc.static_int(source.extent)
    if first is not None and first < 0:
        raise ValueError(f"slice dim {dim}: start {first} is negative")
    if step is not None and step < 1:
        raise ValueError(f"slice dim {dim}: stride {step} is not positive")
    if extent is not None and last is not None and first is not None:  # clamp as torch does
        first, last = min(first, extent), min(last, extent)
        if last < first:
            raise ValueError(f"slice dim {dim}: end {last} lies before start {first}")
        start, end = sc.constant(first), sc.constant(last)
    if sc.is_constant(start, 0) and end is source.extent and sc.is_constant(stride, 1):
        return source
    if sc.is_constant(stride, 1):
        return resize(source, sc.sub(sc.constant(0), start), sc.sub(end, source.extent))
    steps = sc.ceil_div(sc.sub(end, start), stride)
    covered = sc.add(start, sc.mul(steps, stride))
    window = resize(source, sc.sub(sc.constant(0), start), sc.sub(covered, source.extent))
    return split(window, stride)[0]


def flip_(inputs: Sequence[TensorView], attrs: Attrs) -> Derived:
    (producer,) = inputs
    root = [like(a) for a in producer.logical]
    dims = _ints(attrs["dims"])
    logical = [flip(a) if k in dims else a for k, a in enumerate(root)]
    return Derived(tensor_domain(logical, root), (tuple(range(producer.ndim)),))


def stride_order(inputs: Sequence[TensorView], attrs: Attrs) -> Derived:
    """`stride_order[dim]` ranks dims by stride, the largest outermost."""
    (producer,) = inputs
    order = _ints(attrs["stride_order"])
    if sorted(order) != list(range(producer.ndim)):
        raise ValueError(f"stride_order {list(order)} is not a permutation of rank {producer.ndim}")
    root = [like(a) for a in producer.logical]
    allocation = [root[dim] for dim in sorted(range(producer.ndim), key=lambda d: -order[d])]
    return Derived(tensor_domain(root, allocation=allocation), (tuple(range(producer.ndim)),))


def pad(inputs: Sequence[TensorView], attrs: Attrs) -> Derived:
    """`pad_widths` as in torch: (left, right) per dim, the last dim first."""
    (producer,) = inputs
    widths = _scalars(attrs["pad_widths"])
    if len(widths) % 2 or len(widths) > 2 * producer.ndim:
        raise ValueError(f"{len(widths)} pad widths for an input of rank {producer.ndim}")
    root = [like(a) for a in producer.logical]
    logical = list(root)
    for k in range(len(widths) // 2):
        left, right = widths[2 * k], widths[2 * k + 1]
        dim = producer.ndim - 1 - k
        if not (sc.is_constant(left, 0) and sc.is_constant(right, 0)):
            logical[dim] = resize(root[dim], left, right)
            extent = sc.static_int(logical[dim].extent)
            if extent is not None and extent < 0:
                raise ValueError(f"pad dim {dim}: widths ({left}, {right}) leave extent {extent}")
    return Derived(tensor_domain(logical, root), (tuple(range(producer.ndim)),))


def cat(inputs: Sequence[TensorView], attrs: Attrs) -> Derived:
    """Root is the result itself; input k covers the window that `cat_starts` gives."""
    (dim,) = _ints((attrs["dim"],))
    first = inputs[0]
    if any(tv.ndim != first.ndim for tv in inputs):
        raise ValueError(f"cat of ranks {[tv.ndim for tv in inputs]}; legal: one rank")
    total: Scalar = sc.constant(0)
    for tv in inputs:
        total = sc.add(total, tv.extents[dim])
    root = []
    for k in range(first.ndim):
        if k == dim:
            root.append(axis(total))
        else:
            root.append(IterDomain(_widest([tv.logical[k] for tv in inputs], inputs).extent))
            if any(tv.logical[k].is_unit != root[k].is_unit for tv in inputs):
                sizes = ", ".join(str(tv.extents[k]) for tv in inputs)
                raise ValueError(f"cat along dim {dim}: extents differ in dim {k}: {sizes}")
    return Derived(tensor_domain(root), (tuple(range(first.ndim)),) * len(inputs))


def cat_starts(inputs: Sequence[TensorView], dim: int) -> tuple[Scalar, ...]:
    """Where each input's window begins along `dim`."""
    starts: list[Scalar] = [sc.constant(0)]
    for tv in inputs[:-1]:
        starts.append(sc.add(starts[-1], tv.extents[dim]))
    return tuple(starts)


def index_select(inputs: Sequence[TensorView], attrs: Attrs) -> Derived:
    """The gathered axis of x becomes the axis of the index; an index of rank 0 counts as one."""
    x, index = inputs
    (dim,) = _ints((attrs["dim"],))
    if index.ndim > 1:
        raise ValueError(f"the index has rank {index.ndim}; legal: 0 or 1")
    root = [like(a) for a in x.logical]
    root[dim] = like(index.logical[0]) if index.ndim else axis(1, IterType.BROADCAST)
    kept = tuple(None if k == dim else k for k in range(x.ndim))
    return Derived(tensor_domain(root), (kept, (dim,) * index.ndim))


def take_along_axis(inputs: Sequence[TensorView], attrs: Attrs) -> Derived:
    """The gathered axis of x becomes that of the index, the others broadcast."""
    x, index = inputs
    (dim,) = _ints((attrs["dim"],))
    if index.ndim != x.ndim:
        raise ValueError(f"the index has rank {index.ndim}, x has rank {x.ndim}")
    root = [
        like(b if k == dim else _widest([a, b], inputs))
        for k, (a, b) in enumerate(zip(x.logical, index.logical, strict=True))
    ]
    maps = [
        tuple(None if a.is_unit and not root[k].is_unit else k for k, a in enumerate(tv.logical))
        for tv in inputs
    ]
    maps[0] = tuple(None if k == dim else position for k, position in enumerate(maps[0]))
    return Derived(tensor_domain(root), tuple(maps))


def reduce(inputs: Sequence[TensorView], attrs: Attrs) -> Derived:
    (producer,) = inputs
    dims = _ints(attrs["dims"])
    root = [
        IterDomain(a.extent, IterType.REDUCTION) if k in dims else like(a)
        for k, a in enumerate(producer.logical)
    ]
    return Derived(tensor_domain(root), (tuple(range(producer.ndim)),))


def scan(inputs: Sequence[TensorView], attrs: Attrs) -> Derived:
    (producer,) = inputs
    root = [like(a) for a in producer.logical]
    return Derived(tensor_domain(root), (tuple(range(producer.ndim)),))


def source(inputs: Sequence[TensorView], attrs: Attrs) -> Derived:
    shape = _scalars(attrs["shape"] if "shape" in attrs else attrs["length"])
    for dim, extent in enumerate(shape):
        size = sc.static_int(extent)
        if size is not None and size < 0:
            raise ValueError(f"dim {dim} has negative extent {size}")
    return Derived(tensor_domain(list(map(axis_of, shape))), ())


def _scalars(attr: Attr) -> tuple[Scalar, ...]:
    assert isinstance(attr, tuple)
    out = []
    for entry in attr:
        assert isinstance(entry, sc.Constant | sc.Symbol | sc.ScalarExpr)
        out.append(entry)
    return tuple(out)


def _ints(attr: Attr) -> tuple[int, ...]:
    assert isinstance(attr, tuple)
    out = []
    for entry in attr:
        assert isinstance(entry, int)
        out.append(entry)
    return tuple(out)


_FUNCTIONS: dict[str, DomainRule] = {
    "": pointwise,
    "broadcast_in_dim": broadcast_in_dim,
    "broadcast": broadcast,
    "expand": expand,
    "permute": permute,
    "squeeze": squeeze,
    "reshape": reshape,
    "slice": slice_,
    "flip": flip_,
    "stride_order": stride_order,
    "pad": pad,
    "cat": cat,
    "index_select": index_select,
    "take_along_axis": take_along_axis,
    **GROUP_DOMAINS,
    "reduce": reduce,
    "scan": scan,
    "source": source,
}

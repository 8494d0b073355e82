"""Let rows lie where a result that turns them has them.

    T1: bf16[i64, i16, i577, i64] = cast(T0)    of sums along rows
    T2: bf16[i64, i577, i16, i64] = permute(T1, dims=[0, 2, 1, 3])
    T3: bf16[i64, i577, i1024] = reshape(T2)
        =>   T1 lies as T2, and T3 is a view of it

The gradient of a norm of heads, whose rows are those of each head, is returned token by token. A
kernel of rows stores each of its rows anywhere, but whole, and knows them by the axes of what it
stores: of T3 an axis has the rows of several heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from thunder_fuser.analysis.digits import ZERO, atom, inverted, weight_of
from thunder_fuser.analysis.layout import Layout, dense_strides, linear, offset_of, output_layout
from thunder_fuser.analysis.reductions import is_along
from thunder_fuser.analysis.views import Chain, follow, view_of
from thunder_fuser.ir.build import again
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.rewrite import lying, rewrite
from thunder_fuser.ir.tensor import TensorView, Value


def lay_results(fusion: Fusion) -> Fusion:
    """`fusion` with such rows."""
    along = set(filter(is_along, fusion.tensors))
    given = {*fusion.inputs, *fusion.outputs}
    orders: dict[TensorView, tuple[int, ...]] = {}
    chains = {tv: follow(tv, lambda _: False) for tv in (fusion.outputs if along else ())}
    for tv, chain in chains.items():
        if chain is None or chain.root in given or along.isdisjoint(topological([chain.root])):
            continue
        others = [o for o, c in chains.items() if o is not tv and c and c.root is chain.root]
        order = None if others and not _is_copied_for(tv, chain, others) else _order(tv, chain)
        if order is not None:
            orders.setdefault(chain.root, order)

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        if tv not in orders:
            return None
        made = again(tv.expr, inputs)
        return lying(made, orders[tv])

    return rewrite(fusion, rule) if orders else fusion


def _is_copied_for(tv: TensorView, chain: Chain, others: Sequence[TensorView]) -> bool:
    """True for a result that torch copies out of the root and the others are made of: they share
    its memory there, as two that torch copies, or a view and what is copied of it, do not."""
    is_copied = view_of(tv, chain, output_layout(chain.root)) is None
    return is_copied and all(tv in topological([other]) for other in others)


def _order(tv: TensorView, chain: Chain) -> tuple[int, ...] | None:
    """The order of the dims of the root, from the outermost, in which the elements of `tv` lie one
    after another; None for that which they have, and where there is none or rows are not whole."""
    root = chain.root
    axes = inverted(chain.index, tuple(map(atom, root.logical)))
    if axes is None or prod(root.shape) != prod(tv.shape):
        return None
    place = linear(tv.shape, [axes.get(a, ZERO) for a in tv.logical])
    numbers = [k for k in range(root.ndim) if root.shape[k] != 1]
    order = sorted(numbers, key=lambda k: weight_of(place, root.logical[k]) or 0, reverse=True)
    if order == numbers or order[-1] != numbers[-1]:
        return None
    whole = (*(k for k in range(root.ndim) if root.shape[k] == 1), *order)
    lies_so = offset_of(Layout(root.shape, dense_strides(root.shape, whole)), chain.index)
    return whole if lies_so == linear(tv.shape, tuple(map(atom, tv.logical))) else None

"""Where an element of the plane is stored, as seen from the column and the row worked on.

T1[c] = sum(T0[r, c]);  T3[c, r] = permute(T0[r, c] - T1[c])       T3 at (c, r)
"""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.analysis.access import Index
from thunder_fuser.analysis.digits import unflatten
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Family
from thunder_fuser.schedule.row_axes import index_as_viewed, linear
from thunder_fuser.segment.segment import Store


def element_of(store: Store, terms: Sequence[tuple[TensorView, Index]]) -> Index:
    """The element of a full store that goes with a term: the one it is a view of, also through what
    is computed element by element, permuted and reshaped; else the same in row-major order."""
    found = _element(store.value, terms)
    return unflatten(linear(*terms[0]), store.value.shape) if found is None else found


def _element(value: TensorView, terms: Sequence[tuple[TensorView, Index]]) -> Index | None:
    viewed = index_as_viewed(terms, value.shape)
    if viewed is not None or value.definition is None:
        return viewed
    made = value.definition
    operands = _alike(value)
    if not operands:
        return None
    operand = next((tv for tv in operands if tv.definition is not None), operands[0])
    index = _element(operand, terms)
    if index is None or (operand.shape == value.shape and made.op.name != "permute"):
        return index
    if made.op.name == "permute":
        dims = made.attr("dims")
        assert isinstance(dims, tuple)
        return tuple(index[d] for d in dims if isinstance(d, int))
    return unflatten(linear(operand, index), value.shape)


def _alike(value: TensorView) -> list[TensorView]:
    """What a value is computed from element by element, or has the elements of in another shape or
    order."""
    made = value.definition
    if made is not None and made.op.name in ("permute", "stride_order", "reshape"):
        return list(made.tensors)
    is_pointwise = made is not None and made.op.family is Family.POINTWISE
    return [tv for tv in made.tensors if tv.shape == value.shape] if made and is_pointwise else []

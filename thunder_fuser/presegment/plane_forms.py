"""The planes whose rows reductions combine, and the form in which sums over all columns see them.

T1[n, r, c] = softmax(T0[n, r, c], 1)        the plane (n, r, c), whose rows are dim 1
T2[r] = sum(T1, (0, 2))                      is over all columns of it: of that shape and dim
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import TypeAlias

from thunder_fuser.analysis.reductions import is_long_reduction, terms_of
from thunder_fuser.ir.tensor import TensorView

Form: TypeAlias = tuple[tuple[int, ...], int]  # of a plane: its shape, and the dim of rows


def reduced_dim(tv: TensorView) -> int | None:
    """The dim that a reduction combines, if it is one among larger ones."""
    if not is_long_reduction(tv):
        return None
    dims = [d for d in tv.expr.dims() if terms_of(tv).shape[d] != 1]
    return dims[0] if len(dims) == 1 and prod(tv.shape) > 1 else None


def is_of_rows(tv: TensorView, planes: Mapping[tuple[int, ...], int]) -> bool:
    """True for what combines the rows of one of the planes."""
    dim = reduced_dim(tv)
    return dim is not None and planes.get(terms_of(tv).shape) == dim


def forms_of(
    planes: Mapping[tuple[int, ...], int], ahead: Iterable[TensorView]
) -> dict[Form, tuple[int, ...]]:
    """The planes by their own form, and by that of what is permuted to be one `ahead` of the sums
    of rows: sums over all columns are of what lies so in memory, where `undo_turns` left them."""
    found = {(plane, dim): plane for plane, dim in planes.items()}
    for tv in ahead:
        if tv.is_of("permute") and planes.get(tv.shape) == tv.ndim - 1:
            (source,), (*others, dim) = tv.producers, tv.expr.dims()
            if others == sorted(others):
                found.setdefault((source.shape, dim), tv.shape)
    return found


def form_of(tv: TensorView) -> Form:
    """Of what a sum over all dims but one is of, also of each sample, of which the outermost dims
    are. For other reductions there is no dim: -1."""
    shape, dims = terms_of(tv).shape, tv.expr.dims()
    *outer, dim = [d for d, size in enumerate(shape) if size != 1 and d not in dims] or [-1]
    leads = outer == [d for d, size in enumerate(shape[: len(outer)]) if size != 1]
    return shape, dim if leads and tv.expr.op.state_size == 1 else -1


def samples_of(tv: TensorView) -> int:
    """Of how many samples each such sum is: of all columns, or of those of an outermost dim."""
    _, dim = form_of(tv)
    return prod(tv.shape) // terms_of(tv).shape[dim]

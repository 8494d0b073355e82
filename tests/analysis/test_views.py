"""Views read off index maps are those of torch."""

from __future__ import annotations

import random

import torch

from thunder_fuser.analysis.digits import atom, divmod_form
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.analysis.views import elements_as_viewed, follow, indices_as_viewed, view_of
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.domain import axis
from thunder_fuser.ir.tensor import TensorView


def step(
    rng: random.Random, tv: TensorView, eager: torch.Tensor
) -> tuple[TensorView, torch.Tensor]:
    """One random op that relates whole axes."""
    dim, rank = rng.randrange(tv.ndim), tv.ndim
    match rng.randrange(4):
        case 0:
            dims = tuple(rng.sample(range(rank), rank))
            return call("permute", tv, dims=dims), eager.permute(dims)
        case 1 if rank < 5:
            flags = tuple(k == dim for k in range(rank + 1))
            return call("broadcast", tv, is_broadcast_dim=flags), eager.unsqueeze(dim)
        case 2 if eager.shape[dim] == 1 and rank > 1:
            return call("squeeze", tv, dims=(dim,)), eager.squeeze(dim)
        case 3 if eager.shape[dim] == 1:
            shape = [*eager.shape[:dim], 3, *eager.shape[dim + 1 :]]
            return call("expand", tv, shape=tuple(map(sc.constant, shape))), eager.expand(shape)
    return tv, eager


def test_chains_over_any_layout_have_the_strides_of_torch() -> None:
    """Inputs that are transposed, cut and strided: no contiguity is needed."""
    rng = random.Random()
    for _ in range(200):
        bound = torch.empty(4, 1, 6)[
            rng.randrange(2) :: rng.choice([1, 2]), :, :: rng.choice([1, 3])
        ]
        bound = bound.permute(rng.sample(range(3), 3))
        source = view = tensor(DataType.Float, *bound.shape)
        eager = bound
        for _ in range(rng.randrange(1, 7)):
            view, eager = step(rng, view, eager)
        chain = follow(view, {source}.__contains__)
        assert chain is not None
        found = view_of(view, chain, Layout(tuple(bound.shape), bound.stride()))
        assert found is not None
        assert (found.root, found.shape, found.offset) == (source, tuple(eager.shape), 0)
        wide = [k for k, n in enumerate(eager.shape) if n > 1]
        assert [found.strides[k] for k in wide] == [eager.stride(k) for k in wide]


def test_a_broadcast_row_sum_is_a_view_of_the_sum_not_of_its_operand() -> None:
    x = tensor(DataType.Float, 8, 4)
    total = call("sum", x, dims=(1,))
    chain = follow(call("broadcast", total, is_broadcast_dim=(False, True)), lambda tv: tv is x)
    assert chain is not None
    assert chain.root is total


def test_an_element_is_one_of_what_it_views_in_another_shape() -> None:
    source = tensor(DataType.Float, 4, 6)
    turned = call("permute", source, dims=(1, 0))
    flat = call("reshape", turned, new_shape=(sc.constant(24),))
    place = atom(axis(24))
    column, row = divmod_form(place, 4)
    found = list(elements_as_viewed((flat, (place,))))
    assert found == [(flat, (place,)), (turned, (column, row)), (source, (row, column))]
    assert list(indices_as_viewed([(flat, (place,))], (4, 6))) == [(row, column)]
    assert list(indices_as_viewed([(flat, (place,))], (24, 1))) == []


def test_what_a_view_repeats_or_what_it_computes_is_behind_no_view() -> None:
    row = tensor(DataType.Float, 1, 6)
    rows = call("expand", row, shape=(sc.constant(4), sc.constant(6)))
    negated = call("neg", rows)
    index = atom(axis(4)), atom(axis(6))
    assert list(elements_as_viewed((negated, index))) == [(negated, index)]
    assert list(elements_as_viewed((rows, index))) == [(rows, index)]

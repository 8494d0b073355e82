"""Index maps and views of random chains of shape ops, against torch on the element numbers."""

from __future__ import annotations

import random
from itertools import product
from math import prod

import pytest
import torch

from tests.programs import cat, expand, like, pad, permute, piece, reshape, total, unsqueeze
from tests.random_fusions import Program
from thunder_fuser.analysis.access import Side, demand, side
from thunder_fuser.analysis.digits import ZERO, Form, atom, combine, evaluate
from thunder_fuser.analysis.index_map import Window, edges, term_at
from thunder_fuser.analysis.layout import (
    Layout,
    alignment_of,
    dense_strides,
    offset_of,
    output_layout,
)
from thunder_fuser.analysis.views import follow, is_metadata, view_of
from thunder_fuser.ir.domain import IterDomain, axis
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.runtime.evaluate import evaluate as run_torch

VIEWS = ("slice", "permute", "reshape", "expand", "flip", "pad")


@pytest.fixture
def rng() -> random.Random:
    seed = random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}")
    return random.Random(seed)


def chain_of(rng: random.Random, ops: tuple[str, ...]) -> tuple[torch.Tensor, TensorView]:
    """An input that numbers its elements from 1, and a chain of ops on it."""
    shape = [rng.choice([1, 2, 3, 4, 6]) for _ in range(rng.randint(1, 3))]
    x = torch.arange(1, prod(shape) + 1).reshape(shape)
    if rng.random() < 0.5:
        x = x.permute(*rng.sample(range(x.ndim), x.ndim))
    (a,) = like(x)
    program, tv = Program(rng, [x], (a,), [a]), a
    for _ in range(rng.randint(1, 5)):
        made = getattr(program, rng.choice(ops))(tv)
        if made is not None and prod(made.shape) <= 200 and made.ndim <= 6:
            tv = made
    return x, tv


def every_index(tv: TensorView) -> list[dict[IterDomain, int]]:
    ranges = (range(n) for n in tv.shape)
    return [dict(zip(tv.logical, p, strict=True)) for p in product(*ranges)]


def holds(window: Window, values: dict[IterDomain, int]) -> bool:
    return 0 <= evaluate(window.form, values) < window.extent


def test_a_chain_of_maps_reads_the_elements_that_torch_shows(rng: random.Random) -> None:
    for _ in range(150):
        x, tv = chain_of(rng, VIEWS)
        program = Fusion(tuple(t for t in (root_of(tv),)), (tv,))
        wanted = run_torch(program, [x])[0].flatten().tolist()
        index: tuple[Form, ...] = tuple(map(atom, tv.logical))
        windows: list[Window] = []
        current = tv
        while current.definition is not None:
            (edge,) = edges(current, index)
            windows += edge.windows
            current, index = edge.producer, edge.index
        found = []
        for values in every_index(tv):
            inside = all(holds(w, values) for w in windows)
            at = tuple(evaluate(f, values) for f in index)
            found.append(int(x[at]) if inside else None)
        fills = [w for w, f in zip(wanted, found, strict=True) if f is None]
        assert [f for f in found if f is not None] == [
            w for w, f in zip(wanted, found, strict=True) if f is not None
        ]
        assert set(fills) <= {0, 1}


def test_the_terms_of_an_element_are_those_that_torch_sums(rng: random.Random) -> None:
    for _ in range(50):
        x = torch.randint(100, [rng.randint(1, 5) for _ in range(rng.randint(1, 4))])
        dims = sorted(rng.sample(range(x.ndim), rng.randint(1, x.ndim)))
        (a,) = like(x)
        tv = total(a, *dims)
        reduced = [axis(x.shape[d]) for d in dims]
        producer, index = term_at(tv, tuple(map(atom, tv.logical)), [atom(r) for r in reduced])
        assert producer is a
        for values, wanted in zip(every_index(tv), x.sum(dims).flatten().tolist(), strict=True):
            found = 0
            for point in product(*(range(r.size) for r in reduced)):
                at = values | dict(zip(reduced, point, strict=True))
                found += int(x[tuple(evaluate(form, at) for form in index)])
            assert found == wanted


def root_of(tv: TensorView) -> TensorView:
    while tv.definition is not None:
        (tv,) = tv.definition.tensors
    return tv


def test_a_view_is_found_exactly_where_torch_has_one(rng: random.Random) -> None:
    """torch's own verdict: the reshapes of a chain either share the storage or copy."""
    for _ in range(200):
        x, tv = chain_of(rng, ("slice", "permute", "reshape", "expand"))
        if tv.definition is None or 0 in tv.shape:
            continue
        chain = follow(tv, lambda t: t.definition is None)
        assert chain is not None
        found = view_of(tv, chain, Layout(tuple(x.shape), x.stride()))
        wanted = run_torch(Fusion((chain.root,), (tv,)), [x])[0]
        is_view = wanted.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        if is_view:
            assert found is not None, "torch has strides for it"
        if found is not None:
            seen = x.as_strided(found.shape, found.strides, x.storage_offset() + found.offset)
            assert torch.equal(seen, wanted)


def test_a_view_has_torchs_strides_and_offset() -> None:
    x = torch.empty(4, 6, 10)
    (a,) = like(x)
    tv = permute(piece(reshape(a, 4, 2, 3, 10), 3, 2, 9, 3), 3, 0, 1, 2)
    wanted = x.view(4, 2, 3, 10)[..., 2:9:3].permute(3, 0, 1, 2)
    chain = follow(tv, lambda t: t is a)
    assert chain is not None
    view = view_of(tv, chain, Layout((4, 6, 10), x.stride()))
    assert view is not None
    assert (view.shape, view.strides, view.offset) == (
        tuple(wanted.shape),
        wanted.stride(),
        wanted.storage_offset(),
    )


def test_an_expanded_reshape_that_has_a_stride_vector_is_a_view() -> None:
    """nvFuser refuses these: it knows contiguity flags only."""
    x = torch.empty(5, 1)
    (a,) = like(x)
    tv = reshape(expand(unsqueeze(a, 1), 5, 2, 3), 5, 6)
    chain = follow(tv, lambda t: t is a)
    assert chain is not None
    view = view_of(tv, chain, Layout((5, 1), (1, 1)))
    assert view is not None
    assert view.strides == (1, 0)


@pytest.mark.parametrize("make", [lambda a: pad(a, [1, 0]), lambda a: cat(a, a)])
def test_fills_and_joins_are_no_views(make: object) -> None:
    assert callable(make)
    (a,) = like(torch.empty(3, 4))
    tv = make(a)
    chain = follow(tv, lambda t: t is a)
    assert chain is None or chain.root is tv


def test_a_pad_that_only_cuts_is_a_slice() -> None:
    (a,) = like(torch.empty(3, 8))
    tv = pad(a, [-2, -1])
    assert is_metadata(tv)
    chain = follow(tv, lambda t: t is a)
    assert chain is not None
    view = view_of(tv, chain, Layout((3, 8), (8, 1)))
    assert view is not None
    assert (view.shape, view.strides, view.offset) == ((3, 5), (8, 1), 2)


# demand


def test_an_index_that_may_seem_to_leave_its_axis_passes_a_unit_dim() -> None:
    """Rows of a last turn that has fewer: a row is below 10, of which 12 are counted."""
    turn, side = axis(3), axis(4)
    row = combine(atom(turn), atom(side), 4)
    x = like(torch.empty(1, 10, 1))[0]
    made = reshape(x, 10)
    (edge,) = edges(made, (row,))
    assert edge.index == (ZERO, row, ZERO)


def test_equal_indices_are_demanded_once() -> None:
    (a,) = like(torch.empty(6, 8))
    both = cat(a, a)
    needs = demand([(both, (atom(axis(6)), Form(3))), (both, (Form(0), Form(11)))], frozenset({a}))
    assert [index[1] for _, index in needs.leaves] == [Form(3), Form(3)]
    assert list(needs.windows()) == []


def test_a_window_is_decided_where_no_axis_matters() -> None:
    i = axis(4)
    assert side(Window(atom(i), 4)) is Side.INSIDE
    assert side(Window(Form(9), 4)) is Side.OUTSIDE
    assert side(Window(atom(i), 3)) is Side.DEPENDS


# layouts


def test_output_layouts_follow_the_allocation_order() -> None:
    (a,) = like(torch.empty(3, 4, 5))
    assert output_layout(permute(a, 2, 0, 1)).strides == (12, 4, 1)
    assert dense_strides((3, 4, 5), (2, 0, 1)) == (4, 1, 12)


@pytest.mark.parametrize(
    ("layout", "is_dense", "span"),
    [
        (Layout((3, 4), (4, 1)), True, 12),
        (Layout((3, 4), (1, 3)), True, 12),
        (Layout((3, 4), (5, 1)), False, 14),
        (Layout((3, 4), (0, 1)), False, 4),
        (Layout((1, 4), (99, 1)), True, 4),
        (Layout((0, 4), (4, 1)), True, 0),
        (Layout((), ()), True, 1),
    ],
)
def test_density_and_span(layout: Layout, is_dense: bool, span: int) -> None:
    assert layout.span == span
    if layout.numel:
        assert layout.is_dense is is_dense


def test_alignment_is_that_of_the_address() -> None:
    assert [alignment_of(a) for a in (0, 16, 24, 36, 34, 33)] == [16, 16, 8, 4, 2, 1]


def test_offsets_are_sums_over_strides() -> None:
    i, j = axis(3), axis(4)
    form = offset_of(Layout((3, 4), (10, 2)), (atom(i), atom(j)))
    assert evaluate(form, {i: 2, j: 3}) == 26

"""Axes and the transforms that make them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.axis_cases import table
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.domain import (
    IterType,
    Merge,
    ParallelType,
    axis,
    flip,
    merge,
    parallelize,
    resize,
    split,
    tensor_domain,
)


@given(size=st.integers(1, 40), factor=st.integers(1, 12), inner=st.booleans())
def test_a_split_covers_its_axis_with_the_fewest_whole_pieces(
    size: int, factor: int, inner: bool
) -> None:
    source = axis(size)
    outer, within = split(source, factor, inner)
    assert (within if inner else outer).size == factor
    assert size <= outer.size * within.size < size + factor
    columns = table([outer, within], [source])
    assert len(set(zip(columns[outer], columns[within], strict=True))) == size


def test_two_axes_of_one_extent_are_two_axes() -> None:
    assert axis(8) != axis(8)
    first = axis(8)
    assert parallelize(first, ParallelType.VECTORIZE) != first


@pytest.mark.parametrize(
    ("outer", "inner", "made"),
    [("i", "i", "i"), ("b", "b", "b"), ("b", "i", "i"), ("i", "b", "i"), ("r", "r", "r")],
)
def test_merged_axes_broadcast_only_together(outer: str, inner: str, made: str) -> None:
    joined = merge(axis(4, IterType(outer)), axis(6, IterType(inner)))
    assert (joined.iter_type, joined.size) == (IterType(made), 24)


def test_a_resized_or_flipped_axis_has_data() -> None:
    wide = axis(1, IterType.BROADCAST)
    assert resize(wide, 0, 3).iter_type is flip(wide).iter_type is IterType.ITERATION
    assert str(resize(axis(sc.symbol("n")), 2, -1).extent) == "add(add(n, 2), -1)"


def test_transforms_come_consumers_first_and_once() -> None:
    root = axis(24)
    outer, inner = split(root, 6)
    joined = merge(flip(outer), inner)
    domain = tensor_domain([joined, outer], [root])
    kinds = [type(t).__name__ for t in domain.transforms]
    assert kinds.count("Split") == 1
    assert isinstance(domain.transforms[0], Merge)
    assert kinds.index("Flip") < kinds.index("Split")


def test_memory_holds_no_reduced_axis_and_no_contiguity_for_broadcasts() -> None:
    kept, wide = axis(4), axis(3, IterType.BROADCAST)
    domain = tensor_domain([kept, axis(8, IterType.REDUCTION), wide])
    assert domain.allocation == domain.loop == (kept, wide)
    assert domain.contiguity == (True, None)

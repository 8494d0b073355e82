"""Elements read, against those that really arrive in the results."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import thunder
import torch
import torch.nn.functional as F

from thunder_fuser import fuser
from thunder_fuser.analysis.footprint import MAX_OFFSETS
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.executor.explain import regions_of
from thunder_fuser.segment.traffic import bytes_read, bytes_written

Act = Callable[[torch.Tensor, random.Random], torch.Tensor]


def read(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> tuple[int, int]:
    """Bytes that the one segment of `function` reads and writes. Torch runs it: that is quicker
    than a compiler."""
    options = dict(fuser_single_op=True, fuser_evaluator=True)
    jitted = thunder.jit(function, executors=[fuser], **options)
    jitted(*inputs)
    (region,) = regions_of(jitted)
    (segment,) = region.definitions[0].leaf.program.plans[0].segmented.segments  # type: ignore[attr-defined]
    assert not segment.is_opaque
    return bytes_read(segment), bytes_written(segment)


def numbered(*shape: int) -> torch.Tensor:
    """Every element is its own number, from 1: zeros are fill."""
    count = torch.Size(shape).numel()
    return torch.arange(1, count + 1, dtype=torch.int64).reshape(shape)


def _slice(x: torch.Tensor, draw: random.Random) -> torch.Tensor:
    dim = draw.randrange(x.ndim)
    begin = draw.randrange(x.shape[dim])
    end = draw.randrange(begin, x.shape[dim]) + 1
    return x[(slice(None),) * dim + (slice(begin, end),)]


def _flip(x: torch.Tensor, draw: random.Random) -> torch.Tensor:
    return x.flip(draw.randrange(x.ndim))


def _permute(x: torch.Tensor, draw: random.Random) -> torch.Tensor:
    return x.permute(draw.sample(range(x.ndim), x.ndim))


def _pad(x: torch.Tensor, draw: random.Random) -> torch.Tensor:
    return F.pad(x, (draw.randrange(3), draw.randrange(3)))


def _rotate(x: torch.Tensor, draw: random.Random) -> torch.Tensor:
    middle = draw.randrange(x.shape[-1] + 1)
    return torch.cat((x[..., middle:], x[..., :middle]), -1)


def _double(x: torch.Tensor, draw: random.Random) -> torch.Tensor:
    return torch.cat((x, x), draw.randrange(x.ndim))


ACTS: tuple[Act, ...] = (_slice, _flip, _permute, _pad, _rotate, _double)


@pytest.mark.parametrize("seed", range(12))
def test_shape_ops_read_what_arrives(seed: int) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        draw = random.Random(seed)
        for _ in range(3):
            x = draw.choice(ACTS)(x, draw)
        return x * 1

    x = numbered(4, 5, 6)
    y = function(x)
    found = read(function, x)
    assert found == (8 * len(set(y.flatten().tolist()) - {0}), 8 * y.numel())


def test_parts_that_overlap_count_once() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x[:, 1:4] + x[:, 2:5]

    assert read(function, torch.randn(3, 7)) == (4 * 3 * 4, 4 * 3 * 3)


def test_an_expanded_input_counts_as_what_lies_in_memory() -> None:
    assert read(lambda x: x * 2, torch.randn(5, 1).expand(5, 8)) == (4 * 5, 4 * 5 * 8)


def test_a_reduction_reads_its_rows_once() -> None:
    assert read(lambda x: torch.softmax(x, -1), torch.randn(6, 9)) == (4 * 54, 4 * 54)


def test_a_reshape_that_divides_unevenly_is_never_charged_beyond_the_tensor() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x[:, 1:].reshape(7, 8)[1:, 3:] * 1

    x = numbered(8, 8)
    arrives = 8 * function(x).numel()
    found, _ = read(function, x)
    assert arrives <= found <= 8 * 64


def test_large_tensors_are_counted_without_listing_their_elements() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cat((-x[..., 64:], x[..., :64]), -1) * x.view(2, -1, 4, 128)[:, :1, :1]

    x = torch.zeros(2, 3, 4, 128, dtype=torch.int8).repeat(1, 500, 1, 1)
    assert x.numel() > MAX_OFFSETS / 2
    assert read(function, x) == (x.numel(), x.numel())


def test_expanded_axes_have_one_element() -> None:
    assert Layout((3, 4, 5), (5, 0, 1)).distinct == 15
    assert Layout((3, 0, 5), (5, 0, 1)).distinct == 0


@pytest.mark.parametrize("terms", [60, 4608])
def test_the_terms_of_a_sum_by_an_index_are_read_once(terms: int) -> None:
    """Also where pieces of it are summed first: 64 terms each, of 24 values in f32."""
    grad, index = torch.randn(terms, 24), torch.randint(9, (terms,))
    jitted = thunder.jit(
        lambda x, i, g: torch.index_add(x, 0, i, g) * 2, executors=[fuser], fuser_evaluator=True
    )
    jitted(torch.randn(9, 24), index, grad)
    (region,) = regions_of(jitted)
    segments = region.definitions[0].leaf.program.plans[0].segmented.segments  # type: ignore[attr-defined]
    *before, summed = segments
    own = 4 * 24 * terms
    order, ends, table = 8 * terms, 8 * 9, 4 * 24 * 9
    assert 0 <= bytes_read(summed) - (own + order + ends + table) < own // 50
    assert all(bytes_read(s) < own // 4 for s in before)

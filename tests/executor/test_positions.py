"""Norms of tokens with positions: the gradients of these are sums over the samples, beside those of
the weights over all rows and those along rows."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.executor.judging import judged
from tests.executor.test_short_rows import texts

pytestmark = [pytest.mark.sanitizer, pytest.mark.usefixtures("one_multiprocessor")]

WALK = "for (int turn = 0; turn < "  # over the rows of a position
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
Sizes = tuple[int, int, int]  # samples, positions, channels
WORDS = 70


def tokens(
    x: torch.Tensor, p: torch.Tensor, w: torch.Tensor, b: torch.Tensor, *_: torch.Tensor
) -> torch.Tensor:
    return F.layer_norm(x + p, w.shape, w, b)


def words(
    table: torch.Tensor, p: torch.Tensor, w: torch.Tensor, b: torch.Tensor, index: torch.Tensor
) -> torch.Tensor:
    return tokens(F.embedding(index, table), p, w, b)


def weights(sizes: Sizes, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    _, positions, channels = sizes
    shapes = [(positions, channels), (channels,), (channels,)]
    return tuple(torch.randn(shape, dtype=dtype) for shape in shapes)


@DTYPES
@pytest.mark.parametrize("row", [2048, 2056])  # bytes
def test_blocks_have_the_row_of_a_position_in_each_sample(
    row: int, dtype: torch.dtype, device: torch.device
) -> None:
    sizes = (32, 3, row // dtype.itemsize)
    x = torch.randn(sizes, dtype=dtype)
    made = texts(judged(tokens, (x, *weights(sizes, dtype)), torch.randn_like(x), device))
    assert [WALK in text for text in made] == [True, False]


@DTYPES
@pytest.mark.parametrize("samples", [32, 35])
def test_rows_of_words_are_gathered_where_positions_are_summed(
    samples: int, dtype: torch.dtype, device: torch.device
) -> None:
    sizes = (samples, 3, 2048 // dtype.itemsize)
    index = torch.randint(WORDS, sizes[:2])
    given = torch.randn(WORDS, sizes[2], dtype=dtype), *weights(sizes, dtype), index
    walk, *others = texts(judged(words, given, torch.randn(sizes, dtype=dtype), device))
    assert WALK in walk
    assert not any(WALK in text for text in others)


@pytest.mark.parametrize("sizes", [(1, 64, 512), (20, 3, 600), (33, 2, 257), (2, 16, 1)], ids=str)
def test_positions_of_any_size_have_gradients_like_eagers(
    sizes: Sizes, device: torch.device
) -> None:
    x, index = torch.randn(sizes), torch.randint(WORDS, sizes[:2])
    judged(tokens, (x, *weights(sizes, torch.float32)), torch.randn_like(x), device)
    table = torch.randn(WORDS, sizes[2]).bfloat16()
    judged(words, (table, *weights(sizes, table.dtype), index), x.bfloat16(), device)

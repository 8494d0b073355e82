"""Vectors that threads side by side move in aligned words: where, and bit for bit."""

from __future__ import annotations

import pytest
import torch

from tests.kernel.test_lower import body_of, kernel_of
from tests.programs import cat, check, like, pad, piece, reshape, unsqueeze
from tests.schedule.segments import halves, segment_of
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView


def turns(x: TensorView) -> TensorView:
    """Of each two neighbours the product, in rows that are twice as long in memory."""
    return call("mul", piece(x, 1, 0, x.shape[1] // 2 * 2, 2), piece(x, 1, 1, x.shape[1], 2))


def interleaved(x: TensorView, y: TensorView) -> TensorView:
    """Sums and products in turns, and one column more."""
    rows, columns = x.shape
    both = cat(unsqueeze(call("add", x, y), 2), unsqueeze(call("mul", x, y), 2))
    return pad(reshape(both, rows, 2 * columns), [0, 1])


def test_neighbours_hand_each_other_what_words_have_of_both() -> None:
    x = halves(64, 1025)
    assert "T0[1025*i0 + 16*i1], 16 x bf16, 2 bytes at a time, in aligned words" in body_of(
        segment_of([x], turns(x))
    )
    two = halves(64, 512), halves(64, 512)
    assert "w0 -> T8[1025*i0 + 8*i1], 8 x bf16, 2 bytes at a time, in aligned words" in str(
        kernel_of(segment_of(two, interleaved(*two)))
    )


@pytest.mark.parametrize("columns", [1028, 257])
def test_wider_elements_and_rows_of_few_vectors_are_moved_alone(columns: int) -> None:
    x = halves(64, columns)
    assert "aligned words" not in str(kernel_of(segment_of([x], turns(x))))


@pytest.mark.parametrize(("rows", "columns"), [(37, 1025), (5, 2049), (3, 1543)])
@pytest.mark.usefixtures("device")
def test_values_bit_for_bit(rows: int, columns: int) -> None:
    data = torch.randn(rows, columns, dtype=torch.bfloat16)
    others = [torch.randn(rows, columns // 2, dtype=torch.bfloat16) for _ in range(2)]
    (x,), (y, z) = like(data), like(*others)
    check(Fusion((x,), (turns(x),)), data)
    check(Fusion((y, z), (interleaved(y, z),)), *others)

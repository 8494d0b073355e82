"""Which masks are those of a dropout: honest draws of every resolution, and planted wrong ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from benchmarks.dropout import believe, shares
from thunder_fuser.runtime.torch_ops import tf_philox_uniform

KEEP = 0.9
SHAPE = (700, 2048)
CPU = torch.device("cpu")
TYPES = [torch.bfloat16, torch.float16, torch.float32]


def drawn(keep: float) -> torch.Tensor:
    """With 53 bits."""
    return torch.rand(SHAPE, dtype=torch.float64) < keep


def philox(dtype: torch.dtype) -> torch.Tensor:
    """As this executor and nvFuser draw: rounded to the nearest, 1 becomes 0."""
    seed, offset = (int(n) for n in torch.randint(2**31, (2,)))
    return tf_philox_uniform(0.0, 1.0, SHAPE, seed, offset, dtype, CPU)


@pytest.mark.parametrize("dtype", TYPES)
def test_draws_of_every_resolution_are_believed(dtype: torch.dtype) -> None:
    believe(F.dropout(torch.ones(SHAPE, dtype=dtype), 1 - KEEP) != 0, KEEP, dtype)
    believe(philox(dtype).double() < KEEP, KEEP, dtype)
    believe(torch.empty(SHAPE, dtype=dtype).uniform_().double() < KEEP, KEEP, dtype)
    believe(philox(dtype) < KEEP, KEEP, dtype)  # on the CPU, torch rounds KEEP to the dtype


def test_coarse_draws_are_believed_of_coarse_elements_alone() -> None:
    coarse = philox(torch.bfloat16).double() < KEEP
    with pytest.raises(ValueError, match=r"kept 0\.90.. of all 1433600 elements, not 0\.9000 to"):
        believe(coarse, KEEP, torch.float32)


@pytest.mark.parametrize("keep", [0.503, 0.75, 0.9, 0.999])
def test_shares_are_those_of_all_numbers_of_20_bits(keep: float) -> None:
    """Each as likely as the others, in the middles of their cells."""
    fine = (torch.arange(1 << 20, dtype=torch.float64) + 0.5) / (1 << 20)
    step = 2.0**-8
    cut = (fine / step).floor() * step
    nearest = fine.to(torch.bfloat16).double()
    nearest[nearest == 1] = 0
    rounded = float(torch.tensor(keep, dtype=torch.bfloat16))
    low, high = shares(keep, torch.bfloat16)
    assert (cut < keep).double().mean() == (nearest < keep).double().mean() == high
    assert (nearest < rounded).double().mean() in (low, high)
    assert low <= keep <= high


def test_a_step_that_divides_the_share_leaves_one_share() -> None:
    assert shares(0.75, torch.bfloat16) == (0.75, 0.75)
    assert shares(0.9, torch.bfloat16) == (230 / 256, 231 / 256)


def column_kept(kept: torch.Tensor) -> None:
    kept[:, 1234] = True


def row_kept(kept: torch.Tensor) -> None:
    kept[321] = True


def lane_kept(kept: torch.Tensor) -> None:
    """The last of every vector of eight."""
    kept[:, 7::8] = True


def rows_alike(kept: torch.Tensor) -> None:
    kept[:] = kept[0]


def columns_alike(kept: torch.Tensor) -> None:
    kept[:] = kept[:, :1]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("change", "what"),
    [
        (column_kept, "kept 1.0000 of the 700 elements of column 1234,"),
        (row_kept, "kept 1.0000 of the 2048 elements of row 321,"),
        (lane_kept, "of all 1433600 elements,"),
        (rows_alike, "elements"),
        (columns_alike, "elements"),
    ],
)
def test_a_mask_with_a_pattern_is_not_believed(
    change: Callable[[torch.Tensor], None], what: str, dtype: torch.dtype
) -> None:
    kept = drawn(KEEP)
    change(kept)
    with pytest.raises(ValueError, match=what):
        believe(kept, KEEP, dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("wrong", [0.0, 0.1, 0.85, 0.92, 1.0])
def test_another_share_is_not_believed(wrong: float, dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match=r"of all 1433600 elements, not 0\.[89]"):
        believe(drawn(wrong), KEEP, dtype)

"""Tensors of more than 2^31 elements, on a GPU that holds them: offsets take 64 bits.

No element equals the one 2^31 or 2^32 places away, so an offset that lost its upper bits shows.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch

from tests.programs import chain, expand, flip, fusion, like, piece, run, total, unsqueeze
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView

COLUMNS = 1 << 20
ROWS = (1 << 11) + 1
COUNT = ROWS * COLUMNS  # 2^31 + 2^20 elements
PERIOD = 97  # values repeat after so many rows; 2^31 elements are 11 rows more than a multiple
WINDOW = 1000
NEEDED_BYTES = 24 << 30  # five tensors of bf16

pytestmark = [pytest.mark.gpu, pytest.mark.slow]


@pytest.fixture
def gpu() -> Iterator[torch.device]:
    """A GPU with room for the tensors, which are released afterwards."""
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    torch.cuda.empty_cache()
    if torch.cuda.mem_get_info()[0] < NEEDED_BYTES:
        pytest.skip(f"needs {NEEDED_BYTES >> 30} GiB of GPU memory")
    yield torch.device("cuda")
    gc.collect()
    torch.cuda.empty_cache()


@pytest.fixture
def base(gpu: torch.device) -> torch.Tensor:
    """bf16 (ROWS, COLUMNS) of small integers: a random row, shifted by the number of the row."""
    row = torch.randint(-8, 9, (COLUMNS,)).to(gpu, torch.bfloat16)
    shift = (torch.arange(ROWS, device=gpu) % PERIOD)[:, None].to(torch.bfloat16)
    return torch.add(row, shift)


def windows(count: int) -> list[slice]:
    """Stretches of `count` elements at both ends and around the limits of 31 bits."""
    starts = {0, count - WINDOW, min(1 << 31, count) - WINDOW, (1 << 31) - WINDOW // 2, 1 << 30}
    return [slice(s, min(s + WINDOW, count)) for s in sorted(starts) if 0 <= s < count]


def doubled(a: TensorView) -> Fusion:
    return fusion([a], call("add", a, a))


def test_every_element_of_two_wide_tensors_is_reached(base: torch.Tensor) -> None:
    x = base.view(-1)
    (found,) = run(doubled(*like(x)), x)
    for window in windows(COUNT):
        assert torch.equal(found[window].cpu(), x[window].cpu() * 2), window
    assert torch.equal(found.to(x.device), x * 2)


def test_a_slice_near_the_end_is_read_where_it_lies(base: torch.Tensor) -> None:
    x = base.view(-1)
    (a,) = like(x)
    start = (1 << 31) + 5
    (found,) = run(fusion([a], chain(piece(a, 0, start, start + 100_003, 3), "neg")), x)
    assert torch.equal(found.cpu(), -x[start : start + 100_003 : 3].cpu())


def test_a_flipped_tensor_is_read_from_its_end(base: torch.Tensor) -> None:
    x = base.view(-1)
    (a,) = like(x)
    (found,) = run(fusion([a], chain(flip(a, 0), "neg")), x)
    for window in windows(COUNT):
        mirrored = x[COUNT - window.stop : COUNT - window.start]
        assert torch.equal(found[window].cpu(), -mirrored.cpu().flip(0)), window


def test_strides_may_be_wide_where_sizes_are_not(base: torch.Tensor) -> None:
    x = base[:: ROWS - 1, 3::7]
    (a,) = like(x)
    (found,) = run(fusion([a], chain(a, "neg")), x)
    assert torch.equal(found.cpu(), -x.cpu())


def test_an_expanded_row_and_column_fill_a_wide_tensor(gpu: torch.device) -> None:
    row = torch.randint(-8, 9, (COLUMNS,), dtype=torch.bfloat16)
    column = torch.randint(-8, 9, (ROWS,), dtype=torch.bfloat16)
    a, b = like(row, column)
    wide = expand(unsqueeze(a, 0), ROWS, COLUMNS)
    program = fusion([a, b], call("add", wide, unsqueeze(b, 1)))
    (found,) = run(program, row.to(gpu), column.to(gpu))
    for window in windows(COUNT):
        index = torch.arange(window.start, window.stop)
        wanted = row[index % COLUMNS] + column[index // COLUMNS]
        assert torch.equal(found.view(-1)[window].cpu(), wanted), window


def test_a_thread_that_owns_all_planes_reaches_the_last(base: torch.Tensor) -> None:
    """Half of what is read lies in tables that all planes share, so one thread loads them once."""
    planes = ROWS // 3
    x = base.view(3, planes, COLUMNS)
    tables = [base[:planes], base[planes : 2 * planes]]
    a, t, u = like(x, *tables)
    program = fusion([a, t, u], call("mul", call("add", a, t), u))
    (found,) = run(program, x, *tables)
    for window in windows(COUNT):
        index = torch.arange(window.start, window.stop)
        row, column = index // COLUMNS % planes, index % COLUMNS
        one, other = (table[row.to(x.device), column.to(x.device)].cpu() for table in tables)
        wanted = (x.view(-1)[window].cpu() + one) * other
        assert torch.equal(found.view(-1)[window].cpu(), wanted), window


def test_an_update_in_place_reaches_the_last_element(base: torch.Tensor) -> None:
    expected = [base.view(-1)[window].cpu() * 2 for window in windows(COUNT)]
    x = base.view(-1)
    (a,) = like(x)
    run(fusion([a], writes=[(call("add", a, a), a)]), x)
    for window, wanted in zip(windows(COUNT), expected, strict=True):
        assert torch.equal(x[window].cpu(), wanted), window


@pytest.mark.parametrize("dim", [0, 1])
def test_sums_of_wide_rows_and_columns_are_exact(dim: int, base: torch.Tensor) -> None:
    x = base.view(-1, 1024) if dim == 1 else base
    (a,) = like(x)
    (found,) = run(fusion([a], total(call("cast", a, dtype=DataType.Float), dim)), x)
    for window in windows(found.numel()):
        part = x[window] if dim == 1 else x[:, window]
        assert torch.equal(found[window].cpu(), part.cpu().float().sum(dim)), window

"""Which rows several blocks share, and which a cluster of blocks keeps whole."""

from __future__ import annotations

import pytest

from tests.programs import chain, expand, machine, reshape, total, unsqueeze
from thunder_fuser.analysis.reductions import is_long
from thunder_fuser.analysis.shared_rows import shared_rows
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion

SMS = 132


def divided(rows: int, columns: int, power: bool = False) -> Fusion:
    """Rows divided by their sums; with `power` only the sum of what was divided."""
    x = tensor(DataType.Float, rows, columns)
    below = call("div", x, expand(unsqueeze(total(x, 1), 1), rows, columns))
    return Fusion((x,), (total(chain(below, "exp"), 1) if power else below,))


def centred(*shape: int, alone: bool = False, dtype: DataType = DataType.BFloat16) -> Fusion:
    """Channels, dim 1, without their means; with `alone` only the sums."""
    x = tensor(dtype, *shape)
    sums = total(call("cast", x, dtype=DataType.Float), 0, *range(2, len(shape)))
    spread = expand(reshape(sums, 1, shape[1], *[1] * (len(shape) - 2)), *shape)
    return Fusion((x,), (sums if alone else call("sub", x, spread),))


def is_shared(program: Fusion, max_cluster: int = 1) -> bool:
    test = shared_rows(program, machine(SMS, max_cluster))
    (found,) = {test(tv) for tv in program.tensors if is_long(tv)}
    return found


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [(1, 65535, False), (1, 65536, True), (SMS - 1, 65536, True), (SMS, 1 << 18, False)],
)
def test_rows_are_shared_where_they_are_few_and_long(
    rows: int, columns: int, expected: bool
) -> None:
    assert is_shared(divided(rows, columns)) is expected


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (divided(8, 262144), False),
        (divided(8, 262144 + 32768), True),  # 8 blocks of 128 KB hold no more
        (divided(8, 65536, power=True), True),  # nothing of the row is stored
    ],
)
def test_a_row_that_is_stored_whole_stays_so_where_a_cluster_holds_it(
    program: Fusion, expected: bool
) -> None:
    assert is_shared(program, max_cluster=8) is expected
    assert is_shared(program)


@pytest.mark.parametrize(
    ("rows", "columns", "max_cluster", "expected"),
    [
        (17, 1 << 19, 16, False),  # 16 blocks of 128 KB
        (17, (1 << 19) + 1, 16, True),
        (16, 1 << 19, 16, True),  # 112 multiprocessors would have two turns, of which one is idle
        (16, 1 << 18, 16, False),
        (17, 1 << 19, 8, True),
        (SMS, 1 << 19, 8, True),  # of which one multiprocessor each is more than the cache holds
        (SMS, 1 << 18, 1, False),
    ],
)
def test_sixteen_blocks_hold_a_row_of_many(
    rows: int, columns: int, max_cluster: int, expected: bool
) -> None:
    assert is_shared(divided(rows, columns), max_cluster) is expected


def test_a_running_sum_is_shared_by_no_blocks() -> None:
    """Also of rows that are too long to be kept: one block walks it."""
    x = tensor(DataType.Float, SMS, 1 << 20)
    assert is_shared(divided(SMS, 1 << 20), 16)
    assert not is_shared(Fusion((x,), (call("cumsum", x, dim=1, reverse=False),)), 16)


def test_long_rows_of_which_a_maximum_is_taken_are_streamed() -> None:
    """Where there are many: a block reads each twice, three launches would read it three times."""
    x = tensor(DataType.Float, SMS, 1 << 20)
    top = expand(unsqueeze(call("max", x, dims=(1,)), 1), SMS, 1 << 20)
    assert not is_shared(Fusion((x,), (call("sub", x, top),)), 16)


@pytest.mark.parametrize(
    ("columns", "has_weights", "expected"),
    [(1 << 18, False, False), (1 << 18, True, True), (1 << 17, True, False)],
)
def test_a_second_tensor_is_in_registers_that_weights_leave(
    columns: int, has_weights: bool, expected: bool
) -> None:
    x, y = tensor(DataType.Float, 8, columns), tensor(DataType.Float, 8, columns)
    w = tensor(DataType.Float, columns)
    product = call("mul", x, y)
    below = call("sub", product, expand(unsqueeze(total(product, 1), 1), 8, columns))
    if has_weights:
        below = call("mul", below, expand(unsqueeze(w, 0), 8, columns))
    assert is_shared(Fusion((x, y, w) if has_weights else (x, y), (below,)), 8) is expected


@pytest.mark.parametrize("is_summed", [False, True])
def test_a_row_whose_block_had_all_column_sums_too_is_shared(is_summed: bool) -> None:
    program = divided(100, 65536)
    down = total(program.outputs[0], 0)
    both = Fusion(program.inputs, (*program.outputs, *([down] if is_summed else [])))
    test = shared_rows(both, machine(SMS, 8))
    (along,) = (tv for tv in both.tensors if is_long(tv) and tv is not down)
    assert test(along) is is_summed


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (centred(64, 256, 56, 56), False),
        (centred(8, 3, 7, 7), True),  # 98 bytes, of which no register holds two elements
        (centred(8, 3, 7, 7, dtype=DataType.Float), False),
        (centred(8, 3, 14, 7), False),
        (centred(128, 256, 64, 64), False),  # 8 blocks of 128 KB
        (centred(129, 256, 64, 64), True),
        (centred(64, 3, 56, 56), False),
        (centred(64, 256, 32), False),
        (centred(64, 256, 31), True),  # 62 bytes here, 62 bytes there
        (centred(64, 256, 16, dtype=DataType.Float), False),
        (centred(64, 256, 56, 56, alone=True), True),  # nothing of the channel is stored
    ],
    ids=str,
)
def test_scattered_rows_stay_whole_where_a_cluster_holds_them(
    program: Fusion, expected: bool
) -> None:
    assert is_shared(program, max_cluster=8) is expected
    assert is_shared(program)


def test_other_rows_beside_one_that_stays_whole_are_shared() -> None:
    whole = divided(100, 65536)
    y = tensor(DataType.Float, 8, 65536)
    both = Fusion((*whole.inputs, y), (*whole.outputs, total(y, 1)))
    test = shared_rows(both, machine(SMS, 8))
    assert [test(tv) for tv in both.tensors if is_long(tv)] == [False, True]

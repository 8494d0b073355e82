"""Which reductions are split in two, into how many parts, and what the two stages are."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.programs import chain, fusion, ints, like, machine, total
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import apply, call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops.reductions import SQUARED_DEVIATION
from thunder_fuser.presegment.split_reductions import split_reductions
from thunder_fuser.runtime.evaluate import evaluate

SMS = 132
FEW = 4  # for which small planes are large


def parts(program: Fusion) -> int | None:
    """The number of parts of a column; None where it was left."""
    made = split_reductions(program, machine(SMS))
    if made is program:
        return None
    (pieces,) = filter(is_reshape, made.tensors)
    return pieces.shape[1]


def beside_rows(terms: int, columns: int, dtype: DataType = DataType.Float) -> Fusion:
    """Sums down the columns of a plane, and along its rows."""
    x = tensor(dtype, terms, columns)
    return Fusion((x,), (total(x, 0), total(x, 1)))


def test_a_column_sum_beside_rows_is_summed_in_parts_of_the_accumulators_type() -> None:
    program = beside_rows(1024, 4096, dtype=DataType.BFloat16)
    assert str(split_reductions(program, machine(FEW))) == dedent("""\
        fusion(T0: bf16[i1024, i4096]) {
          T1: f32[i1024, i4096] = cast(T0, dtype=f32)
          T2: f32[i128, i8, i4096] = reshape(T1, new_shape=[128, 8, 4096])
          T3: f32[i8, i128, i4096] = permute(T2, dims=[1, 0, 2])
          T4: f32[i8, r128, i4096] = sum(T3, dims=[1], walked=1024)
          T5: f32[r8, i4096] = sum(T4, dims=[0])
          T6: bf16[i4096] = cast(T5, dtype=bf16)
          T7: bf16[i1024, r4096] = sum(T0, dims=[1])
          return T6, T7
        }""")


def test_rows_are_dealt_out_one_by_one() -> None:
    """Blocks so walk side by side, also where the sums of a row wait for a value of the row."""
    x, mean = tensor(DataType.Float, 1024, 4096), tensor(DataType.Float, 1024, 1)
    away = call("sub", x, call("expand", mean, shape=ints((1024, 4096))))
    made = split_reductions(Fusion((x, mean), (total(x, 0), total(away, 1))), machine(FEW))
    (pieces,) = filter(is_reshape, made.tensors)
    assert pieces.shape == (128, 8, 4096)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        (255, None),  # too few
        (1040, None),  # 65 parts: more than half of the multiprocessors have none
        (1056, 66),
        (2053, 121),  # a prime: 17 turns, in the last of which 4 blocks have no row
        (2048, 128),
        (4096, 256),
        (1 << 16, 256),  # not more than two blocks of rows a multiprocessor
        (3 * 7 * 96, 126),  # of 16 terms, as few as there may be
        (4 * 1021, 241),
        (16000, 250),
        (16384 - 127, 263),  # 137 blocks divide it, little more than half of them
    ],
)
def test_columns_are_split_where_they_are_long(terms: int, expected: int | None) -> None:
    assert parts(beside_rows(terms, 8192)) == expected


@pytest.mark.parametrize(("terms", "expected"), [(2048, 128), (2053, None)])
@pytest.mark.parametrize("name", ["max", "min"])
def test_what_no_number_leaves_as_it_is_needs_parts_of_equal_length(
    name: str, terms: int, expected: int | None
) -> None:
    x = tensor(DataType.Float, terms, 8192)
    down = call(name, x, dims=(0,))
    assert parts(Fusion((x,), (down, total(x, 1)))) == expected


@pytest.mark.parametrize("name", ["sum", "prod"])
@pytest.mark.parametrize("shape", [(1021, 4096), (5, 211, 4096)])
def test_parts_of_unequal_length_have_rows_that_change_nothing(
    name: str, shape: tuple[int, ...]
) -> None:
    x, dims = tensor(DataType.Float, *shape), tuple(range(len(shape) - 1))
    program = Fusion((x,), (call(name, x, dims=dims), total(x, len(shape) - 1)))
    made = split_reductions(program, machine(FEW))
    assert "= pad(" in str(made)
    x0 = 1 + torch.randn(shape) / 64
    (found, _), reduce = evaluate(made, (x0,)), getattr(torch, name)
    exact = reduce(x0.double().flatten(0, -2), 0)
    torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("columns", "expected"), [(3072, None), (3328, 128)])
def test_columns_of_a_plane_that_is_soon_read_again_are_left(
    columns: int, expected: int | None
) -> None:
    """From 192 KiB per multiprocessor on they are summed where the rows are."""
    assert parts(beside_rows(2048, columns)) == expected


@pytest.mark.parametrize(
    ("terms", "columns", "expected"),
    [
        (16384, 4097, 256),
        (16000, 4096, 250),
        (16000, 4097, 200),  # a multiple of 4, which is what f32 needs
        (16256, 4097, 264),  # 128 blocks, which divide it, are less than three of four
        (16000, 4098, 250),
        (3290, 4097, 196),
    ],
)
def test_blocks_have_rows_that_begin_in_the_same_lane(
    terms: int, columns: int, expected: int
) -> None:
    assert parts(beside_rows(terms, columns)) == expected


@pytest.mark.parametrize(
    ("terms", "columns", "max_cluster", "expected"),
    [
        (4096, 50257, 8, 60),  # eight blocks a row of one tensor of floats, 30 clusters at once
        (4096, 50257, 1, None),
        (4096, 50257, 2, None),  # two hold no row of so many
        (4096, 32768, 8, 62),
        (1 << 16, 32768, 4, 62),
        (4095, 50256, 8, 30),
        (4095, 50257, 8, 60),
        (1088, 50256, 8, 30),
        (256, 50256, 8, 16),
        (96, 50256, 8, None),  # of which six leave more than half of the machine idle
    ],
)
def test_rows_beyond_one_block_are_dealt_to_clusters(
    terms: int, columns: int, max_cluster: int, expected: int | None
) -> None:
    x = tensor(DataType.Float, terms, columns)
    program = Fusion((x,), (total(x, 0), total(x, 1)))
    made = split_reductions(program, machine(SMS, max_cluster))
    assert [tv.shape[1] for tv in made.tensors if is_reshape(tv)] == (
        [] if expected is None else [expected]
    )


@pytest.mark.parametrize(("columns", "expected"), [(8192, 256), (50256, None)])
def test_rows_whose_statistics_no_block_sends_are_dealt_to_blocks_alone(
    columns: int, expected: int | None
) -> None:
    x = tensor(DataType.Float, 4096, columns)
    deviation = apply(SQUARED_DEVIATION, [x], {"dims": (1,)})
    assert isinstance(deviation, TensorView)
    made = split_reductions(Fusion((x,), (total(x, 0), deviation)), machine(SMS, 8))
    assert [tv.shape[1] for tv in made.tensors if is_reshape(tv)] == (
        [] if expected is None else [expected]
    )


def test_rows_that_begin_in_other_lanes_than_their_neighbours_are_dealt_alone() -> None:
    x, mean = tensor(DataType.Float, 4096, 4097), tensor(DataType.Float, 4096, 1)
    away = call("sub", x, call("expand", mean, shape=ints((4096, 4097))))
    made = split_reductions(Fusion((x, mean), (total(x, 0), total(away, 1))), machine(SMS))
    assert "f32[i16, i256, i4097] = reshape" in str(made)


@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((4096, 4096), (0,)),
        ((2, 65536), (1,)),
        ((4, 4096, 8), (1,)),
        ((2, 4, 65536), (0, 2)),
        ((64, 5, 28, 28), (0, 2, 3)),
    ],
)
def test_other_sums_are_split_by_the_schedule(
    shape: tuple[int, ...], dims: tuple[int, ...]
) -> None:
    x = tensor(DataType.Float, *shape)
    program = Fusion((x,), (total(x, *dims),))
    assert split_reductions(program, machine(SMS)) is program


def test_there_are_as_many_parts_as_blocks_walk_rows() -> None:
    made = split_reductions(beside_rows(4096, 2048), machine(16))
    assert "f32[i128, i32, i2048] = reshape" in str(made)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (2048, 256),  # two blocks of a multiprocessor
        (512, 790),  # six blocks of a multiprocessor are 792, which have as many turns
        (255, None),  # most threads of a block would have nothing
    ],
)
def test_shorter_rows_are_walked_by_more_blocks_or_by_none(
    columns: int, expected: int | None
) -> None:
    assert parts(beside_rows(1 << 16, columns)) == expected


@pytest.mark.parametrize(
    ("terms", "columns", "expected"),
    [
        (1 << 20, 64, (128, 256, 32)),  # 8 threads a row; two blocks of 256 of a multiprocessor
        (1 << 20, 512, (512, 256, 8)),  # a warp a row
        (1_000_000, 64, (125, 250, 32)),
        (132_000, 64, (16, 258, 32)),  # the last turn has rows for 125 blocks of 258
        (1 << 16, 96, (16, 256, 16)),
        (12024, 512, (9, 167, 8)),
        (1 << 16, 64, None),  # all of it is in the cache for the sums
        (1 << 20, 60, (128, 32, 256)),  # of odd length: those of a block begin in the same lane
        (1009 * 2, 64, None),
        (1_000_003, 64, (119, 263, 32)),  # in the last turn one block has 3 rows of 32
        (223_696, 300, (53, 16, 264)),
        (1 << 18, 300, (64, 16, 256)),
    ],
)
def test_short_rows_are_dealt_as_many_at_a_time_as_a_block_has(
    terms: int, columns: int, expected: tuple[int, ...] | None
) -> None:
    """Turns, parts, and rows at a time, whether or not rows wait for values of their own."""
    x = tensor(DataType.BFloat16, terms, columns)
    made = split_reductions(Fusion((x,), (total(x, 0), total(x, 1))), machine(SMS))
    dealt = [tv.shape[:-1] for tv in made.tensors if is_reshape(tv)]
    assert dealt == ([] if expected is None else [expected])


@pytest.mark.parametrize(
    ("terms", "columns", "is_stored", "expected"),
    [
        (1_342_177, 50, True, (80, 263, 64)),  # 4 threads a row; two blocks of a multiprocessor
        (1_065_220, 63, True, (85, 392, 32)),  # three
        (1 << 20, 64, True, (83, 395, 32)),
        (1 << 20, 64, False, (63, 261, 64)),  # 4 threads a row again
        (261_123, 257, True, (83, 394, 8)),
        (1 << 16, 63, True, None),
    ],
)
def test_short_rows_that_pass_through_shared_memory_are_dealt_in_stretches(
    terms: int, columns: int, is_stored: bool, expected: tuple[int, ...] | None
) -> None:
    x = tensor(DataType.BFloat16, terms, columns)
    stored = (call("neg", x),) if is_stored else ()
    made = split_reductions(Fusion((x,), (total(x, 0), total(x, 1), *stored)), machine(SMS, 8))
    dealt = [tv.shape[:-1] for tv in made.tensors if is_reshape(tv)]
    assert dealt == ([] if expected is None else [expected])


@pytest.mark.parametrize("columns", [768, 1020])
def test_gathered_rows_lie_in_no_stretches(columns: int) -> None:
    """Nor do they begin in a lane of a plane: blocks walk one after another, as many as of longer
    rows."""
    table, index = tensor(DataType.BFloat16, 500, columns), tensor(DataType.Int, 65536)
    x = tensor(DataType.BFloat16, 65536, columns)
    terms = call("mul", x, call("index_select", table, index, dim=0))
    program = Fusion((table, index, x), (total(terms, 0), total(terms, 1)))
    made = split_reductions(program, machine(SMS, 8))
    (pieces,) = filter(is_reshape, made.tensors)
    assert pieces.shape == (-(-65536 // pieces.shape[1]), pieces.shape[1], columns)
    assert 4 * SMS < pieces.shape[1] <= 8 * SMS


def is_reshape(tv: TensorView) -> bool:
    return tv.definition is not None and tv.definition.op.name == "reshape"


@pytest.mark.parametrize("columns", [64, 4096])
def test_a_sum_that_rows_wait_for_is_not_split(columns: int) -> None:
    x = tensor(DataType.Float, 4096, columns)
    mean = call("broadcast_in_dim", total(x, 0), shape=ints((4096, columns)), broadcast_dims=(1,))
    away = call("sub", x, mean)
    program = Fusion((x,), (total(away, 1),))
    assert split_reductions(program, machine(SMS)) is program


def test_a_sum_that_rows_of_another_plane_wait_for_is_split() -> None:
    """As the norm of a gradient, beside which stands that of the rows."""
    x = tensor(DataType.Float, 4096, 4096)
    down = total(x, 0)
    program = Fusion((x,), (total(x, 1), total(call("mul", down, down), 0)))
    assert parts(program) == 256


def test_what_parts_do_not_combine_as_terms_do_is_not_split() -> None:
    """The squared deviations of parts from their means are not those of the whole."""
    x = tensor(DataType.Float, 2048, 4096)
    deviation = apply(SQUARED_DEVIATION, [x], {"dims": (0,)})
    assert isinstance(deviation, TensorView)
    program = fusion([x], total(x, 1), deviation)
    assert split_reductions(program, machine(132)) is program


def test_extrema_are_split_in_their_own_type() -> None:
    x = tensor(DataType.BFloat16, 512, 4096)
    made = split_reductions(Fusion((x,), (call("max", x, dims=(0,)), total(x, 1))), machine(FEW))
    assert [
        tv.dtype for tv in made.tensors if tv.definition and tv.definition.op.name == "max"
    ] == [
        DataType.Float,
        DataType.Float,
    ]
    assert made.outputs[0].dtype is DataType.BFloat16


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.int32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(512, 1035), (16, 32, 1040)])
def test_two_stages_give_the_sum_of_one(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = (torch.arange(torch.Size(shape).numel()) % 3 - 1).reshape(shape).to(dtype)
    (a,) = like(x)
    down = chain(total(a, *range(len(shape) - 1)), "neg")
    program = fusion([a], down, total(a, len(shape) - 1))
    made = split_reductions(program, machine(FEW))
    assert reductions(made) == reductions(program) + 1
    for got, want in zip(evaluate(made, [x]), evaluate(program, [x]), strict=True):
        assert got.dtype == want.dtype
        assert torch.equal(got, want)


def reductions(program: Fusion) -> int:
    def is_reduction(tv: TensorView) -> bool:
        return any(a.is_reduction for a in tv.domain.logical)

    return sum(map(is_reduction, program.tensors))


def of_samples(samples: int, terms: int, columns: int = 1024) -> Fusion:
    """Sums over the rows of each sample, and along them."""
    x = tensor(DataType.Float, samples, terms, columns)
    return Fusion((x,), (total(x, 1), total(x, 2)))


def test_few_samples_are_summed_in_parts() -> None:
    assert str(split_reductions(of_samples(3, 256), machine(FEW))) == dedent("""\
        fusion(T0: f32[i3, i256, i1024]) {
          T1: f32[i3, i4, i64, i1024] = reshape(T0, new_shape=[3, 4, 64, 1024])
          T2: f32[i3, i4, r64, i1024] = sum(T1, dims=[2], walked=768)
          T3: f32[i3, r4, i1024] = sum(T2, dims=[1])
          T4: f32[i3, i256, r1024] = sum(T0, dims=[2])
          return T3, T4
        }""")


@pytest.mark.parametrize(
    ("samples", "terms", "columns", "expected"),
    [
        (1, 256, 1024, 12),  # of 22 rows, the last of 14: by 8 of 32 a third would be idle
        (2, 256, 1024, 6),
        (3, 256, 1024, 4),
        (5, 256, 1024, 2),
        (7, 256, 1024, None),  # more than half of the blocks that walk at a time
        (2, 257, 1024, 6),  # a prime
        (2, 48, 8192, 3),  # sixteen rows of a part at least
        (2, 64, 1024, None),  # of so little the rest comes from the cache
        (3, 4096, 32, None),  # rows that a warp has several of
    ],
)
def test_a_sample_has_parts_for_as_many_blocks_as_walk(
    samples: int, terms: int, columns: int, expected: int | None
) -> None:
    program = of_samples(samples, terms, columns)
    made = split_reductions(program, machine(FEW))
    pieces = [tv.shape[1] for tv in made.tensors if is_reshape(tv)]
    assert pieces == ([] if expected is None else [expected])


def of_short_rows(samples: int, terms: int, columns: int) -> Fusion:
    """The same of rows of 16-bit numbers."""
    x = tensor(DataType.BFloat16, samples, terms, columns)
    wide = call("cast", x, dtype=DataType.Float)
    return Fusion((x,), (total(wide, 1), total(wide, 2)))


def test_short_rows_of_samples_are_walked_in_stretches() -> None:
    made = split_reductions(of_short_rows(5, 8192, 96), machine(FEW, 8))
    assert str(made) == dedent("""\
        fusion(T0: bf16[i5, i8192, i96]) {
          T1: f32[i5, i8192, i96] = cast(T0, dtype=f32)
          T2: f32[i5, i8, i32, i32, i96] = reshape(T1, new_shape=[5, 8, 32, 32, 96])
          T3: f32[i5, i8, r32, r32, i96] = sum(T2, dims=[2, 3], walked=40960)
          T4: f32[i5, r8, i96] = sum(T3, dims=[1])
          T5: f32[i5, i8192, r96] = sum(T1, dims=[2])
          return T4, T5
        }""")


def test_the_last_turn_of_a_sample_may_have_fewer_rows() -> None:
    program = of_short_rows(3, 8191, 96)
    made = split_reductions(program, machine(FEW, 8))
    (whole,) = (tv for tv in made.tensors if tv.definition and tv.definition.op.name == "pad")
    assert whole.shape == (3, 8192, 96)
    x = torch.randn(3, 8191, 96).to(torch.bfloat16)
    for found, wanted in zip(evaluate(made, [x]), evaluate(program, [x]), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-3)


def test_many_samples_have_a_block_each() -> None:
    made = split_reductions(of_short_rows(400, 256, 96), machine(FEW, 8))
    assert [tv.shape for tv in made.tensors if is_reshape(tv)] == [(400, 8, 32, 96)]


def test_short_rows_of_samples_are_walked_side_by_side_without_an_engine() -> None:
    made = split_reductions(of_short_rows(5, 8192, 96), machine(FEW, 1))
    assert [tv.shape for tv in made.tensors if is_reshape(tv)] == [(5, 8, 64, 16, 96)]


@pytest.mark.parametrize(
    ("samples", "terms", "columns", "max_cluster"),
    [
        (5, 8191, 99, 8),  # odd samples
        (5, 8191, 100, 8),  # which begin in half a vector
        (5, 256, 96, 8),  # too few
    ],
)
def test_others_are_not(samples: int, terms: int, columns: int, max_cluster: int) -> None:
    program = of_short_rows(samples, terms, columns)
    assert split_reductions(program, machine(FEW, max_cluster)) is program


def test_parts_of_samples_sum_to_the_same() -> None:
    made = split_reductions(of_samples(3, 256), machine(FEW))
    x = torch.randn(3, 256, 1024)
    for found, wanted in zip(evaluate(made, [x]), (x.sum(1), x.sum(2)), strict=True):
        torch.testing.assert_close(found, wanted)

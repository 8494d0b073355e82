"""Which reductions are split in two, into how many parts, and what the two stages are."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.programs import chain, check, expand, fusion, like, total, unsqueeze
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.split_reductions import split_reductions
from thunder_fuser.runtime.evaluate import evaluate

SMS = 132


def summed(*shape: int, dims: tuple[int, ...], dtype: DataType = DataType.Float) -> Fusion:
    x = tensor(dtype, *shape)
    return Fusion((x,), (total(x, *dims),))


def parts(program: Fusion) -> int | None:
    """The number of parts of the only reduction; None where it was left."""
    made = split_reductions(program, SMS)
    if made is program:
        return None
    (pieces,) = (tv for tv in made.tensors if tv.definition and tv.definition.op.name == "reshape")
    first = next(u for u in made.uses[pieces])
    reduced = [a.is_reduction for a in first.domain.logical]
    return pieces.shape[reduced.index(True) - 1]


def test_a_column_sum_is_summed_in_parts_of_the_accumulators_type() -> None:
    program = summed(1024, 48, dims=(0,), dtype=DataType.BFloat16)
    assert str(split_reductions(program, SMS)) == dedent("""\
        fusion(T0: bf16[i1024, i48]) {
          T1: f32[i1024, i48] = cast(T0, dtype=f32)
          T2: f32[i16, i64, i48] = reshape(T1, new_shape=[16, 64, 48])
          T3: f32[i16, r64, i48] = sum(T2, dims=[1])
          T4: f32[r16, i48] = sum(T3, dims=[0])
          T5: bf16[i48] = cast(T4, dtype=bf16)
          return T5
        }""")


def divided(rows: int, columns: int, power: bool = False) -> Fusion:
    """Rows divided by their sums; with `power` only the sum of what was divided."""
    x = tensor(DataType.Float, rows, columns)
    below = call("div", x, expand(unsqueeze(total(x, 1), 1), rows, columns))
    return Fusion((x,), (total(chain(below, "exp"), 1) if power else below,))


def test_a_row_that_is_stored_whole_stays_so_where_a_cluster_holds_it() -> None:
    held = divided(8, 262144)
    assert split_reductions(held, SMS, max_cluster=8) is held
    assert split_reductions(held, SMS) is not held
    for other in (divided(8, 262144 + 32768), divided(8, 65536, power=True)):
        assert split_reductions(other, SMS, max_cluster=8) is not other


def test_column_sums_beside_a_row_that_stays_whole_are_split() -> None:
    whole = divided(100, 65536)
    y = tensor(DataType.Float, 65536, 8)
    both = Fusion((*whole.inputs, y), (*whole.outputs, total(y, 0)))
    made = split_reductions(both, SMS, max_cluster=8)
    assert made.outputs[0] is both.outputs[0]
    assert made.outputs[1] is not both.outputs[1]


def test_a_long_row_is_cut_into_pieces_of_one_block() -> None:
    program = summed(2, 65536, dims=(1,))
    assert str(split_reductions(program, SMS)) == dedent("""\
        fusion(T0: f32[i2, i65536]) {
          T1: f32[i2, i4, i16384] = reshape(T0, new_shape=[2, 4, 16384])
          T2: f32[i2, i4, r16384] = sum(T1, dims=[2])
          T3: f32[i2, r4] = sum(T2, dims=[1])
          return T3
        }""")


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [
        (1, 32767, None),  # less than two pieces
        (1, 32768, 2),
        (1, 3 * 16384, 3),
        (1, 65537, None),  # a prime has no pieces
        (1, 2 * 32749, 2),  # 3 pieces would not divide it
        (SMS - 1, 32768, 2),
        (SMS, 32768, None),  # rows enough for every multiprocessor
    ],
)
def test_rows_are_split_where_they_are_few_and_long(
    rows: int, columns: int, expected: int | None
) -> None:
    assert parts(summed(rows, columns, dims=(1,))) == expected


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        (255, None),  # too few
        (256, 4),
        (257, None),  # a prime
        (2048, 32),
        (4096, 64),
        (1 << 16, 64),  # never more than enough blocks
        (3 * 7 * 64, 21),  # 21 divides, 22 to 64 terms a part at least
        (2 * 1021, None),  # its one divisor, 2, is less than a quarter of the parts wanted
    ],
)
def test_columns_are_split_where_they_are_long(terms: int, expected: int | None) -> None:
    assert parts(summed(terms, 16, dims=(0,))) == expected


def test_reduced_axes_that_are_not_together_at_one_end_stay() -> None:
    for dims, shape in [((1,), (4, 4096, 8)), ((0, 2), (2, 4, 8192)), ((0, 2), (9, SMS, 65536))]:
        program = summed(*shape, dims=dims)
        assert split_reductions(program, SMS) is program


def test_few_sums_over_scattered_axes_take_the_innermost_axes_first() -> None:
    program = summed(64, 5, 28, 28, dims=(0, 2, 3), dtype=DataType.BFloat16)
    assert str(split_reductions(program, SMS)) == dedent("""\
        fusion(T0: bf16[i64, i5, i28, i28]) {
          T1: f32[i64, i5, i28, i28] = cast(T0, dtype=f32)
          T2: f32[i64, i5, r28, r28] = sum(T1, dims=[2, 3])
          T3: f32[r64, i5] = sum(T2, dims=[0])
          T4: bf16[i5] = cast(T3, dtype=bf16)
          return T4
        }""")


def test_rows_that_are_long_as_well_are_split_once_more() -> None:
    assert str(split_reductions(summed(2, 4, 65536, dims=(0, 2)), SMS)) == dedent("""\
        fusion(T0: f32[i2, i4, i65536]) {
          T1: f32[i2, i4, i4, i16384] = reshape(T0, new_shape=[2, 4, 4, 16384])
          T2: f32[i2, i4, i4, r16384] = sum(T1, dims=[3])
          T3: f32[i2, i4, r4] = sum(T2, dims=[2])
          T4: f32[r2, i4] = sum(T3, dims=[0])
          return T4
        }""")


@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((64, 5, 28, 28), (0, 2, 3)),
        ((2, 4, 65536), (0, 2)),
        ((40, 3, 1000), (0, 2)),
        ((2, 65536), (1,)),
    ],
)
def test_every_stage_is_a_kernel(shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    values = torch.randint(-3, 4, shape).float()
    (x,) = like(values)
    plan = check(split_reductions(fusion([x], total(x, *dims)), SMS), values)
    assert not any(segment.is_opaque for segment in plan.segmented.segments)


def test_column_sums_beside_rows_get_a_part_per_block_of_the_row_template() -> None:
    x = tensor(DataType.Float, 4096, 512)
    down, along = total(x, 0), total(x, 1)
    alone = split_reductions(Fusion((x,), (down,)), 16)
    beside = split_reductions(Fusion((x,), (down, along)), 16)
    assert "f32[i64, i64, i512] = reshape" in str(alone)
    assert "f32[i32, i128, i512] = reshape" in str(beside)


def test_extrema_are_split_in_their_own_type() -> None:
    x = tensor(DataType.BFloat16, 512, 8)
    made = split_reductions(Fusion((x,), (call("max", x, dims=(0,)),)), SMS)
    assert [
        tv.dtype for tv in made.tensors if tv.definition and tv.definition.op.name == "max"
    ] == [
        DataType.Float,
        DataType.Float,
    ]
    assert made.outputs[0].dtype is DataType.BFloat16


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.int32, torch.bfloat16])
@pytest.mark.parametrize(
    ("shape", "dims"), [((512, 3, 5), (0,)), ((16, 32, 7), (0, 1)), ((3, 2, 32768), (2,))]
)
def test_two_stages_give_the_sum_of_one(
    dtype: torch.dtype, shape: tuple[int, ...], dims: tuple[int, ...]
) -> None:
    x = (torch.arange(torch.Size(shape).numel()) % 3 - 1).reshape(shape).to(dtype)
    (a,) = like(x)
    program = fusion([a], chain(total(a, *dims), "neg"))
    made = split_reductions(program, SMS)
    assert reductions(made) == 2 * reductions(program)
    (got,), (want,) = evaluate(made, [x]), evaluate(program, [x])
    assert got.dtype == want.dtype
    assert torch.equal(got, want)


def reductions(program: Fusion) -> int:
    def is_reduction(tv: TensorView) -> bool:
        return any(a.is_reduction for a in tv.domain.logical)

    return sum(map(is_reduction, program.tensors))

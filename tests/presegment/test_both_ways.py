"""Which sums of exponentials of rows and of columns are of one read."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.presegment.test_one_pass_exponentials import below, guarded, top
from tests.programs import total
from tests.schedule.segments import floats, halves
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.both_ways import both_ways


def joined(x: TensorView, *dims: int) -> tuple[TensorView, ...]:
    """Those of one maximum each."""
    tops = [top(x, dim) for dim in dims]
    raised = (total(below(x, m, dim), dim) for m, dim in zip(tops, dims, strict=True))
    return (*tops, *raised)


def is_rewritten(x: TensorView, *results: TensorView) -> bool:
    program = Fusion((x,), results)
    return both_ways(program) is not program


def test_pieces_of_rows_are_reduced_beside_the_columns() -> None:
    x = floats(2048, 2048)
    assert str(both_ways(Fusion((x,), joined(x, 1, 0)))) == dedent("""\
        fusion(T0: f32[i2048, i2048]) {
          T1: f32[i2048, i16, i128] = reshape(T0, new_shape=[2048, 16, 128])
          T2: f32[i2048, i16, r128] allocation [1, 0] = max(T1, dims=[2], pieces=2048)
          T3: f32[i2048, r16] = max(T2, dims=[1])
          T4: f32[r2048, i2048] = max(T0, dims=[0])
          T5: f32[i2048, b1] = reshape(T3, new_shape=[2048, 1])
          T6: f32[i2048, b16] = expand(T5, shape=[2048, 16])
          T7: f32[i2048, i16] = sub(T2, T6)
          T8: f32[i2048, i16] = exp(T7)
          T9: f32[i2048, i16, r128] allocation [1, 0] = exponentials(T1, dims=[2], pieces=2048)
          T10: f32[i2048, i16] = mul(T8, T9)
          T11: f32[i2048, r16] = sum(T10, dims=[1])
          T12: f32[r2048, i2048] = exponentials(T0, dims=[0])
          T13: f32[i2048] = sub(T4, T4)
          T14: f32[i2048] = add(T12, T13)
          return T3, T4, T11, T14
        }""")


def test_a_plane_of_part_of_a_piece_is_padded_by_nothing() -> None:
    x = halves(2050, 2047)
    wide = call("cast", x, dtype=DataType.Float)
    text = str(both_ways(Fusion((x,), joined(wide, 1, 0))))
    assert 'f32[i2050, i2048] = pad(T1, float("-inf"), pad_widths=[0, 1, 0, 0])' in text
    assert "f32[i2050, i8, i256] = reshape" in text
    assert text.count("segment_set") == 2


def test_what_was_rounded_for_the_columns_is_what_rows_are_of() -> None:
    x = floats(2048, 2048)
    narrow = call("cast", call("cast", x, dtype=DataType.BFloat16), dtype=DataType.Float)
    results = *joined(x, 1), *joined(narrow, 0)
    assert is_rewritten(x, *results)
    assert "bf16" not in str(both_ways(Fusion((x,), results)))


SQUARE, FLAT, SMALL = floats(2048, 2048), floats(1 << 20, 64), floats(1024, 1024)
OTHERS = {
    "rows alone": (SQUARE, joined(SQUARE, 1)),
    "columns twice": (SQUARE, (*joined(SQUARE, 0), *joined(SQUARE, 0))),
    "another sum": (SQUARE, (*joined(SQUARE, 1, 0), total(SQUARE, 0))),
    "other operands": (SQUARE, (*joined(SQUARE, 1), *joined(call("neg", SQUARE), 0))),
    "a guarded maximum": (
        SQUARE,
        (*joined(SQUARE, 1), top(SQUARE), total(below(SQUARE, guarded(SQUARE)), 0)),
    ),
    "few columns": (FLAT, joined(FLAT, 1, 0)),
    "a small plane": (SMALL, joined(SMALL, 1, 0)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_stay(name: str) -> None:
    x, results = OTHERS[name]
    assert not is_rewritten(x, *results)


def test_columns_are_of_no_rows_that_were_rounded() -> None:
    x = floats(2048, 2048)
    rounded = call("cast", call("cast", x, dtype=DataType.BFloat16), dtype=DataType.Float)
    assert not is_rewritten(x, *joined(rounded, 1), *joined(x, 0))

"""Statements print as what they do, and tell which forms they evaluate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from thunder_fuser.analysis.digits import Form, atom, scale, shift
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.domain import axis
from thunder_fuser.kernel.statements import (
    Accumulate,
    Accuracy,
    Assign,
    Combine,
    Compute,
    Convert,
    Hold,
    IndexValue,
    LaneStatement,
    Literal,
    Random,
    ReadElement,
    ReadVector,
    Select,
    Variable,
    VectorAccess,
    WriteElement,
    WriteVector,
    checked_by_lane,
    forms_of,
    print_access,
    print_statement,
)
from thunder_fuser.ops import op

F32, BF16, I64 = DataType.Float, DataType.BFloat16, DataType.Int
ROW, LANE = axis(64), axis(8)
NAMES = {ROW: "i0", LANE: "lane"}
X, Y, K = Variable("T0_0", F32), Variable("T1_0", F32), Variable("T2_0", I64)
OFFSET = shift(atom(ROW), 3)
INSIDE = Window(shift(atom(ROW), -8), 32)


def made(value: Compute | Convert | ReadVector | ReadElement | Select | Combine) -> Assign:
    return Assign(Variable("T3_0", F32), value)


PRINTED: list[tuple[LaneStatement, str]] = [
    (
        made(Compute(op("add"), (X, Literal(2.0, F32)), F32, Accuracy.NORMAL)),
        "T3_0: f32 = add(T0_0, 2.0)",
    ),
    (made(Convert(K, F32)), "T3_0: f32 = convert(T2_0, f32)"),
    (made(ReadVector("v0", 2, 1, BF16)), "T3_0: f32 = v0[2*lane + 1]"),
    (
        made(ReadElement("T0", OFFSET, F32, (INSIDE,))),
        "T3_0: f32 = T0[3 + i0] where 0 <= -8 + i0 < 32",
    ),
    (made(Select((INSIDE,), X, Y)), "T3_0: f32 = T0_0 else T1_0 where 0 <= -8 + i0 < 32"),
    (made(Combine(op("sum"), (X, Y), F32)), "T3_0: f32 = sum(T0_0, T1_0)"),
    (WriteVector("w0", 1, 0, X, BF16), "w0[1*lane + 0] = T0_0"),
    (WriteElement("T4", OFFSET, X, F32), "T4[3 + i0] = T0_0"),
    (Accumulate(Y, op("sum"), X, (INSIDE,)), "T1_0 sum= T0_0 where 0 <= -8 + i0 < 32"),
    (Hold(Variable("T5_held[k][lane]", F32), X), "T5_held[k][lane] = T0_0"),
]


@pytest.mark.parametrize(("statement", "text"), PRINTED)
def test_statements_print(statement: LaneStatement, text: str) -> None:
    assert print_statement(statement, NAMES) == text


EVALUATED: list[tuple[LaneStatement, tuple[Form, ...]]] = [
    (made(ReadElement("T0", OFFSET, F32, (INSIDE,))), (OFFSET, INSIDE.form)),
    (made(Select((INSIDE,), X, Y)), (INSIDE.form,)),
    (Assign(K, IndexValue(OFFSET, 8)), (OFFSET,)),
    (Assign(X, Random(op("uniform"), (X, Y, K, K), OFFSET, F32)), (OFFSET,)),
    (WriteElement("T4", OFFSET, X, F32), (OFFSET,)),
    (Accumulate(Y, op("sum"), X, (INSIDE,)), (INSIDE.form,)),
    (made(Convert(K, F32)), ()),
    (WriteVector("w0", 1, 0, X, BF16), ()),
]


@pytest.mark.parametrize(("statement", "forms"), EVALUATED)
def test_statements_tell_the_forms_that_they_evaluate(
    statement: LaneStatement, forms: tuple[Form, ...]
) -> None:
    assert forms_of(statement) == forms


def test_accesses_print_with_what_is_left_out() -> None:
    access = VectorAccess("v0", "T0", scale(atom(ROW), 8), 8, 16, BF16, window=INSIDE)
    text = "T0[8*i0], 8 x bf16, 16 bytes at a time where 0 <= -8 + i0 < 32"
    assert print_access(access, NAMES) == text


def test_an_access_depends_on_its_offset_and_on_its_guards() -> None:
    guard = Window(atom(axis(3)), 2)
    access = VectorAccess("v0", "T0", scale(atom(ROW), 8), 8, 16, BF16, guards=(guard,))
    assert access.bases == {ROW} | guard.form.bases


def test_what_checks_is_told_behind_a_loop_over_lanes() -> None:
    check = Compute(op("in_range"), (K, Literal(60, I64)), I64, Accuracy.NORMAL)
    other = made(Convert(K, F32))
    told = Assign(K, replace(check, by_lane=True))
    assert checked_by_lane((Assign(K, check), other)) == (told, other)

"""What a scope evaluates, and how it prints."""

from __future__ import annotations

from thunder_fuser.analysis.digits import Form, atom, scale
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.domain import axis
from thunder_fuser.kernel.scopes import Accumulator, Count, Scope, print_scope
from thunder_fuser.kernel.statements import Assign, ReadElement, Variable
from thunder_fuser.ops.table import OPS

row = axis(7)


def scope() -> Scope:
    value = Variable("T0_0", DataType.Float)
    read = Assign(value, ReadElement("T0", scale(atom(row), 3), DataType.Float, ()))
    return Scope((), (read,), counts=(Count("T1_counts", value, Form(8)),))


def test_forms_are_those_of_statements_and_of_what_is_counted() -> None:
    assert set(scope().forms) == {scale(atom(row), 3), Form(8)}


def test_lines_say_what_is_counted_before_what_is_done() -> None:
    assert print_scope(scope(), {row: "row"}) == [
        "    T1_counts counts T0_0 from 8",
        "    T0_0: f32 = T0[3*row]",
    ]


def test_an_accumulator_has_bytes_of_the_type_it_computes_in() -> None:
    assert Accumulator("T1_part", DataType.BFloat16, OPS["sum"]).itemsize == 4

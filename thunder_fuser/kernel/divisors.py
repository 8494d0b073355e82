"""What elements of a column are divided by, where all rows have the same, is prepared before them.

    per row                                  per column, before its rows
      T2_0: f32 = v1[1*lane + 0]               T2_0: f32 = v1[1*lane + 0]
      T5_0: f32 = div(T0_0, T2_0)        =>    T2_0_by[lane] = T2_0
                                             per row
                                               T5_0: f32 = div(T0_0, T2_0_by[lane])

Such an array has the parts of the reciprocals, of which a quotient is two products and a sum. A
compiler would take them anew in each row: behind a test nothing is computed that may not be needed.
For that reason functions and quotients of what a column has one of are made there too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from thunder_fuser.analysis.digits import loads_in
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.kernel.row_values import split
from thunder_fuser.kernel.scopes import Scope
from thunder_fuser.kernel.statements import (
    Accuracy,
    Assign,
    Compute,
    Convert,
    Hold,
    LaneStatement,
    Operand,
    Variable,
    forms_of,
    operands_of,
)
from thunder_fuser.ops import Cost

DIVISOR = "_by"  # behind the name of what is divided by


def with_divisors(loop: Scope, row: IterDomain, lane: str) -> tuple[Scope | None, Scope]:
    """What is done once a column, before its rows, if elements are divided by what it has one of;
    and for each `row`."""
    arrays, statements = dict[Variable, Variable](), list[LaneStatement]()
    for statement in loop.statements:
        match statement:
            case Assign(_, Compute(op, (Variable(of_row=False) as first, divisor)) as quotient) if (
                op.by_row
                and quotient.accuracy is not Accuracy.STRICT
                and quotient.dtype.compute_type is DataType.Float
                and isinstance(divisor, Variable)
                and divisor.of_row
            ):
                name = f"{divisor.name}{DIVISOR}[{lane}]"
                arrays[divisor] = Variable(name, divisor.dtype, of_row=True)
                divided = replace(quotient, args=(first, arrays[divisor]))
                statement = replace(statement, value=divided)
        statements.append(statement)
    once, others = split(statements)
    costly = {s.variable: _kept(s.variable, lane) for s in once if _is_costly(s)}
    if not (arrays or costly):
        return None, loop
    known = [_from(s, costly) for s in once]
    again = _making(known, (name for s in others for name in _read(s)))
    read = {s.variable.name for s in again}
    arrays |= {value: kept for value, kept in costly.items() if value.name in read}
    held = tuple(Hold(array, value) for value, array in arrays.items())
    of_rows = tuple(a for a in loop.loads if row in a.bases)
    of_columns = tuple(a for a in loop.loads if row not in a.bases)
    made = Scope(of_columns, (*_making(once, (value.name for value in arrays)), *held))
    return made, replace(loop, loads=of_rows, statements=(*again, *others))


def _is_costly(statement: Assign) -> bool:
    """True for a function, or a quotient."""
    match statement.value:
        case Compute(op):
            return op.cost is Cost.EXPENSIVE or bool(op.by_row)
    return False


def _kept(value: Variable, lane: str) -> Variable:
    return Variable(f"{value.name}_kept[{lane}]", value.dtype, of_row=True)


def _from(statement: Assign, kept: Mapping[Variable, Variable]) -> Assign:
    """What is there of a kept value in each row; any other is made anew."""
    found, dtype = kept.get(statement.variable), statement.variable.dtype
    return statement if found is None else replace(statement, value=Convert(found, dtype))


def _making(statements: Sequence[Assign], wanted: Iterable[str]) -> tuple[Assign, ...]:
    """Those of the statements that lead to the variables of these names."""
    needed, found = set(wanted), list[Assign]()
    for statement in reversed(statements):
        if statement.variable.name in needed:
            needed |= _read(statement)
            found.append(statement)
    return tuple(reversed(found))


def _read(statement: LaneStatement) -> set[str]:
    """The variables that a statement is computed of, those of indices in memory too."""
    of: tuple[Operand, ...]
    of = operands_of(statement.value) if isinstance(statement, Assign) else (statement.value,)
    places = loads_in(forms_of(statement))
    return {o.name for o in of if isinstance(o, Variable)} | {place.name for place in places}

"""What a row has one of: computed once, before its vectors, in every walk of rows."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.analysis.test_precision import below_max
from tests.devices import ORDERS
from tests.kernel.test_rows import along, kernel_of
from tests.programs import H200, chain, check, fusion, like, reshape, run, total
from tests.schedule.segments import floats, halves, segment_of
from thunder_fuser.analysis.digits import Form, add, atom
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.codegen.emit import emit
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.domain import axis
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.kernel.row_values import RowValues, split
from thunder_fuser.kernel.statements import (
    Accuracy,
    Assign,
    Compute,
    Expression,
    IndexValue,
    Literal,
    Operand,
    ReadElement,
    ReadVector,
    Select,
    Variable,
)
from thunder_fuser.kernel.streams import lower_streams
from thunder_fuser.ops import op
from thunder_fuser.options import Options
from thunder_fuser.schedule import streams

F32 = DataType.Float


def logarithm(x: TensorView) -> TensorView:
    """Of softmax's denominator."""
    return chain(total(chain(below_max(x), "exp"), 1), "log")


def log_softmax(x: TensorView, guarded: bool = False) -> TensorView:
    below = below_max(x, guarded)
    return call("sub", below, along(chain(total(chain(below, "exp"), 1), "log"), x.shape[1]))


def distillation(x: TensorView, teacher: TensorView) -> TensorView:
    """A divergence of each row."""
    given, wanted = log_softmax(x), log_softmax(teacher)
    return total(call("mul", chain(wanted, "exp"), call("sub", wanted, given)), 1)


def once_of(kernel: RowKernel) -> list[list[str]]:
    """The ops that each phase, and what follows them, does once a row."""
    scopes = [*(phase.scope for phase in kernel.phases), kernel.final]
    values = ([s.value for s in scope.once] for scope in scopes)
    return [[v.op.name for v in found if isinstance(v, Compute)] for found in values]


def test_the_logarithm_of_a_row_is_no_part_of_its_elements() -> None:
    x = floats(5, 48)
    text = str(kernel_of(segment_of([x], log_softmax(x))))
    assert dedent(text[text.index("  final") :]) == dedent("""\
        final
          once T7_0: f32 = log(T6_row)
          T0_2: f32 = v0[k][1*lane + 0]
          T4_1: f32 = sub(T0_2, T1_row)
          T9_0: f32 = sub(T4_1, T7_0)
          w0[1*lane + 0] = T9_0
          store w0 -> T9[48*group + 4*vector], 4 x f32, 16 bytes at a time""")


def test_it_stands_before_the_vectors() -> None:
    x = floats(5, 48)
    _, body = emit(kernel_of(segment_of([x], log_softmax(x)))).text.split("T6_row = ")
    assert body.index("const float T7_0 = tf::log(T6_row);") < body.index("for (int k = 0;")


def test_what_scopes_behind_need_too_is_computed_by_the_first() -> None:
    x = floats(5, 48)
    log = logarithm(x)
    squares = chain(call("sub", x, along(log, 48)), "exp")
    kernel = kernel_of(segment_of([x], total(squares, 1), log))
    assert once_of(kernel) == [[], [], ["log"], []]
    assert str(kernel).count(" log(") == 1


def test_a_walked_row_has_its_own() -> None:
    x = floats(4096, 4096)
    made = log_softmax(x, guarded=True)
    kernel = kernel_of(segment_of([x], made, total(reshape(made, 64, 64, 4096), 1)))
    assert once_of(kernel) == [[], ["abs", "eq", "where"], ["log"]]
    text = emit(kernel).text
    assert text.index("for (int turn = 0; turn < 64") < text.index("const float T4_0 = ")


def test_what_memory_has_of_a_row_and_what_is_made_of_that_is_one_value() -> None:
    x, scale = floats(5, 48), floats(5)
    scaled = call("mul", x, along(chain(scale, "exp"), 48))
    kernel = kernel_of(segment_of([x, scale], call("sub", scaled, along(total(x, 1), 48))))
    names = [statement.variable.name for statement in kernel.final.once]
    assert (names, [a.pointer for a in kernel.once]) == (["T1_0", "T2_0"], ["T1"])


def test_a_maximum_so_far_is_not_that_of_the_row() -> None:
    """What a chunk of a stream makes of it is made anew of the row's."""
    x = halves(2, 1 << 21)
    segment = segment_of([x], log_softmax(x, guarded=True))
    kernel = lower_streams(streams.schedule(segment, H200)).rows
    guard = ["abs", "eq", "where"]
    assert once_of(kernel) == [[], guard, [*guard, "log"]]
    names = [{s.variable for s in scope.once} for scope in (kernel.phases[1].scope, kernel.final)]
    assert names[0].isdisjoint(names[1])


ROW, VECTOR, LANE = axis(5), axis(7), axis(4)
KNOWN = Variable("T1_row", F32, of_row=True)
OTHER = Variable("T0_0", F32)


def added(*operands: Operand) -> Compute:
    return Compute(op("add"), operands, F32, Accuracy.NORMAL)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (added(KNOWN, Literal(2.0, F32)), True),
        (added(KNOWN, Variable("s0", F32)), True),
        (added(KNOWN, OTHER), False),
        (ReadVector("v0", 0, 0, F32), True),
        (ReadVector("v0", 1, 0, F32), False),  # an element a lane
        (ReadVector("v1", 0, 0, F32), False),  # of every vector
        (IndexValue(atom(ROW), 8), True),
        (IndexValue(add(atom(ROW), atom(LANE)), 8), False),
        (Select((Window(atom(ROW), 3),), KNOWN, KNOWN), True),
        (Select((Window(atom(VECTOR), 3),), KNOWN, KNOWN), False),
        (ReadElement("T0", Form(), F32, ()), False),
    ],
)
def test_what_a_row_has_one_of(value: Expression, expected: bool) -> None:
    values = RowValues({VECTOR, LANE}, once=["v0"], scalars=["s0"])
    made = Variable("T2_0", F32, values.repeats(value))
    behind = added(made, made)
    both = Assign(made, value), Assign(Variable("T3_0", F32, values.repeats(behind)), behind)
    assert split(both) == ((both, ()) if expected else ((), both))


def test_elements_alone_are_divided_by_parts_of_the_reciprocal_of_what_is_made_of_sums() -> None:
    """Of what there is once a row, only one quotient is taken."""
    x = floats(5, 48)
    scale = call("div", chain(total(chain(x, "abs"), 1), "sqrt"), total(x, 1))
    text = emit(kernel_of(segment_of([x], chain(call("div", x, along(scale, 48)), "round")))).text
    assert text.count("= tf::div(") == 1
    assert text.count("= tf::divided_by_row(") == 1


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("columns", [1, 48, 1023, 4097])
def test_values_are_those_of_the_trace(columns: int) -> None:
    """Of one column, of rows side by side, of rows that begin anywhere."""
    x, scale = torch.randn(6, columns), torch.randn(6)
    a, b = like(x, scale)
    spread = call("mul", below_max(a, True), along(chain(b, "abs", "neg"), columns))
    top = call("max", reshape(spread, 2, 3, columns), dims=(1,))
    check(fusion([a, b], spread, top), x, scale, options=Options(strict=True), orders=ORDERS)


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("columns", [37, 1000, 4097, 20011])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_divergence_is_as_exact_as_eager_s(columns: int, dtype: torch.dtype) -> None:
    x, teacher = (3 * torch.randn(7, columns, dtype=torch.float32).to(dtype) for _ in range(2))
    a, b = like(x, teacher)
    wide = (call("cast", t, dtype=F32) for t in (a, b))
    (found,) = run(fusion([a, b], distillation(*wide)), x, teacher, options=Options())

    def of(kind: torch.dtype) -> torch.Tensor:
        given, wanted = (torch.log_softmax(t.to(kind), 1) for t in (x, teacher))
        return (wanted.exp() * (wanted - given)).sum(1)

    exact = of(torch.float64)
    eager = (of(torch.float32) - exact).abs().max()
    assert (found.cpu() - exact).abs().max() <= 4 * eager + 32 * exact.abs().max() * 2**-24

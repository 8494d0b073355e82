"""What is done where sums by an index are known."""

from __future__ import annotations

from textwrap import dedent

from tests.programs import chain, ints
from tests.schedule.segments import halves, integers, segment_of
from thunder_fuser.analysis.digits import atom
from thunder_fuser.ir.build import call
from thunder_fuser.ir.domain import axis
from thunder_fuser.kernel.elements import ElementWriter
from thunder_fuser.kernel.known_sums import behind_sums
from thunder_fuser.kernel.names import name_values
from thunder_fuser.kernel.scopes import print_scope
from thunder_fuser.kernel.vectors import Accesses
from thunder_fuser.schedule.vector_axes import VectorAxes


def test_what_is_stored_beside_a_sum_is_made_of_it() -> None:
    x, index, beside = halves(40, 60), integers(40, 60), halves(40, 96)
    made = call("pick_sum", x, index, dim=1, count=ints([96]))
    result = call("mul", chain(made, "neg"), beside)
    segment = segment_of([x, index, beside], made, result)
    names, row, axes = name_values(segment), axis(40), VectorAxes(axis(12), axis(8))
    at = atom(row), axes.column
    accesses = Accesses(segment.layouts, axes.lane, names.tensors, streams=False)
    writer = ElementWriter(segment, names.tensors, names.scalars, accesses, strict=False)
    scope = behind_sums(writer, axes, [(made, at)], [(store, at) for store in segment.stores])
    printed = "\n".join(print_scope(scope, {row: "row", **axes.names}))
    assert dedent(printed) == dedent("""\
        v0 = load T4[96*row + 8*vector], 8 x bf16, 16 bytes at a time
        T4_0: f32 = v0[1*lane + 0]
        T3_0: f32 = neg(T2_row[lane])
        T5_0: f32 = mul(T3_0, T4_0)
        w0[1*lane + 0] = T2_row[lane]
        w1[1*lane + 0] = T5_0
        store w0 -> T2[96*row + 8*vector], 8 x bf16, 16 bytes at a time
        store w1 -> T5[96*row + 8*vector], 8 x bf16, 16 bytes at a time""")

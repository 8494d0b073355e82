"""Elements become lane statements: equal ones once, constants folded, windows only where needed."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.programs import cat, chain, full, ints, pad, reshape
from tests.schedule.segments import floats, halves, segment_of
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.lower import lower
from thunder_fuser.kernel.map_ir import Kernel
from thunder_fuser.kernel.statements import Accuracy, Assign, Compute, ReadElement, Select
from thunder_fuser.schedule import map
from thunder_fuser.schedule.parameters import MapParameters
from thunder_fuser.segment.segment import Segment


def lower_all(segment: Segment, strict: bool = False) -> Kernel:
    return lower(map.schedule(segment, MapParameters()), strict)


def statements(segment: Segment, strict: bool = False) -> str:
    """What the first body computes, without its loads and stores."""
    printed = str(lower_all(segment, strict)).split("\n")[3:]
    kept = [line[4:] for line in printed if " = load " not in line and "store " not in line]
    return "\n".join(kept)


def test_equal_expressions_are_computed_once() -> None:
    x = floats(64)
    twice = call("add", chain(x, "exp"), chain(x, "exp"))
    assert statements(segment_of([x], twice)) == dedent("""\
        T0_0: f32 = v0[1*lane + 0]
        T1_0: f32 = exp(T0_0)
        T3_0: f32 = add(T1_0, T1_0)
        w0[1*lane + 0] = T3_0""")


def test_copies_and_views_cost_no_statement() -> None:
    x = halves(8, 8)
    made = chain(reshape(call("cast", x, dtype=DataType.Float), 64), "neg")
    assert statements(segment_of([x], made)) == dedent("""\
        T0_0: f32 = v0[1*lane + 0]
        T3_0: f32 = neg(T0_0)
        w0[1*lane + 0] = T3_0""")


def test_a_narrowing_cast_in_the_middle_rounds_only_under_strict() -> None:
    x = floats(64)
    made = chain(call("cast", x, dtype=DataType.BFloat16), "neg")
    segment = segment_of([x], made)
    assert "round" not in statements(segment)
    assert "T1_0: f32 = round(T0_0, bf16)" in statements(segment, strict=True)


def test_strict_rounds_no_value_that_its_register_holds_exactly() -> None:
    x = floats(64)
    assert "round" not in statements(segment_of([x], chain(x, "neg", "exp")), strict=True)


def test_a_float_of_8_bits_is_rounded_where_it_is_cast_back() -> None:
    x = floats(64)
    small = call("cast", x, dtype=DataType.Float8E4M3)
    assert "round" not in statements(segment_of([x], small))
    back = call("cast", reshape(small, 8, 8), dtype=DataType.Float)
    assert "T3_0: f32 = round(T0_0, f8e4m3)" in statements(segment_of([x], back))


def test_a_float_of_8_bits_in_memory_is_rounded_already() -> None:
    x = tensor(DataType.Float8E4M3, 64)
    back = call("cast", reshape(x, 8, 8), dtype=DataType.Float)
    assert statements(segment_of([x], back)) == dedent("""\
        T0_0: f32 = v0[1*lane + 0]
        w0[1*lane + 0] = T0_0""")


def test_a_cast_to_integers_converts_even_where_rounding_is_not_kept() -> None:
    x = floats(64)
    made = call("cast", call("cast", x, dtype=DataType.Int), dtype=DataType.Float)
    assert "convert(T0_0, i64)" in statements(segment_of([x], made))


def test_a_constant_is_folded_into_the_type_it_is_used_in() -> None:
    x = floats(64)
    assert "add(T0_0, 2.0)" in statements(segment_of([x], call("add", x, sc.constant(2))))


def test_a_constant_that_c_would_convert_another_way_is_not_folded() -> None:
    """2.5 to an integer: C truncates, and so would we, but infinities have no such value."""
    made = call("cast", full(float("inf"), 64, dtype=DataType.Double), dtype=DataType.Int)
    assert 'convert(float("inf"), i64)' in statements(segment_of([], made))


def test_operands_are_converted_to_the_type_that_the_row_computes_in() -> None:
    x, n = floats(64), tensor(DataType.Int, 64)
    assert "convert(T1_0, f32)" in statements(segment_of([x, n], call("add", x, n)))


@pytest.mark.parametrize(
    ("strict", "narrow", "accuracy"),
    [
        (False, True, Accuracy.FAST),
        (False, False, Accuracy.NORMAL),
        (True, True, Accuracy.STRICT),
    ],
)
def test_fast_functions_serve_values_that_end_in_sixteen_bits(
    strict: bool, narrow: bool, accuracy: Accuracy
) -> None:
    x = halves(64)
    made = chain(x, "exp")
    plain = segment_of([x], made)
    chosen = Segment(
        plain.stores, plain.leaves, plain.layouts, fast=frozenset([made] if narrow else [])
    )
    ((body,),) = lower_all(chosen, strict).groups
    (found,) = (
        s.value.accuracy
        for s in body.statements
        if isinstance(s, Assign) and isinstance(s.value, Compute)
    )
    assert found is accuracy


def many_pieces() -> tuple[list[TensorView], TensorView]:
    """A cat of more unequal pieces than a store has boxes."""
    parts = [floats(n) for n in range(2, 42)]
    return parts, cat(*parts)


def test_a_cat_that_no_box_resolves_is_a_chain_of_guarded_reads() -> None:
    """One that is left out with whole vectors is a vector."""
    parts, joined = many_pieces()
    segment = segment_of(parts, joined)
    body = next(b for b in lower_all(segment).groups[0] if any(a.guards for a in b.loads))
    values = [s.value for s in body.statements if isinstance(s, Assign)]
    chosen = [v for v in values if isinstance(v, Select)]
    reads = [v for v in values if isinstance(v, ReadElement)]
    assert len(body.loads) == 1
    assert len(chosen) + 1 == len(reads) + len(body.loads) >= 2
    assert all(v.windows for v in (*chosen, *reads))


def test_a_pad_that_no_box_resolves_selects_its_fill() -> None:
    parts, _ = many_pieces()
    made = cat(*(pad(chain(part, "neg"), [1, 1], 7.5) for part in parts))
    assert " else 7.5 where 0 <= " in str(lower_all(segment_of(parts, made)))
    assert " else 7.5" not in str(lower_all(segment_of(parts[6:7], pad(parts[6], [8, 8], 7.5))))


def test_iota_counts_in_64_bits_and_ends_in_its_type() -> None:
    count = call("iota", sc.constant(5), sc.constant(3), length=ints([64]), dtype=DataType.Int)
    assert statements(segment_of([], count)) == dedent("""\
        T0_0: i64 = index(2*i0 + lane)
        T0_1: i64 = mul(3, T0_0)
        T0_2: i64 = add(5, T0_1)
        w0[1*lane + 0] = T0_2""")


def test_an_empty_sum_is_the_identity_and_a_full_one_is_in_order() -> None:
    x, y = floats(8, 0), floats(8, 2)
    assert "T1_0: f32 = sum()" in statements(segment_of([x], call("sum", x, dims=(1,))))
    assert "T1_0: f32 = max(T0_0, T0_1)" in statements(segment_of([y], call("max", y, dims=(1,))))

"""Stop points before gathers that cannot compute their producer where they read it."""

from __future__ import annotations

from textwrap import dedent

from tests.programs import chain, expand, fusion, total, unsqueeze
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.stop_gathers import stop_gathers


def table(*extents: int) -> TensorView:
    return tensor(DataType.Float, *extents)


def indices(*extents: int) -> TensorView:
    return tensor(DataType.Int, *extents)


def rows(x: TensorView, index: TensorView) -> TensorView:
    return call("index_select", x, index, dim=0)


def stays(program: Fusion) -> bool:
    return stop_gathers(program) is program


def test_rows_of_a_reduced_table_are_stored_first() -> None:
    a, i = table(40, 64), indices(5)
    centred = call("sub", a, expand(unsqueeze(total(a, 1), 1), 40, 64))
    assert str(stop_gathers(fusion([a, i], rows(centred, i)))) == dedent("""\
        fusion(T0: f32[i40, i64], T1: i64[i5]) {
          T2: f32[i40, r64] = sum(T0, dims=[1])
          T3: f32[i40, b1] = broadcast(T2, is_broadcast_dim=[False, True])
          T4: f32[i40, b64] = expand(T3, shape=[40, 64])
          T5: f32[i40, i64] = sub(T0, T4)
          T6: f32[i40, i64] = segment_set(T5)
          T7: f32[i5, i64] = index_select(T6, T1, dim=0)
          return T7
        }""")


def test_an_element_of_the_row_that_is_reduced_needs_no_stop() -> None:
    a, i = table(40, 64), indices(40, 1)
    centred = call("sub", a, expand(unsqueeze(total(a, 1), 1), 40, 64))
    assert stays(fusion([a, i], call("take_along_axis", centred, i, dim=1)))


def test_what_is_computed_element_by_element_is_computed_where_it_is_read() -> None:
    a, i = table(40, 64), indices(5)
    assert stays(fusion([a, i], rows(chain(a, "exp", "neg"), i)))


def test_an_index_that_a_long_reduction_makes_is_stored_first() -> None:
    a, i = table(40, 64), indices(5, 64)
    text = str(stop_gathers(fusion([a, i], rows(a, total(i, 1)))))
    assert "segment_set(T2)" in text
    assert text.count("segment_set") == 1


def test_an_index_that_a_short_reduction_makes_is_not() -> None:
    a, i = table(40, 64), indices(5, 4)
    assert stays(fusion([a, i], rows(a, total(i, 1))))


def test_a_table_of_many_terms_is_summed_once() -> None:
    a, i = table(40, 16, 64), indices(500)
    assert "segment_set" in str(stop_gathers(fusion([a, i], rows(total(a, 1), i))))
    few = table(40, 4, 64)
    assert stays(fusion([few, i], rows(total(few, 1), i)))

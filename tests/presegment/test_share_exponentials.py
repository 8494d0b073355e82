"""Softmax and log_softmax of one tensor take one sum of exponentials."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.programs import chain, expand, fusion, like, run, total, unsqueeze
from tests.schedule.segments import floats
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.options import Options
from thunder_fuser.presegment.share_exponentials import share_exponentials

INFINITE = float("inf")


def sums(x: TensorView) -> tuple[TensorView, TensorView]:
    """The guarded sum and the plain one."""
    top = call("max", x, dims=(1,))
    is_infinite = call("eq", call("abs", top), sc.constant(INFINITE))
    finite = call("where", is_infinite, sc.constant(0.0), top)
    guarded, plain = (
        total(chain(call("sub", x, expand(unsqueeze(t, 1), *x.shape)), "exp"), 1)
        for t in (finite, top)
    )
    return guarded, plain


def test_the_guarded_sum_is_the_plain_one_but_where_the_maximum_is_infinite() -> None:
    x = floats(4, 8)
    assert str(share_exponentials(Fusion((x,), sums(x)))) == dedent("""\
        fusion(T0: f32[i4, i8]) {
          T1: f32[i4, r8] = max(T0, dims=[1])
          T2: f32[i4] = abs(T1)
          T3: bool[i4] = eq(T2, float("inf"))
          T4: f32[i4] = exp(T1)
          T5: f32[i4, b1] = broadcast(T1, is_broadcast_dim=[False, True])
          T6: f32[i4, b8] = expand(T5, shape=[4, 8])
          T7: f32[i4, i8] = sub(T0, T6)
          T8: f32[i4, i8] = exp(T7)
          T9: f32[i4, r8] = sum(T8, dims=[1])
          T10: f32[i4] = where(T3, T4, T9)
          return T10, T9
        }""")


def test_sums_of_two_tensors_stay_two() -> None:
    x, y = floats(4, 8), floats(4, 8)
    pair = Fusion((x, y), (sums(x)[0], sums(y)[1]))
    assert share_exponentials(pair) is pair


def test_a_guarded_sum_alone_stays() -> None:
    x = floats(4, 8)
    alone = Fusion((x,), (sums(x)[0],))
    assert share_exponentials(alone) is alone


@pytest.mark.usefixtures("device")
def test_rows_with_infinities_keep_their_sums() -> None:
    x = torch.randn(6, 37)
    x[0], x[1, 3], x[2, 3], x[3, 3], x[4, 5] = -INFINITE, INFINITE, float("nan"), -INFINITE, 300.0
    (a,) = like(x)
    guarded, plain = (y.cpu() for y in run(fusion([a], *sums(a)), x, options=Options()))
    top = x.amax(1, keepdim=True)
    finite = torch.where(top.abs() == INFINITE, 0.0, top)
    torch.testing.assert_close(guarded, (x - finite).exp().sum(1), equal_nan=True)
    torch.testing.assert_close(plain, (x - top).exp().sum(1), equal_nan=True)


def test_another_number_for_small_maxima_is_no_guard() -> None:
    """As of softmax with a 1 in its denominator."""
    x = floats(64, 512)
    top = call("max", x, dims=(1,))
    raised = call("where", call("lt", top, sc.constant(0)), sc.constant(0.0), top)
    sums = (
        total(call("exp", call("sub", x, expand(unsqueeze(m, 1), 64, 512))), 1)
        for m in (top, raised)
    )
    whole = fusion([x], *sums)
    assert share_exponentials(whole) is whole


def test_maxima_of_rows_are_no_maxima_of_columns() -> None:
    x = floats(64, 64)
    top = call("max", x, dims=(1,))
    is_infinite = call("eq", call("abs", top), sc.constant(float("inf")))
    guarded = call("where", is_infinite, sc.constant(0.0), top)
    rows = expand(unsqueeze(guarded, 1), 64, 64)
    columns = expand(unsqueeze(top, 0), 64, 64)
    sums = (total(call("exp", call("sub", x, m)), 1) for m in (rows, columns))
    whole = fusion([x], *sums)
    assert share_exponentials(whole) is whole

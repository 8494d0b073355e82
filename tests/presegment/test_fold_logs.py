"""Which logarithms of a softmax are differences, and which exponentials of them quotients."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.presegment.test_one_pass_exponentials import below, softmax, top
from tests.programs import expand, fusion, ints, like, total, unsqueeze
from tests.schedule.segments import floats
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.fold_logs import fold_logs
from thunder_fuser.runtime.evaluate import evaluate


def test_a_logarithm_of_each_row_is_left() -> None:
    x = floats(8, 90)
    made = fold_logs(Fusion((x,), (call("log", softmax(x, 1)),)))
    assert str(made) == dedent("""\
        fusion(T0: f32[i8, i90]) {
          T1: f32[i8, r90] = max(T0, dims=[1])
          T2: f32[i8, b1] = broadcast(T1, is_broadcast_dim=[False, True])
          T3: f32[i8, b90] = expand(T2, shape=[8, 90])
          T4: f32[i8, i90] = sub(T0, T3)
          T5: f32[i8, i90] = exp(T4)
          T6: f32[i8, r90] = sum(T5, dims=[1])
          T7: f32[i8, b1] = broadcast(T6, is_broadcast_dim=[False, True])
          T8: f32[i8, b90] = expand(T7, shape=[8, 90])
          T9: f32[i8, i90] = div(T5, T8)
          T10: bool[i8, i90] = eq(T9, 0.0)
          T11: f32[i8, b1] = log(T7)
          T12: f32[i8, b90] = expand(T11, shape=[8, 90])
          T13: f32[i8, i90] = sub(T4, T12)
          T14: f32[i8, i90] = where(T10, float("-inf"), T13)
          return T14
        }""")


@pytest.mark.parametrize("dim", [0, 1])
def test_values_are_those_of_the_logarithm(dim: int) -> None:
    """Also where the share vanishes, and where a row has no maximum, or an infinite one."""
    x = 30 * torch.randn(9, 40, dtype=torch.float64)
    x[0, 0], x[1, 1], x[2], x[3, 3] = torch.nan, torch.inf, -torch.inf, -1e4
    (a,) = like(x)
    written = fusion([a], call("log", softmax(a, dim)))
    (found,), (expected,) = (evaluate(f, [x]) for f in (fold_logs(written), written))
    assert "log" in str(fold_logs(written))
    torch.testing.assert_close(found, expected, equal_nan=True)


def test_a_gradient_has_maxima_and_totals_from_memory() -> None:
    x, m, total = floats(8, 90), floats(8, 1), floats(8, 1)
    tops, totals = (call("expand", tv, shape=ints([8, 90])) for tv in (m, total))
    share = call("div", call("exp", call("sub", x, tops)), totals)
    made = str(fold_logs(Fusion((x, m, total), (call("log", share),))))
    assert made.count("log(") == 1
    assert "f32[i8, b1] = log(T2)" in made


def test_shares_that_were_made_of_their_logarithm_are_quotients() -> None:
    x = floats(8, 90)
    exponents = below(x, top(x, 1), 1).expr.tensors[0]
    terms = call("exp", exponents)
    log = call("log", expand(unsqueeze(total(terms, 1), 1), 8, 90))
    made = fold_logs(Fusion((x,), (call("exp", call("sub", exponents, log)),)))
    (shares,) = made.outputs
    assert shares.is_of("div")
    assert shares.expr.inputs[0] is terms
    values = [30 * torch.randn(8, 90)]
    (found,) = evaluate(made, values)
    torch.testing.assert_close(found, torch.softmax(values[0], 1))


def test_others_stay() -> None:
    x, y = floats(8, 90), floats(8, 90)
    terms = below(x, top(x, 1), 1)
    for value in (terms, call("div", terms, y), call("div", y, terms), call("exp", x)):
        written: TensorView = call("log", value)
        assert fold_logs(Fusion((x, y), (written,))).outputs == (written,)
    written = call("exp", call("sub", terms, y))
    assert fold_logs(Fusion((x, y), (written,))).outputs == (written,)


def times_its_log(share: TensorView) -> TensorView:
    """x log(x), as torch has it of a divergence's target."""
    is_zero, zero = call("eq", share, sc.constant(0.0)), sc.constant(0.0)
    return call("where", is_zero, zero, call("mul", share, call("log", share)))


def test_a_share_times_its_logarithm_waits_for_what_a_row_has_one_of() -> None:
    x = floats(8, 90)
    made = str(fold_logs(Fusion((x,), (times_its_log(softmax(x, 1)),))))
    assert made.count("where(") == made.count("eq(") == 1
    assert "-inf" not in made


@pytest.mark.parametrize("scale", [1.0, 90.0])
def test_a_divergence_is_a_share_times_a_difference(scale: float) -> None:
    """Also where shares vanish."""
    values = [scale * torch.randn(9, 40, dtype=torch.float64) for _ in range(2)]
    values[0][0, 0] = -torch.inf
    x, y = like(*values)
    share, raised = softmax(x, 1), below(y, top(y, 1), 1)
    distance = raised.expr.tensors[0]
    log = expand(call("log", unsqueeze(total(raised, 1), 1)), 9, 40)
    given = call("mul", share, call("sub", distance, log))
    written = fusion([x, y], call("sub", times_its_log(share), given))
    made = fold_logs(written)
    assert str(made).count("mul(") == 1
    (found,), (expected,) = (evaluate(f, values) for f in (made, written))
    torch.testing.assert_close(found, expected, equal_nan=True)


def test_an_exponential_of_the_logarithm_is_the_quotient_that_is_there() -> None:
    """As in the gradients of a softmax and of its logarithm, which have the total from memory."""
    x, m, t = torch.randn(8, 90), torch.randn(8, 1), torch.rand(8, 1) + 1
    a, b, c = like(x, m, t)
    spread = [call("expand", tv, shape=ints([8, 90])) for tv in (b, c, call("log", c))]
    distance = call("sub", a, spread[0])
    shares = call("div", call("exp", distance), spread[1])
    again = call("exp", call("sub", distance, spread[2]))
    written = fusion([a, b, c], call("mul", again, shares), call("neg", again))
    made = fold_logs(written)
    assert "log(" not in str(made)
    assert str(made).count("exp(") == str(made).count("div(") == 1
    for found, expected in zip(*(evaluate(f, [x, m, t]) for f in (made, written)), strict=True):
        torch.testing.assert_close(found, expected)
    alone = fusion([a, b, c], again)
    assert fold_logs(alone) is alone

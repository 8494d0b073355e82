"""How what is computed lies in memory, and over which axes reductions walk."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.programs import chain, check, expand, fusion, like, permute, plan_of, total
from thunder_fuser.analysis.layout import Layout, dense_strides, output_layout
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.follow_memory import follow_memory
from thunder_fuser.runtime.evaluate import evaluate

CHANNELS_LAST = (0, 2, 3, 1)


def lying(*shape: int, order: tuple[int, ...] = CHANNELS_LAST) -> torch.Tensor:
    """Small integers; dims from the outermost in memory to the innermost."""
    return torch.empty_strided(shape, dense_strides(shape, order)).copy_(
        torch.randint(-3, 4, shape)
    )


def followed(program: Fusion, *tensors: torch.Tensor) -> Fusion:
    layouts = {
        tv: Layout(tuple(t.shape), t.stride())
        for tv, t in zip(program.inputs, tensors, strict=True)
        if isinstance(tv, TensorView)
    }
    return follow_memory(program, layouts)


def test_a_sum_is_walked_as_its_operand_lies() -> None:
    x = lying(2, 6, 3, 5)
    (a,) = like(x)
    program = fusion([a], total(chain(a, "neg"), 0, 2, 3))
    assert str(followed(program, x)) == dedent("""\
        fusion(T0: f32[i2, i6, i3, i5] allocation [0, 2, 3, 1]) {
          T1: f32[i2, i6, i3, i5] allocation [0, 2, 3, 1] = neg(T0)
          T2: f32[i2, i3, i5, i6] = permute(T1, dims=[0, 2, 3, 1])
          T3: f32[r2, r3, r5, i6] = sum(T2, dims=[0, 1, 2])
          return T3
        }""")


def test_axes_that_are_kept_in_another_order_are_turned_back() -> None:
    x = lying(4, 6, 5, order=(1, 2, 0))
    (a,) = like(x)
    program = fusion([a], total(a, 1))
    made = followed(program, x)
    assert "permute" in str(made)
    (got,), (want,) = evaluate(made, [x]), evaluate(program, [x])
    assert torch.equal(got, want)


def test_row_major_tensors_stay_as_they_are() -> None:
    x = torch.randn(4, 6, 5)
    (a,) = like(x)
    program = fusion([a], total(chain(a, "neg"), 0))
    assert followed(program, x) is program


@pytest.mark.parametrize(
    ("shape", "stride"),
    [
        ((2, 6, 1, 1), (6, 1, 6, 6)),  # unit dims: either order
        ((2, 6, 1, 1), (6, 1, 1, 1)),
        ((6,), (1,)),
        ((4, 6), (12, 2)),  # gaps
        ((4, 6), (0, 1)),  # repeated
        ((0, 6), (1, 1)),
    ],
)
def test_what_has_no_order_of_its_own_stays(
    shape: tuple[int, ...], stride: tuple[int, ...]
) -> None:
    x = torch.zeros(100).as_strided(shape, stride)
    (a,) = like(x)
    program = fusion([a], chain(a, "neg"))
    assert followed(program, x) is program


def test_results_lie_like_operands_that_agree() -> None:
    x, y, bias = lying(2, 6, 3, 5), lying(2, 6, 3, 5), torch.randn(6, 1, 1)
    a, b, c = like(x, y, bias)
    added = call("add", call("mul", a, b), expand(c, 2, 6, 3, 5))
    (made,) = followed(fusion([a, b, c], added), x, y, bias).outputs
    assert output_layout(made).strides == x.stride()


def test_operands_that_disagree_decide_nothing() -> None:
    x, y = lying(2, 6, 3, 5), torch.randn(2, 6, 3, 5)
    a, b = like(x, y)
    (made,) = followed(fusion([a, b], call("mul", a, b)), x, y).outputs
    assert output_layout(made).strides == y.stride()


@pytest.mark.parametrize("dims", [(1,), (0, 2, 3), (2, 3), (0,), (0, 1, 2, 3)])
@pytest.mark.usefixtures("device")
def test_values_and_strides_are_eagers(dims: tuple[int, ...]) -> None:
    x = lying(7, 40, 9, 5)
    (a,) = like(x)
    e = chain(a, "neg")
    check(fusion([a], e, total(e, *dims), call("max", a, dims=dims)), x)
    found = plan_of(fusion([a], e), x).run(x)
    assert found[0].stride() == (-x).stride()


@pytest.mark.usefixtures("device")
def test_a_view_of_what_lies_otherwise_is_still_one() -> None:
    x = lying(7, 40, 9, 5)
    (a,) = like(x)
    e = chain(a, "neg")
    plan = check(fusion([a], e, permute(e, 0, 2, 3, 1)), x)
    assert plan.launches == 1
    assert len(plan.segmented.views) == 1


@pytest.mark.usefixtures("device")
def test_a_plane_that_is_stored_beside_its_sums_is_one_launch() -> None:
    x = lying(9, 40, 8, 5)
    (a,) = like(x)
    e = chain(a, "neg")
    assert check(fusion([a], e, total(e, 0, 2, 3)), x).launches == 1

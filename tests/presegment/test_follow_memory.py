"""How what is computed lies in memory, and over which axes reductions walk."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.programs import chain, check, expand, fusion, like, machine, permute, plan_of, total
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
    return follow_memory(program, layouts, machine(1))


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


def test_a_permutation_with_channels_innermost_is_followed() -> None:
    x, y = torch.randn(2, 3, 5, 8), lying(2, 8, 3, 5)
    a, b = like(x, y)
    program = fusion([a, b], total(call("mul", chain(permute(a, 0, 3, 1, 2), "neg"), b), 0, 2, 3))
    assert str(followed(program, x, y)) == dedent("""\
        fusion(T0: f32[i2, i3, i5, i8], T1: f32[i2, i8, i3, i5] allocation [0, 2, 3, 1]) {
          T2: f32[i2, i8, i3, i5] = permute(T0, dims=[0, 3, 1, 2])
          T3: f32[i2, i8, i3, i5] allocation [0, 2, 3, 1] = neg(T2)
          T4: f32[i2, i8, i3, i5] allocation [0, 2, 3, 1] = mul(T3, T1)
          T5: f32[i2, i3, i5, i8] = permute(T4, dims=[0, 2, 3, 1])
          T6: f32[r2, r3, r5, i8] = sum(T5, dims=[0, 1, 2])
          return T6
        }""")


def test_colours_in_front_are_turned() -> None:
    """Few channels come to a kernel that turns them, one by one to one that follows them."""
    x = torch.randn(2, 3, 5, 3)
    (a,) = like(x)
    program = fusion([a], chain(permute(a, 0, 3, 1, 2), "neg"))
    assert followed(program, x) is program


def test_other_permutations_are_stored_row_by_row() -> None:
    x = torch.randn(2, 3, 5, 6)
    (a,) = like(x)
    program = fusion([a], chain(permute(a, 0, 2, 1, 3), "neg"))
    assert followed(program, x) is program


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("shape", [(2, 3, 5, 8), (3, 4, 5, 1), (2, 3, 4, 2, 9)])
def test_a_permuted_image_lies_as_eagers(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    (a,) = like(x)
    turned = permute(a, 0, x.ndim - 1, *range(1, x.ndim - 1))
    found = plan_of(fusion([a], chain(turned, "neg")), x).run(x)
    assert found[0].stride() == (-x.movedim(-1, 1)).stride()


def met(shape: tuple[int, ...]) -> tuple[Fusion, torch.Tensor, torch.Tensor]:
    """A sum of products of a plane with channels innermost and of one that lies row by row."""
    x, y = lying(*shape), torch.randint(-3, 4, shape).float()
    a, b = like(x, y)
    return fusion([a, b], total(call("mul", a, b), 0, 2, 3)), x, y


@pytest.mark.usefixtures("device")
def test_terms_that_lie_in_two_orders_are_copied_into_one() -> None:
    program, x, y = met((10, 8, 21, 20))
    assert check(program, x, y).launches == 2
    copies = [t for t in followed(program, x, y).tensors if t.definition is not None]
    assert [t.definition.op.name for t in copies if t.definition][:2] == ["copy", "segment_set"]


@pytest.mark.parametrize(("rows", "copies"), [(24, 0), (1032, 1)])
def test_terms_of_two_orders_stay_beside_rows_that_a_block_keeps(rows: int, copies: int) -> None:
    """The sums over all columns are made where the rows' are. All sums read a copy, if any."""
    x, y = lying(13, rows, 8, 8), torch.randint(-3, 4, (13, rows, 8, 8)).float()
    a, b = like(x, y)
    products = call("mul", a, b)
    of_rows = total(permute(products, 0, 2, 3, 1), 3)
    made = followed(fusion([a, b], of_rows, *(total(t, 0, 2, 3) for t in (products, b))), x, y)
    assert str(made).count("copy(T1)") == copies
    readers = [t for t in made.tensors if t.definition and b in t.producers]
    assert copies == 0 or [t.is_of("copy") for t in readers] == [True]


def test_columns_that_a_block_keeps_are_read_turned() -> None:
    program, x, y = met((2, 24, 13, 16))
    assert followed(program, x, y) is program


def test_few_channels_are_read_as_they_lie() -> None:
    program, x, y = met((50, 3, 16, 16))
    assert followed(program, x, y) is program


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

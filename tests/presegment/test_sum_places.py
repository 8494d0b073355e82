"""Which channels are summed place by place first, and that the results stay."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import pytest
import torch

from tests.programs import fusion, like, machine, permute, total
from tests.schedule.segments import floats, halves
from thunder_fuser.analysis.layout import Layout, output_layout
from thunder_fuser.ir.build import apply, call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops.reductions import SQUARED_DEVIATION
from thunder_fuser.presegment.sum_places import MIN_BYTES, MIN_IMAGES, by_places, sum_places
from thunder_fuser.runtime.evaluate import evaluate

SHAPE = (MIN_IMAGES, 6, 7, 7)
IMAGES = 3 * MIN_BYTES // (2 * 6 * 49 * 4)  # of them that are large, in f32


def summed(program: Fusion, lies: Layout | None = None, is_shared: bool = True) -> Fusion:
    """For a machine of one multiprocessor; the only input is aligned, and dense but for `lies`."""
    (x,) = program.inputs
    assert isinstance(x, TensorView)
    layouts = {x: lies or output_layout(x)}
    return sum_places(program, by_places(program, layouts, machine(1), lambda tv: is_shared))


def test_places_are_columns_of_the_batch() -> None:
    x = floats(IMAGES, 6, 7, 7)
    assert str(summed(Fusion((x,), (total(x, 0, 2, 3),)))) == dedent(f"""\
        fusion(T0: f32[i{IMAGES}, i6, i7, i7]) {{
          T1: f32[i{IMAGES}, i294] = reshape(T0, new_shape=[{IMAGES}, 294])
          T2: f32[r{IMAGES}, i294] = sum(T1, dims=[0])
          T3: f32[i6, i49] = reshape(T2, new_shape=[6, 49])
          T4: f32[i6, r49] = sum(T3, dims=[1])
          return T4
        }}""")


def deviation(x: TensorView) -> TensorView:
    made = apply(SQUARED_DEVIATION, [x], {"dims": (0, 2, 3)})
    assert isinstance(made, TensorView)
    return made


def test_a_mean_and_a_variance_are_of_one_pass() -> None:
    x = floats(IMAGES, 6, 7, 7)
    made = summed(Fusion((x,), (total(x, 0, 2, 3), deviation(x))))
    long = [tv for tv in made.tensors if tv.definition and tv.shape == (294,)]
    assert [tv.definition.op.name for tv in long if tv.definition] == ["sum", "squared_deviation"]


def test_what_is_spread_over_the_batch_is_stored_first() -> None:
    x = floats(IMAGES, 6, 7, 7)
    mean = call("broadcast_in_dim", total(x, 0, 2, 3), shape=x_shape(x), broadcast_dims=(1,))
    assert "segment_set" in str(summed(Fusion((x,), (call("sub", x, mean),))))
    assert "segment_set" not in str(summed(Fusion((x,), (total(x, 0, 2, 3),))))


def x_shape(tv: TensorView) -> tuple[object, ...]:
    return tuple(a.extent for a in tv.logical)


@pytest.mark.parametrize(
    ("shape", "dims", "is_apart"),
    [
        ((IMAGES, 6, 7, 7), (0, 2, 3), True),
        ((2 * IMAGES, 3, 49), (0, 2), True),
        ((IMAGES // 2, 2, 6, 7, 7), (0, 1, 3, 4), True),
        ((IMAGES, 6, 1, 49), (0, 2, 3), True),
        ((IMAGES, 6, 8, 8), (0, 2, 3), False),  # whole vectors
        ((IMAGES, 6, 7, 6), (0, 2, 3), False),  # half ones
        ((IMAGES, 6, 7, 7), (2, 3), False),
        ((IMAGES, 6, 7, 7), (0, 1, 2, 3), False),
        ((IMAGES, 6, 7, 7), (0, 3), True),  # channels are six times seven
        ((MIN_IMAGES - 1, 6000, 7, 7), (0, 2, 3), False),
        ((IMAGES // 4, 6, 7, 7), (0, 2, 3), False),  # a small plane
    ],
)
def test_which_sums_are_by_places(
    shape: tuple[int, ...], dims: tuple[int, ...], is_apart: bool
) -> None:
    x = floats(*shape)
    program = Fusion((x,), (total(x, *dims),))
    assert (summed(program) is not program) == is_apart


def test_a_batch_whose_channels_are_reduced_too_is_left() -> None:
    """A norm of each place has sums beside it."""
    x = floats(IMAGES, 6, 7, 7)
    program = Fusion((x,), (total(x, 0, 2, 3), total(x, 1)))
    assert summed(program) is program


def test_channels_that_a_cluster_holds_are_left_up_to_larger_planes() -> None:
    x = floats(IMAGES, 6, 7, 7)
    program = Fusion((x,), (total(x, 0, 2, 3),))
    assert summed(program, is_shared=False) is program
    y = floats(2 * IMAGES, 6, 7, 7)
    program = Fusion((y,), (total(y, 0, 2, 3),))
    assert summed(program, is_shared=False) is not program


@pytest.mark.parametrize(
    "layout",
    [
        Layout((IMAGES, 6, 7, 7), (6 * 50, 50, 7, 1)),
        Layout((IMAGES, 6, 7, 7), (6 * 49, 49, 7, 1), alignment=4),
    ],
    ids=["channels apart", "misaligned"],
)
def test_a_batch_that_lies_otherwise_is_left(layout: Layout) -> None:
    x = floats(IMAGES, 6, 7, 7)
    program = Fusion((x,), (total(x, 0, 2, 3),))
    assert summed(program, layout) is program
    turned = Fusion((x,), (total(permute(x, 1, 0, 2, 3), 1, 2, 3),))
    assert summed(turned) is turned


REDUCTIONS: dict[str, Callable[[TensorView], TensorView]] = {
    "sum": lambda x: total(x, 0, 2, 3),
    "max": lambda x: call("max", x, dims=(0, 2, 3)),
    "squared deviation": deviation,
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_results_stay_what_they_are(name: str, offset: float) -> None:
    """Variances about a large mean too."""
    x = torch.randn(SHAPE) + offset + torch.randn(6)[:, None, None]
    (a,) = like(x)
    program = fusion([a], REDUCTIONS[name](a))
    made = sum_places(
        program, by_places(program, {a: output_layout(a)}, machine(0), lambda tv: True)
    )
    assert made is not program
    (got,), (want,) = evaluate(made, [x]), evaluate(program, [x.double()])
    torch.testing.assert_close(got.double(), want.double(), rtol=1e-4, atol=1e-3)


def test_sixteen_bits_are_summed_in_thirty_two() -> None:
    x = halves(2 * IMAGES, 6, 7, 7)
    made = summed(Fusion((x,), (total(x, 0, 2, 3),)))
    assert [str(tv.dtype) for tv in made.tensors if tv.shape == (294,)] == ["f32"]
    assert [str(tv.dtype) for tv in made.outputs if isinstance(tv, TensorView)] == ["bf16"]

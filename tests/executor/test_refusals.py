"""What torch refuses is refused, with a word on what to do; what it takes is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.executor.jitted import check, jit

pytestmark = pytest.mark.usefixtures("device")
Program = Callable[..., Any]

OF_FLOATS: dict[str, Program] = {
    "gelu": F.gelu,
    "silu": F.silu,
    "elu": F.elu,
    "mish": F.mish,
    "softplus": F.softplus,
    "leaky_relu": F.leaky_relu,
    "glu": F.glu,
    "lerp": lambda x: torch.lerp(x, x, 0.5),
    "module": lambda x: torch.nn.GELU()(x),
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
@pytest.mark.parametrize("name", OF_FLOATS)
def test_activations_of_integers_are_refused(name: str, dtype: torch.dtype) -> None:
    x = torch.ones(3, 4, dtype=dtype)
    with pytest.raises((NotImplementedError, RuntimeError)):
        OF_FLOATS[name](x)
    with pytest.raises(NotImplementedError, match=r"of integers \(its input is .*x\.float\(\)"):
        jit(lambda x: OF_FLOATS[name](x))(x)
    check(lambda x: OF_FLOATS[name](x) * 2, x.float())


def test_a_relu_of_bools_is_refused_and_of_integers_taken() -> None:
    with pytest.raises(NotImplementedError, match="relu of bools"):
        jit(F.relu)(torch.ones(3, dtype=torch.bool))
    check(F.relu, torch.arange(-3, 3))


LOSSES: dict[str, Program] = {
    "cross_entropy": F.cross_entropy,
    "smoothed": lambda x, t: F.cross_entropy(x, target=t, label_smoothing=0.1),
    "planes": lambda x, t: F.cross_entropy(x[:, :, None], t[:, None]),
    "nll_loss": lambda x, t: F.nll_loss(F.log_softmax(x, 1), t),
}


@pytest.mark.parametrize("needs_gradient", [False, True])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.bool])
@pytest.mark.parametrize("name", LOSSES)
def test_targets_of_other_integers_are_refused(
    name: str, dtype: torch.dtype, needs_gradient: bool
) -> None:
    x = torch.randn(3, 4, requires_grad=needs_gradient)
    t = torch.tensor([0, 1, 1]).to(dtype)
    with pytest.raises(RuntimeError):
        LOSSES[name](x, t)
    with pytest.raises(RuntimeError, match=r"is to be int64( or uint8)?, .* give target\.long\(\)"):
        jit(lambda x, t: LOSSES[name](x, t))(x, t)
    check(lambda x, t: LOSSES[name](x, t), x, t.long())


def test_bytes_are_classes() -> None:
    t = torch.tensor([0, 1, 1], dtype=torch.uint8)
    check(F.cross_entropy, torch.randn(3, 4, requires_grad=True), t)


@pytest.mark.parametrize("program", [F.cross_entropy, lambda x, t: F.nll_loss(x, t) * 2])
def test_bytes_are_no_classes_of_planes(program: Program) -> None:
    x, t = torch.randn(2, 5, 3, 4), torch.randint(0, 5, (2, 3, 4), dtype=torch.uint8)
    with pytest.raises(RuntimeError):
        program(x, t)
    with pytest.raises(RuntimeError, match=r"is to be int64, but is uint8: give target\.long\(\)"):
        jit(program)(x, t)


@pytest.mark.parametrize("padding", [3, -4, 5])
def test_padding_beside_the_table_is_refused(padding: int) -> None:
    index, weight = torch.tensor([0, 2, 1]), torch.randn(3, 4)
    with pytest.raises(AssertionError):
        F.embedding(index, weight, padding)
    with pytest.raises(AssertionError, match="give one from -3 to 2, or None"):
        jit(lambda i, w: F.embedding(i, w, padding) * 2)(index, weight)


INDEXED: dict[str, Program] = {
    "embedding": lambda x, i: F.embedding(i, x),
    "gather": lambda x, i: torch.gather(x, 0, i[:, None]),
    "index_add": lambda x, i: x.index_add(0, i, x[:2]),
    "index_select": lambda x, i: x.index_select(0, i),
    "take_along_dim": lambda x, i: torch.take_along_dim(x, i[:, None], 0),
    "rows": lambda x, i: x[i] * 2,
    "elements": lambda x, i: x[i, i] * 2,
}


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.uint8])
@pytest.mark.parametrize("name", INDEXED)
def test_indices_of_other_integers_are_refused(name: str, dtype: torch.dtype) -> None:
    x, i = torch.randn(3, 4), torch.tensor([0, 1])
    with pytest.raises((RuntimeError, IndexError)):
        INDEXED[name](x, i.to(dtype))
    with pytest.raises((RuntimeError, IndexError)):
        jit(lambda x, i: INDEXED[name](x, i))(x, i.to(dtype))
    check(lambda x, i: INDEXED[name](x, i), x, i)

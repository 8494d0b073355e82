"""An input's tensor binds to its allocation domain, or the error says what does not fit."""

from __future__ import annotations

import pytest
import torch

from tests.programs import like
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import build
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion, Write
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.runtime.bind import bind

LAYOUTS = {
    "dense": torch.randn(4, 6),
    "transposed": torch.randn(6, 4).t(),
    "rows with gaps": torch.randn(4, 9)[:, :6],
    "every second": torch.randn(8, 12)[::2, ::2],
    "expanded": torch.randn(6).expand(4, 6),
}


def negated(x: TensorView) -> Fusion:
    return Fusion((x,), (call("neg", x),))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_tensor_binds_to_what_describes_it_with_its_own_strides(layout: str) -> None:
    tensor = LAYOUTS[layout]
    bound = bind(negated(*like(tensor)), [tensor])
    (found,) = bound.layouts.values()
    assert (found.shape, found.strides) == (tuple(tensor.shape), tensor.stride())


@pytest.mark.parametrize("tensor", [torch.randn(0, 6).t(), torch.randn(6, 1).t()])
def test_empty_tensors_and_unit_dims_bind_to_any_order(tensor: torch.Tensor) -> None:
    bind(negated(build.tensor(DataType.Float, *tensor.shape)), [tensor])


@pytest.mark.parametrize(
    ("defined", "given", "message"),
    [
        ("dense", "transposed", r"dim 1 is contiguous .* got strides \[1, 4\] for sizes \[4, 6\]"),
        ("dense", "rows with gaps", r"dim 0 is contiguous .*\(stride 6\), got strides \[9, 1\]"),
        ("expanded", "dense", r"dim 0 is expanded \(stride 0\) in the definition, got stride 6"),
    ],
)
def test_what_lies_otherwise_is_refused_by_argument_and_dim(
    defined: str, given: str, message: str
) -> None:
    fusion = negated(*like(LAYOUTS[defined]))
    with pytest.raises(ValueError, match=f"argument 0: {message}"):
        bind(fusion, [LAYOUTS[given]])


def test_strides_in_another_order_are_refused() -> None:
    fusion = negated(build.tensor(DataType.Float, 4, 6, contiguity=[False, False]))
    with pytest.raises(ValueError, match=r"strides \[1, 4\] do not fall in .* order \[1, 0\]"):
        bind(fusion, [LAYOUTS["transposed"]])


def test_a_target_whose_elements_share_memory_is_refused_and_what_is_only_read_is_not() -> None:
    read, target = (build.tensor(DataType.Float, 4, 6, contiguity=[False, True]) for _ in range(2))
    value = call("exp", read)
    fusion = Fusion((read, target), (), (Write(value, target),))
    expanded = LAYOUTS["expanded"]
    with pytest.raises(ValueError, match=r"argument 1 is written, but .* at strides \(0, 1\)"):
        bind(fusion, [torch.randn(4, 6), expanded])
    bind(fusion, [expanded, torch.randn(4, 6)])

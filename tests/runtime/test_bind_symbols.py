"""Binding: symbolic sizes become numbers, CPU numbers become scalars, misfits are refused."""

from __future__ import annotations

import pytest
import torch

from tests.programs import fusion, like
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.runtime.bind import bind


def symbolic() -> tuple[Fusion, sc.Scalar]:
    n = sc.symbol("i0", DataType.Int)
    x = tensor(DataType.Float, n, 4)
    flat = call("reshape", x, new_shape=(sc.mul(n, sc.constant(4)),))
    return Fusion((x,), (call("neg", flat),)), n


def test_sizes_become_numbers_everywhere() -> None:
    program, _ = symbolic()
    bound = bind(program, [torch.empty(3, 4)])
    assert str(bound.fusion) == (
        "fusion(T0: f32[i3, i4]) {\n"
        "  T1: f32[i12] = reshape(T0, new_shape=[12])\n"
        "  T2: f32[i12] = neg(T1)\n"
        "  return T2\n"
        "}"
    )


def test_every_tensor_is_traced_back_to_the_definition() -> None:
    program, _ = symbolic()
    bound = bind(program, [torch.empty(3, 4)])
    assert [bound.tensors[tv] for tv in program.tensors] == list(bound.fusion.tensors)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "takes 1 arguments, 0 given"),
        ([torch.empty(3)], "expected rank 2"),
        ([torch.empty(3, 5)], "dim 1 of shape .* is 5, expected 4"),
        ([2.0], "expected a tensor"),
    ],
)
def test_misfits_are_refused(arguments: list[torch.Tensor], message: str) -> None:
    program, _ = symbolic()
    with pytest.raises(ValueError, match=message):
        bind(program, arguments)


def test_tensors_on_several_devices_are_refused() -> None:
    a, b = like(torch.empty(3), torch.empty(3))
    program = fusion([a, b], call("add", a, b))
    with pytest.raises(ValueError, match="several devices: cpu, meta"):
        bind(program, [torch.empty(3), torch.empty(3, device="meta")])


def test_one_symbol_has_one_value() -> None:
    n = sc.symbol("i0", DataType.Int)
    inputs: list[TensorView] = [tensor(DataType.Float, n) for _ in range(2)]
    program = fusion(inputs, call("add", *inputs))
    with pytest.raises(ValueError, match="is 4, expected 3"):
        bind(program, [torch.empty(3), torch.empty(4)])

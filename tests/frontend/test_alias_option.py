"""alias="copy": every computed output has storage of its own."""

from __future__ import annotations

import pytest
import torch

from tests.frontend.fusions import example
from thunder_fuser.frontend import FusionCache, FusionDefinition
from thunder_fuser.options import Options
from thunder_fuser.program import Program


def new() -> FusionDefinition:
    return FusionDefinition(cache=FusionCache(Program))


def storages(*tensors: torch.Tensor) -> set[int]:
    return {t.untyped_storage().data_ptr() for t in tensors}


@pytest.mark.parametrize("evaluator", [False, True])
def test_views_of_inputs_and_of_outputs_become_copies(
    evaluator: bool, device: torch.device
) -> None:
    x = torch.randn(5, 7).to(device)
    with new() as fd:
        (a,) = example(fd, x)
        b = fd.ops.exp(a)
        fd.add_output(fd.ops.permute(a, [1, 0]))
        fd.add_output(b)
        fd.add_output(fd.ops.permute(b, [1, 0]))
    outputs = fd.execute([x], options=Options(alias="copy", evaluator=evaluator))
    assert len(storages(x, *outputs)) == 4
    for found, expected in zip(outputs, (x.t(), x.exp(), x.exp().t()), strict=True):
        torch.testing.assert_close(found, expected)
    views = fd.execute([x], options=Options(evaluator=evaluator))
    assert len(storages(x, *views)) == 2


def test_a_returned_input_and_what_is_written_stay_the_same_tensor(device: torch.device) -> None:
    x, y = (torch.randn(4, 6).to(device) for _ in range(2))
    before = x.clone()
    with new() as fd:
        a, b = example(fd, x, y)
        fd.add_output(b)
        fd.add_output(fd.ops.permute(a, [1, 0]))
        fd.add_output(fd.ops.add(a, 1.0), alias_input=a)
    returned, view = fd.execute([x, y], options=Options(alias="copy"))
    assert returned.data_ptr() == y.data_ptr()
    assert view.data_ptr() == x.data_ptr()
    assert torch.equal(view, (before + 1).t())


def test_a_view_of_what_torch_computed_lies_as_planned(device: torch.device) -> None:
    x = torch.randn(3, 4, 5).to(device)
    with new() as fd:
        (a,) = example(fd, x)
        b = fd.ops.exp(fd.ops.permute(a, [2, 0, 1]))
        fd.add_output(b)
        fd.add_output(fd.ops.reshape(b, [15, 4]))
    whole, flat = fd.execute([x], options=Options(evaluator=True))
    assert torch.equal(whole, x.permute(2, 0, 1).exp())
    assert torch.equal(flat, whole.reshape(15, 4))
    assert len(storages(whole, flat)) == 1

"""Definitions through the real pipeline, on whatever target the machine has."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tests.frontend.fusions import example
from thunder_fuser.frontend import DataType, FusionCache, FusionDefinition
from thunder_fuser.ir.scalar import python_dtype
from thunder_fuser.program import Program


def new() -> FusionDefinition:
    return FusionDefinition(cache=FusionCache(Program))


def test_a_pointwise_fusion_agrees_with_fp64(device: torch.device) -> None:
    x, y = torch.randn(7, 33).to(device), torch.randn(33).to(device)
    with new() as fd:
        a, b = example(fd, x, y)
        fd.add_output(fd.ops.exp(a * 0.25) + b)
    fd.validate([x, y])
    assert "__global__" in fd.last_cuda_code()
    assert "segment 0" in fd.explain()


def test_a_forced_cut_is_two_segments_that_run_as_one_fusion_does(device: torch.device) -> None:
    x = torch.randn(5, 24).to(device)
    with new() as fd:
        (a,) = example(fd, x)
        b = fd.ops.segment_set(fd.ops.exp(a))
        fd.add_output(fd.ops.mul(b, a))
    segmented = fd.segment([x])
    assert [segment.to_parent for segment in segmented.segments] == [
        {0: 0, 2: 2},
        {0: 0, 1: 2, 2: 3},
    ]
    torch.testing.assert_close(segmented.execute([x]), fd.execute([x]))


def test_one_kernel_is_no_split(device: torch.device) -> None:
    x = torch.randn(5, 24).to(device)
    with new() as fd:
        fd.add_output(fd.ops.exp(*example(fd, x)))
    assert len(fd.segment([x])) == 0


def test_an_alias_is_returned_as_the_input_and_old_values_are_read_first(
    device: torch.device,
) -> None:
    x = torch.randn(6, 10).to(device)
    before = x.clone()
    with new() as fd:
        (a,) = example(fd, x)
        b = fd.ops.add(a, 1.0)
        fd.add_output(b, alias_input=a)
        fd.add_output(fd.ops.neg(a))
        fd.add_output(b)
    old, returned = fd.execute([x])
    assert returned.data_ptr() == x.data_ptr()
    assert torch.equal(old, -before)
    assert torch.equal(x, before + 1)


def test_a_returned_view_of_a_target_shows_the_new_value_as_in_eager(device: torch.device) -> None:
    x = torch.randn(4, 6).to(device)
    before = x.clone()
    with new() as fd:
        (a,) = example(fd, x)
        fd.add_output(fd.ops.permute(a, [1, 0]))
        fd.add_output(fd.ops.add(a, 1.0), alias_input=a)
    (view,) = fd.execute([x])
    assert view.data_ptr() == x.data_ptr()
    assert torch.equal(view, (before + 1).t())
    fd.validate([x])


@pytest.mark.parametrize("order", [[1, 0], [0, 1]])
def test_an_output_of_a_stride_order_has_these_strides(
    order: list[int], device: torch.device
) -> None:
    x = torch.randn(4, 6).to(device)
    with new() as fd:
        (a,) = example(fd, x)
        fd.add_output(fd.ops.neg(a), stride_order=order)
        fd.add_output(fd.ops.permute(a, [1, 0]), stride_order=order)
    first, second = fd.execute([x])
    assert torch.equal(first, -x)
    assert torch.equal(second, x.t())
    assert first.stride() == ((6, 1) if order == [1, 0] else (1, 4))
    assert second.stride() == ((4, 1) if order == [1, 0] else (1, 6))


def test_extents_that_disagree_are_refused_before_anything_runs(device: torch.device) -> None:
    with new() as fd:
        a, b = (fd.define_tensor([-1], contiguity=True) for _ in range(2))
        fd.add_output(fd.ops.add(a, b), alias_input=a)
    x = torch.randn(3).to(device)
    before = x.clone()
    with pytest.raises(ValueError, match="do not broadcast"):
        fd.execute([x, torch.randn(4).to(device)])
    assert torch.equal(x, before)


def test_a_write_of_another_shape_is_refused_at_run_time(device: torch.device) -> None:
    with new() as fd:
        a, b = (fd.define_tensor([-1], contiguity=True) for _ in range(2))
        fd.add_output(fd.ops.neg(a), alias_input=b)
    x, y = torch.randn(3).to(device), torch.randn(5).to(device)
    with pytest.raises(ValueError, match=r"alias_input=T1\): .*shapes differ"):
        fd.execute([x, y])


def test_a_scalar_is_computed_with_in_its_type_whatever_number_stands_for_it(
    device: torch.device,
) -> None:
    with new() as fd:
        x = fd.define_tensor([-1], contiguity=True)
        a, b = (fd.define_scalar(dtype=DataType.Double) for _ in range(2))
        fd.add_output(fd.ops.mul(x, fd.ops.div(a, b)))
        fd.add_output(fd.ops.mul(x, fd.ops.fmod(a, b)))
    x = torch.randn(5).to(device)
    torch.testing.assert_close(fd.execute([x, 7, 2]), [x * 3.5, x])
    infinite, undefined = fd.execute([x, 7, 0])
    assert infinite.isinf().all()
    assert undefined.isnan().all()


@pytest.mark.parametrize(
    ("op", "numbers", "keywords", "wanted"),
    [
        ("truediv", (1, 3), {}, 1 / 3),
        ("exp", (1,), {}, math.exp(1)),
        ("cast", (300,), {"dtype": DataType.UInt8}, 44.0),
        ("cast", (1 / 3,), {"dtype": DataType.Half}, torch.tensor(1 / 3).half().item()),
        ("cast", (7e4,), {"dtype": DataType.Half}, math.inf),
        ("mul", (2**62, 6), {}, -(2.0**63)),
    ],
)
@pytest.mark.parametrize("is_constant", [True, False])
def test_a_number_is_rounded_to_its_type_whenever_it_is_known(
    op: str, numbers: Any, keywords: Any, wanted: float, is_constant: bool, device: torch.device
) -> None:
    with new() as fd:
        x = fd.define_tensor([-1], contiguity=True, dtype=DataType.Double)
        scalars = [fd.define_scalar(n if is_constant else None, python_dtype(n)) for n in numbers]
        fd.add_output(fd.ops.add(x, getattr(fd.ops, op)(*scalars, **keywords)))
    given = torch.zeros(1, dtype=torch.float64).to(device)
    (found,) = fd.execute([given, *([] if is_constant else numbers)])
    assert found.item() == wanted


def test_a_run_that_divides_an_integer_by_zero_names_the_call() -> None:
    with new() as fd:
        x = fd.define_tensor([-1], contiguity=True)
        n = fd.define_scalar(dtype=DataType.Int)
        fd.add_output(fd.ops.mul(x, fd.ops.div(7, n)))
    x = torch.randn(3)
    assert torch.equal(fd.execute([x, 2])[0], x * 3)
    with pytest.raises(ValueError, match=r"fd.ops.div\(.*has no value: integer division of 7"):
        fd.execute([x, 0])

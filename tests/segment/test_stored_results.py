"""Which results a later segment reads rather than what they are made of."""

from __future__ import annotations

import pytest
import torch

from tests.executor.judging import judged
from tests.programs import H200, expand, fusion, like, total, unsqueeze
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion, Write
from thunder_fuser.ir.rewrite import lies_in, lying
from thunder_fuser.pipeline import cut_region
from thunder_fuser.runtime.bind import bind

BF16 = torch.bfloat16
SHAPE = 9, 40, 577  # rows that are no whole vectors: else one kernel has both sums


def biased(
    y: torch.Tensor, g: torch.Tensor, dtype: DataType = DataType.BFloat16, writes: bool = False
) -> Fusion:
    """The gradient of a softmax of scores with a bias of each place: of the scores, and of the
    bias, the sum over all images, in `dtype`."""
    a, b = like(y, g)
    shares, above = (call("cast", t, dtype=DataType.Float) for t in (a, b))
    sums = expand(unsqueeze(total(call("mul", shares, above), 2), 2), *SHAPE)
    exact = call("mul", shares, call("sub", above, sums))
    stored = call("cast", exact, dtype=DataType.BFloat16)
    bias = call("cast", total(exact, 0), dtype=dtype)
    return Fusion((a, b), (bias,), (Write(stored, b),)) if writes else fusion([a, b], stored, bias)


def reads_of_last(program: Fusion, *tensors: torch.Tensor, strict: bool) -> int:
    """How many tensors the last of two segments reads."""
    bound = bind(program, tensors)
    _, last = cut_region(bound.fusion, bound.layouts, H200, strict=strict).segments
    return len(last.inputs)


@pytest.mark.parametrize("strict", [True, False])
def test_a_result_of_16_bits_is_read_where_more_would_be(strict: bool) -> None:
    given = [torch.empty(SHAPE, dtype=BF16) for _ in "yg"]
    program = biased(*given)
    assert reads_of_last(program, *given, strict=strict) == (3 if strict else 1)


def test_a_result_of_more_bits_is_made_of_exact_values() -> None:
    given = [torch.empty(SHAPE, dtype=BF16) for _ in "yg"]
    program = biased(*given, DataType.Float)
    assert reads_of_last(program, *given, strict=False) == 3


def test_a_result_lies_as_it_did() -> None:
    given = [torch.empty(SHAPE, dtype=BF16) for _ in "yg"]
    bound = bind(biased(*given), given)
    stored, bias = bound.fusion.outputs
    turned = Fusion(bound.fusion.inputs, (lying(stored, (1, 0, 2)), bias))
    found = cut_region(turned, bound.layouts, H200, strict=False)
    assert len(found.segments[-1].inputs) == 1
    assert lies_in(found.fusion.outputs[0]) == (1, 0, 2)


def test_what_is_written_in_place_is_not_read() -> None:
    given = [torch.empty(SHAPE, dtype=BF16) for _ in "yg"]
    bound = bind(biased(*given, writes=True), given)
    found = [cut_region(bound.fusion, bound.layouts, H200, strict=s) for s in (True, False)]
    assert str(found[0]) == str(found[1])


@pytest.mark.sanitizer
def test_errors_are_like_those_of_eager(device: torch.device) -> None:
    x, bias = torch.randn(SHAPE).to(BF16), torch.randn(SHAPE[1:]).to(BF16)
    judged(lambda x, b: torch.softmax(x + b, -1), [x, bias], torch.randn(SHAPE).to(BF16), device)


def test_what_is_compared_with_its_extremum_is_not_read_rounded() -> None:
    given = [torch.empty(SHAPE, dtype=BF16) for _ in "yg"]
    a, b = like(*given)
    exact = call("mul", *(call("cast", t, dtype=DataType.Float) for t in (a, b)))
    largest = expand(unsqueeze(call("max", exact, dims=(2,)), 2), *SHAPE)
    is_largest = call("cast", call("eq", exact, largest), dtype=DataType.Float)
    left = call("cast", total(call("mul", exact, is_largest), 0), dtype=DataType.BFloat16)
    program = fusion([a, b], call("cast", exact, dtype=DataType.BFloat16), left)
    assert reads_of_last(program, *given, strict=False) == 3  # with the maxima

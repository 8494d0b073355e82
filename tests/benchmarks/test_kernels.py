"""Workloads: what their functions return, and the bytes they cannot do without."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from benchmarks import kernels, rope, sweep
from benchmarks.cases import Case, Workload

CPU = torch.device("cpu")
WORKLOADS = {
    f"{suite.__name__.rpartition('.')[2]}.{w.name}": w
    for suite in (kernels, rope, sweep)
    for w in suite.WORKLOADS
}


def case_of(name: str) -> Case:
    workload = WORKLOADS[name]
    return workload.case(CPU, workload.quick[0])


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=list(WORKLOADS))
def test_two_builds_are_the_same_numbers(workload: Workload) -> None:
    for sizes in workload.quick:
        one, other = (workload.case(CPU, sizes) for _ in range(2))
        assert all(torch.equal(a, b) for a, b in zip(one.inputs, other.inputs, strict=True))
        assert {t.dtype for t in one.inputs if t.is_floating_point()} <= {
            workload.dtype,
            workload.weight_dtype or workload.dtype,
        }


@pytest.mark.parametrize(
    ("name", "forward", "backward"),
    [
        # bf16, 33 x 200: 13,200 bytes; a row of it 400
        ("kernels.softmax", 2 * 13_200, 3 * 13_200),
        ("kernels.rmsnorm", 2 * 13_200 + 400, 3 * 13_200 + 800),
        ("kernels.add_rmsnorm", 4 * 13_200 + 400, 4 * 13_200 + 800),
        ("kernels.dropout_norm", 4 * 13_200 + 800, 5 * 13_200 + 1200),
        ("kernels.column_sum", 13_200 + 400, 13_200 + 400),
        ("kernels.square_sum", 13_200 + 4, 2 * 13_200 + 4),
        ("kernels.cross_entropy", 13_200 + 33 * 8 + 2, 2 * 13_200 + 33 * 8 + 2),
        # bf16, 17 x 96: 3,264 bytes, and twice that in f32; an f32 row 384
        ("sweep.rmsnorm_f32_weights", 3 * 3264 + 384, 4 * 3264 + 768),
        ("sweep.gelu_bias_f32_weights", 3 * 3264 + 384, 4 * 3264 + 768),
        ("sweep.layernorm_f32_weights", 2 * 3264 + 768, 3 * 3264 + 1152),
        # 3 x 5 x 7 x 4: 840 bytes; per channel 10
        ("kernels.batchnorm", 2 * 840 + 60, 3 * 840 + 30),
        # 33 rows of 48 bytes, of a table of 50
        ("kernels.embedding", 2 * 33 * 48 + 33 * 8, 33 * 48 + 50 * 48 + 33 * 8),
        # 7 tokens of 16: a head is 224 bytes, as are cos and sin; 4 + 4 of 12 heads turn
        ("kernels.rope_llama2_7b", 2 * 224 + 224 * 16, 2 * 224 + 224 * 24),
        # 4 + 2 + 2 heads are read, 12 are written
        ("kernels.rope_llama3_8b", 2 * 224 + 224 * 20, 2 * 224 + 224 * 20),
        ("rope.hf_llama3_8b", 2 * 224 + 224 * 20, 2 * 224 + 224 * 20),
        # 2 + 2 heads turn, v stays where it is
        ("rope.hf_phi3_mini", 2 * 224 + 224 * 8, 2 * 224 + 224 * 12),
    ],
)
def test_minimal_bytes(name: str, forward: int, backward: int) -> None:
    case = case_of(name)
    assert (case.forward_bytes, case.backward_bytes) == (forward, backward)


def test_a_layer_norm_has_one_dtype_for_torch_and_gives_that_of_its_input() -> None:
    case = case_of("sweep.layernorm_f32_weights")
    x, weight, bias = case.inputs
    assert (x.dtype, weight.dtype, bias.dtype) == (torch.bfloat16, torch.float32, torch.float32)
    with Seen() as seen:
        result = case.function(x, weight, bias)
    assert seen.dtypes == {torch.float32}
    assert result.dtype == torch.bfloat16
    wide = x.detach().double()
    centred = wide - wide.mean(1, keepdim=True)
    scale = torch.rsqrt(centred.pow(2).mean(1, keepdim=True) + kernels.EPSILON)
    expected = centred * scale * weight.double() + bias.double()
    torch.testing.assert_close(result.double(), expected, rtol=2**-8, atol=1e-6)


class Seen(TorchFunctionMode):
    """The dtypes of what layer norms were given."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: set[torch.dtype] = set()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is F.layer_norm:
            self.dtypes |= {t.dtype for t in args if isinstance(t, torch.Tensor)}
        return func(*args, **(kwargs or {}))


def test_a_dropout_is_repeated_with_the_draws_that_its_output_shows() -> None:
    case = case_of("kernels.dropout_norm")
    assert case.replay is not None
    torch.manual_seed(3)
    drawn = case.function(*case.inputs)
    wide = case.replay(drawn)(*(t.detach().double() for t in case.inputs))
    for found, expected in zip(drawn, wide, strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=0.02, atol=0.05)
    kept = (drawn[1] - case.inputs[1]).abs() > 1
    assert 0 < int(kept.sum()) < kept.numel()


def test_a_dropout_that_drops_nothing_is_not_believed() -> None:
    case = case_of("kernels.dropout_norm")
    x, residual, *_ = case.inputs
    assert case.replay is not None
    with pytest.raises(ValueError, match=r"kept 1\.0000 of all 6600 elements, not 0\.8984 to"):
        case.replay((x, residual + x))

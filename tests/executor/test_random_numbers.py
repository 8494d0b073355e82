"""Random numbers through Thunder: a function of torch's seed and offset and of the element."""

from __future__ import annotations

import pytest
import thunder
import torch
import torch.nn.functional as F

from tests.devices import CPU
from tests.executor.jitted import jit, regions
from thunder_fuser.runtime.torch_ops import tf_philox_uniform

PHILOX_STEP = 4  # torch counts offsets in numbers, Philox in calls that give four
KERNELS = {"fuser_evaluator": False}
SHAPE = (7, 33)


def drawn(dtype: torch.dtype, seed: int, offset: int) -> torch.Tensor:
    """What the contract says; tests of the device prelude hold it to known answers."""
    return tf_philox_uniform(0.0, 1.0, SHAPE, seed, offset, dtype, CPU)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_numbers_of_a_seed_and_an_offset_are_the_contracts(
    dtype: torch.dtype, device: torch.device
) -> None:
    seed, offset = 2**40 + int(torch.randint(2**31, ())), int(torch.randint(2**31, ()))

    def program(x: torch.Tensor) -> torch.Tensor:
        numbers = thunder.torch.uniform_philox(
            SHAPE, 0.0, 1.0, device=x.device, dtype=x.dtype, seed=seed, offset=offset
        )
        return numbers - x.t()  # reads in another order than it draws

    x = torch.zeros(SHAPE[::-1], dtype=dtype)
    jfn = jit(program, **KERNELS)
    assert torch.equal(jfn(x.to(device)).cpu(), drawn(dtype, seed, offset))
    assert len(regions(jfn).forward) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_a_mask_is_of_the_numbers_below_a_bound(dtype: torch.dtype, device: torch.device) -> None:
    seed, offset, bound = int(torch.randint(2**31, ())), 3, 0.05 + 0.9 * float(torch.rand(()))

    def program(x: torch.Tensor) -> torch.Tensor:
        numbers = thunder.torch.uniform_philox(
            SHAPE, 0.0, 1.0, device=x.device, dtype=x.dtype, seed=seed, offset=offset
        )
        return x * (numbers < bound)

    x = torch.ones(SHAPE, dtype=dtype)
    rounded = drawn(dtype, seed, offset).double() < float(torch.tensor(bound, dtype=torch.float32))
    wanted = drawn(dtype, seed, offset) < bound if dtype is torch.float64 else rounded
    assert torch.equal(jit(program, **KERNELS)(x.to(device)).cpu() != 0, wanted)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
class TestWithTorchsGenerator:
    """On the CPU torch's generator has no offset, and Thunder keeps drawing from it."""

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    def test_dropout_draws_from_torchs_seed_and_offset(self, dtype: torch.dtype) -> None:
        x = torch.randn(SHAPE, dtype=dtype)
        x_gpu = x.cuda().requires_grad_()
        generator = torch.cuda.default_generators[x_gpu.get_device()]
        jfn = jit(lambda x: F.dropout(x * 2, 0.25), **KERNELS)
        jfn(x_gpu)
        torch.cuda.manual_seed(1234)
        for call in range(3):
            assert generator.get_offset() == call * PHILOX_STEP
            found = jfn(x_gpu)
            kept = drawn(dtype, 1234, call) < 0.75
            expected = torch.where(kept, x * 2 / 0.75, 0.0)
            torch.testing.assert_close(found.detach().cpu(), expected.to(dtype))
            (gradient,) = torch.autograd.grad(found, x_gpu, torch.ones_like(found))
            assert torch.equal(gradient.cpu() != 0, kept)

    def test_two_draws_of_one_call_take_two_steps(self) -> None:
        jfn = jit(lambda x: (torch.rand_like(x) + x, torch.rand_like(x) * 2 + x), **KERNELS)
        x = torch.zeros(SHAPE, device="cuda")
        jfn(x)
        torch.cuda.manual_seed(77)
        first, second = jfn(x)
        assert torch.equal(first.cpu(), drawn(torch.float32, 77, 0))
        assert torch.equal(second.cpu(), drawn(torch.float32, 77, 1) * 2)

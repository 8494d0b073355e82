"""What only a GPU shows of the frontend."""

from __future__ import annotations

import pytest
import torch

from thunder_fuser.frontend import FusionCache, FusionDefinition
from thunder_fuser.program import Program

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def new() -> FusionDefinition:
    return FusionDefinition(cache=FusionCache(Program))


def test_from_pytorch_describes_a_cuda_tensor() -> None:
    x = torch.randn(6, 4, 1, device="cuda").permute(1, 0, 2)
    with new() as fd:
        fd.add_output(fd.ops.neg(fd.from_pytorch(x)))
    assert "stride_order=[" in str(fd)
    assert torch.equal(fd.execute([x])[0], -x)


def test_random_numbers_without_a_seed_follow_torchs_generator() -> None:
    def uniform(seed: int | None, offset: int | None) -> FusionDefinition:
        with new() as fd:
            fd.add_output(fd.ops.uniform(0.0, 1.0, [300], rng_seed=seed, rng_offset=offset))
        return fd

    free = uniform(None, None)
    torch.manual_seed(5)
    drawn = [free.execute([])[0] for _ in range(10)]
    for offset, numbers in enumerate(drawn):
        assert torch.equal(numbers, uniform(5, offset).execute([])[0])


def test_a_device_that_contradicts_the_inputs_is_refused() -> None:
    with new() as fd:
        fd.add_output(fd.ops.neg(fd.define_tensor([-1], contiguity=True)))
    with pytest.raises(ValueError, match="but argument T0 lies on cuda:0"):
        fd.execute([torch.randn(3, device="cuda")], device="cpu")


def test_inputs_on_two_devices_are_refused() -> None:
    with new() as fd:
        x, y = (fd.define_tensor([-1], contiguity=True) for _ in range(2))
        fd.add_output(fd.ops.add(x, y))
    with pytest.raises(ValueError, match="different devices: T0 on cuda:0, T1 on cpu"):
        fd.execute([torch.randn(3, device="cuda"), torch.randn(3)])


def test_a_shifted_base_pointer_changes_nothing_but_the_width() -> None:
    storage = torch.randn(1025, device="cuda")
    with new() as fd:
        fd.add_output(fd.ops.exp(fd.define_tensor([-1], contiguity=True)))
    for x in (storage[:1024], storage[1:]):
        torch.testing.assert_close(fd.execute([x])[0], x.exp())


def test_a_cpu_scalar_joins_cuda_tensors() -> None:
    x = torch.randn(5, device="cuda")
    with new() as fd:
        a, s = fd.from_pytorch(x), fd.from_pytorch(torch.tensor(2.0))
        fd.add_output(fd.ops.mul(a, s))
    assert torch.equal(fd.execute([x, torch.tensor(3.0)])[0], x * 3.0)

"""Where a test of kernels runs. Inputs are made on the CPU, moved there, and judged on the CPU.

A test asks for the `device` fixture, by argument or with `pytest.mark.usefixtures("device")`, and
runs once on the host target and once, marked `gpu`, on a GPU. Helpers that move tensors for it
(`programs.check`, `jitted.check`, `jitted.jit`) ask `here()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar
from unittest.mock import patch

import torch

from thunder_fuser.kernel.source import Source
from thunder_fuser.options import Options
from thunder_fuser.runtime import host_kernel
from thunder_fuser.runtime.compilation import Launcher

_T = TypeVar("_T")
CPU = torch.device("cpu")
ORDERS = host_kernel.ORDERS  # in which the host target runs blocks and threads; a GPU has its own
# A test launches a kernel a few times: with no more data than this, a slow one costs less than a
# compiler that takes pains.
QUICK_BYTES = 256 << 10
_current = CPU


def here() -> torch.device:
    """The device of the running test; the CPU for tests that do not ask for one."""
    return _current


@contextmanager
def running_on(device: torch.device) -> Iterator[None]:
    global _current
    _current = device
    try:
        yield
    finally:
        _current = CPU


@contextmanager
def reordering() -> Iterator[Callable[[Callable[..., _T], str], Callable[..., _T]]]:
    """Gives a function that has a function run in an order of threads: kernels of the host target
    that are bound in the block are for all orders, so that what is traced, planned and compiled
    once is run in each."""
    bind, current = host_kernel.HostKernel.bind, ORDERS[0]

    def bind_in_all(
        kernel: host_kernel.HostKernel,
        source: Source,
        constants: Sequence[int],
        options: Options,
        device: int | None,
    ) -> Launcher:
        each = [replace(options, thread_order=order) for order in ORDERS]
        launchers = [bind(kernel, source, constants, one, device) for one in each]

        def launch(stream: int, *values: object) -> None:
            launchers[ORDERS.index(current)](stream, *values)

        return launch

    def reordered(fn: Callable[..., _T], order: str) -> Callable[..., _T]:
        def run(*args: object) -> _T:
            nonlocal current
            current = order
            return fn(*args)

        return run

    with patch.object(host_kernel.HostKernel, "bind", bind_in_all):
        yield reordered


def copies(
    tensors: Sequence[torch.Tensor], device: torch.device | None = None
) -> list[torch.Tensor]:
    """The same values at the same offsets and strides on `device`, by default the test's; what
    shared storage shares its copy."""
    storages: dict[int, torch.UntypedStorage] = {}
    made = []
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in storages:
            storages[storage.data_ptr()] = _moved(storage, device or here())
        view = torch.empty(0, dtype=tensor.dtype, device=device or here())
        view.set_(
            storages[storage.data_ptr()], tensor.storage_offset(), tensor.shape, tensor.stride()
        )
        made.append(view)
    return made


def _moved(storage: torch.UntypedStorage, device: torch.device) -> torch.UntypedStorage:
    data = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    return data.to(device, copy=True).untyped_storage()


def to_cpu(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [t.cpu() for t in tensors]

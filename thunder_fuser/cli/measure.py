"""What a region costs per call: time on the GPU, time on the host."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import torch
from thunder.core.dtypes import to_torch_dtype
from thunder.core.proxies import TensorProxy

from thunder_fuser.executor.region import FusedRegion

GPU_CALLS = 200  # fewer than the launches a stream takes before it makes the host wait
HOST_CALLS = 5
WARM_UP_CALLS = 3
MICROSECONDS = 1e6


@dataclass(frozen=True)
class Times:
    """Microseconds per call. `kernel` is the GPU's own clock with a warm L2 cache, None without a
    GPU. `host` is what the host spends on a call; on the host target the kernel's work is in it."""

    kernel: float | None
    host: float

    def __str__(self) -> str:
        if self.kernel is None:
            return f"{self.host:.0f} us of wall time on the host target: tells nothing about a GPU"
        return f"{self.kernel:.2f} us in kernels (warm L2), {self.host:.1f} us on the host"


def measure(region: FusedRegion) -> Times:
    """The median cost of calls with contiguous zeros in the shapes of the region's inputs."""
    arguments = [_argument(proxy, region.device) for proxy in region.inputs]
    for _ in range(WARM_UP_CALLS):
        region(*arguments)
    if region.device.type != "cuda":
        return Times(None, _host(region, arguments, HOST_CALLS))
    torch.cuda.synchronize(region.device)
    host = _host(region, arguments, GPU_CALLS)
    return Times(_kernels(region, arguments), host)


def _argument(proxy: object, device: torch.device) -> object:
    if not isinstance(proxy, TensorProxy):
        return getattr(proxy, "value", 0)
    return torch.zeros(tuple(proxy.shape), dtype=to_torch_dtype(proxy.dtype), device=device)


def _host(region: FusedRegion, arguments: Sequence[object], calls: int) -> float:
    seconds = []
    for _ in range(calls):
        start = time.perf_counter()
        region(*arguments)
        seconds.append(time.perf_counter() - start)
    return median(seconds) * MICROSECONDS


def _kernels(region: FusedRegion, arguments: Sequence[object]) -> float:
    """Microseconds that CUPTI saw kernels run, per call."""
    torch.cuda.synchronize(region.device)
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(GPU_CALLS):
            region(*arguments)
        torch.cuda.synchronize(region.device)
    found = [event.self_device_time_total for event in profiler.key_averages()]
    return float(sum(found)) / GPU_CALLS

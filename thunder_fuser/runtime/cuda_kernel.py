"""Load a cubin and launch it on torch's stream.

A library is loaded once per process and serves every device; the code is brought onto a device
when a launcher for that device is made, never later, so that no launch loads anything. Libraries
are not unloaded: a captured CUDA graph may hold a kernel that nothing else remembers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

import torch
from cuda.bindings import driver

from thunder_fuser.kernel.source import Source
from thunder_fuser.options import Options
from thunder_fuser.runtime.arguments import Arguments
from thunder_fuser.runtime.compilation import Launcher
from thunder_fuser.runtime.errors import CaptureError, LaunchError
from thunder_fuser.target import PORTABLE_CLUSTER, Target, architecture, cuda

_SUCCESS = driver.CUresult.CUDA_SUCCESS
_NO_CONTEXT = driver.CUresult.CUDA_ERROR_INVALID_CONTEXT
_OUT_OF_MEMORY = driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY


def target_of(device: torch.device) -> Target:
    """The target that a CUDA device is."""
    found = torch.cuda.get_device_properties(device)
    return cuda(
        architecture(found.major, found.minor),
        found.multi_processor_count,
        threads_per_multiprocessor=found.max_threads_per_multi_processor,
        shared_bytes=found.shared_memory_per_block_optin,
        l2_bytes=found.L2_cache_size,
    )


def require_no_capture(name: str) -> None:
    """Raise CaptureError if torch's current stream is being captured into a CUDA graph."""
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        raise CaptureError(
            f"kernel {name} is not compiled or loaded yet, and that is not possible while a CUDA "
            "graph is captured; call the function once with the same shapes before the capture"
        )


class CudaKernel:
    """A loaded cubin."""

    def __init__(self, payload: bytes, name: str) -> None:
        self._name = name
        torch.cuda.init()
        loaded = driver.cuLibraryLoadData(payload, [], [], 0, [], [], 0)
        found = driver.cuLibraryGetKernel(self._checked(loaded, "be loaded"), name.encode())
        self._kernel = self._checked(found, "be found in its cubin")

    def bind(
        self, source: Source, constants: Sequence[int], options: Options, device: int | None
    ) -> Launcher:
        """A function `(stream, *values)` that launches on that raw stream of `device`.

        `constants` are the values of the last parameters. Where another device is current, the
        launch makes `device` current for its duration; with None the caller sees to that. Safe to
        call from several threads. Raises LaunchError; out of memory is torch's own error.
        """
        ordinal = torch.cuda.current_device() if device is None else device
        blocks, threads, shared_bytes = source.blocks, source.threads, source.shared_bytes
        function = self._function(ordinal, source)
        arguments = Arguments(source.parameters, constants)
        lock, pack, address = Lock(), arguments.pack, arguments.address
        enqueue = driver.cuLaunchKernel
        current_device = torch._C._cuda_getDevice
        shape = f"{blocks} blocks of {threads} threads"
        if source.cluster > 1:  # the text asks for it, so that an ordinary launch does
            shape += f" in clusters of {source.cluster}"

        def launch(stream: int, *values: object) -> None:
            if device is not None and current_device() != device:
                with torch.cuda.device(device):
                    return launch(stream, *values)
            with lock:  # the slots are shared, and the driver reads them without the GIL
                pack(*values)
                (status,) = enqueue(
                    function, blocks, 1, 1, threads, 1, 1, shared_bytes, stream, address, 0
                )
                if status and status == _NO_CONTEXT:  # a thread that has not used CUDA yet
                    with _primary_context(ordinal):
                        (status,) = enqueue(
                            function, blocks, 1, 1, threads, 1, 1, shared_bytes, stream, address, 0
                        )
            if status:
                self._checked((status,), f"be launched ({shape})")

        return launch

    def _function(self, ordinal: int, source: Source) -> object:
        """The kernel as a launchable function, its code brought onto the device."""
        wanted, attribute = list[tuple[object, int, str]](), driver.CUfunction_attribute
        if source.shared_bytes:  # beside static ones the default limit may be too low for few bytes
            limit = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            act = f"use {source.shared_bytes} bytes of shared memory"
            wanted.append((limit, source.shared_bytes, act))
        if source.cluster > PORTABLE_CLUSTER:
            allowed = attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            wanted.append((allowed, 1, f"run in clusters of {source.cluster}"))
        with _primary_context(ordinal):
            for which, value, act in wanted:
                device = driver.CUdevice(ordinal)
                self._checked(driver.cuKernelSetAttribute(which, value, self._kernel, device), act)
            self._checked(driver.cuKernelGetFunction(self._kernel), "be brought onto the device")
        return driver.CUfunction(int(self._kernel))

    def _checked(self, returned: tuple[Any, ...], act: str) -> Any:
        return _checked(returned, f"kernel {self._name} could not {act}")


def _checked(returned: tuple[Any, ...], failure: str) -> Any:
    """The value of a driver call; raises for any status but success."""
    status, *values = returned
    if status == _SUCCESS:
        return values[0] if values else None
    text = driver.cuGetErrorString(status)[1]
    message = f"{failure}: {text.decode() if text else status}"
    if status == _OUT_OF_MEMORY:
        raise torch.OutOfMemoryError(message)
    raise LaunchError(message)


@contextmanager
def _primary_context(ordinal: int) -> Iterator[None]:
    """Make torch's context of a device current in this thread, for as long as the block runs."""
    context = _retained_context(ordinal)
    _checked(driver.cuCtxPushCurrent(context), f"CUDA device {ordinal} could not be selected")
    try:
        yield
    finally:
        driver.cuCtxPopCurrent()


@cache
def _retained_context(ordinal: int) -> object:
    """The context torch uses on a device. Kept for good, as torch keeps it."""
    returned = driver.cuDevicePrimaryCtxRetain(driver.CUdevice(ordinal))
    return _checked(returned, f"CUDA device {ordinal} could not be opened")

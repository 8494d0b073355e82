"""Launching: the driver's calls with a stand-in for the driver, and the real thing on a GPU."""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from cuda.bindings import driver

from thunder_fuser.codegen.prelude import prelude
from thunder_fuser.dtypes import DataType
from thunder_fuser.kernel.source import Parameter, Source, lift
from thunder_fuser.options import Options
from thunder_fuser.runtime import cuda_kernel
from thunder_fuser.runtime.compilation import Launcher
from thunder_fuser.runtime.cuda_kernel import CudaKernel, target_of
from thunder_fuser.runtime.errors import CaptureError, LaunchError
from thunder_fuser.runtime.kernels import KernelCache
from thunder_fuser.target import HOST

Status = driver.CUresult
PARAMETERS = (
    Parameter("y", DataType.Float, is_pointer=True),
    Parameter("x", DataType.Float, is_pointer=True),
    Parameter("scale", DataType.Float, is_pointer=False),
)


def affine(length: int, shift: int = 5) -> Source:
    """y[i] = x[i] * scale + shift for i < length."""
    return Source(
        "affine",
        (
            'extern "C" __global__ void __launch_bounds__(256)\n'
            "affine(float* __restrict__ y, const float* __restrict__ x, float scale) {\n"
            "  const int i = blockIdx.x * 256 + threadIdx.x;\n  if (i < ",
            ") y[i] = x[i] * scale + ",
            ";\n}\n",
        ),
        (length, shift),
        PARAMETERS,
        blocks=-(-length // 256),
        threads=256,
    )


class FakeDriver:
    """Records launches; `answers` are the next results of cuLaunchKernel."""

    def __init__(self) -> None:
        self.launches: list[SimpleNamespace] = []
        self.answers: list[Status] = []
        self.contexts: list[str] = []
        self.attributes: list[int] = []

    def cuLibraryLoadData(self, code: bytes, *_: object) -> tuple[Status, object]:
        return (Status.CUDA_SUCCESS if code else Status.CUDA_ERROR_INVALID_IMAGE), "library"

    def cuLibraryGetKernel(self, library: object, name: bytes) -> tuple[Status, int]:
        return Status.CUDA_SUCCESS, 77

    def cuKernelGetFunction(self, kernel: int) -> tuple[Status, int]:
        return Status.CUDA_SUCCESS, 78

    def cuKernelSetAttribute(
        self, attribute: object, value: int, kernel: int, device: object
    ) -> tuple[Status]:
        self.attributes.append(value)
        return (Status.CUDA_SUCCESS,)

    def cuDevicePrimaryCtxRetain(self, device: object) -> tuple[Status, str]:
        return Status.CUDA_SUCCESS, f"context {int(device)}"  # type: ignore[call-overload]

    def cuCtxPushCurrent(self, context: str) -> tuple[Status]:
        self.contexts.append(context)
        return (Status.CUDA_SUCCESS,)

    def cuCtxPopCurrent(self) -> tuple[Status, str]:
        return Status.CUDA_SUCCESS, self.contexts[-1]

    def cuGetErrorString(self, status: Status) -> tuple[Status, bytes]:
        return Status.CUDA_SUCCESS, status.name.encode()

    def cuLaunchKernel(self, function: object, *rest: Any) -> tuple[Status]:
        gx, gy, gz, bx, by, bz, shared, stream, address, _ = rest
        table = ctypes.cast(address, ctypes.POINTER(ctypes.c_void_p))
        values = [ctypes.c_uint64.from_address(table[slot] or 0).value for slot in range(2)]
        scale = ctypes.c_float.from_address(table[2] or 0).value
        self.launches.append(
            SimpleNamespace(
                grid=(gx, gy, gz),
                block=(bx, by, bz),
                shared=shared,
                stream=stream,
                values=(*values, scale),
                context=self.contexts[-1],
            )
        )
        return (self.answers.pop(0) if self.answers else Status.CUDA_SUCCESS,)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    stand_in = FakeDriver()
    for name in dir(FakeDriver):
        if name.startswith("cu"):
            monkeypatch.setattr(driver, name, getattr(stand_in, name))
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 0, raising=False)
    cuda_kernel._retained_context.cache_clear()
    yield stand_in
    cuda_kernel._retained_context.cache_clear()


def test_launch_hands_grid_stream_and_values_to_the_driver(fake: FakeDriver) -> None:
    launch = CudaKernel(b"cubin", "affine").bind(affine(1000), (), Options(), None)
    launch(123, 4096, 8192, 0.5)
    launch(0, 2**48, 16, 1e300)
    first, second = fake.launches
    assert (first.grid, first.block, first.shared) == ((4, 1, 1), (256, 1, 1), 0)
    assert (first.stream, first.values) == (123, (4096, 8192, 0.5))
    assert (second.stream, second.values) == (0, (2**48, 16, float("inf")))


def test_refused_launch_says_which_kernel_and_why(fake: FakeDriver) -> None:
    launch = CudaKernel(b"cubin", "affine").bind(affine(1000), (), Options(), None)
    fake.answers = [Status.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES]
    with pytest.raises(
        LaunchError,
        match=r"kernel affine could not be launched \(4 blocks of 256 threads\): .*OUT_OF_RES",
    ):
        launch(0, 1, 2, 3.0)


def test_a_refused_launch_of_clusters_says_how_large_they_are(fake: FakeDriver) -> None:
    source = replace(affine(1000), cluster=2)
    launch = CudaKernel(b"cubin", "affine").bind(source, (), Options(), None)
    fake.answers = [Status.CUDA_ERROR_INVALID_VALUE]
    with pytest.raises(LaunchError, match=r"\(4 blocks of 256 threads in clusters of 2\)"):
        launch(0, 1, 2, 3.0)


def test_out_of_memory_is_torchs_own_error(fake: FakeDriver) -> None:
    launch = CudaKernel(b"cubin", "affine").bind(affine(1000), (), Options(), None)
    fake.answers = [Status.CUDA_ERROR_OUT_OF_MEMORY]
    with pytest.raises(torch.OutOfMemoryError, match="kernel affine"):
        launch(0, 1, 2, 3.0)


def test_thread_without_a_context_is_given_torchs(fake: FakeDriver) -> None:
    launch = CudaKernel(b"cubin", "affine").bind(affine(1000), (), Options(), 0)
    fake.answers = [Status.CUDA_ERROR_INVALID_CONTEXT]
    launch(0, 1, 2, 3.0)
    assert len(fake.launches) == 2
    assert fake.launches[1].context == "context 0"


def test_launch_for_another_device_makes_it_current(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    current = [0]

    @contextmanager
    def device(ordinal: int) -> Iterator[None]:
        before, current[0] = current[0], ordinal
        fake.contexts.append(f"context {ordinal}")
        yield
        current[0] = before

    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: current[0])
    monkeypatch.setattr(torch.cuda, "device", device)
    launch = CudaKernel(b"cubin", "affine").bind(affine(1000), (), Options(), 1)
    assert fake.contexts == ["context 1"]  # the code is brought onto device 1
    launch(0, 1, 2, 3.0)
    assert fake.launches[0].context == "context 1"
    assert current == [0]


def test_shared_memory_is_asked_for(fake: FakeDriver) -> None:
    """Any amount: what a kernel declares itself counts towards the limit of 48 KiB too."""
    kernel = CudaKernel(b"cubin", "affine")
    amounts = [0, 48 * 1024, 200 * 1024]
    for shared in amounts:
        source = Source("affine", ("",), (), PARAMETERS, 1, 32, shared)
        kernel.bind(source, (), Options(), None)(0, 1, 2, 3.0)
    assert fake.attributes == amounts[1:]
    assert [launch.shared for launch in fake.launches] == amounts


def test_cubin_that_does_not_load_names_the_kernel(fake: FakeDriver) -> None:
    with pytest.raises(LaunchError, match=r"could not be loaded: .*INVALID_IMAGE"):
        CudaKernel(b"", "affine")


def test_threads_that_share_a_launcher_do_not_mix_their_values(fake: FakeDriver) -> None:
    launch = CudaKernel(b"cubin", "affine").bind(affine(1000), (), Options(), None)

    def work(start: int) -> None:
        for n in range(start, start + 500):
            launch(n, n, n, n)

    threads = [threading.Thread(target=work, args=(1000 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fake.launches) == 2000
    assert all(found.values == (found.stream,) * 3 for found in fake.launches)


# On a GPU


gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(cache_dir=str(tmp_path / "cache"))


def raw_stream(device: int = 0) -> int:
    return int(torch._C._cuda_getCurrentRawStream(device))


@pytest.mark.gpu
@gpu
def test_lengths_that_change_compute_on_the_gpu(options: Options) -> None:
    cache, target = KernelCache(), target_of(torch.device("cuda", 0))
    for length in range(1001, 11001, 500):
        x, y = torch.randn(2, length + 300, device="cuda").unbind()
        expected = torch.cat([(x * 1.5 + 5)[:length], y[length:]])
        launch = cache.launcher(affine(length), target, options, 0)
        launch(raw_stream(), y.data_ptr(), x.data_ptr(), 1.5)
        torch.testing.assert_close(y, expected)
    assert cache.statistics().compiled == 3


@pytest.mark.gpu
@gpu
def test_gpu_and_host_agree(options: Options) -> None:
    cache, source = KernelCache(), lift(affine(777), ((1, 1),))
    x, y = torch.randn(777), torch.zeros(777)
    x_gpu, y_gpu = x.cuda(), y.cuda()
    parameters = (y.data_ptr(), x.data_ptr(), -2.0, 9)
    cache.launcher(source, HOST, options)(0, *parameters)
    target = target_of(torch.device("cuda", 0))
    launch = cache.launcher(source, target, options, 0)
    launch(raw_stream(), y_gpu.data_ptr(), x_gpu.data_ptr(), -2.0, 9)
    torch.testing.assert_close(y_gpu.cpu(), y)


def passed_on() -> Source:
    """y[i] = x[j], where j is the same place in the next block of the cluster."""
    text = (
        'extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(64)\n'
        "passed_on(float* y, const float* x) {\n"
        "  __shared__ tf::Mailbox mail;\n  __shared__ float from[64];\n"
        "  if (threadIdx.x == 0) {\n    tf::open_mail(mail);\n"
        "    tf::expect_mail(mail, 256);\n  }\n"
        "  tf::cluster_arrive();\n  const int i = blockIdx.x * 64 + threadIdx.x;\n"
        "  tf::cluster_wait();\n"
        "  tf::send_mail(from + threadIdx.x, x[i], mail, (blockIdx.x + 3) % 4);\n"
        "  tf::await_mail(mail);\n  y[i] = from[threadIdx.x];\n}\n"
    )
    text = prelude(text) + text
    return Source("passed_on", (text,), (), PARAMETERS[:2], blocks=4000, threads=64, cluster=4)


def passes_on(launch: Launcher, stream: int, device: str) -> bool:
    x = torch.randn(1000, 4, 64, device=device)
    y = torch.zeros_like(x)
    launch(stream, y.data_ptr(), x.data_ptr())
    return torch.equal(y, x.roll(-1, 1))


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffled"])
def test_blocks_of_a_cluster_pass_values_on(options: Options, order: str) -> None:
    launch = KernelCache().launcher(passed_on(), HOST, replace(options, thread_order=order))
    assert passes_on(launch, 0, "cpu")


@pytest.mark.gpu
@gpu
def test_an_ordinary_launch_forms_the_clusters_of_the_text(options: Options) -> None:
    target = target_of(torch.device("cuda", 0))
    if target.max_cluster == 1:
        pytest.skip("needs a GPU with clusters")
    launch = KernelCache().launcher(passed_on(), target, options, 0)
    assert passes_on(launch, raw_stream(), "cuda")


@pytest.mark.gpu
@gpu
def test_launch_in_a_thread_that_never_used_cuda(options: Options) -> None:
    target = target_of(torch.device("cuda", 0))
    launch = KernelCache().launcher(affine(100), target, options, 0)
    x, y = torch.randn(2, 100, device="cuda").unbind()
    torch.cuda.synchronize()
    thread = threading.Thread(target=launch, args=(0, y.data_ptr(), x.data_ptr(), 2.0))
    thread.start()
    thread.join()
    torch.testing.assert_close(y, x * 2 + 5)


@pytest.mark.gpu
@gpu
def test_captured_launch_replays_and_a_new_kernel_is_refused(options: Options) -> None:
    cache, target = KernelCache(), target_of(torch.device("cuda", 0))
    launch = cache.launcher(affine(100), target, options, 0)
    x, y = torch.randn(2, 100, device="cuda").unbind()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch(raw_stream(), y.data_ptr(), x.data_ptr(), 2.0)
        with pytest.raises(CaptureError, match="before the capture"):
            cache.launcher(affine(200), target, options, 0)
        same = cache.launcher(affine(100), target, options, 0)
        same(raw_stream(), x.data_ptr(), y.data_ptr(), 1.0)
    before = x.clone()
    graph.replay()
    torch.testing.assert_close(y, before * 2 + 5)
    torch.testing.assert_close(x, before * 2 + 10)


@pytest.mark.gpu
@pytest.mark.multigpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_one_kernel_serves_two_devices_whichever_is_current(options: Options) -> None:
    cache = KernelCache()
    for device in (1, 0):
        target = target_of(torch.device("cuda", device))
        launch = cache.launcher(affine(500), target, options, device)
        x, y = torch.randn(2, 500, device=f"cuda:{device}").unbind()
        torch.cuda.synchronize(device)
        launch(raw_stream(device), y.data_ptr(), x.data_ptr(), 3.0)
        torch.testing.assert_close(y, x * 3 + 5)
    assert cache.statistics().compiled == 1

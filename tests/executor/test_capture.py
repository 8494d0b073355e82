"""CUDA graphs: replaying a jitted function, and what a capture forbids."""

from __future__ import annotations

from dataclasses import replace

import pytest
import thunder
import torch

from tests.frontend.fusions import example
from thunder_fuser import fuser
from thunder_fuser.frontend import FusionCache, FusionDefinition
from thunder_fuser.options import Options
from thunder_fuser.program import Program
from thunder_fuser.runtime import cuda_kernel
from thunder_fuser.runtime.errors import CaptureError
from thunder_fuser.runtime.kernels import KERNELS
from thunder_fuser.runtime.toolchain import TOOLCHAINS


def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    z = torch.sin(x) * y
    return torch.exp(z), z.t()


def test_a_compile_inside_a_capture_names_the_region(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(3, 5)
    with FusionDefinition(cache=FusionCache(Program)) as fd:
        fd.add_output(fd.ops.exp(*example(fd, x)))
    forbidding = replace(TOOLCHAINS["host"], require_may_load=cuda_kernel.require_no_capture)
    message = r"region fusion_0, segment 0 of 1: .*call the function once with the same shapes"
    KERNELS.clear()
    with monkeypatch.context() as capture:
        capture.setitem(TOOLCHAINS, "host", forbidding)
        capture.setattr(torch.cuda, "is_available", lambda: True)
        capture.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
        with pytest.raises(CaptureError, match=message):
            fd.execute([x], options=Options(fallback=True))
    torch.testing.assert_close(fd.execute([x])[0], x.exp())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
class TestOnGpu:
    def test_a_captured_function_replays_with_new_data(self) -> None:
        jfn = thunder.jit(program, executors=[fuser])
        x, y = (torch.randn(65, 130, device="cuda") for _ in range(2))
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                jfn(x, y)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = jfn(x, y)
        for _ in range(3):
            x.copy_(torch.randn_like(x))
            y.copy_(torch.randn_like(y))
            graph.replay()
            torch.cuda.synchronize()
            for found, expected in zip(captured, program(x, y), strict=True):
                torch.testing.assert_close(found, expected)

    def test_a_captured_sum_by_an_index_replays_with_new_places(self) -> None:
        """The index is put in order inside the capture."""
        jfn = thunder.jit(lambda x, i, v: torch.index_add(x, 0, i, v) * 2, executors=[fuser])
        x, values = torch.randn(300, 40, device="cuda"), torch.randn(5000, 40, device="cuda")
        index = torch.randint(300, (5000,), device="cuda")
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                jfn(x, index, values)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = jfn(x, index, values)
        for _ in range(3):
            index.copy_(torch.randint_like(index, 300))
            graph.replay()
            torch.cuda.synchronize()
            exact = torch.index_add(x.double(), 0, index, values.double()) * 2
            torch.testing.assert_close(captured.double(), exact, rtol=1e-5, atol=1e-4)

    @pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")  # as it is, after the error
    def test_a_compile_inside_a_capture_is_a_clear_error(self) -> None:
        jfn = thunder.jit(program, executors=[fuser], fuser_cache="off")
        x, y = (torch.randn(67, 131, device="cuda") for _ in range(2))
        message = r"region TF0, segment 0 of 1: .*call the function once with the same shapes"
        with (
            pytest.raises(CaptureError, match=message),
            torch.cuda.graph(torch.cuda.CUDAGraph()),
        ):
            jfn(x, y)
        torch.cuda.synchronize()
        torch.testing.assert_close(jfn(x, y), program(x, y))

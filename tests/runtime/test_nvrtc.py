"""Real NVRTC, no GPU: cubins, their figures, and its refusals."""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cuda.bindings import nvrtc as bindings
from cuda.pathfinder import DynamicLibNotFoundError

from thunder_fuser.options import Options
from thunder_fuser.runtime import nvrtc
from thunder_fuser.runtime.compilation import Compiled, Unit
from thunder_fuser.runtime.errors import CompileError, FuserError
from thunder_fuser.target import cuda

H200 = cuda("sm_90a", 132)
TEXT = """\
extern "C" __global__ void __launch_bounds__(256) k(float* __restrict__ y, const float* x, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) y[i] = x[i] * 2.f;
}
"""


def compiled(text: str, arch: str = "sm_90a", dump: str | None = None) -> Compiled:
    flags = nvrtc.flags(cuda(arch, 1), Options())
    return nvrtc.compile_cubin(Unit("k", text), flags, dump)


def test_cubin_is_machine_code_with_its_figures() -> None:
    found = compiled(TEXT)
    assert found.payload[:4] == b"\x7fELF"
    assert found.registers is not None
    assert 4 <= found.registers <= 32
    assert found.spill_bytes == 0


def test_spills_are_counted() -> None:
    text = """
    extern "C" __global__ void __launch_bounds__(1024, 2) k(float* y, int n) {
      float a[100];
      for (int i = 0; i < 100; ++i) a[i] = y[i * 1024 + threadIdx.x];
      for (int r = 0; r < n; ++r)
        #pragma unroll
        for (int i = 0; i < 100; ++i) a[i] = a[i] * a[(i + 7) % 100] + 1.f;
      #pragma unroll
      for (int i = 0; i < 100; ++i) y[i * 1024 + threadIdx.x] = a[i];
    }
    """
    assert (compiled(text).spill_bytes or 0) > 0


def test_equal_text_gives_equal_code() -> None:
    assert compiled(TEXT) == compiled(TEXT)


def test_architecture_is_exact(tmp_path: Path) -> None:
    assert compiled(TEXT, "sm_80").payload != compiled(TEXT, "sm_90").payload
    warp_group = 'extern "C" __global__ void k() { asm volatile("wgmma.fence.sync.aligned;"); }'
    assert compiled(warp_group, "sm_90a").payload
    with pytest.raises(CompileError, match=r"sm_90a|not supported"):
        compiled(warp_group, "sm_90", str(tmp_path))


def test_flags_name_the_architecture_and_leave_arithmetic_alone() -> None:
    flags = nvrtc.flags(H200, Options())
    assert "--gpu-architecture=sm_90a" in flags
    assert not any("fast" in flag or "fmad" in flag for flag in flags)
    assert "-lineinfo" in nvrtc.flags(H200, Options(check="bounds"))


def test_refusal_shows_the_message_the_lines_and_the_file(tmp_path: Path) -> None:
    text = TEXT.replace("x[i] * 2.f", "x[i] * scale")
    with pytest.raises(CompileError) as caught:
        compiled(text, dump=str(tmp_path / "dump"))
    assert caught.value.path == tmp_path / "dump" / "k.cu"
    assert caught.value.path.read_text() == text
    message = str(caught.value)
    assert 'identifier "scale" is undefined' in message
    assert "->    3 |   if (i < n) y[i] = x[i] * scale;\n      4 | }" in message
    assert "--gpu-architecture=sm_90a" in message


def test_refused_text_is_kept_without_a_dump_directory_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(CompileError) as caught:
        compiled("nonsense")
    assert caught.value.path.is_relative_to(tmp_path)
    assert caught.value.path.read_text() == "nonsense"


def test_unknown_architecture_is_refused_with_what_is_known(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"gpu-architecture=sm_20") as caught:
        compiled(TEXT, "sm_20", str(tmp_path))
    assert "This NVRTC compiles for sm_" in str(caught.value)
    assert "sm_90, " in str(caught.value)


def test_missing_nvrtc_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise DynamicLibNotFoundError("libnvrtc.so.13")

    monkeypatch.setattr(bindings, "nvrtcVersion", missing)
    nvrtc.identity.cache_clear()
    with pytest.raises(FuserError, match=r"libnvrtc\.so\.13.* install nvidia-cuda-nvrtc"):
        nvrtc.identity()


def test_several_threads_compile_at_once() -> None:
    texts = [TEXT.replace("2.f", f"{n}.f") for n in range(8)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(compiled, texts))
    assert together == [compiled(text) for text in texts]

"""How text becomes a kernel: one row per kind of target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from thunder_fuser.kernel.source import Source
from thunder_fuser.options import Options
from thunder_fuser.runtime import host_compiler, nvrtc
from thunder_fuser.runtime.compilation import Compiled, Loaded, Unit
from thunder_fuser.runtime.cuda_kernel import CudaKernel, require_no_capture
from thunder_fuser.runtime.host_kernel import HostKernel
from thunder_fuser.target import Target


@dataclass(frozen=True)
class Toolchain:
    """The acts of one kind of target, in order of use. Where it is not available, torch runs all
    segments; a toolchain that is missing where it should be raises on use."""

    is_available: Callable[[], bool]
    identity: Callable[[], str]
    flags: Callable[[Target, Options], tuple[str, ...]]
    effort: Callable[[Source], tuple[str, ...]]
    unit: Callable[[str, str], Unit]
    require_may_load: Callable[[str], None]
    compile: Callable[[Unit, tuple[str, ...], str | None], Compiled]
    load: Callable[[bytes, str], Loaded]


TOOLCHAINS = {
    "cuda": Toolchain(
        lambda: True,
        nvrtc.identity,
        nvrtc.flags,
        lambda source: (),
        Unit,
        require_no_capture,
        nvrtc.compile_cubin,
        CudaKernel,
    ),
    "host": Toolchain(
        host_compiler.compiler_available,
        host_compiler.identity,
        host_compiler.flags,
        host_compiler.effort,
        host_compiler.unit,
        lambda name: None,
        host_compiler.compile_object,
        HostKernel,
    ),
}

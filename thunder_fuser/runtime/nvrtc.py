"""CUDA C++ text to machine code with NVRTC. Needs no GPU and no driver.

The interpreter lock is released while NVRTC works, so several units compile at once in threads.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from cuda.bindings import nvrtc

from thunder_fuser.options import Options
from thunder_fuser.runtime.compilation import Compiled, Unit, refusal
from thunder_fuser.runtime.errors import FuserError
from thunder_fuser.target import Target


@cache
def identity() -> str:
    """The version of NVRTC. Raises FuserError where there is none."""
    try:
        major, minor = _checked(nvrtc.nvrtcVersion())
    except RuntimeError as error:  # what cuda.pathfinder raises when a library is missing
        raise FuserError(
            f"NVRTC was not found ({error}); install nvidia-cuda-nvrtc or a CUDA build of torch"
        ) from error
    return f"nvrtc {major}.{minor}"


def flags(target: Target, options: Options) -> tuple[str, ...]:
    """The options of a compilation.

    No --use_fast_math: it would flush denormals and loosen every division. `-lineinfo` lets a
    debugger name lines, and costs nothing in the code.
    """
    wanted = (
        f"--gpu-architecture={target.arch}",
        "--std=c++17",
        "-default-device",
        "-DNDEBUG",
        "--ptxas-options=-v",
    )
    return wanted if options.check == "off" else (*wanted, "-lineinfo")


def compile_cubin(unit: Unit, flags: tuple[str, ...], dump: str | None) -> Compiled:
    """A cubin. Raises CompileError with NVRTC's message and the lines it is about."""
    text, name = unit.complete.encode(), unit.file_name.encode()
    program = _checked(nvrtc.nvrtcCreateProgram(text, name, 0, [], []))
    try:
        raw = [flag.encode() for flag in flags]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(raw), raw)
        log = _log(program)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            asked = f"{identity()} ({' '.join(flags)})"
            raise refusal(asked, unit, f"{log}\n{_hint(status)}", dump)
        cubin = bytes(int(_checked(nvrtc.nvrtcGetCUBINSize(program))))
        _checked(nvrtc.nvrtcGetCUBIN(program, cubin))
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return Compiled(cubin, _sum(r"Used (\d+) registers", log), _sum(r"(\d+) bytes spill", log))


def supported() -> tuple[str, ...]:
    """The architectures this NVRTC compiles for, without the suffix of chip-specific code."""
    return tuple(f"sm_{number}" for number in _checked(nvrtc.nvrtcGetSupportedArchs()))


def _checked(returned: tuple[Any, ...]) -> Any:
    """The value of an NVRTC call; raises FuserError for any status but success."""
    status, *values = returned
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise FuserError(f"NVRTC failed: {_error_text(status)}")
    return values[0] if len(values) == 1 else values


def _hint(status: object) -> str:
    """What to know about a failure beyond NVRTC's log."""
    if status == nvrtc.nvrtcResult.NVRTC_ERROR_INVALID_OPTION:
        return f"This NVRTC compiles for {', '.join(supported())}; a newer one may know others."
    return _error_text(status)


def _error_text(status: object) -> str:
    text: bytes = nvrtc.nvrtcGetErrorString(status)[1]
    return text.decode()


def _log(program: object) -> str:
    log = bytes(int(_checked(nvrtc.nvrtcGetProgramLogSize(program))))
    _checked(nvrtc.nvrtcGetProgramLog(program, log))
    return log.rstrip(b"\0").decode(errors="replace").strip()


def _sum(pattern: str, log: str) -> int | None:
    found = re.findall(pattern, log)
    return sum(map(int, found)) if found else None

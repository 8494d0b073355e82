"""Kernel text to a shared object with the system's C++ compiler, for the host target."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from thunder_fuser.kernel.source import Source
from thunder_fuser.options import Options
from thunder_fuser.runtime.compilation import Compiled, Unit, refusal
from thunder_fuser.runtime.errors import FuserError
from thunder_fuser.target import Target

COMPILE_SECONDS = 300.0
SMALL_BYTES = 4 << 10  # what a launch moves where its start, not its work, takes the time

# -O1 builds fastest. The rest makes C++ mean what the kernel means on a GPU: products and sums
# round one by one, integers wrap, and a vector load may look at any element type. The stack checks
# of a hardened distribution know nothing of threads that switch stacks. Without -fno-gnu-unique,
# __shared__ variables in inline functions would be one variable for all kernels of the process.
# Kernels call nothing of the C++ library, and to read its symbols would be a fifth of the time, as
# those of the C library and of libm, which every process with torch has, would be a tenth each.
_FLAGS = (
    *("-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-w"),
    *("-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing", "-fno-math-errno"),
    *("-fno-exceptions", "-fno-rtti", "-fno-stack-protector", "-U_FORTIFY_SOURCE"),
    *("-nostdlib", "-lgcc"),
)


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: where it is, and what it says it is."""

    path: str
    version: str

    @property
    def is_gcc(self) -> bool:
        return "clang" not in self.version.lower()


def compiler_available() -> bool:
    """Whether the host target can compile. Warns once where it cannot."""
    if _find_compiler() is None:
        _warn_missing()
        return False
    return True


def identity() -> str:
    """The compiler, its version, and what it compiles for. Raises FuserError without one."""
    return f"{_compiler().version} for {sys.platform} {platform.machine()}"


def flags(target: Target, options: Options) -> tuple[str, ...]:
    """The options of a compilation, the same for every kernel but for its `effort`. They follow
    what is compiled, as libraries have to."""
    return _flags()


def effort(source: Source) -> tuple[str, ...]:
    """The options by which a kernel of small launches is built sooner, and runs slower."""
    return ("-O0",) if source.moved <= SMALL_BYTES else ()


def unit(name: str, text: str) -> Unit:
    """The kernel after the stand-ins for CUDA's built-ins, and beside it what runs its threads."""
    before, beside = _with_fibers("host.h"), _with_fibers("fibers.cc")
    return Unit(name, text, before, after=f"TF_ENTRY({name})", beside=beside)


def compile_object(unit: Unit, flags: tuple[str, ...], dump: str | None) -> Compiled:
    """A shared object. Raises CompileError with the compiler's message and the faulty lines."""
    with tempfile.TemporaryDirectory(prefix="thunder_fuser-") as directory:
        beside = Path(directory, "beside.o")
        beside.write_bytes(_object_beside(unit.beside))
        linked = ("-x", "none", str(beside), *flags)
        return Compiled(_made(unit, linked, Path(directory, "kernel.so"), dump))


@cache
def _object_beside(text: str) -> bytes:
    """What is linked to every kernel: compiled with each, it would take longer than many do."""
    with tempfile.TemporaryDirectory(prefix="thunder_fuser-") as directory:
        return _made(Unit("beside", text), (*_flags(), "-c"), Path(directory, "beside.o"), None)


def _made(unit: Unit, arguments: Sequence[str], target: Path, dump: str | None) -> bytes:
    """What the compiler makes of a unit, and writes to `target`."""
    done = subprocess.run(
        [_compiler().path, "-x", "c++", "-", *arguments, "-o", str(target)],
        input=unit.complete,
        env={**os.environ, "LC_ALL": "C"},  # messages in the language of the rest
        capture_output=True,
        text=True,
        timeout=COMPILE_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise refusal(identity(), unit, done.stderr, dump)
    return target.read_bytes()


def _flags() -> tuple[str, ...]:
    return ("-fno-gnu-unique", *_FLAGS) if _compiler().is_gcc else _FLAGS


def _compiler() -> Compiler:
    compiler = _find_compiler()
    if compiler is None:
        raise FuserError("the host target needs a C++ compiler: install g++, or set CXX")
    return compiler


@cache
def _find_compiler() -> Compiler | None:
    for name in filter(None, (os.environ.get("CXX"), "g++", "c++", "clang++")):
        path = shutil.which(name)
        if path is not None:
            asked = [path, "--version"]
            done = subprocess.run(asked, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return Compiler(path, done.stdout.partition("\n")[0])
    return None


@cache
def _warn_missing() -> None:
    warnings.warn(
        "no C++ compiler was found (g++, c++, clang++ or $CXX); "
        "CPU tensors go through torch operations instead of generated kernels",
        RuntimeWarning,
        stacklevel=3,
    )


@cache
def _with_fibers(name: str) -> str:
    """A file of `codegen/device` with the `fibers.h` that it includes, as the compiler reads units
    from a pipe."""
    device = resources.files("thunder_fuser.codegen").joinpath("device")
    fibers = device.joinpath("fibers.h").read_text()
    return device.joinpath(name).read_text().replace('#include "fibers.h"\n', fibers)

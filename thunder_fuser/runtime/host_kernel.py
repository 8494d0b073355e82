"""Run a compiled kernel on CPU memory: blocks and threads as loops, in a chosen order.

The order must not matter. Running a kernel forward, reverse and shuffled shows a missing barrier
as a wrong value, without a GPU.
"""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from thunder_fuser.kernel.source import Source
from thunder_fuser.locks import new_lock
from thunder_fuser.options import Options
from thunder_fuser.runtime.arguments import Arguments
from thunder_fuser.runtime.compilation import Launcher
from thunder_fuser.runtime.errors import IndexRangeError, LaunchError
from thunder_fuser.target import LARGE_CLUSTER, MAX_THREADS

ORDERS = ("forward", "reverse", "shuffled")

_FAULTS = {
    1: "some threads wait at a barrier or shuffle that the others never reach",
    2: "no memory for the stacks of its threads or its shared memory",
    4: "a block sent values to one of its cluster that does not expect them, or has ended",
}
_BAD_INDEX = 3


class HostKernel:
    """A loaded shared object. Launches of one object run one at a time."""

    def __init__(self, payload: bytes, name: str) -> None:
        # The loader knows objects by path and keeps a file alive once it is mapped; so each gets
        # a path that was never used before, which is gone again at once.
        with tempfile.TemporaryDirectory(prefix="thunder_fuser-") as directory:
            path = Path(directory, f"{name}.so")
            path.write_bytes(payload)
            try:
                self._library = ctypes.CDLL(str(path))
            except OSError as error:
                raise LaunchError(
                    f"kernel {name} could not be loaded ({error}); "
                    "set TMPDIR to a directory on a file system that may hold programs"
                ) from error
        self._entry = self._library.tf_launch
        self._entry.restype = ctypes.c_int
        self._entry.argtypes = (
            ctypes.c_void_p,
            ctypes.c_uint64,
            ctypes.c_uint,
            ctypes.c_uint,
            ctypes.c_uint64,
            ctypes.c_int,
            ctypes.c_uint64,
        )
        self._bad_index = self._library.tf_bad_index
        self._bad_index.restype = ctypes.POINTER(ctypes.c_longlong)
        self._name = name
        self._lock = new_lock()

    def bind(
        self, source: Source, constants: Sequence[int], options: Options, device: int | None
    ) -> Launcher:
        """A function `(stream, *values)` that runs the kernel; stream and device are not looked at.

        `constants` are the values of the last parameters. Shuffled orders differ from one call to
        the next, but not from one process to the next. Raises LaunchError, and IndexRangeError for
        an index in a tensor that does not exist.
        """
        if not 0 < source.threads <= MAX_THREADS:
            raise LaunchError(
                f"kernel {self._name}: {source.threads} threads in a block of 1 to {MAX_THREADS}"
            )
        if not 0 < source.cluster <= LARGE_CLUSTER or source.blocks % source.cluster:
            raise LaunchError(
                f"kernel {self._name}: {source.blocks} blocks in clusters of {source.cluster}, "
                f"which have 1 to {LARGE_CLUSTER} and are all full"
            )
        arguments = Arguments(source.parameters, constants)
        blocks, threads, shared_bytes = source.blocks, source.threads, source.shared_bytes
        cluster = source.cluster
        order, seeds = ORDERS.index(options.thread_order), count(1)
        entry, lock, pack, address = self._entry, self._lock, arguments.pack, arguments.address

        def launch(stream: int, *values: object) -> None:
            with lock:
                pack(*values)
                status = entry(address, blocks, cluster, threads, shared_bytes, order, next(seeds))
                bad = self._bad_index()[:2] if status == _BAD_INDEX else ()
            if bad:
                raise IndexRangeError(
                    f"index {bad[0]} is out of range for an axis of extent {bad[1]}"
                )
            if status:
                raise LaunchError(f"kernel {self._name} on the host: {_FAULTS[status]}")

        return launch

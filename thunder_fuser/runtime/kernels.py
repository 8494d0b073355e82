"""From kernel text to something that launches: memory, then disk, then a compiler.

launcher(source, target, options)  =>  launch(stream, *pointers_and_scalars)
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from threading import Lock
from weakref import WeakKeyDictionary

from thunder_fuser import log
from thunder_fuser.kernel.source import Lifting, Source, lenders, lift
from thunder_fuser.options import Options
from thunder_fuser.runtime.cache_entry import Entry, Metadata, cache_key, package_version
from thunder_fuser.runtime.compilation import Launcher, Loaded, Unit
from thunder_fuser.runtime.disk_cache import disk_cache
from thunder_fuser.runtime.errors import LaunchError
from thunder_fuser.runtime.family import Family, Kin, family_key, kin_key
from thunder_fuser.runtime.progress import Progress
from thunder_fuser.runtime.recent import Recent
from thunder_fuser.runtime.single_flight import SingleFlight
from thunder_fuser.runtime.toolchain import TOOLCHAINS, Toolchain
from thunder_fuser.target import Target

MAX_WORKERS = 8  # a compilation takes up to some hundred MB
SHOWN = 12  # digits of a kernel's key in the log
MAX_KERNELS = 4096  # remembered; launchers that are in use keep theirs anyway


@dataclass(frozen=True)
class KernelStatistics:
    """Where kernels came from, the seconds spent on those that memory did not have, and how many
    families there are and share a kernel."""

    compiled: int = 0
    memory_hits: int = 0
    disk_hits: int = 0
    seconds: float = 0.0
    families: int = 0
    lifted_families: int = 0


@dataclass(frozen=True)
class _Request:
    """One kernel to be had: what is compiled and how, and the values of its lifted literals."""

    source: Source
    constants: tuple[int, ...]
    unit: Unit
    flags: tuple[str, ...]
    arch: str
    key: str


class KernelCache:
    """The kernels of this process. All methods may be called from several threads."""

    def __init__(self, max_kernels: int = MAX_KERNELS) -> None:
        self.max_kernels = max_kernels
        self.clear()

    def launcher(
        self, source: Source, target: Target, options: Options, device: int | None = None
    ) -> Launcher:
        """A function that launches `source`; compiles only if memory and disk do not have it.

        `device` is the CUDA ordinal that the launches are for; None leaves it to the caller to
        make the right one current. An empty grid launches nothing.

        Raises CompileError; CaptureError if a CUDA graph is being captured and the kernel has to
        be compiled or loaded.
        """
        return self.launchers((source,), target, options, device)[0]

    def launchers(
        self, sources: Sequence[Source], target: Target, options: Options, device: int | None = None
    ) -> tuple[Launcher, ...]:
        """`launcher` for several sources, compiled in several threads (`options.compile_jobs`)."""
        chain = TOOLCHAINS[target.kind]
        requests = [
            self._request(source, target, options, chain) if source.blocks else None
            for source in sources
        ]
        kernels = self._obtain(filter(None, requests), options, chain)
        return tuple(
            self._bind(kernels[request.key], request, options, device)
            if request
            else _launch_nothing
            for request in requests
        )

    def metadata(self, launcher: Launcher) -> Metadata | None:
        """What is known of a launcher's kernel, registers for one; None for an empty grid."""
        return self._described.get(launcher)

    def statistics(self) -> KernelStatistics:
        """What happened since the start, or since the last `clear`."""
        families = self._families.values()
        lifted = sum(family.is_lifted for family in families)
        with self._lock:
            return replace(self._statistics, families=len(families), lifted_families=lifted)

    def clear(self) -> None:
        """Forget all kernels, families and counts. Launchers in use stay valid."""
        self._lock = Lock()
        self._flights: SingleFlight[tuple[Loaded, bool]] = SingleFlight()
        self._kernels: Recent[str, Loaded] = Recent(self.max_kernels)
        self._families: Recent[object, Family] = Recent(self.max_kernels)
        self._kin: Recent[object, Kin] = Recent(self.max_kernels)
        self._statistics = KernelStatistics()
        self._metadata: Recent[str, Metadata] = Recent(self.max_kernels)
        self._described: WeakKeyDictionary[Launcher, Metadata] = WeakKeyDictionary()

    def _bind(
        self, kernel: Loaded, request: _Request, options: Options, device: int | None
    ) -> Launcher:
        launcher = kernel.bind(request.source, request.constants, options, device)
        known = self._metadata.get(request.key)
        if known is not None:
            self._described[launcher] = known
        return launcher

    def _request(
        self, source: Source, target: Target, options: Options, chain: Toolchain
    ) -> _Request:
        flags = chain.flags(target, options)
        general, lifting = self._general(source, target, flags, options.static_kernels)
        constants = tuple(general.literals[position] for position in lenders(lifting))
        lifted = lift(general, lifting) if lifting else source
        unit = chain.unit(lifted.name, lifted.text)
        flags += () if lifting else chain.effort(source)  # a family has large launches
        key = cache_key(unit.complete + unit.beside, flags, target.arch, chain.identity())
        return _Request(lifted, constants, unit, flags, target.arch, key)

    def _general(
        self, source: Source, target: Target, flags: tuple[str, ...], static_kernels: int
    ) -> tuple[Source, Lifting]:
        """The general form of a kernel, and which of its literals have to be parameters; where none
        have to, the form does not matter."""
        if source.is_alone:
            return source, ()
        if source.general is not None:
            kin = self._kin.keep(kin_key(source, target, flags), Kin())
            before = kin.meet(source, static_kernels)
            if before is None:
                return source, ()
            for one in before:
                self._lifting(_generalised(one), target, flags, static_kernels)
        general = _generalised(source)
        return general, self._lifting(general, target, flags, static_kernels)

    def _lifting(
        self, general: Source, target: Target, flags: tuple[str, ...], static_kernels: int
    ) -> Lifting:
        family = self._families.keep(
            family_key(general, target, flags),
            Family(general.literals, general.hints, general.counts),
        )
        return family.lifting(general.literals, static_kernels)

    def _obtain(
        self, requests: Iterable[_Request], options: Options, chain: Toolchain
    ) -> dict[str, Loaded]:
        """The kernels by key: those in memory, and then the others, several at once."""
        wanted = {request.key: request for request in requests}
        found = {key: kernel for key in wanted if (kernel := self._kernels.get(key)) is not None}
        self._count(memory_hits=len(found))
        for key in found:
            log.event("cache", "kernel %s in memory", key[:SHOWN])
        missing = [request for key, request in wanted.items() if key not in found]
        for request in missing:
            chain.require_may_load(request.source.name)
        begin = time.perf_counter()

        with closing(Progress(len(missing), options.progress)) as progress:

            def load(request: _Request) -> Loaded:
                (kernel, was_stored), _ = self._flights.run(
                    request.key, lambda: self._load(request, options, chain)
                )
                progress.step(was_stored)
                return kernel

            workers = min(MAX_WORKERS, options.compile_jobs or _cores(), max(1, len(missing)))
            with ThreadPoolExecutor(workers, "thunder_fuser-compile") as pool:
                # One kernel is compiled right here: a pool of one would only cost its start.
                run = pool.map if workers > 1 else map
                loaded = list(run(load, missing))
        if missing:
            self._count(seconds=time.perf_counter() - begin)
        return found | {
            request.key: kernel for request, kernel in zip(missing, loaded, strict=True)
        }

    def _load(self, request: _Request, options: Options, chain: Toolchain) -> tuple[Loaded, bool]:
        """The kernel from disk, else from the compiler; and whether it was on disk."""

        def build() -> Entry:
            compiled = chain.compile(request.unit, request.flags, options.dump)
            described = Metadata(
                request.key,
                request.unit.name,
                request.arch,
                chain.identity(),
                request.flags,
                package_version(),
                compiled.registers,
                compiled.spill_bytes,
            )
            return Entry(described, compiled.payload)

        begin = time.perf_counter()
        stored = disk_cache(options)
        entry, was_stored = stored.fetch(request.key, build)
        log.event(
            "cache",
            "kernel %s %s in %.1f ms",
            *(request.key[:SHOWN], "read from disk" if was_stored else "compiled"),
            (time.perf_counter() - begin) * 1e3,
        )
        try:
            loaded = chain.load(entry.payload, request.unit.name)
        except LaunchError as error:
            if not was_stored:
                raise
            entry = stored.rebuild(request.key, f"no kernel: {error}", build)
            was_stored, loaded = False, chain.load(entry.payload, request.unit.name)
        self._metadata.keep(request.key, entry.metadata)
        self._count(**{"disk_hits" if was_stored else "compiled": 1})
        return self._kernels.keep(request.key, loaded), was_stored

    def _count(self, **added: float) -> None:
        with self._lock:
            now = {name: getattr(self._statistics, name) + n for name, n in added.items()}
            self._statistics = replace(self._statistics, **now)


def _cores() -> int:
    """That this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _generalised(source: Source) -> Source:
    return source if source.general is None else source.general()


def _launch_nothing(stream: int, *values: object) -> None:
    """The launcher of an empty grid."""


KERNELS = KernelCache()

# A forked child has none of its parent's threads and may not use its CUDA contexts.
os.register_at_fork(after_in_child=KERNELS.clear)

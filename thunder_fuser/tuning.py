"""Autotuning: a handful of kernels per segment, timed once, the fastest remembered.

    Tuner.choose   the kernel of a segment: as an earlier contest chose, else as the model prefers
    Tuner.rivals   the kernels that are to be timed beside that
    Loader         compiles both at once
    Tuner.race     of a new plan, the segments that had a faster kernel than that

Only segments that move many bytes are timed, at the first call of their plan and on its arguments,
never those that write in place and never while a CUDA graph is captured. A plan keeps the kernels
that it begins with, so results do not change from call to call; parameters decide in which order a
kernel sums, and nothing else about its values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from thunder_fuser import log
from thunder_fuser.codegen.emit import emit
from thunder_fuser.kernel.source import Source
from thunder_fuser.kernel.templates import Draft, draft, general, variant, variants
from thunder_fuser.options import Options
from thunder_fuser.passes import Watch
from thunder_fuser.runtime.choices import CHOICES, Choice, Subject, size_class
from thunder_fuser.runtime.clock import Clock
from thunder_fuser.runtime.compilation import Launcher
from thunder_fuser.runtime.contest import Times, contest, fastest
from thunder_fuser.runtime.errors import FuserError
from thunder_fuser.runtime.kernels import KERNELS
from thunder_fuser.runtime.plan import Plan
from thunder_fuser.runtime.planning import PLANNING
from thunder_fuser.segment.segment import Segment
from thunder_fuser.target import Target

FLUSH = 2  # times the cache of the GPU
_NOBODY = Watch()

Observe = Callable[..., Any]
Load = Callable[[Sequence[Source]], Sequence[Launcher]]
Rivals = Mapping[int, "tuple[Candidate, ...]"]  # by the position of the segment


@dataclass(frozen=True, eq=False)
class Candidate:
    """A segment's kernel with one set of parameters. `contest` is the key under which the result of
    one about it will be kept; None where none is to be held."""

    draft: Draft
    source: Source
    contest: str | None = None


@dataclass(frozen=True, eq=False)
class Entrant:
    """A candidate that can be launched."""

    candidate: Candidate
    launcher: Launcher


@dataclass(frozen=True, eq=False)
class Tuner:
    """Tunes plans for one device. `clock` is for tests."""

    target: Target
    options: Options
    device: torch.device
    clock: Clock | None = None

    def choose(self, segment: Segment, watch: Observe = _NOBODY) -> Candidate:
        """The kernel that an earlier contest chose, else what the model prefers."""
        preferred = self.candidate(draft(segment, self.target, self.options.strict), watch)
        if not self._matters(segment):
            return preferred
        subject = Subject(preferred.source, self.target, self._device_name)
        size = size_class(_bytes(segment))
        choice = CHOICES.find(subject, size, self.options)
        if choice is None:
            is_open = CHOICES.is_open(subject, self.options)
            return replace(preferred, contest=subject.key(size)) if is_open else preferred
        if choice.parameters == str(preferred.draft.parameters):
            return preferred
        found = variant(segment, self.target, preferred.draft, choice.parameters)
        return preferred if found is None else self.candidate(found, watch, preferred.draft)

    def candidate(
        self, found: Draft, watch: Observe = _NOBODY, preferred: Draft | None = None
    ) -> Candidate:
        """The kernel of a draft; `watch` is told of each stage. For many sizes that is the one that
        the model prefers: what was faster by little with all numbers known may be slow without, as
        one vector a thread is, each of which divides by lengths."""
        watch("schedule", found.schedule)
        kernel = watch("kernel", found.lower(self.options.strict))
        source = watch("source", emit(kernel))
        make = partial(self._general, preferred or found, found, _takes(source))
        moved = _bytes(found.schedule.segment)
        return Candidate(found, replace(source, general=make, moved=moved))

    def _general(self, preferred: Draft, found: Draft, takes: object) -> Source:
        """The general form of the model's kernel, else its own; itself where a launch, which has
        room for it, is not given what these take."""
        forms = (general(preferred, self.target), general(found, self.target), found)
        made = (emit(form.lower(self.options.strict)) for form in forms)
        return next(source for source in made if _takes(source) == takes)

    def rivals(self, segments: Sequence[Segment], candidates: Sequence[Candidate | None]) -> Rivals:
        """What is to be timed beside the candidates of segments that want a contest."""
        if self.options.tune == "off" or self._is_capturing():
            return {}
        return {
            position: tuple(self._others(segment, candidate))
            for position, (segment, candidate) in enumerate(zip(segments, candidates, strict=True))
            if candidate is not None and candidate.contest is not None
        }

    def race(
        self,
        plan: Plan,
        candidates: Sequence[Candidate | None],
        rivals: Mapping[int, Sequence[Entrant]],
        arguments: Sequence[Any],
    ) -> Mapping[int, Entrant]:
        """What of `rivals` is faster than the candidates that `plan` was made of, by the position
        of the segment. A contest that cannot be held, for want of memory for one, changes
        nothing."""
        entrants = _entrants(plan, candidates, rivals)
        launchers = {k: [e.launcher for e in found] for k, found in entrants.items()}
        times = self._times(plan, launchers, arguments) if launchers else {}
        won = {k: self._won(entrants[k], found) for k, found in times.items()}
        return {k: found for k, found in won.items() if found is not entrants[k][0]}

    def _times(
        self, plan: Plan, rivals: Mapping[int, Sequence[Launcher]], arguments: Sequence[Any]
    ) -> Mapping[int, Times]:
        budget, flushed = self.options.tune_ms / 1e3, FLUSH * self.target.l2_bytes
        begin = time.perf_counter()
        try:
            return contest(plan, rivals, arguments, budget, flushed, self.clock)
        except (torch.OutOfMemoryError, FuserError) as error:
            log.event("tune", "no contest of %s segments: %s", len(rivals), error)
            return {}
        finally:
            PLANNING.add_contest(time.perf_counter() - begin)

    @property
    def _is_on_gpu(self) -> bool:
        return str(self.device.type) == "cuda"

    @property
    def _device_name(self) -> str:
        return torch.cuda.get_device_name(self.device) if self._is_on_gpu else "host"

    def _is_capturing(self) -> bool:
        return self._is_on_gpu and torch.cuda.is_current_stream_capturing()

    def _matters(self, segment: Segment) -> bool:
        """True for a segment whose kernels may be timed or may have been."""
        timed = self.options.tune == "always" or (self.options.tune == "on" and self._is_on_gpu)
        in_place = any(store.is_in_place for store in segment.stores)
        wanted = (timed or self.options.tuned is not None) and not in_place
        return wanted and _bytes(segment) >= self.options.tune_bytes

    def _others(self, segment: Segment, preferred: Candidate) -> Iterator[Candidate]:
        """Kernels for this size alone: the model's, where the plan has one for many sizes, and each
        that another set of parameters makes."""
        takes, seen = _takes(preferred.source), {_work(preferred.source)}
        yield _alone(preferred)
        for found in variants(segment, self.target, preferred.draft):
            try:
                other = self.candidate(found)
            except Exception as error:  # what cannot be generated is no rival, and no fault
                log.event("tune", "%s: %s", found.parameters, error)
                continue
            if _takes(other.source) == takes and _work(other.source) not in seen:
                seen.add(_work(other.source))
                yield _alone(other)

    def _won(self, entrants: Sequence[Entrant], times: Times) -> Entrant:
        """The fastest, which is remembered."""
        winner = entrants[fastest(times)]
        shown = [str(e.candidate.draft.parameters) for e in entrants]
        microseconds = {s: round(t * 1e6, 2) for s, t in zip(shown, times, strict=True)}
        chosen, key = str(winner.candidate.draft.parameters), entrants[0].candidate.contest
        assert key is not None
        log.event("tune", "%s of %s", chosen, microseconds)
        choice = Choice(
            key=key, device=self._device_name, parameters=chosen, microseconds=microseconds
        )
        CHOICES.keep(choice, self.options)
        return winner


class Loader:
    """Has the kernels of a plan, and at the same time those of rivals: there are cores for more
    kernels than a plan has. A rival that cannot be had is no fault."""

    def __init__(self, rivals: Rivals, load: Load) -> None:
        self._load, self._rivals = load, rivals
        self._sources = [other.source for those in rivals.values() for other in those]
        self._loaded: Sequence[Launcher | None] = ()

    def launchers(self, sources: Sequence[Source]) -> Sequence[Launcher]:
        """Those of a plan's kernels. Raises what `load` does."""
        try:
            found = self._load((*sources, *self._sources))
        except FuserError:
            return self._load(sources)
        self._loaded = found[len(sources) :]
        return found[: len(sources)]

    def entrants(self) -> Mapping[int, Sequence[Entrant]]:
        """The rivals that can be had, by the position of the segment."""
        loaded = self._loaded or [self._loaded_alone(source) for source in self._sources]
        found, made = dict[int, Sequence[Entrant]](), iter(loaded)
        for position, those in self._rivals.items():
            pairs = [(other, next(made)) for other in those]
            found[position] = [Entrant(other, own) for other, own in pairs if own is not None]
        return found

    def _loaded_alone(self, source: Source) -> Launcher | None:
        try:
            return self._load((source,))[0]
        except FuserError as error:
            log.event("tune", "a kernel cannot be had: %s", error)
            return None


def _entrants(
    plan: Plan, candidates: Sequence[Candidate | None], rivals: Mapping[int, Sequence[Entrant]]
) -> dict[int, list[Entrant]]:
    """Of each segment that wants a contest, what is to be timed: the plan's kernel first."""
    found: dict[int, list[Entrant]] = {}
    for position, those in rivals.items():
        preferred, own = candidates[position], plan.launchers[position]
        fit = [r for r in those if not (_spills(r.launcher) or _is_same(r.launcher, own))]
        if preferred is not None and own is not None and fit:
            found[position] = [Entrant(preferred, own), *fit]
    return found


def _alone(found: Candidate) -> Candidate:
    return replace(found, source=replace(found.source, is_alone=True))


def _is_same(launcher: Launcher, other: Launcher | None) -> bool:
    """True for launchers of one kernel."""
    known = KERNELS.metadata(launcher)
    before = None if other is None else KERNELS.metadata(other)
    return known is not None and before is not None and known.key == before.key


def _bytes(segment: Segment) -> int:
    """What a kernel moves at most: all of every tensor that it reads or writes."""
    tensors = (*segment.inputs, *(store.target for store in segment.stores))
    return sum(segment.layouts[tv].distinct * tv.dtype.itemsize for tv in tensors)


def _takes(source: Source) -> object:
    """What a launch is given: rivals take the place of each other in a plan."""
    return source.parameters, source.workspace_bytes, source.tickets


def _work(source: Source) -> object:
    return source.fragments, source.literals, source.blocks, source.threads, source.shared_bytes


def _spills(launcher: Launcher) -> bool:
    """True for a kernel whose registers go through memory, which no model asked for."""
    known = KERNELS.metadata(launcher)
    return known is not None and bool(known.spill_bytes)

"""A fusion with the plans of the argument classes it has met: what a steady call goes through."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence

import torch

from thunder_fuser import log
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.locks import new_lock
from thunder_fuser.options import Options
from thunder_fuser.options import difference as options_difference
from thunder_fuser.pipeline import Argument, make_plan
from thunder_fuser.runtime.argument_class import Key, difference, key_function
from thunder_fuser.runtime.errors import CheckError, LaunchError
from thunder_fuser.runtime.failures import run_failure
from thunder_fuser.runtime.origin import Origin
from thunder_fuser.runtime.plan import Plan
from thunder_fuser.runtime.profile import Profile, run_profiled

MAX_PLANS = 256  # argument classes remembered per fusion


class Program:
    """A fusion and the plans of the argument classes it has met, least recently used dropped.

    `origin` is who asks, for messages; regions that are equal share a program. `recompiles` says of
    each plan after the first which part of the arguments made it necessary.
    """

    def __init__(self, fusion: Fusion) -> None:
        self.fusion = fusion
        self.recompiles: deque[str] = deque(maxlen=MAX_PLANS)
        self._key = key_function(fusion)
        self._plans: OrderedDict[Key, Plan] = OrderedDict()
        self._last: tuple[Key | None, Plan | None] = (None, None)
        self._lock = new_lock()

    def run(
        self,
        arguments: Sequence[Argument],
        options: Options,
        device: torch.device | None = None,
        origin: Origin | None = None,
    ) -> list[torch.Tensor]:
        """The outputs for `arguments` in the order of the fusion's inputs.

        Raises what `make_plan` raises, and LaunchError and CheckError that name the segment.
        """
        key = (options, device, *self._key(*arguments))
        last, plan = self._last
        if last != key or plan is None:
            plan = self._find(key, arguments, options, device, origin)
        try:
            return plan.run(*arguments)
        except (LaunchError, CheckError) as error:
            raise run_failure(error, plan, origin or Origin(), arguments, options) from error

    def bound(
        self,
        arguments: Sequence[Argument],
        options: Options,
        device: torch.device | None = None,
        origin: Origin | None = None,
    ) -> Callable[[Sequence[Argument]], list[torch.Tensor]]:
        """`run` for other arguments of the same class, which it takes the caller's word for."""
        plan = self.plan(arguments, options, device, origin)

        def run(arguments: Sequence[Argument]) -> list[torch.Tensor]:
            try:
                return plan.run(*arguments)
            except (LaunchError, CheckError) as error:
                raise run_failure(error, plan, origin or Origin(), arguments, options) from error

        return run

    def plan(
        self,
        arguments: Sequence[Argument],
        options: Options,
        device: torch.device | None = None,
        origin: Origin | None = None,
    ) -> Plan:
        """The plan that `run` uses for these arguments."""
        key = (options, device, *self._key(*arguments))
        return self._find(key, arguments, options, device, origin)

    def profile(
        self,
        arguments: Sequence[Argument],
        options: Options,
        device: torch.device | None = None,
        origin: Origin | None = None,
    ) -> tuple[list[torch.Tensor], Profile]:
        """`run`, and how long each segment took."""
        origin = origin or Origin()
        plan = self.plan(arguments, options, device, origin)
        return run_profiled(plan, origin.name, arguments)

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans made so far, least recently used first."""
        return tuple(self._plans.values())

    def _find(
        self,
        key: Key,
        arguments: Sequence[Argument],
        options: Options,
        device: torch.device | None,
        origin: Origin | None,
    ) -> Plan:
        plan = self._plans.get(key) or make_plan(self.fusion, arguments, options, device, origin)
        with self._lock:  # threads that meet a class at once all take the first one's plan
            if key not in self._plans:
                self._note_recompile(key, origin)
            plan = self._plans.setdefault(key, plan)
            self._plans.move_to_end(key)
            while len(self._plans) > MAX_PLANS:
                self._plans.popitem(last=False)
            self._last = (key, plan)
        return plan

    def _note_recompile(self, key: Key, origin: Origin | None) -> None:
        """Say what differs from the plan before."""
        last, _ = self._last
        if last is None:
            return
        (before, earlier, *_), (now, device, *_) = last, key
        assert isinstance(before, Options)
        assert isinstance(now, Options)
        if before != now:
            reason = options_difference(before, now)
        elif earlier != device:
            reason = f"device is {device}, was {earlier}"
        else:
            reason = difference(self.fusion, last[2:], key[2:])
        self.recompiles.append(reason)
        name = origin.name if origin is not None else "fusion"
        log.event("recompile", "%s: plan %s: %s", name, len(self._plans) + 1, reason)

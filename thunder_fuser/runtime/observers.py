"""Who watches a plan in the making: what the options ask for."""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser import log
from thunder_fuser.options import Options
from thunder_fuser.passes import Observer, Watch
from thunder_fuser.runtime.artifacts import Artifacts, is_traced
from thunder_fuser.runtime.dump import dump
from thunder_fuser.runtime.events import Events
from thunder_fuser.runtime.origin import Origin
from thunder_fuser.runtime.planning import Timer

_TOPICS = ("segment", "codegen", "memory", "timing")  # those that `Events` tells


def observers(origin: Origin, arguments: Sequence[object], options: Options) -> Watch:
    """A timer, and the dump, the log and torch's trace where they are wanted."""
    log.enable(options.log)
    found: list[Observer] = [Timer()]
    if (written := dump(origin, arguments, options)) is not None:
        found.append(written)
    if any(map(log.is_on, _TOPICS)):
        found.append(Events(origin.name))
    if is_traced():
        found.append(Artifacts(origin.name))
    return Watch(tuple(found))

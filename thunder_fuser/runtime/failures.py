"""What happens where a kernel cannot be had: an error that says everything, or torch.

    region TF0, segment 1 of 2: g++ refused the kernel ...
      T7: bf16[i4, i8] = add(T5, T6)  at model.py:12: return a + b
    run it alone: python /tmp/thunder_fuser-repro-x/repro.py

With the option `fallback` a segment goes through torch instead, and its region says so once. Out of
memory stays torch's own error, and so does what a CUDA graph forbids.
"""

from __future__ import annotations

import re
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from weakref import WeakSet

import torch

from thunder_fuser.kernel.source import Source
from thunder_fuser.options import Options
from thunder_fuser.runtime.compilation import Launcher
from thunder_fuser.runtime.errors import CaptureError, FuserError, GenerateError
from thunder_fuser.runtime.origin import Origin
from thunder_fuser.runtime.plan import PLAN_FILE, Plan
from thunder_fuser.runtime.title import Place, describe, line_of, titles
from thunder_fuser.segment.segmented import SegmentedFusion

_T = TypeVar("_T")
_warned: WeakSet[object] = WeakSet()  # regions that have said that torch runs a segment of theirs
_VARIABLE = re.compile(r"\b[Tt](\d+)_\d+ = ")  # how kernel text names the value of a tensor


@contextmanager
def naming_region(origin: Origin, arguments: Sequence[object], options: Options) -> Iterator[None]:
    """Errors of stages that look at a whole region name it; ValueError stays: bad arguments."""
    try:
        yield
    except (torch.OutOfMemoryError, ValueError, FuserError):
        raise
    except Exception as error:
        text = f"region {origin.name}: {_cause(error)}"
        raise _retold(error, text, origin, arguments, options) from error


@dataclass(frozen=True, eq=False)
class Failures:
    """Runs the acts that make the kernels of a plan, and deals with those that fail."""

    origin: Origin
    arguments: Sequence[object]
    options: Options
    segmented: SegmentedFusion
    place: Place

    def generate(self, position: int, act: Callable[[], _T | None]) -> _T | None:
        """What `act` makes for a segment; None where torch runs it. Raises GenerateError."""
        try:
            return act()
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            self._give_up(position, error)
            return None

    def load(
        self,
        sources: Sequence[Source | None],
        act: Callable[[Sequence[Source]], Sequence[Launcher]],
    ) -> list[Launcher | None]:
        """The launchers of all kernels; None where torch runs the segment.

        All at once, since they are compiled in parallel; if that fails, one by one, to find out
        which it was. Raises CompileError, LaunchError, CaptureError, FuserError.
        """
        wanted = [source for source in sources if source is not None]
        try:
            loaded = iter(act(wanted))
            return [None if source is None else next(loaded) for source in sources]
        except FuserError:
            return [self._load_one(k, source, act) for k, source in enumerate(sources)]

    def _load_one(
        self,
        position: int,
        source: Source | None,
        act: Callable[[Sequence[Source]], Sequence[Launcher]],
    ) -> Launcher | None:
        if source is None:
            return None
        try:
            return act((source,))[0]
        except FuserError as error:
            self._give_up(position, error)
            return None

    def _give_up(self, position: int, error: Exception) -> None:
        """Raise an error that names the segment, or warn that torch runs it."""
        title = titles(self.origin.name, self.segmented)[position]
        text = f"{title}: {_cause(error)}\n{self._faulty(position, error)}"
        made = _retold(error, text, self.origin, self.arguments, self.options)
        if not self.options.fallback or isinstance(error, CaptureError):
            raise made from error
        owner = self.origin.owner or self.origin
        if owner not in _warned:
            _warned.add(owner)
            warnings.warn(
                f"torch runs a segment instead of a kernel\n{made}", RuntimeWarning, stacklevel=2
            )

    def _faulty(self, position: int, error: Exception) -> str:
        """The op that the compiler complains about, else those that the segment ends in."""
        found = _VARIABLE.search(getattr(error, "line", "") or "")
        tensors = self.segmented.segments[position].tensors
        if found is None or int(found[1]) >= len(tensors):
            return describe(self.segmented, position, self.place)
        return line_of(self.segmented, tensors[int(found[1])], self.place)


def run_failure(
    error: FuserError, plan: Plan, origin: Origin, arguments: Sequence[object], options: Options
) -> FuserError:
    """`error`, raised by a launch or a check of `plan`, with the segment that it was."""
    position = _launched(error, plan)
    where, ops = f"region {origin.name}", ""
    if position is not None:
        where = titles(origin.name, plan.segmented)[position]
        ops = f"\n{describe(plan.segmented, position, plan.place)}"
    return _retold(error, f"{where}: {error}{ops}", origin, arguments, options)


def _launched(error: FuserError, plan: Plan) -> int | None:
    """The segment whose launch raised: the line of the plan where the traceback passes says."""
    lines = plan.text.splitlines()
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename.startswith(PLAN_FILE) and number <= len(lines):
            found = re.match(r"\s*launch(\d+)\(", lines[number - 1])
            if found:
                return int(found[1])
    return None


def _cause(error: Exception) -> str:
    """One of ours says it all; for others, which are faults of this package, where it was."""
    if isinstance(error, FuserError):
        return str(error)
    *_, last = traceback.extract_tb(error.__traceback__)
    where = f"{Path(last.filename).name}:{last.lineno}, in {last.name}"
    return f"no kernel could be generated: {type(error).__name__}: {error} ({where})"


def _retold(
    error: Exception, text: str, origin: Origin, arguments: Sequence[object], options: Options
) -> FuserError:
    """`error` with another text, and a script that repeats it; a GenerateError if it is no error
    of ours."""
    path = write_repro(_script(origin, arguments, options))
    if path is not None:
        text = f"{text}\nrun it alone: python {path}"
    kind = error if isinstance(error, FuserError) else GenerateError()
    return kind.retold(text, path)


def _script(origin: Origin, arguments: Sequence[object], options: Options) -> str:
    """The repro script; "" where writing it fails in turn, since the first error is what counts."""
    try:
        return origin.script(arguments, options)
    except Exception:
        return ""


def write_repro(script: str) -> Path | None:
    """Write a script into a new private directory; None for an empty one or a full disk."""
    if not script:
        return None
    try:
        path = Path(tempfile.mkdtemp(prefix="thunder_fuser-repro-")) / "repro.py"
        path.write_text(script)
    except OSError:
        return None
    return path

"""Dump: one directory per plan, one numbered file per stage, so that `diff -r` compares two runs.

    0_TF0/0_definition.py  1_fusion.txt  2_bound.txt  3_tidied.txt  4_segmented.txt  4_segments.dot
          5_schedule_0.txt 6_kernel_0.ir.txt  7_kernel_0.cu  8_plan.py  meta.json  repro.py

Plans are numbered in the order in which a process makes them. Names and texts hold no address, time
or process. What cannot be written is a warning, once per directory, and no error.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock

import torch

from thunder_fuser.kernel.source import Source
from thunder_fuser.options import Options
from thunder_fuser.runtime.cache_entry import package_version
from thunder_fuser.runtime.origin import Origin
from thunder_fuser.runtime.plan import Plan
from thunder_fuser.segment.picture import picture
from thunder_fuser.segment.segmented import SegmentedFusion

_FILES = {
    "fusion": "1_fusion.txt",
    "bound": "2_bound.txt",
    "tidied": "3_tidied.txt",
    "segmented": "4_segmented.txt",
    "schedule": "5_schedule_{}.txt",
    "kernel": "6_kernel_{}.ir.txt",
    "source": "7_kernel_{}.cu",
    "plan": "8_plan.py",
}
# Options that say where to write, not what to compile: two runs may differ in them.
_PLACES = frozenset({"dump", "cache_dir", "log", "progress", "ranges"})

_made: Counter[str] = Counter()  # plans dumped into each directory so far
_broken: set[str] = set()  # directories that could not be written
_lock = Lock()


@dataclass(frozen=True)
class Dump:
    """An observer that writes what it sees into `directory`."""

    root: str
    directory: Path

    def see(self, stage: str, value: object, segment: int | None) -> None:
        """Write the text of one stage."""
        name = _FILES.get(stage)
        if name is None or (value is None and segment is not None):  # torch runs that segment
            return
        self._write(name.format(segment), _text(value))
        if isinstance(value, SegmentedFusion):
            self._write("4_segments.dot", picture(value))

    def describe(self, origin: Origin, arguments: Sequence[object], options: Options) -> None:
        """Write what is known before the first stage."""
        self._try("0_definition.py", origin.definition)
        self._try("repro.py", lambda: origin.script(arguments, options))
        self._write("meta.json", json.dumps(_meta(origin, arguments, options), indent=2) + "\n")

    def _try(self, name: str, text: Callable[[], str]) -> None:
        if made := text():
            self._write(name, made if made.endswith("\n") else made + "\n")

    def _write(self, name: str, text: str) -> None:
        if self.root in _broken:
            return
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            Path(self.directory, name).write_text(text)
        except OSError as error:
            _broken.add(self.root)
            warnings.warn(
                f"dump={self.root} cannot be written ({error}); nothing is dumped there",
                RuntimeWarning,
                stacklevel=2,
            )


def dump(origin: Origin, arguments: Sequence[object], options: Options) -> Dump | None:
    """The observer that the option `dump` asks for; its directory is that of a new plan.

    Of several ranks each has a directory of its own, `rank1` and so on beside the plans of rank 0.
    """
    if options.dump is None:
        return None
    rank = os.environ.get("RANK", "0")
    root = options.dump if rank == "0" else os.path.join(options.dump, f"rank{rank}")
    with _lock:
        number = _made[root]
        _made[root] += 1
    name = re.sub(r"[^\w.-]", "_", origin.name)
    made = Dump(options.dump, Path(root, f"{number}_{name}"))
    made.describe(origin, arguments, options)
    return made


def _text(value: object) -> str:
    if isinstance(value, Plan):
        return value.text
    if isinstance(value, Source):
        return value.text
    return f"{value}\n"


def _meta(origin: Origin, arguments: Sequence[object], options: Options) -> dict[str, object]:
    shown = {k: v for k, v in asdict(options).items() if k not in _PLACES}
    return {
        "name": origin.name,
        "arguments": [_argument(value) for value in arguments],
        "options": shown,
        "versions": {"thunder_fuser": package_version(), "torch": torch.__version__},
    }


def _argument(value: object) -> object:
    if not isinstance(value, torch.Tensor):
        return {"number": str(value), "type": type(value).__name__}
    return {
        "dtype": str(value.dtype).removeprefix("torch."),
        "shape": list(value.shape),
        "strides": list(value.stride()),
        "alignment": min(16, value.data_ptr() & -value.data_ptr() or 16),
        "device": str(value.device),
    }

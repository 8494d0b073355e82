"""One run on several GPUs: a lane for each, in which processes measure one after the other.

A lane that is free takes the workload that is expected to last longest; all executors of a workload
take their turns on its GPU. Each lane has a file of its own, out of which this process adds rows to
the run's as they come, and sorts those at the end.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from benchmarks.keeper import POLL_SECONDS, Keeper, Limits
from benchmarks.pace import OUT_OF_TIME
from benchmarks.rows import IDENTITY, Key, is_failure, start
from benchmarks.share import BEFORE, Share

_OWN = ("--gpus", "--out", "--budget", "--limit")  # what lanes are told in another way, or not


def chosen_gpus(text: str) -> list[str]:
    """Each as CUDA_VISIBLE_DEVICES names it, for `all` or for places among those that this process
    may use. Raises ValueError for one that there is not, or that is named twice."""
    known = visible()
    if text == "all" and known:
        return known
    try:
        found = [known[int(part)] for part in text.split(",") if int(part) >= 0]
    except (ValueError, IndexError):
        found = []
    if len(set(found)) != len(text.split(",")):
        there = f"0 to {len(known) - 1}, or all" if known else "none here"
        raise ValueError(f"--gpus {text!r}: give different ones of those there are: {there}")
    return found


def visible() -> list[str]:
    """The GPUs that this process may use."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    count = torch.cuda.device_count()
    return named.split(",")[:count] if named else [str(number) for number in range(count)]


def run(
    arguments: Sequence[str],
    gpus: Sequence[str],
    wanted: Sequence[Key],
    told: tuple[str, str],
    limits: Limits,
    begun: float,
) -> int:
    """Measure until all lanes have ended. `wanted` are the rows in their order, those that an
    earlier run has too; `told` are the id and the command of all rows. Returns the exit status."""
    if not limits.resume:
        start(limits.out)
    with TemporaryDirectory(prefix="benchmarks-") as scratch:
        directory = Path(scratch)
        Share.make(directory, *told)
        if limits.out.exists():
            (directory / BEFORE).write_bytes(limits.out.read_bytes())
        files = [directory / f"{number}.jsonl" for number in range(len(gpus))]
        lanes = [
            _lane(arguments, file, gpu, len(gpus), limits, begun)
            for file, gpu in zip(files, gpus, strict=True)
        ]
        try:
            statuses = _watched(lanes, files, limits.out)
        finally:
            for lane in lanes:
                lane.end()
    return _ended(statuses, wanted, limits.out)


def _lane(
    arguments: Sequence[str], file: Path, gpu: str, count: int, limits: Limits, begun: float
) -> Keeper:
    own = [*without(arguments, _OWN, ("--resume",)), "--out", str(file)]
    own += ["--share", str(file.parent)]
    environment = {**os.environ, **_environment(gpu, count)}
    return Keeper(own, Limits(limits.step, limits.budget, file, False), begun, environment)


def _environment(gpu: str, count: int) -> Mapping[str, str]:
    """Of a lane: its GPU, and its part of the cores that Inductor would take in each."""
    threads = max(1, (os.cpu_count() or 1) // count)
    told = os.environ.get("TORCHINDUCTOR_COMPILE_THREADS", str(threads))
    return {"CUDA_VISIBLE_DEVICES": gpu, "TORCHINDUCTOR_COMPILE_THREADS": told}


def without(argv: Sequence[str], valued: Sequence[str], flags: Sequence[str]) -> list[str]:
    """The words of a call but those options; the first have a value."""
    kept, words = [], iter(argv)
    for word in words:
        if word in valued:
            next(words)
        elif word not in flags and not word.startswith(tuple(f"{name}=" for name in valued)):
            kept.append(word)
    return kept


def _watched(lanes: Sequence[Keeper], files: Sequence[Path], out: Path) -> list[int]:
    """The exit statuses of the lanes, whose rows were added to `out`."""
    read = dict.fromkeys(files, 0)
    while True:
        statuses = [lane.poll() for lane in lanes]
        for file in files:
            read[file] += _moved(file, read[file], out)
        ended = [status for status in statuses if status is not None]
        if len(ended) == len(lanes):
            return ended
        time.sleep(POLL_SECONDS)


def _moved(file: Path, position: int, out: Path) -> int:
    """Add to `out` the lines that `file` has from there on; how many bytes they are. A line that is
    not whole yet stays."""
    if not file.exists():
        return 0
    with file.open("rb") as source:
        source.seek(position)
        whole, newline, _ = source.read().rpartition(b"\n")
    if whole:
        with out.open("ab") as target:
            target.write(whole + newline)
    return len(whole + newline)


def _ended(statuses: Sequence[int], wanted: Sequence[Key], out: Path) -> int:
    """Sort the rows: others first, as they were. Returns the exit status of the run."""
    place = {key: number for number, key in enumerate(wanted)}
    lines = out.read_text().splitlines() if out.exists() else []
    rows = [(json.loads(line), line) for line in lines]
    keyed = [(tuple(row[name] for name in IDENTITY), row, line) for row, line in rows]
    keyed.sort(key=lambda found: place.get(found[0], -1))
    if lines:
        sorted_rows = out.with_suffix(".sorted")
        sorted_rows.write_text("".join(f"{line}\n" for _, _, line in keyed))
        sorted_rows.replace(out)
    left = len(place.keys() - {key for key, _, _ in keyed})
    if left:
        why = "the budget is spent" if OUT_OF_TIME in statuses else "a lane ended early"
        print(f"{why}: {left} rows are left; --resume goes on", file=sys.stderr)
        return OUT_OF_TIME if OUT_OF_TIME in statuses else 1
    return int(any(is_failure(row["executor"], row["status"]) for _, row, _ in keyed))

"""Go on where a run was interrupted, and past what interrupted it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks import note
from benchmarks.note import Running
from benchmarks.rows import IDENTITY, Key, gpu_name, is_failure


@dataclass(frozen=True)
class Earlier:
    """What an interrupted run left: its rows, its id, whether one of ours failed, and what ran when
    its process died."""

    done: frozenset[Key] = frozenset()
    run_id: str | None = None
    has_failed: bool = False
    culprit: Running | None = None


def resume(path: Path, device: torch.device) -> Earlier:
    """What an interrupted run wrote. A last line that it did not finish is cut off.

    Raises ValueError for rows of another device and for lines that are no rows.
    """
    culprit = note.found(path)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        return Earlier(culprit=culprit)
    whole, newline, unfinished = path.read_text().rpartition("\n")
    if unfinished:
        path.write_text(whole + newline)
    here, run_id, has_failed = gpu_name(device), None, False
    done: set[Key] = set()
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            row = json.loads(line)
            done.add(tuple(row[name] for name in IDENTITY))
            there, run_id = row["gpu_name"], row["run_id"]
            has_failed |= is_failure(row["executor"], row["status"])
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{path}:{number} is no row of a benchmark: {error!r}") from error
        if there != here:
            names = [name or "the host target" for name in (there, here)]
            raise ValueError(f"{path} has rows of {names[0]}, not {names[1]}")
    return Earlier(frozenset(done), run_id, has_failed, culprit)

"""`profile`: run a script, then time every segment of the regions that it called."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from thunder_fuser.cli.script import add_script, run_script
from thunder_fuser.cli.text import add_json
from thunder_fuser.executor.explain import regions_of
from thunder_fuser.runtime.profile import Profile, table

_EXAMPLES = """examples:
  python -m thunder_fuser profile train.py
  python -m thunder_fuser profile --json train.py --epochs 1 > profile.json

Each region runs again, alone, on random tensors with the shapes and strides that it was called
with: a warm-up, then the run that is timed. Bytes count every element that a segment touches once.
To time a call of your own with its own tensors: thunder_fuser.profile(jfn, *args).
"""


def add(commands: Any) -> None:
    """Describe the command to argparse."""
    parser = commands.add_parser(
        "profile",
        help="run a script and time every segment of its regions",
        description="Run a script, then time every segment of the regions that it called.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_json(parser)
    add_script(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print a table per function. Returns 1 if the script called no region or failed."""
    ran = run_script(arguments, is_quiet=arguments.json)
    found = {name: _profiles(jfn) for name, jfn in ran.functions.items()}
    if arguments.json:
        print(json.dumps({name: list(map(_json, rows)) for name, rows in found.items()}, indent=2))
    else:
        for name, profiles in found.items():
            print(f"{name}\n{'=' * len(name)}\n{table(profiles)}\n")
    return ran.status(is_good=any(found.values()))


def _profiles(jfn: Any) -> list[Profile]:
    called = (region for region in regions_of(jfn) if region.last_used is not None)
    return [region.profile_alone() for region in called]


def _json(profile: Profile) -> dict[str, object]:
    segments = [{**asdict(segment), "gbps": segment.gbps} for segment in profile.segments]
    return {**asdict(profile), "segments": segments}

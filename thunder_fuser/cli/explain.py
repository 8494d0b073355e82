"""`explain`: run a script, then say what became of every function that it compiled."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from thunder_fuser.cli.script import add_script, run_script
from thunder_fuser.cli.text import add_json
from thunder_fuser.executor.explain import exchanged, explain, regions_of
from thunder_fuser.executor.region import FusedRegion
from thunder_fuser.executor.segments import segment_rows
from thunder_fuser.executor.steps import Half, halves
from thunder_fuser.options import options

_EXAMPLES = """examples:
  python -m thunder_fuser explain train.py
  python -m thunder_fuser explain --dump stages train.py --epochs 1
  python -m thunder_fuser explain --json train.py > explained.json

What stands before the script belongs to `explain`, what stands after it to the script. With --json
the script prints to stderr. exit status 1: the script failed, or called nothing of thunder.jit
"""


def add(commands: Any) -> None:
    """Describe the command to argparse."""
    parser = commands.add_parser(
        "explain",
        help="run a script and explain what was fused, what not, and why",
        description="Run a script, then explain each function that it compiled and called.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--dump", metavar="DIR", help="write the text of every stage there")
    add_json(parser)
    add_script(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Explain the script's functions. Returns 1 if it compiled none or failed."""
    chosen = {} if arguments.dump is None else {"dump": arguments.dump}
    with options(**chosen):
        ran = run_script(arguments, is_quiet=arguments.json)
    if arguments.json:
        print(json.dumps({name: explained(jfn) for name, jfn in ran.functions.items()}, indent=2))
    else:
        for name, function in ran.functions.items():
            print(f"{name}\n{'=' * len(name)}\n{explain(function)}\n")
    return ran.status()


def explained(jfn: Any) -> dict[str, object]:
    """What `explain` says, as JSON values."""
    found = halves(jfn)
    return {
        **{half.title: _symbols(half) for half in found},
        "regions": [_region(region) for region in regions_of(jfn)],
        "outside": [asdict(row) for row in exchanged(found)],
        "segments": [asdict(row) for row in segment_rows(jfn)],
    }


def _region(region: FusedRegion) -> dict[str, object]:
    return {
        "name": region.name,
        "symbols": len(region.bsyms),
        "device": str(region.device),
        "plans": region.plans(),
        "recompiles": region.recompiles(),
    }


def _symbols(half: Half) -> list[dict[str, object]]:
    return [
        {"region": step.region.name if step.region else None, **asdict(symbol)}
        for step in half.steps
        for symbol in step.symbols
    ]

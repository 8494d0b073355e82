"""`repro`: run a script, then write one region of it as a script of its own."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from thunder_fuser.cli.script import Ran, add_script, run_script
from thunder_fuser.cli.text import WrongCall, add_json, nearest, show
from thunder_fuser.executor.explain import regions_of
from thunder_fuser.executor.region import FusedRegion

_EXAMPLES = """examples:
  python -m thunder_fuser repro train.py                          names the regions there are
  python -m thunder_fuser repro --region TF1 train.py             writes repro_TF1.py
  python -m thunder_fuser repro --region TF1 --out small.py train.py --epochs 1

The script it writes defines the region's fusion and runs it on random tensors with the shapes,
strides and alignment that the region was called with: `python repro_TF1.py`. What stands before the
script's name belongs to `repro`, what stands after it to the script.
"""


def add(commands: Any) -> None:
    """Describe the command to argparse."""
    parser = commands.add_parser(
        "repro",
        help="run a script and write one region of it as a script that runs alone",
        description="Run a script, then write one of its regions as a script that runs alone.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--region", metavar="NAME", help="TF0, for one; needed if there are several"
    )
    parser.add_argument(
        "--function", metavar="NAME", help="whose region; needed if several functions have it"
    )
    parser.add_argument("--out", metavar="FILE", help="default: repro_NAME.py")
    add_json(parser)
    add_script(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the script of a region. Raises WrongCall where it is not clear which."""
    ran = run_script(arguments, is_quiet=arguments.json)
    if not ran.functions:
        return 1
    function, region = _choose(ran, arguments.function, arguments.region)
    path = Path(arguments.out or f"repro_{region.name}.py")
    path.write_text(region.repro())
    found = {"function": function, "region": region.name, "script": str(path)}
    if arguments.json:
        show(found, True)
    else:
        print(f"region {region.name} of {function}: python {path}")
    return ran.status()


def _choose(ran: Ran, function: str | None, region: str | None) -> tuple[str, FusedRegion]:
    """The only region that has these names. Regions that were not called cannot be repeated."""
    known = [
        (name, found)
        for name, jfn in ran.functions.items()
        for found in regions_of(jfn)
        if found.last_used is not None
    ]
    if not known:
        raise WrongCall(f"{ran.script} called no region; explain tells why")
    _check("function", function, [name for name, _ in known])
    _check("region", region, [found.name for _, found in known])
    chosen = [
        (name, found)
        for name, found in known
        if function in (None, name) and region in (None, found.name)
    ]
    if len(chosen) == 1:
        return chosen[0]
    lines = [f"  --function {name!r} --region {r.name}   {_ops(r)}" for name, r in chosen or known]
    raise WrongCall("\n".join(["say which region:", *lines]))


def _check(kind: str, asked: str | None, names: list[str]) -> None:
    if asked is not None and asked not in names:
        raise WrongCall(f"there is no {kind} {asked!r}: {nearest(asked, names)}")


def _ops(region: FusedRegion) -> str:
    """The first ops of a region, to recognise it by."""
    names = list(dict.fromkeys(bsym.sym.name for bsym in region.bsyms))
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")

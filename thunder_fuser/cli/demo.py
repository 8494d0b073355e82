"""`demo`: a rotary embedding, forward and backward, through thunder.jit, and what became of it."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from thunder_fuser.cli.rope import Sizes
from thunder_fuser.cli.rope_run import DemoReport, run_rope
from thunder_fuser.cli.text import WrongCall, add_json

_EXAMPLES = """examples:
  python -m thunder_fuser demo
  python -m thunder_fuser demo --groups 16 --rotated 32    one key and value per head
  python -m thunder_fuser demo --device cpu --json

exit status 1: an error against fp64 is over twice that of eager torch
"""


def add(commands: Any) -> None:
    """Describe the command to argparse."""
    parser = commands.add_parser(
        "demo",
        help="run a rotary embedding forward and backward, show its kernels, errors and times",
        description="The rotary embedding of NVIDIA/Fuser#2577 through thunder.jit: on the GPU if "
        "there is one, else on the host target, which compiles the same kernel text with g++.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = Sizes()
    for name, what in _SIZES.items():
        option = f"--{name.replace('_', '-')}"
        shown = f"{what} (default: %(default)s)"
        parser.add_argument(
            option, type=int, default=getattr(default, name), metavar="N", help=shown
        )
    parser.add_argument(
        "--device",
        default="cuda" if torch.cuda.is_available() else "cpu",
        help="cuda, cuda:1, or cpu (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        default="demo_stages",
        metavar="DIR",
        help="receives the text of every stage, the CUDA C++ among it (default: %(default)s)",
    )
    add_json(parser)
    parser.set_defaults(run=run)


_SIZES = {
    "batch": "sequences",
    "length": "tokens of a sequence",
    "heads": "query heads",
    "groups": "query heads per key and value share a group",
    "head_size": "elements of a head",
    "rotated": "elements of a head that are rotated",
}


def run(arguments: argparse.Namespace) -> int:
    """Run the demo. Returns 1 if a result is further from fp64 than it should be."""
    sizes = Sizes(**{name: getattr(arguments, name) for name in _SIZES})
    report = run_rope(sizes, _device(arguments.device), Path(arguments.out))
    print(json.dumps(asdict(report), indent=2) if arguments.json else _text(report))
    return 0 if report.is_accurate else 1


def _device(name: str) -> torch.device:
    """The device of that name. Raises WrongCall where there is none."""
    count = torch.cuda.device_count()
    known = ["cpu", *(["cuda"] if count else []), *(f"cuda:{k}" for k in range(count))]
    if name not in known:
        raise WrongCall(f"--device {name}: there is {', '.join(known)}")
    return torch.device(name)


def _text(report: DemoReport) -> str:
    lines = [f"program   {report.program}", f"target    {report.target}", ""]
    for region in report.regions:
        lines += [
            f"{region.direction}: region {region.name}, {region.symbols} bound symbols claimed, "
            f"{region.outside} left outside",
            *(f"  {line}" for line in region.segments),
            f"  kernels: {region.kernels} of {sum(region.kernel_lines)} lines",
            *(f"  {line}" for line in region.aliases),
            f"  time per call: {region.times}",
        ]
    lines += [
        f"saved for the backward: {report.saved}",
        "",
        f"{'largest error against fp64':<30}{'ours':>12}{'eager':>12}",
        *(f"  {e.tensor:<28}{e.ours:>12.3g}{e.eager:>12.3g}" for e in report.errors),
        "",
        f"first call    {report.first_call}",
        f"second call   {report.second_call}",
        f"compiled anew {report.compiled_anew}",
        "",
        f"the text of every stage: {report.stages}",
        *(f"  {path}" for path in report.cuda_files),
    ]
    return "\n".join(lines)

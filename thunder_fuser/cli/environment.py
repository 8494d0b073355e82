"""`env`: what a bug report needs to say about the machine."""

from __future__ import annotations

import argparse
import platform
from dataclasses import fields
from importlib import metadata
from typing import Any

import torch

from thunder_fuser.cli.text import add_json, show
from thunder_fuser.options import PREFIX, Options, current, help_text
from thunder_fuser.runtime import host_compiler, nvrtc
from thunder_fuser.runtime.disk_cache import disk_cache
from thunder_fuser.runtime.driver_version import driver_version
from thunder_fuser.runtime.errors import FuserError
from thunder_fuser.runtime.targets import target_for

_DISTRIBUTIONS = (
    "thunder-fuser",
    "lightning-thunder",
    "torch",
    "cuda-core",
    "cuda-bindings",
    "cuda-pathfinder",
)


def add(commands: Any) -> None:
    """Describe the command to argparse."""
    parser = commands.add_parser(
        "env",
        help="versions, GPUs, compilers, cache and options",
        description="Versions, GPUs, compilers, cache and options: paste it into a bug report.",
        epilog="example: python -m thunder_fuser env --json > environment.json",
    )
    parser.add_argument(
        "--options",
        action="store_true",
        help="every option with its meaning; --json: its value now",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the environment, or the options."""
    if arguments.options and arguments.json:
        options = current()
        show({f"{PREFIX}{f.name.upper()}": getattr(options, f.name) for f in fields(Options)}, True)
    elif arguments.options:
        print(help_text())
    else:
        show(environment(), arguments.json)
    return 0


def environment() -> dict[str, object]:
    """Names and values, in the order in which they are printed."""
    options = current()
    cache = disk_cache(options)
    defaults = Options()
    changed = {
        f"option {PREFIX}{field.name.upper()}": str(getattr(options, field.name))
        for field in fields(Options)
        if getattr(options, field.name) != getattr(defaults, field.name)
    }
    return {
        "python": f"{platform.python_version()} on {platform.platform()}",
        **{name: _version(name) for name in _DISTRIBUTIONS},
        "nvrtc": _or_why(nvrtc.identity),
        "c++ compiler": _or_why(host_compiler.identity),
        "driver": _driver(),
        **_gpus(),
        "cache": f"{cache.directory} ({cache.mode})",
        **changed,
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _or_why(identity: Any) -> str:
    try:
        return str(identity())
    except FuserError as error:
        return f"none: {error}"


def _driver() -> str:
    version = driver_version()
    if version is None:
        return "none: CPU tensors run on the host target"
    return f"serves CUDA {version}"


def _gpus() -> dict[str, object]:
    found: dict[str, object] = {}
    for ordinal in range(torch.cuda.device_count()):
        device = torch.device("cuda", ordinal)
        name = torch.cuda.get_device_name(device)
        found[f"gpu {ordinal}"] = f"{name} ({target_for(device)})"
    return found

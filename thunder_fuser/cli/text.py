"""How commands print what they found."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Mapping
from difflib import get_close_matches

from msgspec import to_builtins


class WrongCall(ValueError):
    """A command line that parses and still asks for something that is not there: status 2."""


def add_json(parser: argparse.ArgumentParser) -> None:
    """The `--json` flag of a command."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def nearest(word: str, known: Collection[str]) -> str:
    """What to say of a name that is none of the known ones."""
    near = get_close_matches(word, known, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(dict.fromkeys(known))}"


def show(found: Mapping[str, object], as_json: bool) -> None:
    """Print names and values, as aligned lines or as one JSON object."""
    if as_json:
        print(json.dumps(found, indent=2, default=to_builtins))
        return
    width = max(map(len, found), default=0) + 2
    for name, value in found.items():
        lines = value if isinstance(value, list) else [value]
        print(f"{name:<{width}}" + f"\n{'':<{width}}".join(map(str, lines)))

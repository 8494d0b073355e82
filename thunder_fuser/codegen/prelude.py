"""The device functions that a kernel uses, and no others.

    "... tf::exp(x) ..."    =>    namespace tf { TF_FN, TF_LIBM, exp }

The files of `codegen/device` consist of chunks, each under a line `// chunk: names [when names]`. A
chunk is taken when the kernel, or a chunk already taken, mentions one of its names (as `tf::name`,
or a macro `TF_NAME`) and all of the names after `when`: the complex overload of `exp` needs both
`exp` and `complex`. So a chunk states what it needs by using it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_DEVICE = Path(__file__).parent / "device"
# A chunk uses only chunks before it, in this order of files and of lines.
_FILES = (
    "types",
    "exact",
    "memory",
    "convert",
    "math",
    "complex",
    "random",
    "moments",
    "exponentials",
    "equals",
    "reduce",
    "both_ways",
    "split",
    "cluster",
    "stretch",
    "order",
    "digits",
    "picks",
)
_HEADER = re.compile(r"// chunk: ([\w ]+?)(?: when ([\w ]+))?")
_MENTION = re.compile(r"\btf::(\w+)|\b(TF_[A-Z0-9_]+)\b")


@dataclass(frozen=True)
class Chunk:
    """A piece of device text: the names it provides, those it waits for, those it mentions."""

    names: frozenset[str]
    when: frozenset[str]
    mentions: frozenset[str]
    text: str


def prelude(text: str) -> str:
    """The text to put before the kernel `text`: the chunks it needs, inside `namespace tf`.

    The result is the same for NVRTC and, after `host.h`, for the host's compiler; it is empty for a
    kernel that mentions no device name. Raises KeyError for a `tf::name` that no chunk provides.
    """
    wanted = mentions(text)
    if not wanted:
        return ""
    unknown = sorted(wanted - _provided())
    if unknown:
        raise KeyError(f"no chunk of codegen/device provides {', '.join(unknown)}")
    wanted |= {"TF_FN"}
    taken: set[int] = set()
    while True:
        new = {
            k
            for k, chunk in enumerate(chunks())
            if k not in taken and chunk.names & wanted and chunk.when <= wanted
        }
        if not new:
            break
        taken |= new
        for k in new:
            wanted |= chunks()[k].mentions
    body = "\n".join(chunks()[k].text for k in sorted(taken))
    return f"namespace tf {{\n{body}\n}}  // namespace tf\n"


def mentions(text: str) -> frozenset[str]:
    """The device names in `text`."""
    return frozenset(a or b for a, b in _MENTION.findall(text)) - {"TF_HOST"}


@cache
def chunks() -> tuple[Chunk, ...]:
    """All chunks in their order."""
    return tuple(
        chunk for name in _FILES for chunk in _split((_DEVICE / f"{name}.cuh").read_text())
    )


def _split(text: str) -> list[Chunk]:
    found: list[Chunk] = []
    for piece in re.split(r"^(?=// chunk: )", text, flags=re.MULTILINE)[1:]:
        header, _, body = piece.partition("\n")
        match = _HEADER.fullmatch(header)
        assert match is not None, header
        names, when = frozenset(match[1].split()), frozenset((match[2] or "").split())
        found.append(Chunk(names, when, mentions(body) - names, body.strip()))
    return found


@cache
def _provided() -> frozenset[str]:
    return frozenset(name for chunk in chunks() for name in chunk.names)

"""Where a fusion was written: what messages, dumps and repro scripts say about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.options import Options


def _nothing() -> str:
    return ""


def _no_script(arguments: Sequence[object], options: Options) -> str:
    return ""


def _nowhere(tensor: TensorView) -> str | None:
    return None


@dataclass(frozen=True, eq=False)
class Origin:
    """Who asks for a plan. The functions are called when something is to be told, not before.

    `owner` is the region, of which there may be several definitions.

    `definition()` is Python that defines the fusion, `script(arguments, options)` a runnable file
    that repeats the call, `place(tensor)` the user's line where a tensor of the fusion was
    computed. Texts are empty, and places None, where they are not known.
    """

    name: str = "fusion"
    owner: object | None = None
    definition: Callable[[], str] = _nothing
    script: Callable[[Sequence[object], Options], str] = _no_script
    place: Callable[[TensorView], str | None] = _nowhere

"""What a definition tells the pipeline about itself: name, text, repro script, the user's lines."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from thunder_fuser.frontend.leaf import Leaf
from thunder_fuser.frontend.repro import repro_script
from thunder_fuser.frontend.source_line import Place
from thunder_fuser.frontend.text import print_definition
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.options import Options
from thunder_fuser.runtime.origin import Origin


def origin_of(leaf: Leaf, name: str, owner: object, places: Sequence[Place]) -> Origin:
    """The origin of a definition whose records were written at `places`, if they are known."""
    told = _Told(leaf, places)
    return Origin(name, owner, told.definition, told.script, told.place)


class _Told:
    def __init__(self, leaf: Leaf, places: Sequence[Place]) -> None:
        self._leaf, self._places = leaf, places

    def definition(self) -> str:
        return print_definition(self._leaf.records, self._leaf.definition.results, "fusion")

    def script(self, arguments: Sequence[object], options: Options) -> str:
        given = arguments[: len(self._leaf.definition.specs)]  # the rest is drawn at every run
        return repro_script(self._leaf, given, "fusion", options)

    def place(self, tensor: TensorView) -> str | None:
        found = self._place_of.get(tensor)
        return None if found is None else str(found)

    @cached_property
    def _place_of(self) -> dict[TensorView, Place]:
        owners = self._leaf.definition.owners
        pairs = zip(owners, self._places, strict=False)
        return {tv: place for made, place in pairs for tv in made}

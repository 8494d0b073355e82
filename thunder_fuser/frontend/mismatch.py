"""Which record refuses a set of arguments: the definition replayed with their sizes.

Symbolic extents can only contradict each other at run time, deep inside a plan. To say which call
of the definition is meant, its records are built once more with every size and scalar known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from thunder_fuser.frontend.arguments import Runtime
from thunder_fuser.frontend.build import Builder
from thunder_fuser.frontend.constants import encode
from thunder_fuser.frontend.leaf import Definition
from thunder_fuser.frontend.records import DEFINE_SCALAR, DEFINE_TENSOR, Record, refs
from thunder_fuser.frontend.text import definition_lines
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ir.text import print_type


class Refusal(NamedTuple):
    """The position of the record among all, and what is wrong with it."""

    record: int
    text: str


def refusal(definition: Definition, arguments: Sequence[Runtime]) -> Refusal | None:
    """The first record that cannot be built for these arguments; None if all can."""
    builder, waiting = Builder(), list(arguments)
    for index, record in enumerate(definition.records):
        try:
            builder.step(_known(record, waiting))
        except (TypeError, ValueError) as error:
            shown = definition_lines(
                definition.records[: index + 1], definition.results[: index + 1]
            )
            operands = [
                f"  {ref}: {print_type(value)}"
                for ref in dict.fromkeys(refs(record))
                if isinstance(value := builder.states[ref.fid], TensorView)
            ]
            return Refusal(index, "\n".join([f"{shown[-1].strip()}: {error}", *operands]))
    return None


def _known(record: Record, waiting: list[Runtime]) -> Record:
    """An input record with the sizes or the number of its argument, any other as it is."""
    attrs = dict(record.attrs)
    if record.op == DEFINE_TENSOR:
        tensor = waiting.pop(0)
        assert isinstance(tensor, torch.Tensor)
        attrs["shape"] = tuple(tensor.shape)
    elif record.op == DEFINE_SCALAR and attrs["value"] is None:
        dtype = attrs["dtype"]
        attrs["value"] = encode(waiting.pop(0), dtype)  # type: ignore[arg-type]
    return Record(record.op, tuple(attrs.items()), record.args)

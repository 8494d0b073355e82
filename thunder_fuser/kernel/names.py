"""Kernel-local names: canonical, so that equal segments of different regions print alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from thunder_fuser.ir.scalar import Scalar
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.signature import Pointer, ScalarParameter
from thunder_fuser.segment.segment import Segment


@dataclass(frozen=True)
class Names:
    """The names of tensors and of run-time scalars."""

    tensors: Mapping[TensorView, str]
    scalars: Mapping[Scalar, str]


def name_values(segment: Segment) -> Names:
    """T0, T1, ... in topological order; s0, s1, ... in order of first use."""
    return Names(segment.names, {s: f"s{k}" for k, s in enumerate(segment.scalars)})


def pointer_tensors(segment: Segment) -> tuple[TensorView, ...]:
    """The tensors whose addresses a launch passes: inputs, then storage that is only written."""
    return tuple(dict.fromkeys((*segment.inputs, *(s.target for s in segment.stores))))


def pointers_of(segment: Segment, names: Names) -> tuple[Pointer, ...]:
    """The tensors that a kernel is given, in the order of its parameters, and what it does with
    each."""
    written = {s.target for s in segment.stores}
    read = set(segment.inputs)
    return tuple(
        Pointer(names.tensors[tv], tv.dtype, tv in written, tv in read)
        for tv in pointer_tensors(segment)
    )


def scalars_of(names: Names) -> tuple[ScalarParameter, ...]:
    """The scalar parameters in launch order."""
    return tuple(ScalarParameter(name, scalar.dtype) for scalar, name in names.scalars.items())

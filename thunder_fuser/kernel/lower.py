"""Schedule to kernel: name every demanded element, decide how it is loaded, stored and computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thunder_fuser.ir.scalar import Scalar
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.body import lower_class
from thunder_fuser.kernel.ir import Kernel, Pointer, ScalarParameter
from thunder_fuser.schedule.map import MapSchedule
from thunder_fuser.schedule.vectorize import VectorClass
from thunder_fuser.segment.segment import Segment


@dataclass(frozen=True)
class Names:
    """Kernel-local names: canonical, so equal segments of different regions print the same text."""

    tensors: Mapping[TensorView, str]
    scalars: Mapping[Scalar, str]


def lower(planned: MapSchedule, strict: bool) -> Kernel:
    """The kernel of a schedule. `strict` keeps every rounding of the trace."""
    segment = planned.segment
    names = name_values(segment)
    groups = tuple(
        tuple(lower_class(c, names.tensors, names.scalars, strict) for c in group)
        for group in _share_targets(planned.classes)
    )
    scalars = tuple(ScalarParameter(name, s.dtype) for s, name in names.scalars.items())
    return Kernel(_pointers(segment, names), scalars, groups, planned.parameters.threads)


def _share_targets(classes: Sequence[VectorClass]) -> list[list[VectorClass]]:
    """Classes that write parts of the same tensors, together."""
    groups: list[tuple[set[TensorView], list[VectorClass]]] = []
    for vector_class in classes:
        targets = {nest.store.target for nest in vector_class.group.nests}
        for known, members in groups:
            if known & targets:
                known |= targets
                members.append(vector_class)
                break
        else:
            groups.append((targets, [vector_class]))
    return [members for _, members in groups]


def name_values(segment: Segment) -> Names:
    """T0, T1, ... in topological order; s0, s1, ... in order of first use."""
    tensors = {tv: f"T{k}" for k, tv in enumerate(segment.tensors)}
    for store in segment.stores:
        tensors.setdefault(store.target, f"T{len(tensors)}")
    return Names(tensors, {s: f"s{k}" for k, s in enumerate(segment.scalars)})


def pointer_tensors(segment: Segment) -> tuple[TensorView, ...]:
    """The tensors whose addresses a launch passes: inputs, then storage that is only written."""
    return tuple(dict.fromkeys((*segment.inputs, *(s.target for s in segment.stores))))


def _pointers(segment: Segment, names: Names) -> tuple[Pointer, ...]:
    written = {s.target for s in segment.stores}
    read = set(segment.inputs)
    return tuple(
        Pointer(names.tensors[tv], tv.dtype, tv in written, tv in read)
        for tv in pointer_tensors(segment)
    )

"""A map schedule to its kernel."""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.body import lower_class
from thunder_fuser.kernel.map_ir import Kernel
from thunder_fuser.kernel.names import name_values, pointers_of, scalars_of
from thunder_fuser.schedule.map import MapSchedule
from thunder_fuser.schedule.vectorize import VectorClass


def lower(planned: MapSchedule, strict: bool) -> Kernel:
    """The kernel of a map schedule. `strict` keeps every rounding of the trace."""
    segment = planned.segment
    names = name_values(segment)
    groups = tuple(
        tuple(lower_class(c, names.tensors, names.scalars, strict) for c in group)
        for group in _share_targets(planned.classes)
    )
    threads = planned.parameters.threads
    given = pointers_of(segment, names), scalars_of(names)
    return Kernel(*given, groups, threads, segment.is_reversed)


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

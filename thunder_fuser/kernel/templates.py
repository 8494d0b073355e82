"""The templates, in the order in which they are asked for a segment.

    T2 rows      short odd rows, elements for themselves  schedule/plain_rows.py
    T1 map       every element for itself                 schedule/map.py
    T9 kept      rows that lie apart in memory            schedule/kept_columns.py
    T3 stream    long rows, softmax's sums in one pass    schedule/streams.py
    T2 rows      rows, and sums down columns beside them  schedule/rows.py
    T9 kept      columns of odd images                    schedule/kept_columns.py
    T5 columns   down the columns of a plane              schedule/columns.py
    T9 kept      columns that a block keeps in between    schedule/kept_columns.py
    T7 groups    rows that an index sends to one place    schedule/groups.py
    T11 picks    elements that each have an index        schedule/picks.py
    T8 order     the places of an index, group by group   schedule/ordering.py
    T10 digits   those of a long index, digit by digit    schedule/digit_stages.py

The first that does not reject a segment runs it. A template's parameters change how fast a kernel
is and in which order it sums, nothing else; the first of `parameters` is what the model prefers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from thunder_fuser.analysis import access
from thunder_fuser.kernel.column_ir import ColumnKernel
from thunder_fuser.kernel.columns import lower_columns
from thunder_fuser.kernel.digit_stages import DigitKernel, lower_digits
from thunder_fuser.kernel.group_ir import GroupKernel
from thunder_fuser.kernel.groups import lower_groups
from thunder_fuser.kernel.kept_columns import lower_kept_columns
from thunder_fuser.kernel.kept_ir import KeptKernel
from thunder_fuser.kernel.lower import lower
from thunder_fuser.kernel.map_ir import Kernel
from thunder_fuser.kernel.ordering import OrderKernel, lower_order
from thunder_fuser.kernel.picks import PickKernel, lower_picks
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.kernel.rows import lower_rows
from thunder_fuser.kernel.streams import StreamKernel, lower_streams
from thunder_fuser.schedule import (
    columns,
    digit_stages,
    groups,
    kept_columns,
    map,
    ordering,
    picks,
    rows,
    streams,
)
from thunder_fuser.schedule.parameters import (
    NEVER,
    ColumnParameters,
    MapParameters,
    Parameters,
    RowParameters,
    StreamParameters,
    column_parameters,
    digit_parameters,
    group_parameters,
    kept_parameters,
    map_parameters,
    order_parameters,
    pick_parameters,
    row_parameters,
    stream_parameters,
)
from thunder_fuser.schedule.plain_rows import reject_plain, schedule_plain
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.segment.segment import Segment
from thunder_fuser.target import Target

AnyKernel: TypeAlias = (
    Kernel
    | RowKernel
    | StreamKernel
    | ColumnKernel
    | KeptKernel
    | GroupKernel
    | PickKernel
    | OrderKernel
    | DigitKernel
)
EndingParameters = TypeVar("EndingParameters", RowParameters, StreamParameters)
NEAR_IN_GENERAL = 512  # bytes: a row of a head; over rows, what lies apart depends on their number


@dataclass(frozen=True)
class Template:
    """`reject` says why it is not for a segment, `schedule` raises that as Rejected; `lower` makes
    a schedule a kernel, keeping every rounding of the trace where it is told to; `in_general` makes
    of parameters those that decide by no size. A template that is not exact has other sums than the
    trace, and holds nothing that a later one does not."""

    parameters: Callable[[Target], tuple[Parameters, ...]]
    reject: Callable[[Segment, Target], str | None]
    schedule: Callable[[Segment, Target, Any], Any]
    lower: Callable[[Any, bool], AnyKernel]
    in_general: Callable[[Any], Parameters] | None = None
    is_exact: bool = True


@dataclass(frozen=True, eq=False)
class Draft:
    """A segment in a template: `schedule` prints, `lower` goes on."""

    template: Template
    parameters: Parameters
    schedule: Any

    def lower(self, strict: bool) -> AnyKernel:
        return self.template.lower(self.schedule, strict)


def _reject_map(segment: Segment, target: Target) -> str | None:
    return map.reject(segment, map_parameters(target)[0])


def _map(segment: Segment, target: Target, parameters: MapParameters) -> map.MapSchedule:
    return map.schedule(segment, parameters)


def _map_in_general(parameters: MapParameters) -> MapParameters:
    return replace(parameters, busy=1, near=NEAR_IN_GENERAL, cache=NEVER, kept=0, rests=True)


def _ends_in_general(parameters: EndingParameters) -> EndingParameters:
    return replace(parameters, ends=True)


def _columns_in_general(parameters: ColumnParameters) -> ColumnParameters:
    return replace(parameters, fills=True)


TEMPLATES = (
    Template(row_parameters, reject_plain, schedule_plain, lower_rows, _ends_in_general),
    Template(map_parameters, _reject_map, _map, lower, _map_in_general),
    Template(
        kept_parameters,
        kept_columns.reject_turned,
        kept_columns.schedule_turned,
        lower_kept_columns,
    ),
    Template(
        stream_parameters,
        streams.reject,
        streams.schedule,
        lower_streams,
        _ends_in_general,
        is_exact=False,
    ),
    Template(row_parameters, rows.reject, rows.schedule, lower_rows, _ends_in_general),
    Template(
        kept_parameters,
        kept_columns.reject_odd,
        kept_columns.schedule_odd,
        lower_kept_columns,
    ),
    Template(
        column_parameters, columns.reject, columns.schedule, lower_columns, _columns_in_general
    ),
    Template(kept_parameters, kept_columns.reject, kept_columns.schedule, lower_kept_columns),
    Template(group_parameters, groups.reject, groups.schedule, lower_groups),
    Template(pick_parameters, picks.reject, picks.schedule, lower_picks),
    Template(order_parameters, ordering.reject, ordering.schedule, lower_order),
    Template(digit_parameters, digit_stages.reject, digit_stages.schedule, lower_digits),
)


def reject(segment: Segment, target: Target) -> str | None:
    """Why no template can run this segment, each with its reason; None if one can."""
    reasons: list[str] = []
    for template in TEMPLATES:
        if template.is_exact:
            reason = template.reject(segment, target)
            if reason is None:
                return None
            reasons.append(reason)
    return "; ".join(reasons)


def draft(segment: Segment, target: Target, strict: bool) -> Draft:
    """The segment in the first template that holds it, as the model prefers it. Raises Rejected."""
    reasons = []
    for template in TEMPLATES:
        if template.is_exact or not strict:
            found = _drafted(template, segment, target, template.parameters(target)[0])
            if isinstance(found, Draft):
                return found
            reasons.append(found)
    raise Rejected("; ".join(reasons))


def general(found: Draft, target: Target) -> Draft:
    """The draft as it would be for most sizes: what depends on the size alone is decided as for
    large ones, so that kernels for many sizes have the same text. That of in-place stores stays as
    it is: of no other is it known that it reads nothing too late."""
    template, segment = found.template, found.schedule.segment
    if template.in_general is None or any(store.is_in_place for store in segment.stores):
        return found
    parameters = template.in_general(found.parameters)
    return Draft(template, parameters, template.schedule(segment, target, parameters))


def variants(segment: Segment, target: Target, preferred: Draft) -> Iterator[Draft]:
    """The segment in the template of `preferred` with its other parameters, best guess first. Most
    parameters are for other segments than this: what prints like a schedule before it is left out,
    as its kernel would be the same."""
    seen = {str(preferred.schedule)}
    for parameters in preferred.template.parameters(target):
        found = _drafted(preferred.template, segment, target, parameters)
        if isinstance(found, Draft) and (text := str(found.schedule)) not in seen:
            seen.add(text)
            yield found


def variant(segment: Segment, target: Target, preferred: Draft, parameters: str) -> Draft | None:
    """The segment in the template of `preferred` with the parameters that print so, if it has them
    and they suit the segment."""
    for known in preferred.template.parameters(target):
        if str(known) == parameters:
            found = _drafted(preferred.template, segment, target, known)
            return found if isinstance(found, Draft) else None
    return None


def _drafted(
    template: Template, segment: Segment, target: Target, parameters: Parameters
) -> Draft | str:
    """The draft, or why there is none."""
    try:
        return Draft(template, parameters, template.schedule(segment, target, parameters))
    except Rejected as reason:
        return str(reason)


def forget() -> None:
    """Let go of what is remembered of segments while one plan is made."""
    for module in (access, map, rows):
        module.forget()

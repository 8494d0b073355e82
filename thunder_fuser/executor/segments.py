"""`fuser.segments(jfn)`: every segment of the regions of a compiled function, as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from thunder_fuser.executor.explain import regions_of
from thunder_fuser.executor.region import FusedRegion
from thunder_fuser.runtime.plan import Plan
from thunder_fuser.segment.traffic import bytes_read, bytes_written


@dataclass(frozen=True)
class SegmentRow:
    """One segment of one plan. A region has a plan for each class of arguments it was called with.

    `kind` is "kernel" or "torch", `reason` says why the segment is not part of the one before,
    `bytes_read` and `bytes_written` count each element that the segment touches once, an expanded
    axis as one element.
    """

    region: str
    plan: int
    segment: int
    kind: str
    reason: str
    tensors_read: int
    tensors_written: int
    bytes_read: int
    bytes_written: int


def segments(jfn: Callable[..., Any]) -> Any:
    """The segments of the last forward and backward of `jfn`: a pandas DataFrame with the fields of
    `SegmentRow` as columns, or a list of SegmentRow where pandas is not installed.

    Raises ValueError for a function that thunder.jit did not compile or that was never called.
    """
    rows = segment_rows(jfn)
    if find_spec("pandas") is None:
        return rows
    return import_module("pandas").DataFrame(
        [asdict(row) for row in rows], columns=list(SegmentRow.__annotations__)
    )


def segment_rows(jfn: Callable[..., Any]) -> list[SegmentRow]:
    """The same as a list, whether or not pandas is installed."""
    return [row for region in regions_of(jfn) for row in _rows(region)]


def _rows(region: FusedRegion) -> Iterator[SegmentRow]:
    plans = (plan for fd in region.definitions for plan in fd.leaf.program.plans)
    for number, plan in enumerate(plans):
        assert isinstance(plan, Plan)  # frontend knows plans by a protocol only
        yield from _rows_of_plan(region.name, number, plan)


def _rows_of_plan(region: str, number: int, plan: Plan) -> Iterator[SegmentRow]:
    cut = plan.segmented
    for k, (segment, reason, kernel) in enumerate(
        zip(cut.segments, cut.reasons, plan.kernels, strict=True)
    ):
        yield SegmentRow(
            region=region,
            plan=number,
            segment=k,
            kind="torch" if kernel is None else "kernel",
            reason=reason,
            tensors_read=len(segment.inputs),
            tensors_written=len(segment.stores),
            bytes_read=bytes_read(segment),
            bytes_written=bytes_written(segment),
        )

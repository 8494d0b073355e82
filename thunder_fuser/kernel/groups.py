"""A group schedule to a group kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from thunder_fuser.analysis.access import Demand, Index, demand
from thunder_fuser.analysis.digits import Form, loads_in, shift
from thunder_fuser.analysis.layout import offset_of
from thunder_fuser.analysis.reductions import is_library
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.elements import ElementWriter
from thunder_fuser.kernel.group_ir import GroupKernel, GroupSum, Stretch
from thunder_fuser.kernel.ir import Accumulate, Operand, Variable
from thunder_fuser.kernel.names import Names, name_values, pointers_of, scalars_of
from thunder_fuser.kernel.row_ir import Scope
from thunder_fuser.kernel.vectors import Accesses
from thunder_fuser.schedule.groups import BATCH, FEW, GroupSchedule


def lower_groups(planned: GroupSchedule, strict: bool) -> GroupKernel:
    """The kernel of a group schedule. `strict` keeps every rounding of the trace."""
    segment = planned.segment
    names = name_values(segment)
    loop, sums = _loop(planned, names, strict)
    return GroupKernel(
        pointers_of(segment, names),
        scalars_of(names),
        planned.axes,
        planned.threads_across,
        planned.parts,
        planned.rows_per_block,
        FEW,
        BATCH,
        _stretch(planned, names),
        loop,
        sums,
        _final(planned, names, strict),
    )


def _loop(planned: GroupSchedule, names: Names, strict: bool) -> tuple[Scope, tuple[GroupSum, ...]]:
    """What a term adds to the sums. The vectors of a batch of terms are an array."""
    writer = _writer(planned, names, strict, suffix=lambda tv, offset: "[k]")
    needs = _needs(planned, planned.terms)
    ordered = (place for _, index in planned.terms for place in loads_in(index))
    before = writer.locate(filter(planned.is_uniform, (*ordered, *needs.places)))
    writer.request(needs)
    loads = writer.accesses.group_loads()
    writer.evaluate(needs)
    accumulated, sums = [], []
    for (tv, _), term in zip(planned.sums, planned.terms, strict=True):
        assert tv.definition is not None
        dtype, name, row = tv.dtype.compute_type, names.tensors[tv], tv.definition.op
        value = writer.convert(tv, writer.values[term], dtype)
        accumulated.append(Accumulate(Variable(f"{name}_part{_lane(planned)}", dtype), row, value))
        rounded = tv.dtype if strict and tv.dtype.is_reduced_precision else None
        sums.append(GroupSum(name, dtype, row, rounded))
    return Scope(loads, (*writer.statements, *accumulated), (), before), tuple(sums)


def _final(planned: GroupSchedule, names: Names, strict: bool) -> Scope:
    """What follows from the sums of a row."""
    writer, layouts = _writer(planned, names, strict), planned.segment.layouts
    for tv, index in planned.sums:
        name = f"{names.tensors[tv]}_row{_lane(planned)}"
        writer.known[tv, index] = Variable(name, tv.dtype.compute_type)
    results = [(s.value, i) for s, i in planned.stores]
    needs = _needs(planned, [r for r in results if r not in writer.known])
    before = writer.locate(filter(planned.is_uniform, needs.places))
    writer.request(needs)
    loads = writer.accesses.group_loads()
    writer.begin()
    writer.evaluate(needs)
    targets = [
        (s.target, offset_of(layouts[s.target], i), writer.values[s.value, i])
        for s, i in planned.stores
    ]
    writes, vectors = writer.accesses.group_stores(targets)
    return Scope(loads, (*writer.statements, *writes), vectors, before)


def _writer(
    planned: GroupSchedule,
    names: Names,
    strict: bool,
    suffix: Callable[[TensorView, Form], str] = lambda tv, offset: "",
) -> ElementWriter:
    segment = planned.segment
    accesses = Accesses(segment.layouts, planned.axes.lane, names.tensors, planned.streams, suffix)
    return ElementWriter(segment, names.tensors, names.scalars, accesses, strict)


def _lane(planned: GroupSchedule) -> str:
    return "[lane]" if planned.axes.lane is not None else "[0]"


def _needs(planned: GroupSchedule, results: Sequence[tuple[TensorView, Index]]) -> Demand:
    """What `results` need down to memory, the sums and the indices that lanes share."""
    sums = frozenset(tv for tv, _ in planned.sums)
    return demand(results, planned.segment.leaves | sums, planned.is_uniform)


def _stretch(planned: GroupSchedule, names: Names) -> Stretch:
    """The end of a row's group, and that of the group before it."""
    (ends, group), segment = planned.ends, planned.segment
    accesses = Accesses(segment.layouts, None, names.tensors, streams=False)
    writer = ElementWriter(segment, names.tensors, names.scalars, accesses, strict=False)
    found: list[Operand] = []
    for index in ((shift(group, -1),), (group,)):
        needs = demand([(ends, index)], segment.leaves)
        writer.request(needs)
        writer.evaluate(needs)
        found.append(writer.convert(ends, writer.values[ends, index], DataType.Int))
    begin, end = found
    is_trusted = is_library(ends)
    return Stretch(tuple(writer.statements), begin, end, group, planned.skip, is_trusted)

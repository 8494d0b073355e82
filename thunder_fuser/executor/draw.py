"""`draw(jfn, path)`: regions of a compiled function, their segments and kernels, as a picture.

From left to right: the steps of the trace, which are regions and what stays outside of them with
its reason; the segments of each region and the values that are views; the kernels. What a row
reads, writes or aliases is followed by its bytes, and wires lead from where a value is made to
where it is read.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from textwrap import wrap
from typing import Any

from thunder_fuser.executor.diagram import Band, Box, End, Row, Section, svg
from thunder_fuser.executor.region import FusedRegion
from thunder_fuser.executor.sizes import size
from thunder_fuser.executor.steps import Half, Step, Symbol, Value, halves
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ir.text import tensor_names
from thunder_fuser.runtime.plan import Plan
from thunder_fuser.segment.segment import Segment
from thunder_fuser.segment.traffic import bytes_read, bytes_written

LETTERS = 46  # of a line of text that is broken
MANY = 48  # rows of arguments and results: beyond, their wires would bury those between steps

LEGEND = "blue: fused; yellow: left to others; grey: segments; dashed: views; green: kernels"

_Drawn = dict[str, str]  # the kernels so far, by their text, and whose they were


def draw(jfn: Callable[..., Any], path: str | os.PathLike[str]) -> None:
    """Write the picture of the last forward and backward of `jfn` as an SVG file.

    Of a region with several plans the one used last is drawn. Raises ValueError for a function that
    thunder.jit did not compile or that was never called, OSError where the file cannot be written.
    """
    Path(path).write_text(drawing(jfn))


def drawing(jfn: Callable[..., Any], name: str = "") -> str:
    """The text of that file; `name` is that of the function."""
    drawn: _Drawn = {}
    sections = [_section(half, drawn) for half in halves(jfn)]
    return svg(f"{name}: " * bool(name) + "trace, segments, kernels", LEGEND, sections)


def _section(half: Half, drawn: _Drawn) -> Section:
    given = [Row("arguments", "title"), *(_port(v, "", is_out=True) for v in half.takes)]
    results = [Row("results", "title"), *(_port(value, "") for value in half.returns)]
    if half.keeps:
        results += [Row("saved for the backward", "title"), *(_port(v, "") for v in half.keeps)]
    bands = [_band(step, drawn) for step in half.steps]
    first, last = (Band(((Box("edge", tuple(rows)),),)) for rows in (given, results))
    if len(given) + len(results) > MANY:
        arguments = {value.name for value in half.takes}
        first, *bands = (_without(arguments, band) for band in (first, *bands))
        last = _without({value.name for value in (*half.returns, *half.keeps)}, last)
    return Section(half.title, (first, *bands, last))


def _without(wires: Collection[str], band: Band) -> Band:
    """The band with rows that say what they read, and no wires that lead there."""
    (box,), *others = band.columns
    rows = (replace(r, left=None) if r.left and r.left.wire in wires else r for r in box.rows)
    return Band(((replace(box, rows=tuple(rows)),), *others))


def _band(step: Step, drawn: _Drawn) -> Band:
    region = step.region
    if region is None:
        return Band(((_outside(step),),))
    plan = region.last_plan
    if plan is None:
        return Band(((_region(region, step, {}),),))
    names = tensor_names(plan.segmented.fusion)
    pairs = [
        _level(_segment(plan, k, names), _kernel(region.name, plan, k, drawn))
        for k in range(len(plan.segmented.segments))
    ]
    column = [*(segment for segment, _ in pairs), *_views(plan, names)]
    kernels = [kernel for _, kernel in pairs]
    tensors = _tensors(region, plan, names)
    tensors = {outer: tensors[inner] for outer, inner in step.inside.items() if inner in tensors}
    first = _region(region, step, tensors)
    return Band(((first,), tuple(column), tuple(kernels)))


def _tensors(region: FusedRegion, plan: Plan, names: Mapping[TensorView, str]) -> dict[str, str]:
    """Names of the region and what the plan calls them: t3 => T0."""
    found: dict[str, str] = {}
    for proxy, argument in zip(region.inputs, plan.arguments, strict=False):
        if isinstance(argument, TensorView):
            found[proxy.name] = names[argument]
    targets = {write.value: write.target for write in plan.segmented.fusion.writes}
    for proxy, tv in zip(region.computed, plan.segmented.fusion.outputs, strict=True):
        found[proxy.name] = names[targets.get(tv, tv)]
    return found


def _outside(step: Step) -> Box:
    (symbol,) = step.symbols
    note = [Row(line, "note") for line in _broken(f"outside: {symbol.reason}")]
    where = f"  {_places(step.symbols)}" if symbol.file else ""
    return Box("outside", (Row(f"{symbol.op}{where}", "title"), *note, *_ports(step, {})))


def _region(region: FusedRegion, step: Step, tensors: Mapping[str, str]) -> Box:
    counts = Counter(symbol.op for symbol in step.symbols)
    ops = ", ".join(op if count == 1 else f"{op} x{count}" for op, count in counts.items())
    rows = [Row(f"region {region.name}: {len(step.symbols)} symbols", "title")]
    rows += [Row(line, "note") for line in _broken(ops)]
    if places := _places(step.symbols):
        rows.append(Row(places, "note"))
    if not tensors:
        rows.append(Row("not called yet", "note"))
    return Box("region", (*rows, *_ports(step, tensors)))


def _ports(step: Step, tensors: Mapping[str, str]) -> Iterator[Row]:
    """What a step reads and makes; of a region with the plan's name, where a wire to the segments
    ends."""
    for value in step.reads:
        yield _port(value, "reads ", tensors.get(value.name))
    for value in step.makes:
        is_made = step.region is None or value.name in tensors or not tensors
        verb = "makes " if is_made else "hands on "  # an input, which may have been written
        yield _port(value, verb, tensors.get(value.name), is_out=True)


def _port(value: Value, verb: str, tensor: str | None = None, is_out: bool = False) -> Row:
    inside = f" = {tensor}" if tensor else ""
    right = End(tensor, is_out=not is_out) if tensor else None
    text = f"{verb}{value.name}{inside}: {value.type}, {size(value.bytes)}"
    return Row(text, "port", End(value.name, is_out), right)


def _segment(plan: Plan, position: int, names: Mapping[TensorView, str]) -> Box:
    cut = plan.segmented
    segment = cut.segments[position]
    why = _broken(cut.reasons[position])
    rows = [Row(f"segment {position}", "title", right=End(f"kernel {position}", is_out=True))]
    rows += [Row(line, "note") for line in why]
    rows += [
        Row(f"reads {names[tv]}: {_bytes(segment, tv)}", "port", End(names[tv]))
        for tv in segment.inputs
    ]
    for store in segment.stores:
        note = " in place" if store.is_in_place else ""
        text = f"writes {names[store.target]}{note}: {_bytes(segment, store.target)}"
        rows.append(Row(text, "port", End(names[store.target], is_out=True)))
    return Box("segment", tuple(rows))


def _bytes(segment: Segment, tv: TensorView) -> str:
    return size(segment.layouts[tv].distinct * tv.dtype.itemsize)


def _views(plan: Plan, names: Mapping[TensorView, str]) -> list[Box]:
    """The tensors that share the storage of others: nothing is copied for them."""
    rows = [Row("views", "title")]
    for tv, view in plan.segmented.views.items():
        root, name = names[view.root], names[tv]
        rows.append(Row(f"of {root}: 0 B moved", "note", End(root, is_dashed=True)))
        shape = f"{list(view.shape)} strides {list(view.strides)} + {view.offset}"
        rows.append(Row(f"{name}: {shape}", "port", End(name, is_out=True, is_dashed=True)))
    return [Box("view", tuple(rows))] if len(rows) > 1 else []


def _kernel(region: str, plan: Plan, position: int, drawn: _Drawn) -> Box:
    segment, source = plan.segmented.segments[position], plan.kernels[position]
    end = End(f"kernel {position}")
    read, written = bytes_read(segment), bytes_written(segment)
    moved = Row(f"moves {size(read)} in, {size(written)} out", "note")
    if source is None:
        return Box("outside", (Row("torch runs it", "title", end), moved))
    lines = [
        moved,
        Row(f"{source.blocks} blocks of {source.threads} threads", "note"),
        Row(f"{len(source.text.splitlines())} lines of CUDA C++", "note"),
    ]
    name = f"{region} kernel {position}"
    if (same := drawn.setdefault(source.text, name)) != name:
        lines.append(Row(f"the code of {same}", "note"))
    return Box("kernel", (Row(name, "title", end), *lines))


def _level(*boxes: Box) -> tuple[Box, ...]:
    """The boxes with equally many rows, so that each has its partner beside it."""
    count = max(len(box.rows) for box in boxes)
    return tuple(
        replace(box, rows=box.rows + (Row(""),) * (count - len(box.rows))) for box in boxes
    )


def _places(symbols: Iterable[Symbol]) -> str:
    """The user's lines, by file: model.py:490-593."""
    lines: dict[str, list[int]] = {}
    for symbol in symbols:
        if symbol.file and symbol.line:
            lines.setdefault(Path(symbol.file).name, []).append(symbol.line)
    spans = {file: sorted({min(found), max(found)}) for file, found in lines.items()}
    return ", ".join(f"{file}:{'-'.join(map(str, span))}" for file, span in spans.items())


def _broken(text: str) -> list[str]:
    return wrap(text, LETTERS) or [""]

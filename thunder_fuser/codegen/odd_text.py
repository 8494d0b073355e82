"""Which columns a thread has whose vectors lag behind these, as C++ text.

lag                   lanes by which its rows begin inside a vector
first                 the column of lane 0, in front of the row or in it: of a vector that is there
is_own                what the vector has is stored by this block
own_column            of which a thread stores what there is one of per column, if it `has_column`
"""

from __future__ import annotations

from thunder_fuser.analysis.odd_columns import STORED
from thunder_fuser.codegen.blocks import each, when
from thunder_fuser.codegen.cluster_text import tile_number
from thunder_fuser.codegen.statements import (
    INNER,
    NOT_KNOWN,
    form_text,
    load_text,
    number,
    statement_text,
    store_text,
    vector_type,
)
from thunder_fuser.codegen.types import index_type
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.kernel.kept_ir import KeptKernel
from thunder_fuser.kernel.statements import Accumulate
from thunder_fuser.schedule.odd_columns import OddAxes


def odd_places(kernel: KeptKernel, axes: OddAxes) -> list[str]:
    """The image of a tile, and the vector of a thread."""
    kind, lanes, width = index_type(kernel.reach), axes.lanes, number(axes.width)
    row = "part" if kernel.cluster == 1 else f"rank * {number(kernel.rows_per_block)} + part"
    if axes.row.size * axes.width % lanes:
        row = f"image * {number(axes.row.size)} + {row}"
    tiles, last = number(axes.tiles), f"({width} - 1 + lag) / {lanes} * {lanes} - lag"
    tile = tile_number(kernel)
    if kernel.group is not None:
        tile = f"turn * {number(kernel.group.size)} + group" if kernel.walks else "group"
    lines = [f"const {kind} tile = {tile};"]
    if kernel.is_uneven:
        lines.append(f"if (tile >= {number(axes.image.size * axes.tiles)}) break;")
    lines += [
        f"const {kind} image = tile / {tiles};",
        f"const int start = tile % {tiles} * {axes.stored};",
        f"const int lag = ({row}) * {width} % {lanes};",
        f"const int wanted = start + {lanes} * (place - 1) - lag;",
        f"const int first = tf::clamp(wanted, -lag, {last});",
        f"const bool is_own = first == wanted && tf::within(place - 1, {STORED});",
    ]
    if kernel.beside:
        end = f"tf::minimum(start + {axes.stored}, int({width}))"
        lines.append(f"const int summed = first == wanted ? {end} - start : 0;")
    return lines


def full_of_odd(kernel: KeptKernel, axes: OddAxes) -> list[str]:
    """What is stored of a row, and what its columns in the tile add to the sums beside. A store
    asks whether the row has all of a vector."""
    names, scope = kernel.names, kernel.full
    added = [s for s in scope.statements if isinstance(s, Accumulate)]
    made = [statement_text(s, names) for s in scope.statements if s not in added]
    if added:
        sums = [statement_text(s, names) for s in added]
        made += when(["tf::within(first + lane - start, summed)"], sums)
    lines = [load_text(a, names) for a in scope.loads]
    lines += [
        f"{kind} {name};" for name, kind in {a.name: vector_type(a) for a in scope.stores}.items()
    ]
    stores = [store_text(a, names).replace(INNER, NOT_KNOWN) for a in scope.stores]
    if added:
        stores = when(["is_own"], stores)
    return [*lines, *each("lane", axes.lanes, made), *stores]


def loads_of_columns(kernel: KeptKernel, axes: OddAxes) -> list[str]:
    """What there is of columns besides the plane: of lanes outside the row that of one inside."""
    assert axes.lane is not None
    lines = list[str]()
    for access in kernel.once:
        if access.lane is None:
            continue
        lane = f"const int lane = tf::clamp(n, -first, int({number(axes.width)}) - 1 - first);"
        place = form_text(access.offset, kernel.names)
        inside = f"[&](int n) {{ {lane} return {place}; }}"
        lines.append(
            f"const auto {access.name} = "
            f"tf::load_lanes<{access.length}, {access.access_bytes}>({access.pointer}, {inside});"
        )
    return lines


def own_column(axes: OddAxes) -> list[str]:
    """The column of a thread, one of the row where it has none."""
    lanes, width = axes.lanes, number(axes.width)
    return [
        f"const int found = start + {lanes} * (place - 1) + part % {lanes};",
        f"const int own_column = tf::clamp(found, 0, int({width}) - 1);",
        f"const bool has_column = part < {lanes} && found == own_column"
        f" && tf::within(place - 1, {STORED});",
    ]


def at_own_column(kernel: KeptKernel, axes: OddAxes) -> dict[IterDomain, str]:
    return {**kernel.names, axes.first: "own_column"}

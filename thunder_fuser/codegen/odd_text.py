"""Which columns a thread has whose vectors lag behind these, as C++ text.

lag                   lanes by which its rows begin inside a vector
first                 the column of lane 0, in front of the row or in it: of a vector that is there
is_own                what the vector has is stored by this block
own_column            of which a thread stores what there is one of per column, if it `has_column`
"""

from __future__ import annotations

from thunder_fuser.codegen.statements import INNER, NOT_KNOWN, form_text, number
from thunder_fuser.codegen.types import index_type
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.kernel.kept_ir import KeptKernel
from thunder_fuser.schedule.odd_columns import STORED, OddAxes


def odd_places(kernel: KeptKernel, axes: OddAxes, tile: str) -> list[str]:
    """The image of a tile, and the vector of a thread."""
    kind, lanes, width = index_type(kernel.reach), axes.lanes, number(axes.width)
    row = "part" if kernel.cluster == 1 else f"rank * {number(kernel.rows_per_block)} + part"
    if axes.row.size * axes.width % lanes:
        row = f"image * {number(axes.row.size)} + {row}"
    tiles, last = number(axes.tiles), f"({width} - 1 + lag) / {lanes} * {lanes} - lag"
    return [
        f"const {kind} image = {tile} / {tiles};",
        f"const int vector = {tile} % {tiles} * {STORED} + place - 1;",
        f"const int lag = ({row}) * {width} % {lanes};",
        f"const int wanted = {lanes} * vector - lag;",
        f"const int first = tf::clamp(wanted, -lag, {last});",
        f"const bool is_own = first == wanted && tf::within(place - 1, {STORED});",
    ]


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
            f"tf::load_lanes<{access.length}>({access.pointer}, {inside});"
        )
    return lines


def own_column(axes: OddAxes) -> list[str]:
    """The column of a thread, one of the row where it has none."""
    lanes, width = axes.lanes, number(axes.width)
    return [
        f"const int found = {lanes} * vector + part % {lanes};",
        f"const int own_column = tf::clamp(found, 0, int({width}) - 1);",
        f"const bool has_column = part < {lanes} && found == own_column"
        f" && tf::within(place - 1, {STORED});",
    ]


def at_own_column(kernel: KeptKernel, axes: OddAxes) -> dict[IterDomain, str]:
    return {**kernel.names, axes.first: "own_column"}


def without_inner(lines: list[str]) -> list[str]:
    """Stores ask of each vector whether the row has all of it."""
    return [line.replace(INNER, NOT_KNOWN) for line in lines]

"""The rows of a block of running sums that pass through shared memory as one stretch, as C++ text.

    rows of 3 columns      memory: a run of whole vectors  =>  shared memory  =>  a thread's rows

The stretch of a tensor begins with the vector in which the block's first element lies, so many
elements before that as `lag` says.
"""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.codegen.blocks import each, enclosed, per_lane, unrolled, when
from thunder_fuser.codegen.shared_text import arrays_in_shared
from thunder_fuser.codegen.statements import number
from thunder_fuser.codegen.types import CUDA_TYPES, index_type
from thunder_fuser.kernel.column_ir import ColumnKernel, Stretch

UNROLL = 4  # vectors of a stretch that a thread has on their way together


def stretch_places(kernel: ColumnKernel) -> list[str]:
    """Where a block's elements begin in the plane, how many they are, and where a thread's do."""
    kind, rows, width = _index(kernel), number(kernel.axes.row.size), kernel.row_width
    of_block, lanes = kernel.rows_per_block, kernel.axes.lanes
    low = f"{rows} - begin - count" if kernel.is_reversed else "begin"
    first = f"part * {kernel.batch}"
    first = f"count - 1 - {first}" if kernel.is_reversed else first
    lags = sorted({stretch.lanes for stretch in kernel.stretches})
    return [
        f"const {kind} begin = ({kind})split * {of_block};",
        f"const int count = {rows} - begin < {of_block} ? int({rows} - begin) : {of_block};",
        f"const int left = count - part * {kernel.batch};",
        f"const {kind} origin = (({kind})group * {rows} + ({low})) * {width};",
        f"const int size = count * {width};",
        f"const int at_first = ({first}) * {width} + place * {lanes};",
        *(f"const int lag{n} = int(origin % {n});" for n in lags),
    ]


def copied_stretches(kernel: ColumnKernel) -> list[str]:
    """Room for all stretches, and those that are read on their way and awaited."""
    arrays = [
        (f"{place}_stretch", CUDA_TYPES[s.access.dtype], kernel.stretch_bytes(s))
        for place, s in kernel.rooms.items()
    ]
    lines = arrays_in_shared(arrays)
    for stretch in kernel.stretches:
        if not stretch.is_stored:
            lines += _copied(stretch, kernel)
    return [*lines, "tf::commit_copies();", "tf::await_copies<0>();", "__syncthreads();"]


def place_in_stretches(kernel: ColumnKernel, row: str) -> str:
    """Where a thread's row lies behind the first element of a stretch, as a constant `at`."""
    sign = "-" if kernel.is_reversed else "+"
    return f"const int at = at_first {sign} {row} * {kernel.row_width};"


def taken(stretch: Stretch) -> str:
    """A vector of the row, as a constant of its name."""
    access = stretch.access
    kind = f"{CUDA_TYPES[access.dtype]}, {access.length}, {access.access_bytes}"
    return f"const auto {access.name} = tf::load<{kind}>({_at(stretch)});"


def put(stretch: Stretch) -> str:
    """A vector of the row that is filled, to its stretch."""
    access = stretch.access
    return f"tf::store<{access.access_bytes}>({_at(stretch)}, {access.name});"


def runs_text(
    stretches: Sequence[Stretch], kernel: ColumnKernel, begun: Sequence[str], lines: Sequence[str]
) -> list[str]:
    """What is done with each row `j` of the k-th run of a thread, whose vectors it takes whole."""
    run, lanes, width = kernel.run, kernel.axes.lanes, kernel.row_width
    is_reversed, size = kernel.is_reversed, kernel.run * kernel.row_width
    first = f"at_first - k * {size} - {size - width}" if is_reversed else f"at_first + k * {size}"
    own = f"({run - 1} - j) * {lanes} + lane" if is_reversed else f"j * {lanes} + lane"
    before, each_row = [f"const int at = {first};"], [*begun]
    after, behind = list[str](), list[str]()
    named = {stretch.access.name: stretch for stretch in stretches}
    for name, stretch in named.items():
        kind = CUDA_TYPES[stretch.access.dtype]
        each_row.append(f"tf::Vec<{kind}, {lanes}> {name};")
        if stretch.is_stored:
            before.append(f"tf::Vec<{kind}, {size}> {name}_run;")
            after += per_lane(f"{name}_run.v[{own}] = {name}.v[lane];", lanes)
            behind.append(f"tf::store<{MAX_ALIGNMENT}>({_at(stretch)}, {name}_run);")
        else:
            load = f"tf::load<{kind}, {size}, {MAX_ALIGNMENT}>({_at(stretch)})"
            before.append(f"const auto {name}_run = {load};")
            each_row += per_lane(f"{name}.v[lane] = {name}_run.v[{own}];", lanes)
    return [*before, *each("j", run, [*each_row, *lines, *after]), *behind]


def stored_stretches(kernel: ColumnKernel) -> list[str]:
    """The stretches that all threads of the block have filled, to memory."""
    stored = [s for s in kernel.stretches if s.is_stored]
    lines = ["__syncthreads();"] if stored else []
    for stretch in stored:
        lines += _emptied(stretch, kernel)
    return lines


def _copied(stretch: Stretch, kernel: ColumnKernel) -> list[str]:
    """A stretch to shared memory. What is behind the last whole vector of the plane is moved alone:
    memory may end there."""
    access, lanes, total = stretch.access, stretch.lanes, kernel.axes.size
    whole = total // lanes * lanes
    test = f"k * {lanes} < lag{lanes} + size && at + {lanes} <= {number(whole)}"
    move = f"tf::copy_async<{MAX_ALIGNMENT}>({_vectors(stretch)}, k, {access.pointer} + at);"
    lines = _over_vectors(stretch, kernel, test, move)
    if total == whole:
        return lines
    kind = _index(kernel)
    single = f"{stretch.place}_stretch[k] = {access.pointer}[{number(whole)} + threadIdx.x];"
    rest = [
        f"const {kind} k = {number(whole)} + threadIdx.x - (origin - lag{lanes});",
        f"if (k >= 0 && k < lag{lanes} + size) {single}",
    ]
    return [*lines, *when([f"threadIdx.x < {number(total - whole)}"], rest)]


def _emptied(stretch: Stretch, kernel: ColumnKernel) -> list[str]:
    """A stretch to memory: whole vectors, and the elements of those that other blocks have too."""
    access, lanes = stretch.access, stretch.lanes
    lag, last = f"lag{lanes}", lanes - 1
    test = f"k * {lanes} >= {lag} && k * {lanes} + {lanes} <= {lag} + size"
    move = f"tf::store<{MAX_ALIGNMENT}>({access.pointer} + at, {_vectors(stretch)}[k]);"
    lines = _over_vectors(stretch, kernel, test, move)
    if lanes == 1:
        return lines
    single = f"{access.pointer}[origin - {lag} + k] = {_elements(stretch)}[k];"
    ends = [
        f"const int end = {lag} + size, head = ({lag} + {last}) / {lanes} * {lanes};",
        *enclosed(
            [f"const int k = {lag} + threadIdx.x;", f"if (k < head && k < end) {single}"],
        ),
        *enclosed(
            [
                "const int k = end - 1 - int(threadIdx.x);",
                f"if (k >= head && k >= end / {lanes} * {lanes}) {single}",
            ]
        ),
    ]
    return [*lines, *when([f"threadIdx.x < {last}"], ends)]


def _over_vectors(stretch: Stretch, kernel: ColumnKernel, test: str, move: str) -> list[str]:
    lanes, kind = stretch.lanes, _index(kernel)
    vectors = kernel.stretch_bytes(stretch) // (lanes * stretch.access.dtype.itemsize)
    head = f"for (int k = threadIdx.x; k < {vectors}; k += {kernel.threads})"
    at = f"const {kind} at = origin - lag{lanes} + k * {lanes};"
    return unrolled(head, [at, f"if ({test}) {move}"], UNROLL)


def _vectors(stretch: Stretch) -> str:
    kind = f"tf::Vec<{CUDA_TYPES[stretch.access.dtype]}, {stretch.lanes}>"
    return f"reinterpret_cast<{kind}*>({stretch.place}_stretch)"


def _at(stretch: Stretch) -> str:
    """Where a row's vector lies."""
    return f"{_elements(stretch)} + (lag{stretch.lanes} + at)"


def _elements(stretch: Stretch) -> str:
    """The array, as one of elements of its tensor."""
    array, kind = f"{stretch.place}_stretch", CUDA_TYPES[stretch.access.dtype]
    return array if stretch.place == stretch.access.name else f"reinterpret_cast<{kind}*>({array})"


def _index(kernel: ColumnKernel) -> str:
    """Of a place in the plane, up to the end of the last block's stretch."""
    return index_type(kernel.reach + 2 * kernel.rows_per_block * kernel.row_width)

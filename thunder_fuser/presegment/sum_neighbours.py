"""Sum what neighbours come to over whole planes, and first over a few rows.

    T1: f32[i223, i224] = abs(sub(T0[1:], T0[:-1]));  T2: f32[r223, r224] = sum(T1, dims=[0, 1])
        =>   T3: f32[i28, i8, i224] = reshape(pad(T1, 0.0, [0, 1]))        of T0: [224, 224]
             T4: f32[i28, r8, i224] = sum(T3, dims=[1]);  T2: f32[r28, r224] = sum(T4, dims=[0, 1])

A pad that adds nothing makes the terms as many as the plane has elements: those of differences
along either side are then one kernel's, and vectors are aligned. A thread sums the terms of eight
rows in registers, so that it loads nine rows for them and not sixteen. Of rows that fill no vectors
it has a column, of up to 32 elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd, prod

from thunder_fuser.analysis.layout import MAX_ALIGNMENT, WIDE_ENOUGH
from thunder_fuser.analysis.neighbours import Reads, reads_of
from thunder_fuser.analysis.reductions import MAX_SHORT_REDUCTION, is_long, terms_of
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.presegment.stages import constants, reduced, reshaped, widened
from thunder_fuser.target import Target

MOST_ROWS = 16  # of vectors of a thread
MAX_LOADED = 160  # bytes that it has of them
MOST_ADDED = 16  # of so many terms one may be added
BUSY = 2048  # threads for each multiprocessor


@dataclass(frozen=True)
class _Sum:
    """What the terms of a sum read, and the sizes of the planes of which they are all or most."""

    tv: TensorView
    sizes: tuple[int, ...]
    reads: tuple[Reads, ...]

    @property
    def together(self) -> tuple[object, ...]:
        """What sums of one kernel have in common."""
        return self.sizes, self.tv.expr.dims()


def sum_neighbours(fusion: Fusion, target: Target) -> Fusion:
    """`fusion` with such sums, if nothing as large as their terms is stored."""
    stored = [prod(tv.shape) for tv in (*fusion.outputs, *(w.value for w in fusion.writes))]
    most = 2 * max(stored, default=0)
    found = {tv: made for tv in fusion.tensors if (made := _sum_of(tv, most)) is not None}
    kernels = dict[tuple[object, ...], list[_Sum]]()
    for made in found.values():
        kernels.setdefault(made.together, []).append(made)
    near = {k: sums for k, sums in kernels.items() if any(map(_is_of_several, sums))}
    rows = {together: _rows(sums, target.multiprocessors) for together, sums in near.items()}

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        made = found.get(tv)
        if made is None or made.together not in rows:
            return None
        return _summed(made, inputs[0], rows[made.together])

    return rewrite(fusion, rule) if rows else fusion


def _sum_of(tv: TensorView, most: int) -> _Sum | None:
    """A long sum of more terms than `most`."""
    if not (tv.is_of("sum") and is_long(tv)) or prod(terms_of(tv).shape) <= most:
        return None
    reads = reads_of(terms_of(tv))
    sizes = None if reads is None else _whole_sizes(tv, reads)
    return None if reads is None or sizes is None else _Sum(tv, sizes, reads)


def _is_of_several(made: _Sum) -> bool:
    """True where a term is made of several elements of one tensor."""
    return any(len(read.moves) > 1 for read in made.reads)


def _whole_sizes(tv: TensorView, reads: Iterable[Reads]) -> tuple[int, ...] | None:
    """The sizes of what terms are made of; None where they differ, or terms are more, as of what is
    joined to itself, or much fewer, or are fewer along a dim of the results."""
    own, sizes = terms_of(tv).shape, list[int]()
    for dim, size in enumerate(own):
        found = {known for read in reads if (known := read.sizes[dim]) is not None}
        whole = max(found, default=size)
        if len(found) > 1 or whole < size or (whole > size and dim not in tv.expr.dims()):
            return None
        sizes.append(whole)
    is_most = MOST_ADDED * (prod(sizes) - prod(own)) <= prod(own)
    return tuple(sizes) if is_most else None


def _summed(made: _Sum, source: Value, rows: tuple[int, int]) -> TensorView:
    """The sum over whole planes, first of so many rows along a dim."""
    terms, dims, (dim, count) = widened(made.tv, source), made.tv.expr.dims(), rows
    widths = list[int]()
    for k in reversed(range(terms.ndim)):
        added = made.sizes[k] - terms.shape[k]
        moves = [move for read in made.reads if read.sizes[k] is not None for move in read.along(k)]
        left = min(max((min(moves) + max(moves)) // 2, 0), added) if added else 0
        widths += (left, added - left)
    if any(widths):
        terms = call("pad", terms, sc.constant(0), pad_widths=constants(widths))
    if count == 1:
        return reduced(made.tv, terms, dims)
    sizes = made.sizes
    parts = (*sizes[:dim], sizes[dim] // count, count, *sizes[dim + 1 :])
    return reduced(made.tv, reshaped(terms, parts), (dim + 1,), dims)


def _rows(sums: Sequence[_Sum], multiprocessors: int) -> tuple[int, int]:
    """The dim along which a thread has rows of which it reads neighbours, and how many: what it
    loads of them stays in registers, and there are threads for the machine."""
    sizes, dims = sums[0].sizes, sums[0].tv.expr.dims()
    reads = [read for made in sums for read in made.reads]
    along = [k for k in dims if k < len(sizes) - 1 and any(len(set(r.along(k))) > 1 for r in reads)]
    planes = [tv for tv in dict.fromkeys(read.source for read in reads if read.sizes[-1])]
    widest = max((tv.dtype.itemsize for tv in planes), default=1)
    if not along:
        return 0, 1
    dim, lanes = max(along), gcd(MAX_ALIGNMENT // widest, sizes[-1])
    is_whole = lanes * widest >= WIDE_ENOUGH
    most = MOST_ROWS if is_whole else MAX_SHORT_REDUCTION

    def is_held(rows: int) -> bool:
        loaded = 0
        for tv in planes:
            moves = [move for read in reads if read.source is tv for move in read.along(dim)]
            loaded += (rows + max(moves) - min(moves)) * lanes * tv.dtype.itemsize
        threads = prod(sizes) // (rows * lanes)
        return loaded <= MAX_LOADED and threads >= BUSY * multiprocessors

    fitting = (r for r in range(2, 1 + most) if sizes[dim] % r == 0 and is_held(r))
    return dim, max(fitting, default=1)

"""Split sums over all columns of a plane whose columns are reduced too, and kept for that.

    T1: f32[i64, i3136] = sum(T0: f32[i64, i256, i3136], dims=[1]);  T9 = sum(T0, dims=[0, 2])
        =>   T2: f32[i64, i3136, i256] = permute(T0);  T1 = sum(T2, dims=[2])
             T3: f32[i4, i784, i64, i256] = reshape(T2);  T4: f32[i784, i4, i64, i256] = permute(T3)
             T5: f32[i784, i256] = sum(T4, dims=[1, 2]);  T9 = sum(T5, dims=[0])

A layer norm over channels, or of rows that lie side by side in memory as those of `permute(T0,
dims=[0, 2, 1])`, with sums of that or of T0. Columns that no such product numbers are padded first,
by ones that no block walks. The kept column template sums a part per block while it walks columns
(`schedule/beside_columns.py`), so that the plane is read once; the parts are summed behind it, in a
fixed order. Blocks walk side by side: with a stretch of columns each they are at more places of
memory at a time than the L2 cache keeps lines of. Rows that lie row after row are
`split_reductions.py`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.image_slots import ImagePlanes
from thunder_fuser.analysis.kept_rows import HELD as HELD_REGISTERS
from thunder_fuser.analysis.kept_rows import (
    MAX_ROW,
    KeptRows,
    are_kept_whole,
    blocks_of_image,
    sharing,
    tall_lanes,
    tall_run,
)
from thunder_fuser.analysis.layout import MAX_ALIGNMENT, Layout, output_layout, registers_of
from thunder_fuser.analysis.odd_columns import STORED, lanes_of, odd_sharing, tiles_of
from thunder_fuser.analysis.precision import behind_turns
from thunder_fuser.analysis.reductions import (
    MAX_SHORT_REDUCTION,
    WALKED,
    inputs_of_size,
    is_long_reduction,
    mark_of,
    state_bytes,
    terms_of,
)
from thunder_fuser.ir.build import call, produce
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.presegment.plane_forms import (
    form_of,
    forms_of,
    is_of_rows,
    reduced_dim,
    samples_of,
)
from thunder_fuser.presegment.split_reductions import Deal, in_two
from thunder_fuser.presegment.stages import padded, reshaped, widened
from thunder_fuser.target import (
    LINE,
    REGISTER_BYTES,
    SECTOR,
    WARP,
    Target,
    blocks_among,
    clusters_at_once,
    clusters_up_to,
)

MOST = 6  # groups of a multiprocessor, or as many as it has at a time: their parts are read again
MOST_PARTS = MAX_SHORT_REDUCTION  # of a sample, which are added by what needs their sum
IMBALANCE = 0.25  # of the time of a multiprocessor's only group: others end sooner, and of several
# groups the next one begins where one ends
BEGINNING = 0.5  # turns that a group takes longer: its first loads, and its sums in the end
ACROSS = 8  # vectors of columns that a block has at a time, more of few rows:
HELD = 2048  # vectors in all
MAX_HELD = 48 * 1024  # registers of what a block has of all rows, for which it takes fewer columns
SLACK = 1.2  # registers that the compiler takes for each that is counted
MIN_ODD = 2048  # bytes of such a row, of odd images: blocks that share fewer meet too often; a norm
# of 192 channels of 37 x 41 took 250 us for 207
MIN_IMAGES = 3  # of a multiprocessor, that are kept as a whole: a group each
MIN_WALKED = 192 * 1024  # bytes read of a plane, per multiprocessor: fewer are in the cache
UNEVEN = 1.05  # times an even deal of as many turns, where what is stored is under conditions


def walk_columns(
    fusion: Fusion,
    layouts: Mapping[TensorView, Layout],
    target: Target,
) -> Fusion:
    """`fusion`, whose inputs lie as `layouts`, with such sums in two stages. Inputs stay the same
    tensors."""
    dims: dict[tuple[int, ...], list[int]] = {}
    for tv in fusion.tensors:
        dim = reduced_dim(tv)
        if dim is not None:
            dims.setdefault(terms_of(tv).shape, []).append(dim)
    planes = {plane: _rows_of(fusion, plane, found) for plane, found in dims.items()}
    along = [tv for tv in fusion.tensors if is_of_rows(tv, planes)]
    ahead = set(topological([terms_of(tv) for tv in along]))
    sums = [tv for tv in fusion.tensors if is_long_reduction(tv) and tv not in {*ahead, *along}]
    forms = forms_of(planes, ahead)
    over = {tv: forms[form] for tv in sums if (form := form_of(tv)) in forms}
    groups: dict[tuple[int, ...], Dealt] = {}
    for plane, dim in planes.items():
        beside = [tv for tv in sums if plane in (terms_of(tv).shape, over.get(tv))]
        if any(over.get(tv) != plane for tv in beside):
            continue
        if not _needed_whole(fusion, plane).isdisjoint(beside):
            continue  # they are of rows, and what is kept for them of columns
        samples = {samples_of(tv) for tv in beside}
        if len(samples) > 1:
            continue
        count = _groups(fusion, layouts, plane, dim, beside, target)
        if count is not None:
            groups[plane] = count

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        plane = over.get(tv) or (terms_of(tv).shape if is_of_rows(tv, planes) else ())
        if plane not in groups:
            return None
        assert isinstance(inputs[0], TensorView)
        if tv in over:
            _, dim = form_of(tv)
            return _in_two(tv, inputs[0], dim, groups[plane])
        last, dim = len(plane) - 1, planes[plane]
        return None if dim == last else _of(tv, _rows_last(inputs[0], dim), (last,))

    return rewrite(fusion, rule) if groups else fusion


def _rows_of(fusion: Fusion, plane: tuple[int, ...], dims: Sequence[int]) -> int:
    """Which of the reduced `dims` of a plane are its rows. Of one image the sums over all columns
    are of one dim too: nothing of the plane's size waits for them. Where nothing waits for any,
    rows are what lies side by side."""
    whole = _needed_whole(fusion, plane)
    waited = [
        reduced_dim(tv) for tv in whole if is_long_reduction(tv) and terms_of(tv).shape == plane
    ]
    return next((dim for dim in dims if dim in waited), max(dims))


def _needed_whole(fusion: Fusion, plane: tuple[int, ...]) -> set[TensorView]:
    """What the results of a plane's size are made of."""
    return set(topological([tv for tv in fusion.roots if prod(tv.shape) == prod(plane)]))


def _groups(
    fusion: Fusion,
    layouts: Mapping[TensorView, Layout],
    plane: tuple[int, ...],
    dim: int,
    sums: Sequence[TensorView],
    target: Target,
) -> Dealt | None:
    """How the columns of a plane are dealt to blocks; None where there are no `sums` over all of
    them, the plane is small or its rows are long, or they lie row after row. Where no number of
    blocks divides them some have none in the last turn. Of images that are kept as a whole in
    registers each is a group. Of those whose rows no vector divides each has whole tiles."""
    inner = _inner(fusion, plane, dim)
    if not sums or inner is None:
        return None
    planes = inputs_of_size(fusion, prod(plane))
    itemsizes = [tv.dtype.itemsize for tv in planes]
    read, rows = sum(itemsizes), plane[dim]
    if read * prod(plane) < MIN_WALKED * target.multiprocessors:
        return None
    lanes = gcd(inner, MAX_ALIGNMENT // min(itemsizes))
    along = sum(is_of_rows(tv, {plane: dim}) for tv in fusion.tensors)
    made = [behind_turns(tv) for tv in fusion.roots if prod(tv.shape) == prod(plane)]
    turned = {tv: _is_turned(tv, layouts, rows, inner) for tv in (*planes, *made)}
    if turned and all(turned.values()):
        return None
    columns = _Columns(rows, lanes, tuple(itemsizes), along, len(sums), True in turned.values())
    vectors = prod(plane) // (rows * lanes)
    images = vectors * lanes // inner
    if (samples := samples_of(sums[0])) > 1:
        tall = columns if made or columns.is_turned else columns.as_tall()
        return _of_samples(tall, prod(plane) // (rows * tall.lanes), samples, target)
    are_many = target.copies_stretches and images >= MIN_IMAGES * target.multiprocessors
    may_pad = all(tv.expr.op.neutral is not None for tv in sums)
    if are_many and (blocks := _in_slots(fusion, turned, plane, dim, sums, inner, target)):
        walkers = ceil_div(images, ceil_div(images, blocks * target.multiprocessors))
        if may_pad or images % walkers == 0:
            return Dealt(walkers, inner)
    if are_many and read * rows <= MAX_ROW and columns.keep_images(inner, target):
        return Dealt(images, inner)
    part = 8 * len(sums) * rows / (prod(plane) * read)  # that one of each group adds to the bytes
    may_lag = may_pad and lanes == 1 and read * rows >= MIN_ODD
    if may_lag and (odd := columns.odd(inner, images, target)) is not None:
        odd_lanes, blocks, cluster = odd
        tiles, places = (
            tiles_of(inner, odd_lanes),
            clusters_at_once(cluster, target.multiprocessors),
        )
        count = _fastest(images * tiles, max(blocks, 1) * places, part, places)
        run = STORED * odd_lanes
        return None if count is None else Dealt(count, run, (inner, tiles * run))
    if not (columns.are_short or _needed_whole(fusion, plane)):
        return None  # no element waits for its column: rows are walked, with sums down them beside
    if not (cluster := columns.cluster(target)):
        return None
    return columns.shared_by(cluster).dealt(vectors, cluster, part, target, may_pad)


def _of_samples(columns: _Columns, vectors: int, samples: int, target: Target) -> Dealt | None:
    """The same of samples of as many columns, each in tiles that several groups have by turns: so
    many that the machine is full, and soonest done. None where no tiles divide a sample, or a block
    has no room for one. Tall columns have tiles of their own."""
    own = vectors // samples
    whole = next((n for n in range(columns.run, 0, -1) if own % n == 0), 0)
    run = columns.tall_run(own) if columns.is_tall else whole
    if run < columns.least or not columns.fit:
        return None
    tiles, slots = own // run, max(columns.blocks(run), 1) * target.multiprocessors

    def cost(parts: int) -> float:
        return ceil_div(samples * parts, slots) * (tiles // parts + BEGINNING)

    counts = range(2 if columns.is_tall else 1, min(tiles, MOST_PARTS) + 1)
    parts = min((n for n in counts if tiles % n == 0), key=cost, default=0)
    is_busy = 2 * samples * parts >= target.multiprocessors
    return Dealt(parts, run * columns.lanes, samples=samples) if is_busy else None


def _fastest(
    tiles: int, slots: int, part: float, places: int, is_whole: bool = True, may_pad: bool = True
) -> int | None:
    """To how many groups so many tiles are dealt, of which the machine has `slots` at a time, in
    `places` that work alone: by the turns in which some of these idle, and by what a `part` of each
    group, that is written and read again, adds to what is read. Where the last tile is not whole
    no deal is even."""

    def is_even(count: int) -> bool:
        return is_whole and tiles % count == 0

    def cost(count: int) -> float:
        turns = ceil_div(count, slots) * slots * (ceil_div(tiles, count) + BEGINNING)
        waiting = IMBALANCE * places / count
        return turns * (1 + part * count + waiting) * (1 if is_even(count) else UNEVEN)

    most = max(MOST * places, slots)
    possible = [*range(places, min(most, tiles) + 1)]
    if not may_pad:
        possible = [*filter(is_even, possible)]
    return min(possible, key=cost, default=None)


def _in_slots(
    fusion: Fusion,
    turned: Mapping[TensorView, bool | None],
    plane: tuple[int, ...],
    dim: int,
    sums: Sequence[TensorView],
    inner: int,
    target: Target,
) -> int:
    """Blocks of a multiprocessor that have images in shared memory, one after another; 0 for others
    than such images, and where more planes are stored than read."""
    read = [tv for tv in turned if tv.definition is None]
    made = [tv for tv in turned if tv not in read]
    if None in turned.values():
        return 0
    straight, stored = (Counter(tv.dtype for tv in tvs if not turned[tv]) for tvs in (read, made))
    sizes, beside = (
        tuple(tv.dtype.itemsize for tv in read if turned[tv] == way) for way in (False, True)
    )
    if stored - straight or not sizes:
        return 0
    lanes = 1 if any(turned.values()) else gcd(inner, MAX_ALIGNMENT // min(sizes))
    if not are_kept_whole(inner // lanes, inner * min((*sizes, *beside))):
        return 0
    along = [tv for tv in fusion.tensors if is_of_rows(tv, {plane: dim})]
    of_place, of_rows = (sum(map(state_bytes, tvs)) for tvs in (along, sums))
    of_row = sum(tv.dtype.itemsize for tv in inputs_of_size(fusion, plane[dim]))
    held = sizes, of_place, of_rows, of_row
    turns_out = any(turned[tv] for tv in made)
    images = ImagePlanes(
        plane[dim], inner // lanes, lanes, *held, turned=beside, turns_out=turns_out
    )
    found = images.slots(target)
    return 0 if found is None else found.blocks


def _is_turned(
    tv: TensorView, layouts: Mapping[TensorView, Layout], rows: int, inner: int
) -> bool | None:
    """Whether each image of so many `rows` of so many places lies place after place, not row after
    row; None where it lies in another way, or in both."""
    layout = layouts.get(tv) or output_layout(tv)
    if not layout.is_dense:
        return None
    along = sorted(zip(layout.strides, layout.shape, strict=True), reverse=True)
    sizes = [size for _, size in along if size != 1]
    straight = any(prod(sizes[k:]) == inner and sizes[k - 1] == rows for k in range(1, len(sizes)))
    turned = sizes[-1:] == [rows] and any(prod(sizes[k:-1]) == inner for k in range(len(sizes)))
    return turned if straight != turned else None


@dataclass(frozen=True)
class Dealt:
    """To so many `groups`, a `run` of columns at a time. Of images that are `padded` each has so
    many columns, and so many then. Each of so many `samples` has groups of its own."""

    groups: int
    run: int
    padded: tuple[int, int] | None = None
    samples: int = 1


@dataclass(frozen=True)
class _Columns:
    """Of so many `rows`, in vectors of so many `lanes`, read of planes of these `itemsizes`: all in
    registers but what is turned, where something is. Their sums `along` are known in the kernel,
    those over all columns are `beside`. Threads of `tall` columns have as many rows as they can."""

    rows: int
    lanes: int
    itemsizes: tuple[int, ...]
    along: int
    beside: int
    is_turned: bool
    is_tall: bool = False

    @property
    def run(self) -> int:
        """Vectors of columns that a block has at a time: two sectors of each row at least; 0 where
        that is too much."""
        few = 1 << max(HELD // self.rows, 1).bit_length() - 1
        run = max(WARP if self.is_tall else ACROSS, self.least, few)
        held = self.rows * (registers_of(self.itemsizes, self.lanes) + self.beside)
        while run * held > MAX_HELD and run > self.least:
            run //= 2
        return run if run * held <= MAX_HELD else 0

    def as_tall(self) -> _Columns:
        """Those of threads that have as many rows as they can."""
        return replace(self, lanes=tall_lanes(self.lanes, self.itemsizes), is_tall=True)

    def tall_run(self, own: int) -> int:
        """The same of a sample of so many vectors, which have few lanes."""
        sums = self.rows * self.beside * REGISTER_BYTES
        return tall_run(own, self.run, self.lanes * min(self.itemsizes), sums)

    def shared_by(self, cluster: int) -> _Columns:
        """Those of one of the blocks that share them."""
        return replace(self, rows=ceil_div(self.rows, cluster))

    @property
    def fit(self) -> bool:
        """True where a block has room for two sectors of each row."""
        fits = self.are_short if self.is_turned else self._column().fits_alone(self.least)
        return self.run > 0 and fits

    @property
    def are_short(self) -> bool:
        """True where a block has room for them though nothing is known of its registers."""
        return self.rows * sum(self.itemsizes) <= MAX_ROW

    def dealt(
        self, vectors: int, cluster: int, part: float, target: Target, may_pad: bool
    ) -> Dealt | None:
        """Tiles of so many vectors of columns for blocks of a cluster, as `_fastest` deals them;
        None where one has less than a sector of each row."""
        run = self.run if may_pad else min(self.run, gcd(vectors, self.run))
        if run * self.lanes * min(self.itemsizes) < SECTOR:
            return None
        at_once = max(self.blocks(run), 1 if cluster == 1 else 2)
        tiles, places = ceil_div(vectors, run), clusters_at_once(cluster, target.multiprocessors)
        count = _fastest(tiles, at_once * places, part, places, vectors % run == 0, may_pad)
        return None if count is None else Dealt(count, run * self.lanes)

    def cluster(self, target: Target) -> int:
        """How many blocks will share them, if one has no room: by the rule of the schedule
        (`analysis/kept_rows.py`), of which registers are known here. 0 where no cluster has, if
        they are not so short that a block has a sector of each row."""
        if self.fit:
            return 1
        alone = int(self.run > 0 and self.are_short)
        if self.is_turned:
            return alone
        column, wide = self._column(), sorted({max(ACROSS, self.least), self.least}, reverse=True)
        found = sharing(column, wide, clusters_up_to(target.max_cluster), column.fit_twice)
        return alone if found is None else found[-1]

    def keep_images(self, inner: int, target: Target) -> bool:
        """True for images with so many places that blocks of a cluster keep as a whole, beside
        sums over them in the registers of the only one. It was no better for 16 bits, of which as
        many bytes are twice the instructions."""
        vectors, width = inner // self.lanes, min(self.itemsizes)
        if self.is_turned or width < REGISTER_BYTES or not are_kept_whole(vectors, inner * width):
            return False
        column = self._column()
        return any(
            column.shared_by(cluster).blocks(vectors * down, down) > 0
            for down, cluster in blocks_of_image(column, vectors, target.max_cluster)
        )

    def odd(self, width: int, images: int, target: Target) -> tuple[int, int, int] | None:
        """Lanes of vectors of images of such a width whose rows are no whole ones, blocks that a
        multiprocessor has at a time, and those that share rows."""
        if self.is_turned:
            return None
        for lanes in lanes_of(self.itemsizes, self.rows, width, images, has_sums=True):
            column = replace(self, lanes=lanes)._column()
            found = odd_sharing(column, lanes, target.max_cluster, column.fit_twice, HELD_REGISTERS)
            if found is not None:
                across, down, cluster = found
                return lanes, column.shared_by(cluster).blocks(across * down, down), cluster
        return None

    @property
    def least(self) -> int:
        """Vectors of columns that are two sectors of each row."""
        return max(2 * SECTOR // (self.lanes * min(self.itemsizes)), 1)

    def blocks(self, run: int) -> int:
        """That a multiprocessor has at a time, about: two, if fewer threads side by side do it."""
        line = LINE // (self.lanes * min(self.itemsizes))
        across = min(run, line if self.is_turned else WARP, WARP)
        while self._blocks(across) < 2 and across > self.least:
            across //= 2
        return max(self._blocks(across), 1)

    def _blocks(self, across: int) -> int:
        column = self._column()
        if self.is_tall:
            return column.tall_blocks()
        down = column.threads()
        while column.may_deepen(across, down, self.is_turned):
            down *= 2
        return blocks_among(SLACK * column.registers(down), across * down)

    def _column(self) -> KeptRows:
        itemsizes = self.itemsizes[1:] if self.is_turned else self.itemsizes
        kept = registers_of(itemsizes, self.lanes)
        return KeptRows(self.rows, max(kept, 1), self.beside, (self.along + 2) * self.lanes)


def _inner(fusion: Fusion, plane: tuple[int, ...], dim: int) -> int | None:
    """Neighbours in memory of the columns of a plane, where its rows lie apart; else None."""
    if dim != len(plane) - 1:
        return prod(plane[dim + 1 :])
    along = [tv for tv in fusion.tensors if is_of_rows(tv, {plane: dim})]
    for tv in topological([terms_of(tv) for tv in along]):
        if tv.is_of("permute") and tv.shape == plane:
            (source,), last = tv.producers, tv.expr.dims()[-1]
            if last != len(plane) - 1:
                return prod(source.shape[last + 1 :])
    return None


def _rows_last(source: TensorView, dim: int) -> TensorView:
    """With the columns in their order before the rows."""
    if dim == source.ndim - 1:
        return source
    return call("permute", source, dims=(*(d for d in range(source.ndim) if d != dim), dim))


def _of(tv: TensorView, source: TensorView, dims: tuple[int, ...]) -> TensorView:
    """The reduction `tv` of another operand."""
    made = produce(tv.expr.op, [source], {"dims": dims, **mark_of(tv)})
    return reshaped(made, tv.shape)


def _in_two(tv: TensorView, source: TensorView, dim: int, dealt: Dealt) -> TensorView:
    """Part g sums every so many-th stretch of columns."""
    last = _rows_last(source, dim)
    columns, rows = prod(last.shape[:-1]), last.shape[-1]
    if dealt.samples > 1:
        return _in_samples(tv, last, dealt)
    if dealt.padded is not None:
        inner, width = dealt.padded
        images = reshaped(widened(tv, last), (columns // inner, inner, rows))
        last = padded(tv, images, width - inner, dim=1)
        columns = columns // inner * width
    made = in_two(tv, reshaped(last, (columns, rows)), Deal(dealt.groups, dealt.run))
    return reshaped(made, tv.shape)


def _in_samples(tv: TensorView, source: TensorView, dealt: Dealt) -> TensorView:
    """Part g of each sample sums every so many-th stretch of its columns. The sum of one part is
    no reduction to walk for."""
    columns, rows = prod(source.shape[:-1]), source.shape[-1]
    turns = columns // (dealt.samples * dealt.groups * dealt.run)
    sizes = dealt.samples, turns, dealt.groups, dealt.run, rows
    pieces = call("permute", reshaped(widened(tv, source), sizes), dims=(0, 2, 1, 3, 4))
    parts = produce(tv.expr.op, [pieces], {"dims": (2, 3), WALKED: columns})
    mark = {WALKED: dealt.groups} if dealt.groups > 1 else {}
    made = produce(tv.expr.op, [parts], {"dims": (1,), **mark})
    return reshaped(made, tv.shape)

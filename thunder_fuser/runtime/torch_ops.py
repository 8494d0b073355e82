"""The `tf_` functions in the `torch` expressions of op rows: what torch has no one call for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from thunder_fuser.ops.groups import counted_chunks

Number = bool | int | float | complex
Ints = Sequence[int]


def tf_div(a: Tensor, b: Tensor) -> Tensor:
    """Truncating for integers, true division otherwise."""
    exact = a.is_floating_point() or a.is_complex()
    return torch.div(a, b) if exact else torch.div(a, b, rounding_mode="trunc")


def tf_erfcinv(q: Tensor) -> Tensor:
    """Through the quantile of the normal distribution, which keeps the digits of a small q."""
    q = q if q.is_floating_point() else q.float()
    return (torch.special.ndtri(_wide(q) * 0.5) * -(0.5**0.5)).to(q.dtype)


def tf_addcmul(a: Tensor, t1: Tensor, t2: Tensor, value: Tensor) -> Tensor:
    return (_wide(a) + _wide(value) * _wide(t1) * _wide(t2)).to(a.dtype)


def tf_add_alpha(a: Tensor, b: Tensor, alpha: Tensor) -> Tensor:
    return (_wide(a) + _wide(alpha) * _wide(b)).to(a.dtype)


def tf_sub_alpha(a: Tensor, b: Tensor, alpha: Tensor) -> Tensor:
    return (_wide(a) - _wide(alpha) * _wide(b)).to(a.dtype)


def _wide(x: Tensor) -> Tensor:
    """16-bit floats as f32, in which torch and our kernels compute."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def tf_logical_right_shift(a: Tensor, b: Tensor) -> Tensor:
    """Zeros come in from the left; a distance outside [0, width) leaves 0."""
    width = 8 * a.element_size()
    legal = (b >= 0) & (b < width)
    distance = torch.where(legal, b, torch.zeros_like(b)).long()
    wide = a.long() if width == 64 else a.long() & ((1 << width) - 1)
    ones = torch.full_like(wide, -1)
    # An arithmetic shift brings in copies of the sign; clear them.
    clear = torch.where(distance > 0, ~(ones << (64 - distance).clamp(max=63)), ones)
    return torch.where(legal, (wide >> distance) & clear, torch.zeros_like(wide)).to(a.dtype)


def tf_order_key(x: Tensor) -> Tensor:
    bits = torch.where(x == 0, 0.0, x).float().view(torch.int32)
    key = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return torch.where(x.isnan(), 0x7FFFFFFF, key).long()


def tf_broadcast_in_dim(x: Tensor, shape: Ints, dims: Ints) -> Tensor:
    """A view of `shape` whose dim dims[k] is dim k of `x`."""
    return _place(x, dims, len(shape)).expand(list(shape))


def tf_broadcast(x: Tensor, flags: Sequence[bool]) -> Tensor:
    """A dim of extent 1 at every True."""
    return _place(x, [k for k, flag in enumerate(flags) if not flag], len(flags))


def _place(x: Tensor, dims: Ints, rank: int) -> Tensor:
    for dim in range(rank):
        if dim not in dims:
            x = x.unsqueeze(dim)
    return x


def tf_squeeze(x: Tensor, dims: Ints) -> Tensor:
    """Index 0 of each dim in `dims`, so expanded dims can go as well."""
    for dim in sorted(dims, reverse=True):
        x = x.select(dim, 0)
    return x


def tf_slice(x: Tensor, starts: Ints, ends: Ints, strides: Ints | None) -> Tensor:
    steps = strides if strides is not None else [1] * x.ndim
    return x[tuple(slice(*bounds) for bounds in zip(starts, ends, steps, strict=True))]


def tf_pad(x: Tensor, widths: Ints, value: Number | None) -> Tensor:
    """`widths` are (left, right) per dim, the last dim first; negative widths cut."""
    return torch.nn.functional.pad(x, list(widths), value=0 if value is None else value)


def tf_stride_order(x: Tensor, order: Ints) -> Tensor:
    """A copy laid out so that the dim with the largest entry of `order` is outermost."""
    outer_first = sorted(range(x.ndim), key=lambda dim: -order[dim])
    laid_out = x.permute(outer_first).clone(memory_format=torch.contiguous_format)
    return laid_out.permute([outer_first.index(dim) for dim in range(x.ndim)])


def tf_iota(
    length: Ints,
    start: Number | None,
    step: Number | None,
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor:
    """start + k * step for k in [0, length), computed as the kernels do: in `dtype`, or f32."""
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    first, distance = (
        torch.tensor(default if number is None else number, dtype=wide, device=device)
        for number, default in ((start, 0), (step, 1))
    )
    return (torch.arange(length[0], device=device).to(wide) * distance + first).to(dtype)


def tf_in_range(index: Tensor, extent: int) -> Tensor:
    """As torch checks an index, on a GPU without waiting for it."""
    places = torch.arange(extent, device=index.device)
    return places.index_select(0, index.long().reshape(-1)).reshape(index.shape)


def tf_index_select(x: Tensor, index: Tensor, dim: int) -> Tensor:
    return x.index_select(dim, index.long())


def tf_take_along_axis(x: Tensor, index: Tensor, dim: int) -> Tensor:
    """Not `torch.take_along_dim`, which wraps negative indices."""
    others = torch.broadcast_shapes(_unit(x.shape, dim), _unit(index.shape, dim))
    shapes = [(*others[:dim], t.shape[dim], *others[dim + 1 :]) for t in (x, index)]
    return x.expand(shapes[0]).gather(dim, index.long().expand(shapes[1]))


def _unit(shape: Ints, dim: int) -> Ints:
    return (*shape[:dim], 1, *shape[dim + 1 :])


def tf_group_order(x: Tensor, count: Ints) -> Tensor:
    """The places of the vector x in the order of its elements, those of equal ones in their own."""
    return torch.argsort(_keys(x, count[0]), stable=True)


def tf_group_keys(x: Tensor, order: Tensor, count: Ints) -> Tensor:
    """The elements of the vector x in an order."""
    return _keys(x, count[0]).index_select(0, order.long()).long()


def _keys(x: Tensor, count: int) -> Tensor:
    """x, of which each element must be below `count`, in the fewest bytes: a sort walks over its
    keys once per byte."""
    dtype = torch.int16 if count <= 2**15 else torch.int32 if count <= 2**31 else torch.int64
    return torch.arange(count, dtype=dtype, device=x.device).index_select(0, x.long())


def tf_group_ends(x: Tensor, count: Ints) -> Tensor:
    """How many elements of the sorted vector x are at most 0, 1, ... count - 1."""
    groups = torch.arange(count[0], dtype=x.dtype, device=x.device)
    return torch.searchsorted(x, groups, right=True)


def tf_digit_counts(x: Tensor, count: Ints, low: int, bits: int, chunk: int) -> Tensor:
    """How many elements of each chunk of x have each digit, whose lowest bit is `low`."""
    digits = _digits(_keys(x, count[0]), low, bits)
    chunks = torch.arange(len(x), device=x.device) // chunk
    size = counted_chunks(len(x), chunk) << bits
    return torch.bincount((chunks << bits) + digits, minlength=size).to(torch.int16)


def tf_digit_order(x: Tensor, low: int, bits: int) -> Tensor:
    """The places of x in the order of its digits, those of equal ones in their own."""
    return torch.argsort(_digits(x, low, bits), stable=True)


def tf_digit_keys(x: Tensor, low: int, bits: int) -> Tensor:
    return x[tf_digit_order(x, low, bits)].int()


def tf_digit_reorder(x: Tensor, order: Tensor, low: int, bits: int) -> Tensor:
    """Another order of the places of x by its digits; places that there are not are refused."""
    places = torch.arange(len(x), dtype=torch.int32, device=x.device)
    return places.index_select(0, order.long())[tf_digit_order(x, low, bits)]


def _digits(x: Tensor, low: int, bits: int) -> Tensor:
    return (x.long() >> low) & ((1 << bits) - 1)


def tf_group_sum(x: Tensor, order: Tensor, ends: Tensor, dim: int, skip: int) -> Tensor:
    """Through a sum that torch does in the order of its terms, also on a GPU."""
    places = torch.arange(len(order), dtype=ends.dtype, device=x.device)
    group = torch.searchsorted(ends, places, right=True)
    terms = _wide(x).index_select(dim, order.long()).movedim(dim, 0)
    sums = terms.new_zeros((len(ends), *terms.shape[1:]))
    sums = sums.index_put((group,), terms, accumulate=True)
    if 0 <= skip < len(ends):
        sums[skip] = 0
    return sums.movedim(0, dim).to(x.dtype)


def tf_pick_sum(x: Tensor, index: Tensor, dim: int, count: Ints) -> Tensor:
    """As `scatter_add` of zeros, on a GPU in no fixed order."""
    terms = _wide(x)
    sums = terms.new_zeros((*x.shape[:dim], count[0], *x.shape[dim + 1 :]))
    return sums.scatter_add(dim, index.long(), terms).to(x.dtype)


def tf_group_pieces(
    x: Tensor, order: Tensor, keys: Tensor, dim: int, skip: int, size: int
) -> Tensor:
    """The sums of `size` neighbours in the order where their keys are one, not `skip`; else 0."""
    count = len(order) // size
    keys = keys[: count * size].reshape(count, size)
    terms = _wide(x).index_select(dim, order[: count * size].long()).movedim(dim, 0)
    sums = terms.reshape(count, size, *terms.shape[1:]).sum(1, dtype=terms.dtype)
    is_one = (keys[:, 0] == keys[:, -1]) & (keys[:, 0] != skip)
    is_one = is_one.reshape(count, *[1] * (x.ndim - 1))
    return torch.where(is_one, sums, sums.new_zeros(())).movedim(0, dim)


def tf_sum(x: Tensor, dims: Ints) -> Tensor:
    return x.sum(list(dims)) if dims else x


def tf_squared_deviation(x: Tensor, dims: Ints) -> Tensor:
    distance = x - x.mean(list(dims), keepdim=True) if dims else torch.zeros_like(x)
    return tf_sum(distance * distance, dims)


def tf_exponentials(x: Tensor, dims: Ints) -> Tensor:
    top = x.amax(list(dims), keepdim=True) if dims else x
    limits = torch.finfo(x.dtype)
    return tf_sum((x - top.clamp(limits.min, limits.max)).exp(), dims)


def tf_maxima(x: Tensor, dims: Ints) -> Tensor:
    return _equals(x, tf_amax(x, dims), dims)


def tf_minima(x: Tensor, dims: Ints) -> Tensor:
    return _equals(x, tf_amin(x, dims), dims)


def _equals(x: Tensor, extremum: Tensor, dims: Ints) -> Tensor:
    """How many elements equal the extremum over `dims`."""
    for dim in sorted(dims):
        extremum = extremum.unsqueeze(dim)
    return tf_sum((x == extremum).int(), dims).int()


def tf_prod(x: Tensor, dims: Ints) -> Tensor:
    wide = _wide(x)
    for dim in sorted(dims, reverse=True):
        wide = wide.prod(dim)
    return wide.to(x.dtype)


def tf_amax(x: Tensor, dims: Ints) -> Tensor:
    return x.amax(list(dims)) if dims else x


def tf_amin(x: Tensor, dims: Ints) -> Tensor:
    return x.amin(list(dims)) if dims else x


def tf_any(x: Tensor, dims: Ints) -> Tensor:
    return x.any(list(dims)) if dims else x


def tf_all(x: Tensor, dims: Ints) -> Tensor:
    return x.all(list(dims)) if dims else x


def tf_cumsum(x: Tensor, dim: int, reverse: bool) -> Tensor:
    wide = _wide(x.flip(dim) if reverse else x).cumsum(dim)
    return (wide.flip(dim) if reverse else wide).to(x.dtype)


_MASK = 0xFFFFFFFF


def philox(seed: int, offset: int, subsequence: Tensor) -> list[Tensor]:
    """The four 32-bit words, as int64, of Philox4x32-10 at counters (offset, subsequence).

    `subsequence` is int64. Bit-equal to `tf::philox` of the device prelude.
    """
    key0, key1 = seed & _MASK, (seed >> 32) & _MASK
    like = torch.zeros_like(subsequence)
    c = [like + (offset & _MASK), like + ((offset >> 32) & _MASK)]
    c += [subsequence & _MASK, (subsequence >> 32) & _MASK]
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57  # modulo 2^64; masks drop the sign's copies
        c = [
            ((b >> 32) & _MASK) ^ c[1] ^ key0,
            b & _MASK,
            ((a >> 32) & _MASK) ^ c[3] ^ key1,
            a & _MASK,
        ]
        key0, key1 = (key0 + 0x9E3779B9) & _MASK, (key1 + 0xBB67AE85) & _MASK
    return c


def tf_philox_uniform(
    low: float,
    high: float,
    shape: Ints,
    seed: int | None,
    offset: int | None,
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor:
    """Uniform numbers in [low, high) of `dtype`, bit-equal to `tf::philox_uniform`.

    Element k (row-major) depends on (seed, offset, k) alone. Without a seed, torch's default
    generator draws it.
    """
    if seed is None or offset is None:
        return torch.empty(list(shape), dtype=dtype, device=device).uniform_(low, high)
    count = 1
    for extent in shape:
        count *= extent
    index = torch.arange(count, dtype=torch.int64, device=device)
    draw = _uniform_double if dtype is torch.float64 else _uniform_float
    return draw(float(low), float(high), int(seed), int(offset), index, dtype).reshape(list(shape))


def tf_philox_within(
    first: int, count: int, shape: Ints, seed: int, offset: int, device: torch.device
) -> Tensor:
    """True where `tf_philox_uniform` draws from one of `count` words from `first` on, behind the
    last one from 0 on."""
    index = torch.arange(math.prod(shape), dtype=torch.int64, device=device)
    return ((_words(seed, offset, index) - first & _MASK) < count).reshape(list(shape))


def _words(seed: int, offset: int, index: Tensor) -> Tensor:
    words = torch.stack(philox(seed, offset, index // 4))
    return words.gather(0, (index % 4).unsqueeze(0))[0]


def _uniform_double(
    low: float, high: float, seed: int, offset: int, index: Tensor, dtype: torch.dtype
) -> Tensor:
    words = philox(seed, offset, index // 2)
    is_odd = index % 2 == 1
    x, y = torch.where(is_odd, words[2], words[0]), torch.where(is_odd, words[3], words[1])
    u = (x ^ (y << 21)).double() * 2.0**-53 + 2.0**-54
    return torch.where(u == 1, 0.0, u) * (high - low) + low


def _uniform_float(
    low: float, high: float, seed: int, offset: int, index: Tensor, dtype: torch.dtype
) -> Tensor:
    u = _words(seed, offset, index).float() * 2.0**-32 + 2.0**-33
    scale = torch.tensor(high - low, dtype=torch.float32, device=u.device)
    shift = torch.tensor(low, dtype=torch.float32, device=u.device)
    if dtype is torch.float32:
        return torch.where(u == 1, 0.0, u) * scale + shift
    x = (u * scale + shift).to(dtype)
    ends = torch.tensor([low, high], device=u.device).to(dtype)
    return torch.where(x == ends[1], ends[0], x)


HELPERS: dict[str, Callable[..., Tensor]] = {
    name: value for name, value in globals().items() if name.startswith("tf_")
}

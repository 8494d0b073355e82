"""Where a tensor's elements lie: sizes, strides, and the offset of an index as a digit form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd, prod

from thunder_fuser.analysis.digits import ZERO, Form, add, ceil_div, scale
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.target import REGISTER_BYTES

MAX_ALIGNMENT = 16  # bytes; Hopper's widest access of one thread
WIDE_ENOUGH = 8  # bytes of an access: a warp moves two lines at a time


@dataclass(frozen=True)
class Layout:
    """Sizes and strides in elements per logical dim. `alignment` is the largest power of two, at
    most 16, that divides the address of element 0 in bytes."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    alignment: int = MAX_ALIGNMENT

    @property
    def numel(self) -> int:
        return prod(self.shape)

    @property
    def distinct(self) -> int:
        """Elements that lie in places of their own: an expanded axis counts as one element."""
        dims = zip(self.shape, self.strides, strict=True)
        return prod(size if stride or not size else 1 for size, stride in dims)

    @property
    def is_dense(self) -> bool:
        """True where the elements fill one block of memory, in some order, without overlap."""
        expected = 1
        for size, stride in sorted(zip(self.shape, self.strides, strict=True), key=lambda p: p[1]):
            if size != 1:
                if stride != expected:
                    return False
                expected *= size
        return True

    @property
    def span(self) -> int:
        """Elements between the first and one past the last."""
        reach = (max(n - 1, 0) * s for n, s in zip(self.shape, self.strides, strict=True))
        return 0 if 0 in self.shape else 1 + sum(reach)


def end_inside_word(layout: Layout, itemsize: int) -> int | None:
    """The elements up to where a tensor's memory ends, if it may do so inside a word of the widest
    access: what is behind it there may be another allocation's. None if it does not."""
    is_whole = layout.alignment == MAX_ALIGNMENT and layout.span * itemsize % MAX_ALIGNMENT == 0
    return None if is_whole else layout.span


def dense_strides(shape: Sequence[int], order: Sequence[int] | None = None) -> tuple[int, ...]:
    """Strides of a dense tensor whose dims lie in memory in `order`, outermost first."""
    strides, step = [0] * len(shape), 1
    for dim in reversed(range(len(shape)) if order is None else order):
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)


def misfit(
    order: Sequence[int],
    contiguity: Sequence[bool | None],
    sizes: Sequence[int],
    strides: Sequence[int],
) -> str | None:
    """Why a tensor of these sizes and strides cannot be bound to an allocation domain, given as its
    logical dims, outermost first, and their contiguity; None where it can.

    Strides fall in that order, an expanded dim has stride 0, and a contiguous one the stride that
    density demands. Unit dims and empty tensors have no stride to speak of.
    """
    if 0 in sizes:
        return None
    dense, wider = 1, 0
    for dim, entry in zip(reversed(order), reversed(contiguity), strict=True):
        size, stride = sizes[dim], strides[dim]
        if size == 1:
            continue
        if entry is None:
            if stride != 0:
                return f"dim {dim} is expanded (stride 0) in the definition, got stride {stride}"
            continue
        if entry and stride != dense:
            return (
                f"dim {dim} is contiguous in the definition (stride {dense}), got strides "
                f"{list(strides)} for sizes {list(sizes)}"
            )
        if stride and stride < wider:
            ranks = [len(order) - 1 - order.index(d) for d in range(len(order))]
            return f"strides {list(strides)} do not fall in the definition's stride order {ranks}"
        dense, wider = stride * size, max(stride, wider)
    return None


def allocation_order(tv: TensorView) -> list[int]:
    """The logical dims of a tensor, outermost in memory first."""
    return [tv.logical.index(a) for a in tv.domain.allocation]


def output_layout(tv: TensorView) -> Layout:
    """The dense layout in which a fresh tensor for `tv` is allocated."""
    return Layout(tv.shape, dense_strides(tv.shape, allocation_order(tv)))


def numbered(tv: TensorView) -> Layout:
    """The dense layout whose elements follow each other as the dims are numbered."""
    return Layout(tv.shape, dense_strides(tv.shape))


def offset_of(layout: Layout, index: Sequence[Form]) -> Form:
    """The element offset of a logical index."""
    return _weighted(layout.strides, index)


def linear(shape: Sequence[int], index: Sequence[Form]) -> Form:
    """The place of an element of a tensor of that shape in row-major order."""
    return _weighted(dense_strides(shape), index)


def _weighted(strides: Sequence[int], index: Sequence[Form]) -> Form:
    total = ZERO
    for stride, form in zip(strides, index, strict=True):
        total = add(total, scale(form, stride))
    return total


def bytes_of(tensors: Iterable[TensorView]) -> int:
    """Of an element of each."""
    return sum(tv.dtype.itemsize for tv in tensors)


def registers_of(itemsizes: Iterable[int], lanes: int = 1) -> int:
    """Registers of a vector of so many lanes of each tensor whose elements have so many bytes."""
    return sum(ceil_div(size * lanes, REGISTER_BYTES) for size in itemsizes)


def alignment_of(address: int) -> int:
    """The largest power of two, at most 16, that divides an address in bytes."""
    return gcd(address, MAX_ALIGNMENT) or MAX_ALIGNMENT

"""What each shape op means for the axes, and which arguments it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.programs import cat, expand, flip, ints, pad, permute, piece, reshape, total
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.domain import Flip, IterDomain, Merge, Resize, Split
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ir.text import print_type


def floats(*extents: int) -> TensorView:
    return tensor(DataType.Float, *extents)


def made_of(axis: IterDomain) -> str:
    """How an axis comes from root axes, as text: `split(merge(4, 6), 8)[1]`."""
    match axis.definition:
        case Split(source, factor):
            return f"split({made_of(source)}, {factor})[{axis.position}]"
        case Merge(outer, inner):
            return f"merge({made_of(outer)}, {made_of(inner)})"
        case Resize(source, left, right):
            return f"resize({made_of(source)}, {left}, {right})"
        case Flip(source):
            return f"flip({made_of(source)})"
        case None:
            return str(axis.extent)


def axes_of(tv: TensorView) -> list[str]:
    return [made_of(a) for a in tv.logical]


@pytest.mark.parametrize(
    ("before", "after", "axes"),
    [
        ((4, 6), (4, 6), ["4", "6"]),
        ((24,), (4, 6), ["split(24, 6)[0]", "split(24, 6)[1]"]),
        ((4, 6), (24,), ["merge(4, 6)"]),
        ((4, 6), (3, 8), ["split(merge(4, 6), 8)[0]", "split(merge(4, 6), 8)[1]"]),
        ((2, 12, 5), (2, 3, 4, 5), ["2", "split(12, 4)[0]", "split(12, 4)[1]", "5"]),
        ((6, 5), (2, 3, 5), ["split(6, 3)[0]", "split(6, 3)[1]", "5"]),
        ((4, 6), (-1,), ["merge(4, 6)"]),
        ((), (1, 1), ["1", "1"]),
    ],
    ids=str,
)  # fmt: skip
def test_reshape_merges_and_splits_the_smallest_groups(
    before: tuple[int, ...], after: tuple[int, ...], axes: list[str]
) -> None:
    assert axes_of(reshape(floats(*before), *after)) == axes


def test_a_symbolic_reshape_matches_identical_extents_from_both_ends() -> None:
    n, m = sc.symbol("n"), sc.symbol("m")
    x = tensor(DataType.Float, n, 6, m)
    made = call("reshape", x, new_shape=(n, sc.constant(2), sc.constant(3), m))
    assert axes_of(made) == ["n", "split(6, 3)[0]", "split(6, 3)[1]", "m"]


@pytest.mark.parametrize(
    ("bounds", "axis"),
    [
        ((0, 8, 1), "8"),
        ((2, 8, 1), "resize(8, -2, 0)"),
        ((2, 5, 1), "resize(8, -2, -3)"),
        ((2, 100, 1), "resize(8, -2, 0)"),  # clamped as torch does
        ((9, 100, 1), "resize(8, -8, 0)"),
        ((0, 8, 2), "split(resize(8, 0, 0), 2)[0]"),
        ((1, 8, 3), "split(resize(8, -1, 2), 3)[0]"),  # the last step reaches beyond the end
    ],
    ids=str,
)
def test_a_slice_is_a_resize_and_its_step_a_split(bounds: tuple[int, int, int], axis: str) -> None:
    assert axes_of(piece(floats(8), 0, *bounds)) == [axis]


def test_the_others() -> None:
    x = floats(4, 6)
    assert axes_of(pad(x, [1, 2])) == ["4", "resize(6, 1, 2)"]
    assert axes_of(pad(x, [0, 0, -1, 3])) == ["resize(4, -1, 3)", "6"]
    assert axes_of(flip(x, 0)) == ["flip(4)", "6"]
    assert axes_of(permute(x, 1, 0)) == ["6", "4"]
    assert axes_of(cat(x, x, dim=1)) == ["4", "12"]


def test_broadcast_axes_carry_no_data_until_something_with_data_meets_them() -> None:
    wide = expand(floats(1, 6), 4, 6)
    assert print_type(wide) == "f32[b4, i6]"
    assert print_type(call("add", wide, wide)) == "f32[b4, i6]"
    assert print_type(call("add", wide, floats(4, 6))) == "f32[i4, i6]"


def test_a_unit_axis_that_is_stretched_is_read_at_index_0() -> None:
    x, y = floats(1, 6), floats(4, 6)
    expr = call("add", x, y).definition
    assert expr is not None
    assert expr.axis_maps == ((None, 1), (0, 1))


def test_operands_align_at_the_right() -> None:
    expr = call("add", floats(6), floats(4, 6)).definition
    assert expr is not None
    assert expr.axis_maps == ((1,), (0, 1))


def test_stride_order_moves_bytes_not_axes() -> None:
    x = call("stride_order", floats(2, 3, 4), stride_order=(0, 2, 1))
    assert print_type(x) == "f32[i2, i3, i4] allocation [1, 2, 0]"


REFUSED: dict[str, tuple[Callable[[], TensorView], str]] = {
    "broadcast": (lambda: call("add", floats(2, 3), floats(2, 4)), "extents [3, 4] meet"),
    "rank of broadcast_dims": (
        lambda: call("broadcast_in_dim", floats(2, 3), shape=ints([2, 3]), broadcast_dims=(0,)),
        "broadcast_dims has 1 entries for an input of rank 2",
    ),
    "order of broadcast_dims": (
        lambda: call("broadcast_in_dim", floats(2, 3), shape=ints([3, 2]), broadcast_dims=(1, 0)),
        "must increase strictly",
    ),
    "expand": (lambda: expand(floats(2), 3), "axis of extent 2 cannot become extent 3"),
    "expand to less": (lambda: expand(floats(2, 2), 2), "expand to rank 1 of an input of rank 2"),
    "permute": (lambda: permute(floats(2, 3), 0, 0), "are not a permutation of rank 2"),
    "squeeze": (
        lambda: call("squeeze", floats(2, 3), dims=(0,), squeeze_expanded=False),
        "dim 0 has extent 2; only extent 1",
    ),
    "reshape": (lambda: reshape(floats(2, 3), 5), "reshape of 6 elements"),
    "reshape to -1 twice": (lambda: reshape(floats(2, 3), -1, -1), "only one dim"),
    "reshape to no whole -1": (lambda: reshape(floats(2, 3), 4, -1), "cannot infer -1"),
    "negative start": (lambda: piece(floats(8), 0, -1, 8), "start -1 is negative"),
    "end before start": (lambda: piece(floats(8), 0, 5, 2), "end 2 lies before start 5"),
    "step": (lambda: piece(floats(8), 0, 0, 8, 0), "stride 0 is not positive"),
    "pad": (lambda: pad(floats(8), [-5, -5]), "widths (-5, -5) leave extent -2"),
    "pad rank": (lambda: pad(floats(8), [0, 0, 0, 0]), "4 pad widths for an input of rank 1"),
    "cat ranks": (lambda: call("cat", floats(2), floats(2, 2), dim=0), "cat of ranks [1, 2]"),
    "cat extents": (lambda: cat(floats(2, 1), floats(2, 3), dim=0), "extents differ in dim 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arguments_that_contradict_each_other_are_refused(case: str) -> None:
    make, reason = REFUSED[case]
    with pytest.raises(ValueError, match=re.escape(reason)):
        make()


@settings(max_examples=200, deadline=None, derandomize=True)
@given(data=st.data(), shape=st.lists(st.integers(0, 6), min_size=1, max_size=3))
def test_shapes_are_torchs(data: st.DataObject, shape: list[int]) -> None:
    x, t = floats(*shape), torch.empty(shape)
    dim = data.draw(st.integers(0, len(shape) - 1))
    start = data.draw(st.integers(0, shape[dim]))
    end, step = data.draw(st.integers(start, 8)), data.draw(st.integers(1, 4))
    left, right = data.draw(st.integers(0, 2)), data.draw(st.integers(-1, 2))
    cut = tuple(slice(start, end, step) if d == dim else slice(None) for d in range(len(shape)))
    assert piece(x, dim, start, end, step).shape == t[cut].shape
    assert total(x, dim).shape == t.sum(dim).shape
    assert cat(x, x, dim=dim).shape == torch.cat([t, t], dim).shape
    assert reshape(x, prod(shape)).shape == (t.numel(),)
    if shape[-1] + right >= 0:  # torch cuts first
        assert pad(x, [left, right]).shape == torch.nn.functional.pad(t, [left, right]).shape

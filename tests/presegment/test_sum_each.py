"""Sums of a few rows that are made of the same, each alone."""

from __future__ import annotations

import pytest
import torch

from tests.devices import ORDERS
from tests.programs import (
    check,
    cuda_kernels,
    expand,
    fusion,
    like,
    reshape,
    total,
    unsqueeze,
    whole,
)
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.map_ir import Kernel
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.presegment.fold_sums import fold_sums
from thunder_fuser.presegment.sum_each import sum_each


def wide(tv: TensorView) -> TensorView:
    return call("cast", tv, dtype=DataType.Float)


def mixed(shape: tuple[int, int, int], dtype: torch.dtype, streams: int = 4) -> list[torch.Tensor]:
    """Streams, what is added to each, weights of both, and what gradients are of."""
    rows, columns = shape[:2], shape[2]
    own, square = (*rows, streams, columns), (streams, streams)
    shapes = [own, own, shape, square, (streams,)]
    return [whole(*sizes, dtype=dtype) for sizes in shapes]


def gradient(g: TensorView, x: TensorView, y: TensorView, a: TensorView, o: TensorView) -> Fusion:
    """Of `(a[:, :, None] * x[:, :, None]).sum(-2) + o[:, None] * y[:, :, None]`."""
    given, streams, added = unsqueeze(g, 3), unsqueeze(x, 2), unsqueeze(y, 2)
    weights = call("mul", wide(unsqueeze(a, 2)), wide(given))
    own = call("mul", wide(unsqueeze(o, 1)), wide(g))
    dx, dy = total(weights, 2), total(own, 2)
    da = total(call("mul", wide(given), wide(streams)), 0, 1, 4)
    do = total(call("mul", wide(g), wide(added)), 0, 1, 3)
    made = (call("cast", tv, dtype=g.dtype) for tv in (dx, dy, da, do))
    return fusion([g, x, y, a, o], *made)


@pytest.mark.usefixtures("device", "wide_host")
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((8, 64, 128), torch.bfloat16),
        ((3, 93, 250), torch.float32),
        ((2, 257, 129), torch.bfloat16),
    ],
)
def test_streams_are_read_once_for_all_their_gradients(
    shape: tuple[int, int, int], dtype: torch.dtype
) -> None:
    given = mixed(shape, dtype)
    plan = check(gradient(*like(*given)), *given, orders=ORDERS)
    assert plan.launches == 2


def test_one_kernel_has_a_vector_of_every_stream_and_stores_it() -> None:
    given = mixed((8, 64, 1024), torch.bfloat16)
    _, (rows, rest) = cuda_kernels(sum_each(fold_sums(gradient(*like(*given)))), *given)
    assert isinstance(rows, RowKernel)
    assert isinstance(rest, Kernel)
    assert len(rows.kept) == 9


def test_more_rows_than_a_thread_has_sums_stay() -> None:
    made = sum_each(gradient(*like(*mixed((8, 64, 256), torch.float32, streams=5))))
    sums = [tv.shape for tv in made.tensors if tv.is_of("sum")]
    assert (5, 5) in sums
    assert (5,) not in sums


def test_rows_of_their_own_terms_stay() -> None:
    (x,) = like(whole(64, 4, 2048))
    stays = fusion([x], total(call("mul", x, x), 0, 2))
    assert sum_each(stays) is stays


def test_what_is_reduced_again_stays() -> None:
    x, y = like(whole(4, 128, 1024), whole(128, 1024))
    sums = total(call("mul", x, reshape(y, 1, 128, 1024)), 1, 2)
    stays = fusion([x, y], sums, total(call("mul", sums, sums), 0))
    assert sum_each(stays) is stays


def test_channels_that_are_normed_too_stay() -> None:
    """A block that has all channels of a place sums them and over the places, of one read."""
    x, g, scale = like(whole(64, 12, 256), whole(64, 12, 256), whole(64, 1, 256))
    terms = call("mul", call("mul", x, g), expand(scale, 64, 12, 256))
    stays = fusion([x, g, scale], total(terms, 0, 2), total(call("mul", x, g), 1))
    assert sum_each(stays) is stays

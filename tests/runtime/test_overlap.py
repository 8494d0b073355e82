"""Arguments that share memory with one that is written in place."""

from __future__ import annotations

import random
from itertools import product

import pytest
import torch

from tests.programs import chain, check, flip, fusion, like, permute, piece, plan_of, stop
from thunder_fuser.ir.build import call
from thunder_fuser.runtime.overlap import may_overlap, separate

pytestmark = pytest.mark.sanitizer
ON_EVERY_DEVICE = pytest.mark.usefixtures("device")


def addresses(tensor: torch.Tensor) -> set[int]:
    item, start = tensor.element_size(), tensor.data_ptr()
    points = product(*(range(n) for n in tensor.shape))
    found = (sum(k * s for k, s in zip(p, tensor.stride(), strict=True)) for p in points)
    return {start + item * offset + byte for offset in found for byte in range(item)}


@pytest.mark.parametrize("seed", range(8))
def test_what_shares_a_byte_is_never_called_apart(seed: int) -> None:
    rng = random.Random(seed)
    storage = torch.zeros(400, dtype=rng.choice([torch.int8, torch.int16, torch.float32]))
    apart = 0
    for _ in range(300):
        pair = []
        for _ in range(2):
            shape = [rng.choice([0, 1, 2, 3]) if rng.random() < 0.3 else 2 for _ in range(3)]
            strides = [rng.choice([0, 1, 2, 4, 8, 24]) for _ in range(3)]
            pair.append(storage.as_strided(shape, strides, rng.randrange(200)))
        shares = bool(addresses(pair[0]) & addresses(pair[1]))
        assert may_overlap(*pair) or not shares
        apart += not may_overlap(*pair)
    assert apart > 100


def test_columns_and_bands_of_one_matrix_are_apart() -> None:
    x = torch.zeros(9, 6)
    assert not may_overlap(x[:, 0], x[:, 1])
    assert not may_overlap(x[:, :2], x[:, 2:])
    assert not may_overlap(x[:, ::2], x[:, 1::2])
    assert not may_overlap(x[::2], x[1::2])
    assert may_overlap(x[:, :3], x[:, 2:])
    assert may_overlap(x[1:], x[:-1])


def test_a_copy_keeps_strides_and_values() -> None:
    x = torch.randn(9, 20)
    read = x[:, ::2]
    written, copied = separate([x, read], [0])
    assert written is x
    assert copied.stride() == read.stride()
    assert torch.equal(copied, read)
    assert copied.data_ptr() != read.data_ptr()


def test_two_written_arguments_that_overlap_are_refused() -> None:
    x = torch.randn(9, 20)
    with pytest.raises(RuntimeError, match=r"arguments 0 and 1 are both written .*\(8, 20\)"):
        separate([x[1:], x[:-1]], [0, 1])


@ON_EVERY_DEVICE
def test_columns_of_one_matrix_are_both_updated() -> None:
    base = torch.randn(9, 2)
    x, y = base[:, 0], base[:, 1]
    a, b = like(x, y)
    check(fusion([a, b], writes=[(call("add", a, b), a), (call("mul", a, b), b)]), x, y)


@ON_EVERY_DEVICE
@pytest.mark.parametrize(
    "views",
    [
        lambda base: (base[1:], base[:-1]),
        lambda base: (base[:, ::2], base[:, 1::2]),
        lambda base: (base[:10, :10], base[:10, :10].t()),
        lambda base: (base[0, :10].expand(10, 10).clone(), base[3:13, 2:12]),
        lambda base: (base[3:13, 2:12], base[4, :10].expand(10, 10)),
    ],
    ids=["shifted", "interleaved", "transposed", "apart", "expanded"],
)
def test_an_update_reads_the_old_value_of_an_overlapping_argument(views: object) -> None:
    assert callable(views)
    base = torch.randn(20, 22)
    x, y = views(base)
    a, b = like(x, y)
    new = call("add", a, flip(b, 0))
    check(fusion([a, b], call("sub", a, b), writes=[(new, a)]), x, y)
    check(fusion([a, b], chain(stop(flip(b, 1)), "neg"), writes=[(new, a)]), x, y)


def test_what_is_returned_shows_the_write_and_not_the_copy(device: torch.device) -> None:
    base = torch.randn(9, 10).to(device)
    old = base.clone()
    x, y = base[1:], base[:-1]
    a, b = like(x, y)
    shown = permute(piece(b, 1, 2, 5), 1, 0)
    program = fusion([a, b], b, shown, chain(stop(shown), "neg"), writes=[(chain(a, "abs"), a)])
    whole, part, computed = plan_of(program, x, y).run(x, y)
    assert whole is y
    assert part.data_ptr() == y[:, 2:].data_ptr()
    assert torch.equal(part, y[:, 2:5].t())
    assert torch.equal(computed, -old[:-1, 2:5].t())

"""Kernels whose blocks begin at the end of memory: every element, and the sums of every row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from tests.devices import ORDERS, here
from tests.programs import (
    cat,
    chain,
    check,
    cuda_kernels,
    expand,
    fusion,
    like,
    permute,
    piece,
    stop,
    total,
    unsqueeze,
    whole,
)
from thunder_fuser import pipeline
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.runtime.targets import target_for

pytestmark = [pytest.mark.usefixtures("device", "small_cache"), pytest.mark.sanitizer]
FROM_THE_END = "gridDim.x - 1 - blockIdx.x"


@pytest.fixture
def small_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which a few KB are more than its cache keeps."""
    small = replace(target_for(here()), l2_bytes=4096, multiprocessors=8)
    monkeypatch.setattr(pipeline, "target_for", lambda device: small)


def beside_each_other(tv: TensorView) -> TensorView:
    """Columns of two kinds, in blocks of their own."""
    left, right = piece(tv, 1, 0, 200), piece(tv, 1, 200, tv.shape[1])
    return cat(chain(left, "abs"), right, dim=1)


def below_row_sums(tv: TensorView) -> TensorView:
    return call("sub", tv, expand(unsqueeze(total(tv, 1), 1), *tv.shape))


CASES: dict[str, tuple[tuple[int, int], Callable[[TensorView], TensorView]]] = {
    "elements": ((37, 301), lambda tv: chain(tv, "abs")),
    "elements of odd vectors": ((9, 1031), lambda tv: chain(tv, "abs")),
    "pieces": ((37, 501), beside_each_other),
    "squares": ((96, 160), lambda tv: chain(permute(tv, 1, 0), "abs")),
    "rows of a warp": ((131, 48), below_row_sums),
    "rows of a block": ((19, 1200), below_row_sums),
    "rows of a cluster": ((9, 40_000), below_row_sums),
    "pieces of rows": ((3, 70_001), lambda tv: total(tv, 1)),
    "rows, and a sum of them": (
        (300, 64),
        lambda tv: total(call("max", tv, dims=(1,)), 0),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_second_launch_meets_every_element(name: str) -> None:
    shape, work = CASES[name]
    x = whole(*shape)
    (a,) = like(x)
    first = stop(chain(a, "neg"))
    plan = check(fusion([a], work(first)), x, orders=ORDERS)
    forward, back = plan.segmented.segments
    assert (forward.is_reversed, back.is_reversed) == (False, True)
    assert [FROM_THE_END in source for source in plan.sources] == [False, True]


def test_a_third_launch_goes_forward_again() -> None:
    x = whole(37, 301)
    (a,) = like(x)
    made = chain(stop(chain(stop(chain(a, "neg")), "abs")), "neg")
    plan = check(fusion([a], made), x, orders=ORDERS)
    assert [FROM_THE_END in source for source in plan.sources] == [False, True, False]


def test_what_the_next_launch_finds_in_the_cache_does_not_bypass_it() -> None:
    """Of 64 MB planes on an H200."""
    x = torch.empty(4096, 4096)
    (a,) = like(x)
    _, (first, second) = cuda_kernels(fusion([a], chain(stop(chain(a, "neg")), "abs")), x)
    assert [", streaming" in str(kernel) for kernel in (first, second)] == [False, True]
    assert [", the last one first" in str(kernel) for kernel in (first, second)] == [False, True]

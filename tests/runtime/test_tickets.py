"""Whose the zeros of a launch are: a stream's, a captured call's, or on the host a call's own."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

import pytest
import torch

from tests.programs import STRICT, fusion, like, plan_of, total
from thunder_fuser.kernel.source import Source
from thunder_fuser.runtime.tickets import Reserve, tickets


def zeros(count: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.int32)


def own(count: int) -> torch.Tensor:
    """What a captured call makes for itself."""
    return torch.full((count,), -1, dtype=torch.int32)


def reserve(size: int, is_capturing: Callable[[], bool] = lambda: False) -> Reserve:
    return Reserve(zeros, own, is_capturing, size)


def overlaps(a: torch.Tensor, b: torch.Tensor) -> bool:
    first, second = sorted((a, b), key=torch.Tensor.data_ptr)
    return first.data_ptr() + 4 * len(first) > second.data_ptr()


def test_launches_of_one_stream_share_zeros_and_streams_do_not() -> None:
    made = reserve(64)
    first, second = made.take(4, 1), made.take(4, 2)
    assert made.take(3, 1).data_ptr() == first.data_ptr()
    assert not overlaps(first, second)


def test_a_stream_that_needs_more_gets_other_zeros() -> None:
    made = reserve(64)
    few, many = made.take(4, 1), made.take(8, 1)
    assert len(many) >= 8
    assert not overlaps(few, many)
    assert made.take(4, 1).data_ptr() == many.data_ptr()


def test_a_used_up_page_is_followed_by_another() -> None:
    made = reserve(8)
    found = [made.take(5, stream) for stream in range(4)]
    assert all(not overlaps(a, b) for k, a in enumerate(found) for b in found[:k])
    assert len(made.take(100, 9)) >= 100


def test_every_captured_call_has_zeros_of_its_own() -> None:
    is_capturing = [True]
    made = reserve(12, lambda: is_capturing[0])
    captured = [made.take(4, 1), made.take(4, 1)]
    is_capturing[0] = False
    found = [*captured, made.take(4, 1)]
    assert all(not overlaps(a, b) for k, a in enumerate(found) for b in found[:k])


def test_a_captured_call_makes_its_own_where_the_page_is_used_up() -> None:
    made = reserve(4, lambda: True)
    assert made.take(4, 1).tolist() == [0] * 4
    assert made.take(4, 1).tolist() == [-1] * 4


def test_threads_get_different_zeros_for_different_streams() -> None:
    made, found = reserve(1 << 12), list[torch.Tensor]()
    workers = [
        Thread(target=lambda k=k: found.extend(made.take(2, 64 * k + s) for s in range(64)))
        for k in range(8)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len({t.data_ptr() for t in found}) == 8 * 64


def test_on_the_host_each_call_has_its_own() -> None:
    take = tickets(
        Source("kernel", ("",), (), (), 1, 1, workspace_bytes=16, tickets=5), torch.device("cpu")
    )
    first, second = take(0), take(0)
    assert first.tolist() == [0] * 5
    assert first.data_ptr() != second.data_ptr()


def test_on_the_host_they_lie_there_whatever_the_default_device() -> None:
    take = tickets(
        Source("kernel", ("",), (), (), 1, 1, workspace_bytes=16, tickets=5), torch.device("cpu")
    )
    with torch.device("meta"):
        assert take(0).tolist() == [0] * 5


@pytest.mark.gpu
def test_streams_and_graphs_that_run_at_once_do_not_meet() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    x = torch.randint(-3, 4, (1 << 16, 256), device="cuda").float()
    (a,) = like(x)
    plan = plan_of(fusion([a], total(a, 0)), x, options=STRICT)
    want = x.sum(0)
    (warm,) = plan.run(x)
    torch.cuda.synchronize()
    graph, kept = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph):
        kept += [plan.run(x)[0] for _ in range(3)]
    streams = [torch.cuda.Stream() for _ in range(4)]
    found = [warm]
    for _ in range(50):
        for stream in streams:
            with torch.cuda.stream(stream):
                found.append(plan.run(x)[0])
        graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(t, want) for t in (*found, *kept))

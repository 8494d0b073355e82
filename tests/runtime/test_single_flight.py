"""One call per key at a time."""

import threading
import time

import pytest

from thunder_fuser.runtime.single_flight import SingleFlight


def test_callers_during_a_flight_share_its_result_and_the_next_flies_again() -> None:
    flights: SingleFlight[int] = SingleFlight()
    together, results = threading.Barrier(6), []
    runs = iter(range(100))

    def work() -> int:
        time.sleep(0.05)
        return next(runs)

    def ask() -> None:
        together.wait()
        results.append(flights.run("key", work))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [(0, False)] * 5 + [(0, True)]
    assert flights.run("key", work) == (1, True)


def test_different_keys_fly_at_the_same_time() -> None:
    flights: SingleFlight[None] = SingleFlight()
    together = threading.Barrier(2, timeout=5)
    threads = [
        threading.Thread(target=flights.run, args=(key, lambda: together.wait() and None))
        for key in "ab"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not together.broken


def test_an_error_is_not_remembered() -> None:
    flights: SingleFlight[int] = SingleFlight()
    with pytest.raises(ZeroDivisionError):
        flights.run("key", lambda: 1 // 0)
    assert flights.run("key", lambda: 7) == (7, True)

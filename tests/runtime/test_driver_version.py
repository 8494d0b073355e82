"""The driver's number, read."""

from __future__ import annotations

import pytest
from cuda.bindings import runtime

from thunder_fuser.runtime.driver_version import driver_version


@pytest.mark.parametrize(
    ("status", "number", "version"),
    [
        (runtime.cudaError_t.cudaSuccess, 13000, "13.0"),
        (runtime.cudaError_t.cudaSuccess, 12090, "12.9"),
        (runtime.cudaError_t.cudaSuccess, 0, None),
        (runtime.cudaError_t.cudaErrorInsufficientDriver, 13000, None),
    ],
)
def test_a_driver_is_named_by_the_cuda_it_serves(
    monkeypatch: pytest.MonkeyPatch, status: object, number: int, version: str | None
) -> None:
    monkeypatch.setattr(runtime, "cudaDriverGetVersion", lambda: (status, number))
    assert driver_version() == version

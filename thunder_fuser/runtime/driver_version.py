"""The version of the CUDA driver."""

from __future__ import annotations

from cuda.bindings import runtime


def driver_version() -> str | None:
    """The newest CUDA that the driver serves, such as 13.0; None without a driver."""
    status, number = runtime.cudaDriverGetVersion()
    if status != runtime.cudaError_t.cudaSuccess or number == 0:
        return None
    return f"{number // 1000}.{number % 1000 // 10}"

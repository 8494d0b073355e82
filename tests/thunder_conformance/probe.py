"""A pytest plugin that runs Thunder's own tests with our executor.

    pytest --noconftest -p probe -p no:cacheprovider -k thunder_fuser <thunder>/tests/test_core.py

Thunder's test framework reads its list of executors when a test module is imported. This module
replaces the list before that. Opinfo skips go by the executor's name, so those written for nvFuser
do not apply.
"""

from __future__ import annotations

from typing import Any

import pytest
import thunder.core.devices as devices
import thunder.core.dtypes as dtypes
import thunder.examine
import thunder.extend
import thunder.tests.framework as framework
import torch
from thunder.core.trace import TraceCtx

from thunder_fuser import fuser

# Single-op programs are most of these suites: they must reach a region.
OPTIONS = {"fuser_single_op": True, "fuser_shape_only": True, "fuser_evaluator": True}


# Tests that ask for something else than correct results, by name.
SKIPS = {
    "test_inplace_copy_sanity_check": "wants nvFuser's refusal; we give the read the new value",
    "test_higher_order_inplace_alias_update": "thunderfx of Thunder 0.2.6 fails on torch 2.12",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what SKIPS names."""
    for item in items:
        for name, reason in SKIPS.items():
            if item.name.startswith(name):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """The same data in every run: these tests compare with torch's default tolerance, which eager
    itself misses on unlucky data, such as a layer norm of two elements that nearly agree."""
    torch.manual_seed(42)


@pytest.fixture
def turn_off_tf32_and_set_seed() -> None:
    """The fixture of Thunder's conftest, which is left out: it wants pytest-benchmark."""
    torch.manual_seed(42)


class FuserProbe(framework.TestExecutor):  # type: ignore[misc]
    """What the framework asks of an executor under test."""

    name = "thunder_fuser"
    supported_devicetypes = (devices.DeviceType.CPU, devices.DeviceType.CUDA)
    supported_dtypes = (
        *dtypes.float_math_dtypes,
        dtypes.bool8,
        dtypes.int32,
        dtypes.int64,
        dtypes.complex64,
        dtypes.complex128,
    )

    def executors_list(self) -> list[Any]:
        return [fuser]

    def version(self) -> Any:
        return fuser.version

    def make_callable(self, fn: Any, **options: Any) -> Any:
        is_trace = isinstance(fn, TraceCtx)
        return super().make_callable(fn, **(options if is_trace else {**OPTIONS, **options}))


probe = FuserProbe()
framework._all_test_executors = lambda: [probe]
framework.nvFuserExecutor = probe
framework.NVFUSER_AVAILABLE = torch.cuda.is_available()
thunder.examine.warn_fusions = lambda: False
thunder.extend.set_default_executors([fuser])

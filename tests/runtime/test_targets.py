"""Devices and their targets."""

from __future__ import annotations

import pytest
import torch

from thunder_fuser.runtime.targets import target_for
from thunder_fuser.target import HOST


def test_cpu_tensors_run_on_the_host() -> None:
    assert target_for(torch.device("cpu")) is HOST


def test_other_devices_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="no target for tensors on meta"):
        target_for(torch.device("meta"))

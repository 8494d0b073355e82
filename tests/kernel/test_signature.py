"""The parameters of a kernel print in the order of a launch."""

from __future__ import annotations

from thunder_fuser.dtypes import DataType
from thunder_fuser.kernel.signature import Pointer, ScalarParameter, print_parameters


def test_pointers_come_before_scalars() -> None:
    read = Pointer("T0", DataType.BFloat16, is_written=False, is_read=True)
    written = Pointer("T3", DataType.Float, is_written=True, is_read=False)
    scalar = ScalarParameter("s0", DataType.Double)
    assert print_parameters([read, written], [scalar]) == "T0: bf16*, T3: f32*, s0: f64"


def test_a_kernel_may_have_none() -> None:
    assert print_parameters([], []) == ""

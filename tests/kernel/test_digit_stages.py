"""Kernels of stages: what is called, in how many blocks."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.programs import H200
from tests.schedule.test_digit_stages import STAGES
from thunder_fuser.kernel.digit_stages import DigitKernel, lower_digits
from thunder_fuser.schedule import digit_stages

PRINTED = {
    "counts": """\
        digit kernel(T0: i64*, T1: i16*) 128 blocks of 1024 threads
          index of place
            T0_0: i64 = T0[place]
          count_digits<0, 9, 1024, 1024, 1024>(index, 5000, 200000, T1)""",
    "first": """\
        digit kernel(T0: i64*, T1: i16*, T2: i32*, T3: i32*) 5 blocks of 1024 threads
          index of place
            T0_0: i64 = T0[place]
          put_digits<0, 9, 1024, 1024, 1024, 128>(index, nullptr, 5000, T1, 128, T2, T3)""",
    "second": """\
        digit kernel(T0: i32*, T1: i16*, T2: i32*, T3: i32*, T4: i32*) 5 blocks of 1024 threads
          index of place
            T0_0: i32 = T0[place]
            T0_1: i64 = convert(T0_0, i64)
          put_digits<9, 9, 1024, 1024, 1024, 128>(index, T2, 5000, T1, 128, T3, T4)""",
    "ends": """\
        digit kernel(T0: i32*, T1: i64*) 196 blocks of 256 threads
          find_ends<256, 4>(T0, 5000, 200000, T1)""",
}


def lowered(case: str) -> DigitKernel:
    return lower_digits(digit_stages.schedule(STAGES[case][0], H200), strict=False)


@pytest.mark.parametrize("case", STAGES)
def test_a_stage_is_a_call_of_a_device_function(case: str) -> None:
    assert str(lowered(case)) == dedent(PRINTED[case])


def test_counts_are_of_empty_chunks_too() -> None:
    """Those who read them test for none."""
    assert (lowered("counts").blocks, lowered("first").blocks) == (128, 5)

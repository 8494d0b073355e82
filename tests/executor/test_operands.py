"""What stand-ins ask of their operands."""

from __future__ import annotations

import pytest
import thunder.core.dtypes as dtypes

from thunder_fuser.executor.operands import is_ours, is_whole, wide_type


def test_a_number_is_no_tensor() -> None:
    assert not is_whole(3.0)
    assert not is_ours(3.0)


@pytest.mark.parametrize(
    ("found", "wide"),
    [
        ((dtypes.bfloat16, dtypes.float32), dtypes.float32),
        ((dtypes.float16, dtypes.float64), dtypes.float64),
    ],
)
def test_sums_are_made_in_32_bits_at_least(
    found: tuple[dtypes.dtype, ...], wide: dtypes.dtype
) -> None:
    assert wide_type(*found) is wide

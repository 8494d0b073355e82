"""The key and the bytes of an entry of the kernel cache."""

from __future__ import annotations

import pytest

from tests import fresh
from tests.runtime.cached import KEY, entry
from thunder_fuser.runtime.cache_entry import CorruptEntry, cache_key, decode, encode


@pytest.mark.parametrize(
    "changed",
    [
        ("text ", ("-O1",), "sm_90a", "nvrtc 13.0"),
        ("text", ("-O2",), "sm_90a", "nvrtc 13.0"),
        ("text", ("-O1",), "sm_90", "nvrtc 13.0"),
        ("text", ("-O1",), "sm_90a", "nvrtc 13.1"),
        ("text", ("-", "O1"), "sm_90a", "nvrtc 13.0"),
        ("-O1text", (), "sm_90a", "nvrtc 13.0"),
    ],
)
def test_every_part_of_the_key_counts(changed: tuple[str, tuple[str, ...], str, str]) -> None:
    assert cache_key(*changed) != KEY


def test_the_key_is_the_same_in_a_process_with_another_hash_seed() -> None:
    code = (
        "from thunder_fuser.runtime.cache_entry import cache_key;"
        "print(cache_key('text', ('-O1',), 'sm_90a', 'nvrtc 13.0'))"
    )
    assert fresh.output(code, environment={"RANK": "1"}) == f"{KEY}\n"


def test_every_flipped_bit_and_every_truncation_is_noticed() -> None:
    data = encode(entry())
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << (position % 8)
        with pytest.raises(CorruptEntry):
            decode(bytes(flipped), KEY)
        with pytest.raises(CorruptEntry):
            decode(data[:position], KEY)

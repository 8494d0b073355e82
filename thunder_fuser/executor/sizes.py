"""Counts of bytes as people read them."""

from __future__ import annotations


def size(count: int) -> str:
    """Bytes for people: 1536 => 1.5 KiB."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} GiB"

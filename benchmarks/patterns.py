"""The patterns that are measured at shapes drawn at random, by name."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks import image_patterns, plain_patterns, row_patterns, token_patterns
from benchmarks.pattern import Pattern

PATTERNS: Mapping[str, Pattern] = {
    **image_patterns.PATTERNS,
    **plain_patterns.PATTERNS,
    **row_patterns.PATTERNS,
    **token_patterns.PATTERNS,
}

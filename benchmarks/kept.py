"""`python -m benchmarks.kept`: what `python -m benchmarks --limit` starts and watches."""

from __future__ import annotations

import sys
import time

from benchmarks import process

BEGUN = time.monotonic()

if __name__ == "__main__":
    process.die_with_parent()
    from benchmarks import command  # first of all it can be ended

    sys.exit(command.main(sys.argv[1:], BEGUN))

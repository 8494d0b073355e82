"""`python -m benchmarks`: measure, write rows, stop.

With `--limit` another process measures, so that this one can end what hangs and go on behind it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from benchmarks import keeper

BEGUN = time.monotonic()


def main(argv: Sequence[str]) -> int:
    """Returns the exit status; `--help` tells of it."""
    limits = keeper.limits(argv)
    if limits.step is not None:
        return keeper.keep(argv, limits, BEGUN)
    from benchmarks import command  # which imports torch and Thunder: seconds, for nothing above

    return command.main(argv, BEGUN)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

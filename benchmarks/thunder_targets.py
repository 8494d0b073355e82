"""Point Thunder's own benchmarks at our executor.

    python -m benchmarks.thunder_targets targets -k "litgpt_swiglu and thunder"
    python -m benchmarks.thunder_targets litgpt --compile thunder --model_name pythia-1.4b

They compile with Thunder's default executors. These become ours and attention's (cudnn, sdpa); what
follows the first word goes to pytest or to the script.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence

ATTENTION = ("cudnn", "sdpa")
PYTEST = 8  # the last major release that reads the parametrize marks of Thunder 0.2.6
_USAGE = "usage: python -m benchmarks.thunder_targets targets|litgpt ..."


def main(argv: Sequence[str]) -> int:
    """Returns pytest's or the script's exit status, 2 for a wrong call."""
    if not argv or argv[0] not in ("targets", "litgpt"):
        print(f"{_USAGE}\n\n{__doc__}", file=sys.stderr)
        return 2
    use_ours()
    if argv[0] == "targets":
        return _targets(argv[1:])
    sys.argv = ["benchmark_litgpt.py", *argv[1:]]
    runpy.run_module("thunder.benchmarks.benchmark_litgpt", run_name="__main__")
    return 0


def use_ours() -> None:
    """Let `thunder.jit` use our executor where it is given none."""
    import thunder
    from thunder.extend import get_default_executors, set_default_executors

    from thunder_fuser import fuser

    assert thunder.__version__  # its import sets the defaults
    kept = [executor for executor in get_default_executors() if executor.name in ATTENTION]
    set_default_executors([fuser, *kept])


def _targets(arguments: Sequence[str]) -> int:
    import pytest

    if int(pytest.__version__.partition(".")[0]) > PYTEST:
        print(
            f"Thunder's targets need pytest {PYTEST}, this is {pytest.__version__}: "
            f"pip install 'pytest<{PYTEST + 1}' pytest-benchmark, or tox run -e thunder",
            file=sys.stderr,
        )
        return 2
    return int(pytest.main(["--pyargs", "thunder.benchmarks.targets", *arguments]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

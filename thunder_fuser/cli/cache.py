"""`cache`: look at the kernels on disk and at what was found to be fast, check them, drop them."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from thunder_fuser.cli.text import add_json, show
from thunder_fuser.executor.sizes import size
from thunder_fuser.options import current
from thunder_fuser.runtime.choices import choices_of
from thunder_fuser.runtime.disk_cache import DiskCache, disk_cache

_EXAMPLES = """examples:
  python -m thunder_fuser cache stats
  python -m thunder_fuser cache verify              exit status 1 if an entry was damaged
  python -m thunder_fuser cache prune --max-bytes 100000000
  python -m thunder_fuser cache clear --dir /tmp/kernels
  python -m thunder_fuser cache tuned --json > tuned.json
  THUNDER_FUSER_TUNED=tuned.json THUNDER_FUSER_TUNE=off python train.py
"""


def add(commands: Any) -> None:
    """Describe the command to argparse."""
    parser = commands.add_parser(
        "cache",
        help="statistics, verification and removal of the kernels on disk",
        description="The kernels on disk: compiled code by the hash of its text and toolchain; and "
        "the parameters that were fastest where kernels were timed.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("act", choices=tuple(_ACTS), help="what to do")
    parser.add_argument("--dir", help="the cache directory (default: THUNDER_FUSER_CACHE_DIR's)")
    parser.add_argument(
        "--max-bytes", type=int, help="prune: how much may stay (default: the size limit)"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what is asked with the cache in use. Raises RuntimeError where there is none."""
    options = current()
    if arguments.dir is not None:
        options = options.with_values(cache_dir=arguments.dir)
    if options.cache == "off":
        options = replace(options, cache="rw")  # asked for by name, so it is looked at
    cache = disk_cache(options)
    if cache.mode == "off":
        raise RuntimeError(f"the cache directory {cache.directory.parent} cannot be used")
    found, status = _ACTS[arguments.act](cache, arguments.max_bytes)
    show({"directory": str(cache.directory), **found}, arguments.json)
    return status


_Found = tuple[dict[str, object], int]


def _stats(cache: DiskCache, max_bytes: int | None) -> _Found:
    statistics = cache.statistics()
    return {
        "mode": cache.mode,
        "entries": statistics.entries,
        "bytes": statistics.bytes,
        "size": f"{size(statistics.bytes)} of at most {size(cache.max_bytes)}",
    }, 0


def _verify(cache: DiskCache, max_bytes: int | None) -> _Found:
    entries = cache.statistics().entries
    faults = cache.verify()
    return {"entries": entries, "damaged": len(faults), **faults}, 1 if faults else 0


def _prune(cache: DiskCache, max_bytes: int | None) -> _Found:
    return {"freed": cache.prune(max_bytes), "entries": cache.statistics().entries}, 0


def _clear(cache: DiskCache, max_bytes: int | None) -> _Found:
    return {"freed": cache.clear(), "entries": cache.statistics().entries}, 0


def _tuned(cache: DiskCache, max_bytes: int | None) -> _Found:
    return {"choices": choices_of(cache)}, 0


_ACTS = {
    "stats": _stats,
    "verify": _verify,
    "prune": _prune,
    "clear": _clear,
    "tuned": _tuned,
}

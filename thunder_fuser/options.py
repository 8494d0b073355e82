"""The options, and the one place that reads `THUNDER_FUSER_*` and `fuser_*` keywords.

Each field of `Options` is one option: its name, type, default, how it is parsed, and what it does.
`cache_dir` is `THUNDER_FUSER_CACHE_DIR` in the environment and `fuser_cache_dir=` in `thunder.jit`.
Options are plain frozen values: who needs one is handed it, and they can be part of a cache key.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import Field, dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any

from thunder_fuser.log import TOPICS

PREFIX = "THUNDER_FUSER_"
KEYWORD = "fuser_"
LOG_TOPICS = tuple(TOPICS)

_Parser = Callable[[object], object]


def _one_of(*legal: str) -> _Parser:
    def parse(value: object) -> object:
        if value not in legal:
            raise ValueError(f"one of {', '.join(legal)}")
        return value

    return parse


def _boolean(value: object) -> object:
    words = {"1": True, "true": True, "on": True, "yes": True}
    words |= {"0": False, "false": False, "off": False, "no": False}
    if isinstance(value, bool):
        return value
    if str(value).lower() not in words:
        raise ValueError(f"one of {', '.join(words)}")
    return words[str(value).lower()]


def _integer(minimum: int, *, or_none: bool = False) -> _Parser:
    def parse(value: object) -> object:
        if or_none and value in (None, "", "none"):
            return None
        text = str(value).strip()
        if isinstance(value, (bool, float)) or not text.lstrip("-").isdigit():
            raise ValueError(f"an integer of at least {minimum}{' or none' if or_none else ''}")
        if int(text) < minimum:
            raise ValueError(f"an integer of at least {minimum}")
        return int(text)

    return parse


def _path(value: object) -> object:
    if value in (None, ""):
        return None
    if not isinstance(value, (str, os.PathLike)):
        raise ValueError("a path")
    return os.path.abspath(os.path.expanduser(os.fspath(value)))


def _topics(value: object) -> object:
    words = value.split(",") if isinstance(value, str) else value
    legal = (*LOG_TOPICS, "all", "help")
    if not isinstance(words, (list, tuple)):
        raise ValueError(f"some of {', '.join(legal)}, separated by commas")
    topics = [str(word).strip() for word in words if str(word).strip()]
    if not set(topics) <= set(legal):
        raise ValueError(f"some of {', '.join(legal)}, separated by commas")
    return LOG_TOPICS if "all" in topics else tuple(topics)


def _option(default: object, parse: _Parser, doc: str) -> Any:
    return field(default=default, metadata={"parse": parse, "doc": doc})


@dataclass(frozen=True)
class Options:
    """All options of one compilation. Hashable; two equal values compile the same kernels."""

    cache: str = _option("rw", _one_of("rw", "ro", "off"), "use of the kernel cache on disk")
    cache_dir: str | None = _option(
        None, _path, "where that cache lies; none is the user's cache directory"
    )
    cache_max_bytes: int = _option(
        2 << 30, _integer(0), "size at which the least recently used entries are dropped"
    )
    strict: bool = _option(False, _boolean, "keep every rounding point of the trace")
    fuel: int | None = _option(
        None, _integer(0, or_none=True), "how many regions may still be fused, to bisect a fault"
    )
    dump: str | None = _option(
        None, _path, "directory that receives the text of every stage of every region"
    )
    log: tuple[str, ...] = _option((), _topics, "topics to log, or 'all', or 'help'")
    progress: str = _option(
        "auto", _one_of("auto", "on", "off"), "show the progress of long compilations"
    )
    compile_jobs: int | None = _option(
        None, _integer(1, or_none=True), "threads that compile, at most 8; one per core if none"
    )
    ranges: str = _option(
        "off",
        _one_of("off", "nvtx", "profiler"),
        "show regions and segments as ranges, in Nsight Systems or in torch.profiler",
    )
    check: str = _option(
        "off",
        _one_of("off", "nan", "bounds", "eager"),
        "debugging: synchronise after each launch and check the results",
    )
    fallback: bool = _option(False, _boolean, "run torch where generating a kernel fails")
    static_kernels: int = _option(
        2,
        _integer(1),
        "sets of literals a kernel may have before the changing ones become parameters",
    )
    thread_order: str = _option(
        "forward",
        _one_of("forward", "reverse", "shuffled"),
        "order in which the host target runs blocks and threads",
    )
    shape_only: bool = _option(
        False, _boolean, "fuse regions of shape ops too, which torch runs as views"
    )
    single_op: bool = _option(False, _boolean, "fuse regions of one op too, for tests")
    rematerialize: bool = _option(
        True, _boolean, "recompute in a later region what is cheaper than to hand over"
    )
    evaluator: bool = _option(
        False, _boolean, "run segments through torch operations instead of kernels"
    )
    tune: str = _option(
        "on",
        _one_of("on", "off", "always"),
        "time kernels with other parameters at the first call: on GPUs, never, on the host too",
    )
    tune_bytes: int = _option(
        4 << 20, _integer(0), "bytes moved by a kernel below which it is not timed"
    )
    tune_ms: int = _option(300, _integer(1), "milliseconds that timing may take in a plan")
    tuned: str | None = _option(
        None, _path, "file of chosen parameters, which are taken before any other"
    )
    alias: str = _option(
        "view",
        _one_of("view", "copy"),
        "return views where torch does, or give every output storage of its own",
    )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Options:
        """The defaults overridden by `THUNDER_FUSER_*`. Raises ValueError for a bad value."""
        environment = os.environ if environment is None else environment
        given = {key: value for key, value in environment.items() if key.startswith(PREFIX)}
        return _override(cls(), given, PREFIX, str.upper)

    def with_keywords(self, **keywords: object) -> Options:
        """These options overridden by `fuser_*` keywords. Raises ValueError for a bad value.

        Options(), fuser_cache="off"  =>  Options(cache="off")
        """
        return _override(self, keywords, KEYWORD, str.lower)

    def with_values(self, **values: object) -> Options:
        """These options overridden by name. Raises ValueError for a bad value."""
        return _override(self, values, "", str.lower)


def difference(old: Options, new: Options) -> str:
    """The first option in which two differ, and its earlier value: `strict is True, was False`."""
    for option in fields(Options):
        before, now = getattr(old, option.name), getattr(new, option.name)
        if before != now:
            return f"option {option.name} is {now!r}, was {before!r}"
    return "nothing differs"


def non_defaults(options: Options) -> dict[str, object]:
    """The options that differ from their defaults, by name."""
    values = {option.name: getattr(options, option.name) for option in fields(Options)}
    return {k: v for k, v in values.items() if v != getattr(Options(), k)}


def help_text() -> str:
    """One line per option: its key, its default, what it does."""
    return "\n".join(
        f"{PREFIX + option.name.upper():<32} {option.default!s:<12} {option.metadata['doc']}"
        for option in fields(Options)
    )


_met: dict[Options, Options] = {}  # equal options are one object: a steady call compares them
_scoped: ContextVar[Options | None] = ContextVar("thunder_fuser_options", default=None)


def current() -> Options:
    """The options of the innermost `with options(...)` of this thread, else the environment's.

    Other threads (autograd's, for one) do not see the block, so a compiled callable keeps the
    options it was made with.
    """
    return _scoped.get() or Options.from_environment()


@contextmanager
def options(**values: object) -> Iterator[Options]:
    """Options for the code of a `with` block: `with options(strict=True): ...`."""
    token = _scoped.set(current().with_values(**values))
    try:
        yield current()
    finally:
        _scoped.reset(token)


def _override(
    base: Options, given: Mapping[str, object], prefix: str, spell: Callable[[str], str]
) -> Options:
    known = {prefix + spell(option.name): option for option in fields(Options)}
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key in known:
            values[known[key].name] = _parse(key, known[key], value)
        else:
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            warnings.warn(f"unknown option {key} is ignored; {hint}", stacklevel=4)
    made = replace(base, **values)
    return _met.setdefault(made, made)


def _parse(key: str, option: Field[Any], value: object) -> object:
    try:
        return option.metadata["parse"](value)
    except ValueError as error:
        raise ValueError(f"{key}={value!r} is not legal: it has to be {error}") from None

"""The options of one compilation: the one place that reads keywords of `thunder.jit`."""

from __future__ import annotations

from dataclasses import dataclass

from thunder.core.compile_data import get_compile_data, get_compile_option

from thunder_fuser import log
from thunder_fuser.executor.partition import FUSION_TYPES
from thunder_fuser.options import KEYWORD, Options, current


@dataclass(frozen=True)
class Settings:
    """Our own options, and those that Thunder's executors share."""

    options: Options
    fusion_type: str = "consecutive"


def read_settings() -> Settings:
    """The settings of the compilation in progress: the environment's, overridden by keywords.

    Unknown `fuser_*` keywords warn. Outside a compilation the environment alone counts.
    """
    data = get_compile_data()
    given = data.compile_options if data is not None else {}
    keywords = {key: value for key, value in given.items() if key.startswith(KEYWORD)}
    for key in keywords:
        get_compile_option(key, "Option of thunder_fuser; see thunder_fuser.options.")
    fusion_type = get_compile_option(
        "fusion_type", f"How regions are formed: {' or '.join(FUSION_TYPES)}."
    )
    options = current().with_keywords(**keywords)
    log.enable(options.log)
    return Settings(options, fusion_type or "consecutive")

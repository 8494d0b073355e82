"""Events, one line each, through Python's `logging`: one logger `thunder_fuser.<topic>` per topic.

A program that configures logging itself sees them as usual. The option `log` turns topics on for
the rest of the process and, where nothing shows messages yet, has them written to stderr.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

PACKAGE = "thunder_fuser"

TOPICS = {
    "claim": "which symbols of a trace are fused, and why others are not",
    "segment": "where a region is cut, and why",
    "cache": "where definitions and kernels came from",
    "recompile": "which part of the arguments made another plan necessary",
    "codegen": "which kernels were generated: grid, parameters, size",
    "tune": "which parameters of a kernel were fastest, and the times of all",
    "launch": "every launch of a plan made while this is on",
    "memory": "bytes that a plan allocates",
    "timing": "how long the stages of a plan took to make",
}


def enable(topics: Sequence[str]) -> None:
    """Show these topics from now on; `help` prints what there is."""
    for topic in topics:
        if topic == "help":
            print(help_text(), file=sys.stderr)
        else:
            logging.getLogger(f"{PACKAGE}.{topic}").setLevel(logging.INFO)
    if topics and not logging.getLogger(PACKAGE).hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        logging.getLogger(PACKAGE).addHandler(handler)


def help_text() -> str:
    """One line per topic."""
    return "\n".join(f"{topic:<10} {meaning}" for topic, meaning in TOPICS.items())


def is_on(topic: str) -> bool:
    """Whether an event of the topic would be shown; ask before building a long text."""
    return logging.getLogger(f"{PACKAGE}.{topic}").isEnabledFor(logging.INFO)


def event(topic: str, message: str, *values: object) -> None:
    """One line about something that happened; `values` fill the `%s` of `message`."""
    assert topic in TOPICS, topic
    logging.getLogger(f"{PACKAGE}.{topic}").info(message, *values)

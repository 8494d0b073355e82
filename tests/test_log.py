"""The log: topics turn on, one line per event, help."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import torch

from tests.executor.jitted import jit
from tests.frontend.fusions import example
from thunder_fuser import log
from thunder_fuser.frontend import FusionCache, FusionDefinition
from thunder_fuser.options import LOG_TOPICS, Options
from thunder_fuser.program import Program
from thunder_fuser.runtime.choices import CHOICES


@pytest.fixture(autouse=True)
def quiet_afterwards() -> Iterator[None]:
    package = logging.getLogger(log.PACKAGE)
    before = list(package.handlers)
    yield
    for topic in log.TOPICS:
        logging.getLogger(f"{log.PACKAGE}.{topic}").setLevel(logging.NOTSET)
    package.handlers = before


def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cumprod(torch.exp(x) * y, 0)


def lines(caplog: pytest.LogCaptureFixture, topic: str) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == f"thunder_fuser.{topic}"]


def test_nothing_is_said_unless_a_topic_is_on(caplog: pytest.LogCaptureFixture) -> None:
    jit(program)(torch.randn(3, 5), torch.randn(3, 5))
    assert not [r for r in caplog.records if r.name.startswith("thunder_fuser.")]


def test_every_topic_has_its_lines(caplog: pytest.LogCaptureFixture) -> None:
    CHOICES.clear()
    timed = {"fuser_tune": "always", "fuser_tune_bytes": 0, "fuser_tune_ms": 1}
    jfn = jit(program, fuser_log="all", fuser_evaluator=False, fuser_cache="off", **timed)
    for columns in (5, 6):
        jfn(torch.randn(3, columns), torch.randn(3, columns))
    assert set(LOG_TOPICS) == set(log.TOPICS)
    told = {topic: "\n".join(lines(caplog, topic)) for topic in LOG_TOPICS if topic != "recompile"}
    assert all(told.values()), told
    assert "TF0: exp, mul" in told["claim"]
    assert "outside: cumprod: no rule for cumprod" in told["claim"]
    assert "TF0: segment 0 (kernel; the region): reads T0, T1" in told["segment"]
    assert "TF0 segment 0: 2 blocks of 128 threads, 3 parameters" in told["codegen"]
    assert "TF0: 60 bytes allocated, 0 of them between segments" in told["memory"]
    assert "region TF0, segment 0 of 1: 2 blocks of 128 threads" in told["launch"]
    assert told["timing"].startswith("TF0: fusion after 0.")
    assert "kernel " in told["cache"]
    assert "MapParameters(threads=256, " in told["tune"]
    assert not any("\n" in r.getMessage() for r in caplog.records)


def test_one_topic_leaves_the_others_quiet(caplog: pytest.LogCaptureFixture) -> None:
    jit(program, fuser_log="segment")(torch.randn(4, 5), torch.randn(4, 5))
    assert {r.name for r in caplog.records} == {"thunder_fuser.segment"}


def test_a_recompile_names_the_first_field_that_changed(caplog: pytest.LogCaptureFixture) -> None:
    with FusionDefinition(cache=FusionCache(Program)) as fd:
        (a,) = example(fd, torch.randn(3, 5))
        fd.add_output(fd.ops.exp(a) * 0.5)
    options = Options(log=("recompile",), evaluator=True)
    storage = torch.randn(64)
    fd.execute([storage[:15].view(3, 5)], options=options)
    fd.execute([storage[:21].view(3, 7)], options=options)
    fd.execute([storage[1:22].view(3, 7)], options=options)
    fd.execute([storage[1:22].view(3, 7)], options=options)
    strict = Options(log=("recompile",), evaluator=True, strict=True)
    fd.execute([storage[1:22].view(3, 7)], options=strict)
    found = lines(caplog, "recompile")
    assert [line.partition(": ")[2] for line in found] == [
        "plan 2: shape of argument 0 is (3, 7), was (3, 5)",
        "plan 3: address modulo 16 of argument 0 is 4, was 0",
        "plan 4: option strict is True, was False",
    ]
    assert list(fd.leaf.program.recompiles) == [line.split(": ", 2)[2] for line in found]


def test_help_prints_every_topic(capsys: pytest.CaptureFixture[str]) -> None:
    log.enable(("help",))
    printed = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in printed] == list(log.TOPICS)


def test_a_program_without_logging_of_its_own_gets_lines_on_stderr() -> None:
    root = logging.getLogger()
    handlers, root.handlers = root.handlers, []
    try:
        log.enable(("cache",))
        log.enable(("launch",))
        assert len(logging.getLogger(log.PACKAGE).handlers) == 1
        assert log.is_on("cache")
    finally:
        root.handlers = handlers

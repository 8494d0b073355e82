"""Progress: when it speaks, and what it says."""

import io

import pytest

from thunder_fuser.runtime.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(mode: str, stream: io.StringIO, seconds_per_kernel: float, total: int = 6) -> str:
    now = [0.0]
    progress = Progress(total, mode, stream, lambda: now[0])
    for n in range(total):
        now[0] += seconds_per_kernel
        progress.step(was_stored=n % 2 == 0)
    progress.close()
    return stream.getvalue()


def test_short_compilations_say_nothing() -> None:
    assert shown("auto", Terminal(), 0.3) == ""
    assert shown("auto", io.StringIO(), 1.5) == ""


def test_terminal_shows_one_line_after_two_seconds() -> None:
    assert shown("auto", Terminal(), 0.5) == (
        "\rthunder_fuser: 4/6 kernels ready, 2 from the cache"
        "\rthunder_fuser: 5/6 kernels ready, 3 from the cache"
        "\rthunder_fuser: 6/6 kernels ready, 3 from the cache\n"
    )


def test_other_streams_get_a_line_every_ten_seconds() -> None:
    assert shown("auto", io.StringIO(), 4.0) == (
        "thunder_fuser: 3/6 kernels ready, 2 from the cache\n"
        "thunder_fuser: 6/6 kernels ready, 3 from the cache\n"
    )


def test_on_speaks_at_once_and_off_never() -> None:
    assert shown("on", Terminal(), 0.0, total=1) == (
        "\rthunder_fuser: 1/1 kernels ready, 1 from the cache\n"
    )
    assert shown("off", Terminal(), 100.0) == ""


def test_only_the_first_rank_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    assert shown("on", Terminal(), 5.0) == ""

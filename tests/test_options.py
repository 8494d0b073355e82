"""Options: where they come from, what they refuse, how long they hold."""

import threading
from dataclasses import fields

import pytest

from thunder_fuser.options import Options, current, help_text, options


def test_environment_overrides_defaults() -> None:
    found = Options.from_environment(
        {
            "THUNDER_FUSER_CACHE": "ro",
            "THUNDER_FUSER_FUEL": "3",
            "THUNDER_FUSER_STRICT": "1",
            "THUNDER_FUSER_LOG": "cache, launch",
            "HOME": "/root",
        }
    )
    assert found == Options(cache="ro", fuel=3, strict=True, log=("cache", "launch"))


def test_keywords_override_what_they_are_applied_to() -> None:
    base = Options.from_environment({"THUNDER_FUSER_CACHE": "ro"})
    found = base.with_keywords(fuser_cache="off", fuser_static_kernels=1, fuser_fuel=None)
    assert found == Options(cache="off", static_kernels=1)


def test_relative_directories_become_absolute() -> None:
    found = Options.from_environment({"THUNDER_FUSER_DUMP": "~/dump"}).dump
    assert found is not None
    assert found.startswith("/")
    assert "~" not in found


def test_unknown_option_warns_with_the_nearest_name() -> None:
    with pytest.warns(UserWarning, match="THUNDER_FUSER_CASHE .*did you mean THUNDER_FUSER_CACHE?"):
        assert Options.from_environment({"THUNDER_FUSER_CASHE": "off"}) == Options()
    with pytest.warns(UserWarning, match="fuser_fule .*did you mean fuser_fuel"):
        assert Options().with_keywords(fuser_fule=1) == Options()


def test_unknown_option_without_a_near_one_lists_the_known() -> None:
    with pytest.warns(UserWarning, match="known are fuser_cache, .*fuser_evaluator"):
        Options().with_keywords(zzzzzz=1)


@pytest.mark.parametrize(
    ("key", "value", "legal"),
    [
        ("cache", "on", "rw, ro, off"),
        ("strict", "maybe", "1, true, on"),
        ("strict", 2, "1, true, on"),
        ("fuel", "-1", "at least 0"),
        ("fuel", "many", "an integer of at least 0 or none"),
        ("compile_jobs", 0, "at least 1"),
        ("compile_jobs", 1.5, "an integer"),
        ("compile_jobs", True, "an integer"),
        ("log", "cache,lunch", "claim, segment"),
        ("log", 3, "separated by commas"),
        ("cache_dir", 7, "a path"),
        ("thread_order", "random", "forward, reverse, shuffled"),
    ],
)
def test_bad_value_names_key_value_and_what_is_legal(key: str, value: object, legal: str) -> None:
    with pytest.raises(ValueError, match=f"{key}={value!r} is not legal: .*{legal}"):
        Options().with_keywords(**{f"fuser_{key}": value})


def test_log_all_is_every_topic() -> None:
    assert "recompile" in Options().with_keywords(fuser_log="all").log


def test_equal_options_are_one_key() -> None:
    same = Options.from_environment({"THUNDER_FUSER_LOG": "cache"})
    assert {same: 1}[Options().with_keywords(fuser_log=["cache"])] == 1


def test_a_block_of_options_nests_and_ends() -> None:
    before = current()
    with options(strict=True), options(fuel=2) as inner:
        assert inner == current()
        assert (inner.strict, inner.fuel) == (True, 2)
    assert current() == before


def test_a_block_of_options_stays_in_its_thread() -> None:
    seen: list[bool] = []
    with options(strict=True):
        thread = threading.Thread(target=lambda: seen.append(current().strict))
        thread.start()
        thread.join()
    assert seen == [False]


def test_help_has_a_line_per_option() -> None:
    lines = help_text().splitlines()
    assert [line.split()[0] for line in lines] == [
        f"THUNDER_FUSER_{option.name.upper()}" for option in fields(Options)
    ]


def test_equal_options_are_one_object() -> None:
    """A steady call compares them with those of the call before."""
    assert current() is current()
    assert current().with_values(strict=True) is current().with_values(strict=True)

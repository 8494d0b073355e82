"""Choices: found again by memory, disk and file; a bad file is a warning and no choice."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import json

from tests.programs import H200
from thunder_fuser.kernel.source import Source
from thunder_fuser.options import Options
from thunder_fuser.runtime.cache_entry import Entry, Metadata
from thunder_fuser.runtime.choices import (
    NAME,
    Choice,
    Choices,
    Subject,
    choices_of,
    read_file,
    size_class,
)
from thunder_fuser.runtime.disk_cache import disk_cache

SOURCE = Source("kernel", ("i = b * ", ";"), (256,), (), blocks=7, threads=128)
SUBJECT = Subject(SOURCE, H200, "GPU")
SIZE = size_class(1 << 24)
KEY = SUBJECT.key(SIZE)
CHOICE = Choice(key=KEY, device="GPU", parameters="P(b)", microseconds={"P(a)": 5.0, "P(b)": 4.0})


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(cache_dir=str(tmp_path / "cache"))


def test_literals_and_grids_do_not_tell_keys_apart() -> None:
    other = replace(SOURCE, literals=(512,), blocks=9)
    assert Subject(other, H200, "GPU").key(SIZE) == KEY


def test_a_class_holds_sizes_up_to_a_factor_of_two() -> None:
    assert size_class(1 << 24) == size_class((1 << 25) - 1) != size_class(1 << 25)
    assert size_class(1 << 60) == size_class(1 << 50)


@pytest.mark.parametrize(
    "key",
    [
        Subject(replace(SOURCE, fragments=("i = ", ";")), H200, "GPU").key(SIZE),
        Subject(replace(SOURCE, threads=256), H200, "GPU").key(SIZE),
        Subject(SOURCE, replace(H200, multiprocessors=114), "GPU").key(SIZE),
        Subject(SOURCE, H200, "another GPU").key(SIZE),
        SUBJECT.key(SIZE + 1),
    ],
)
def test_text_threads_size_and_gpu_tell_keys_apart(key: str) -> None:
    assert key != KEY


def test_a_choice_is_found_in_memory_and_on_disk(options: Options) -> None:
    first = Choices()
    assert first.find(SUBJECT, SIZE, options) is None
    first.keep(CHOICE, options)
    assert first.find(SUBJECT, SIZE, replace(options, cache="off")) == CHOICE
    assert Choices().find(SUBJECT, SIZE, options) == CHOICE
    assert Choices().find(SUBJECT, SIZE, replace(options, tune="off")) is None
    assert choices_of(disk_cache(options)) == [CHOICE]


def test_a_choice_is_of_one_class_of_sizes_and_four_of_them_have_one(options: Options) -> None:
    choices = Choices()
    choices.keep(CHOICE, options)
    for step in (1, -3, 5):
        assert choices.find(SUBJECT, SIZE + step, options) is None
        assert choices.is_open(SUBJECT, options)
        choices.keep(replaced(SUBJECT.key(SIZE + step), "P(a)"), options)
    assert not choices.is_open(SUBJECT, options)
    assert choices.find(SUBJECT, SIZE + 2, options) is None
    assert choices.find(SUBJECT, SIZE, options) == CHOICE


def replaced(key: str, parameters: str) -> Choice:
    return Choice(key=key, device="GPU", parameters=parameters, microseconds={parameters: 1.0})


def test_an_entry_that_holds_no_choice_is_none(options: Options) -> None:
    described = Metadata(KEY, NAME, "GPU", "", (), "")
    disk_cache(options).put(KEY, Entry(described, b'{"key": 5}'))
    assert Choices().find(SUBJECT, SIZE, options) is None
    assert choices_of(disk_cache(options)) == []


def test_a_file_comes_before_memory(options: Options, tmp_path: Path) -> None:
    file = tmp_path / "tuned.json"
    pinned = Choice(key=KEY, device="GPU", parameters="P(c)", microseconds={"P(c)": 1.0})
    file.write_bytes(json.encode({"directory": "/cache", "choices": [pinned]}))
    choices = Choices()
    choices.keep(CHOICE, options)
    assert choices.find(SUBJECT, SIZE, replace(options, tuned=str(file), tune="off")) == pinned
    os.utime(file, ns=(0, 0))
    file.write_bytes(json.encode({"choices": []}))
    assert (
        choices.find(SUBJECT, SIZE, replace(options, tuned=str(file))) == CHOICE
    )  # the file is read anew


@pytest.mark.parametrize("text", [None, "", "[]", '{"choices": [{"key": 1}]}'])
def test_a_bad_file_is_a_warning_and_no_choice(text: str | None, tmp_path: Path) -> None:
    file = tmp_path / "tuned.json"
    if text is not None:
        file.write_text(text)
    with pytest.warns(RuntimeWarning, match=r"tuned=.* cannot be used .* cache tuned --json"):
        assert read_file(str(file)) == {}

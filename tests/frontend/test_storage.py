"""Definitions on disk: replayed, checked line by line."""

from __future__ import annotations

import hashlib
import os
import warnings
from pathlib import Path

import msgspec
import pytest
import torch

from tests.frontend.fusions import defined, new_cache
from tests.frontend.test_cache import scaled
from thunder_fuser.frontend import FusionCache, FusionDefinition


def saved(path: Path, *factors: float) -> FusionCache:
    cache = new_cache()
    for factor in factors:
        defined(scaled(factor), cache).execute([torch.randn(2, 4)])
    cache.serialize(path)
    return cache


def test_a_loaded_definition_is_hit_and_has_the_same_structures(tmp_path: Path) -> None:
    before = saved(tmp_path / "f", 2.0)
    cache = new_cache()
    assert cache.deserialize(tmp_path / "f") == 1
    fd = defined(scaled(2.0), cache)
    assert cache.num_fusions() == 1
    assert cache.stats().hits == 1
    old = before.leaf(0)
    assert (fd.leaf.records, fd.fids.inputs) == (old.records, old.fids.inputs)
    assert list(fd.fids.values) == list(old.fids.values)
    x = torch.randn(3, 4)
    assert torch.equal(fd.execute([x])[0], x * 2)


def test_fusions_that_never_ran_are_not_saved_and_ids_stay_dense(tmp_path: Path) -> None:
    cache = new_cache()
    for factor, runs in ((1.0, False), (2.0, True), (3.0, True), (4.0, False)):
        fd = defined(scaled(factor), cache)
        if runs:
            fd.execute([torch.randn(1, 4)])
    assert cache.serialize(tmp_path / "f") == 2
    loaded = new_cache()
    assert loaded.deserialize(tmp_path / "f") == 2
    assert [leaf.id for leaf in loaded.leaves()] == [0, 1]
    assert defined(scaled(3.0), loaded).id == 1


TENSOR = (
    '["define_tensor", [["shape", [-1]], ["contiguity", [true]], ["dtype", {"dtype": "f32"}], '
    '["is_cpu", false], ["stride_order", [%s]]], []]'
)


@pytest.mark.parametrize(
    "records",
    [
        '[["define_scalar", [["value", ["f64", -1]], ["dtype", {"dtype": "f64"}]], []]]',
        f'[{TENSOR % 5}, ["add_output", [["stride_order", null]], ["T0", null]]]',
        "[" * 100_000,
        5,
    ],
)
def test_an_entry_that_no_definition_writes_is_skipped(tmp_path: Path, records: object) -> None:
    path = tmp_path / "f"
    saved(path, 1.0, 2.0)
    lines = path.read_bytes().splitlines()
    digest = hashlib.sha256(str(records).encode()).hexdigest()
    lines[1] = msgspec.json.encode({"sha256": digest, "records": records})
    path.write_bytes(b"\n".join(lines))
    with pytest.warns(UserWarning, match="f:2: skipped a bad entry"):
        assert new_cache().deserialize(path) == 1


@pytest.mark.parametrize("damage", ["flip", "truncate", "garbage", "other record"])
def test_one_bad_entry_is_skipped_and_the_rest_load(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "f"
    saved(path, 1.0, 2.0, 3.0)
    lines = path.read_bytes().splitlines()
    if damage == "flip":
        lines[2] = lines[2].replace(b"mul", b"add")
    elif damage == "truncate":
        lines[2] = lines[2][:40]
    elif damage == "garbage":
        lines[2] = b"\x00\xff"
    else:
        records = '[["no_such_op", [], []]]'
        digest = hashlib.sha256(records.encode()).hexdigest()
        lines[2] = msgspec.json.encode({"sha256": digest, "records": records})
    path.write_bytes(b"\n".join(lines))
    cache = new_cache()
    with pytest.warns(UserWarning, match="f:3: skipped a bad entry"):
        assert cache.deserialize(path) == 2
    assert defined(scaled(3.0), cache).id == 1


def test_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f"
    saved(path, 1.0)
    path.write_bytes(path.read_bytes().replace(b'"format":1', b'"format":99'))
    with pytest.raises(ValueError, match="this version reads"):
        new_cache().deserialize(path)
    for content in (b"", b"not json\n", b"[]\n"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"no file of saved fusions|this version reads"):
            new_cache().deserialize(path)


def test_only_an_empty_cache_loads(tmp_path: Path) -> None:
    cache = saved(tmp_path / "f", 1.0)
    with pytest.raises(RuntimeError, match="holds 1 fusions"):
        cache.deserialize(tmp_path / "f")


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        new_cache().deserialize(tmp_path / "nowhere")


def test_writing_replaces_the_file_at_once_and_privately(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "f"
    saved(path, 1.0)
    saved(path, 2.0)
    assert os.listdir(path.parent) == ["f"]
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o077 == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert new_cache().deserialize(path) == 1


def test_stored_errors_are_not_saved(tmp_path: Path) -> None:
    cache = new_cache()
    with pytest.raises(ValueError, match="no output"), FusionDefinition(cache=cache):
        pass
    assert cache.stats().errors == 1
    assert cache.serialize(tmp_path / "f") == 0

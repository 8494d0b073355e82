"""Options of the test suite."""

from __future__ import annotations

import dis
import gc
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from traceback import walk_stack

import optree
import pytest
import torch
from thunder.core import pytree

from tests.devices import ORDERS, QUICK_BYTES, here, running_on
from tests.programs import WIDEST_HOST
from tests.shards import shard
from thunder_fuser import pipeline
from thunder_fuser.frontend import FusionCache
from thunder_fuser.runtime import disk_cache, host_compiler
from thunder_fuser.target import HOST, Target

walk_columns = import_module("thunder_fuser.presegment.walk_columns")  # not the function
CACHE_DIR = "THUNDER_FUSER_CACHE_DIR"
GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden")
    parser.addoption("--shard", metavar="K/N", help="every N-th of the chosen tests, from the K-th")


@pytest.hookimpl(trylast=True)  # of what marks and names have left
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[i for i in items if _asks_a_gpu_for_an_order(i)])
    items[:] = [i for i in items if not _asks_a_gpu_for_an_order(i)]
    part = config.getoption("--shard")
    if part is not None:
        items[:] = shard(items, part)
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)  # the last to be left over


def pytest_collection_finish() -> None:
    """What was imported and collected stays: no collection of garbage looks at it again, and those
    of what tests make are rare, for a trace makes more than Python expects between two."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)


def _asks_a_gpu_for_an_order(item: pytest.Item) -> bool:
    """Of threads: it has its own, so that one test stands for those of all orders."""
    given = item.callspec.params if hasattr(item, "callspec") else {}
    return given.get("device") == "cuda" and given.get("order") in ORDERS[1:]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    """The device of one run of the test: the host target's, then a GPU."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    place = torch.device(request.param)
    with running_on(place):
        yield place


@pytest.fixture(autouse=True, scope="session")
def kernels_of_this_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test finds kernels of the user, nor leaves him some: those of options that name no
    directory lie where all workers and child processes of the run keep theirs."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        directory = os.environ.get(CACHE_DIR, str(shared / "kernels"))
        patch.setenv(CACHE_DIR, directory)
        patch.setattr(disk_cache, "default_directory", lambda: Path(directory))
        yield


@pytest.fixture(autouse=True, scope="session")
def quickly_compiled() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_compiler, "SMALL_BYTES", QUICK_BYTES)
        yield


@pytest.fixture(autouse=True)
def fusions_of_its_own() -> None:
    """No test finds the plans of another, which were made for other options or another machine."""
    FusionCache.get().reset()


@pytest.fixture(autouse=True, scope="session")
def quickly_answered() -> Iterator[None]:
    """Thunder asks Python at each trace who called it, and at each call that it interprets for the
    instructions of the callee. To the first Python reads the lines of every frame, and searches all
    modules for those of no file, such as xdist's; to the second it decodes the same torch functions
    again and again. Together that is a third of a small trace. And each of the thousand times that
    it flattens arguments it lists anew the types that those may have, a twentieth."""
    decode, flatten = dis.get_instructions, pytree.tree_flatten
    quick = _flatten_known(flatten)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspect, "stack", _callers)
        patch.setattr(dis, "get_instructions", cache(lambda code: tuple(decode(code))))
        for module in list(sys.modules.values()):
            if getattr(module, "__dict__", {}).get("tree_flatten") is flatten:
                patch.setattr(module, "tree_flatten", quick)
        yield


def _flatten_known(
    flatten: Callable[..., tuple[list[object], object]],
) -> Callable[..., tuple[list[object], object]]:
    """`flatten`, which asks once for each type whether it is one of those that are flattened."""
    known: set[type] = set()

    def flattened(
        args: object, namespace: str = pytree.OPTREE_NAMESPACE
    ) -> tuple[list[object], object]:
        if type(args) not in known:
            flatten(args, namespace)
            known.add(type(args))
        return optree.tree_flatten(args, none_is_leaf=True, namespace=namespace)

    return flattened


def _callers() -> list[inspect.FrameInfo]:
    return [
        inspect.FrameInfo(frame, frame.f_code.co_filename, line, frame.f_code.co_name, None, None)
        for frame, line in walk_stack(sys._getframe(1))
    ]


@pytest.fixture
def _settled_device(request: pytest.FixtureRequest) -> None:
    """That of the test, if it has one, is known before a fixture asks for it."""
    if "device" in request.fixturenames:
        request.getfixturevalue("device")


@pytest.fixture
def wide_host(_settled_device: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host as a machine that needs several blocks, as a GPU does: nine rows are many for it,
    and hundreds few."""
    if here().type == "cpu":
        wide = replace(HOST, multiprocessors=8)
        monkeypatch.setattr(pipeline, "target_for", lambda device: wide)


@pytest.fixture
def widest_host(_settled_device: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host as a machine of the size of an H200: it has the kernels of one."""
    if here().type == "cpu":
        monkeypatch.setattr(pipeline, "target_for", lambda device: WIDEST_HOST)


@pytest.fixture
def few_multiprocessors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host, or the GPU, as a machine of eight multiprocessors: small tensors fill it."""
    _give_multiprocessors(monkeypatch, 8)


@pytest.fixture
def one_multiprocessor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU as a machine of one, as the host is."""
    _give_multiprocessors(monkeypatch, 1)


@pytest.fixture
def small_planes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planes of any size are walked."""
    monkeypatch.setattr(walk_columns, "MIN_WALKED", 1)
    monkeypatch.setattr(walk_columns, "MIN_ODD", 1)


@pytest.fixture
def without_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that has none, and no engine that copies stretches of memory."""
    _change_target(monkeypatch, max_cluster=1)


def _give_multiprocessors(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    _change_target(monkeypatch, multiprocessors=count)


def _change_target(monkeypatch: pytest.MonkeyPatch, **changes: int) -> None:
    known = pipeline.target_for

    def found(device: torch.device) -> Target:
        return replace(known(device), **changes)  # type: ignore[arg-type]

    monkeypatch.setattr(pipeline, "target_for", found)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with tests/golden/<name>, or write it there with --update-golden."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path} is missing; pytest --update-golden writes it"
        assert text == path.read_text(), f"{path} differs; --update-golden accepts the new text"

    return compare

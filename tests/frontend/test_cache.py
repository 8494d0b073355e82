"""Identity of definitions and the trie: what hits, what misses, what is kept."""

from __future__ import annotations

import math
from contextlib import suppress
from threading import Barrier, Thread
from time import sleep
from typing import Any

import pytest
import torch

from tests.frontend.fusions import TorchProgram, defined, new_cache
from thunder_fuser.frontend import DataType, FusionCache, FusionDefinition
from thunder_fuser.frontend.records import END
from thunder_fuser.ir.fusion import Fusion


def scaled(factor: Any = 2.0, dtype: Any = DataType.Float, name: str = "mul") -> Any:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, 4], contiguity=True, dtype=dtype)
        fd.add_output(getattr(fd.ops, name)(x, factor))

    return define


def hits(first: Any, second: Any) -> bool:
    """Whether `second` finds the fusion of `first`."""
    cache = new_cache()
    one, two = defined(first, cache), defined(second, cache)
    assert cache.num_fusions() == (1 if one.id == two.id else 2)
    return one.id == two.id


def with_x(body: Any, shape: tuple[int, ...] = (-1, 4, 6)) -> Any:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor(list(shape), contiguity=True)
        fd.add_output(body(fd, x))

    return define


def test_the_same_definition_again_is_a_hit_and_runs() -> None:
    cache = new_cache()
    x = torch.randn(3, 4)
    for _ in range(2):
        (y,) = defined(scaled(), cache).execute([x])
        assert torch.equal(y, x * 2)
    assert cache.num_fusions() == 1
    (again,) = FusionDefinition(0, cache=cache).execute([x])
    assert torch.equal(again, x * 2)


def test_a_hit_builds_no_ir() -> None:
    cache = new_cache()
    defined(scaled(), cache)
    with FusionDefinition(cache=cache) as fd:
        scaled()(fd)
        assert fd._recorder is not None
        assert fd._recorder._builder is None
    assert fd.leaf is FusionDefinition(0, cache=cache).leaf


def test_a_subclass_is_recorded_at_its_first_execute() -> None:
    class Double(FusionDefinition):
        def definition(self) -> None:
            scaled()(self)

    cache = new_cache()
    fd = Double(cache=cache)
    assert cache.num_fusions() == 0
    x = torch.randn(5, 4)
    assert torch.equal(fd.execute([x])[0], x * 2)
    assert cache.num_fusions() == 1


def test_a_bare_definition_has_nothing_to_execute() -> None:
    with pytest.raises(NotImplementedError, match="override definition"):
        FusionDefinition(cache=new_cache()).execute([])


def test_shape_of_an_input_hits_for_new_sizes_and_literal_shapes_miss() -> None:
    cache = new_cache()

    def grown(shape: Any) -> Any:
        def define(fd: FusionDefinition) -> None:
            x = fd.define_tensor([-1], contiguity=True)
            y = fd.define_tensor([-1, -1], contiguity=True)
            target = y.shape() if shape is None else shape
            fd.add_output(fd.ops.broadcast_in_dim(x, target, [1]))

        return define

    for rows in (3, 5):
        x, y = torch.randn(7), torch.randn(rows, 7)
        (z,) = defined(grown(None), cache).execute([x, y])
        assert torch.equal(z, x.expand(rows, 7))
    assert cache.num_fusions() == 1
    for rows in (3, 5, 3):
        defined(grown([rows, 7]), cache)
    assert cache.num_fusions() == 3


def test_pad_widths_and_fill_value_are_in_the_key() -> None:
    cache = new_cache()

    def padded(widths: list[int], value: float | None) -> Any:
        return with_x(lambda fd, x: fd.ops.pad(x, widths, value))

    counts = []
    for widths, value in (
        ([1, 1], 1.0),
        ([1, 1], 1.0),
        ([2, 3], 1.0),
        ([1, 1], 2.0),
        ([1, 1], 1.0),
    ):
        defined(padded(widths, value), cache)
        counts.append(cache.num_fusions())
    assert counts == [1, 1, 2, 3, 3]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (scaled(math.nan), scaled(-math.nan)),
        (with_x(lambda fd, x: fd.ops.sum(x, [-1])), with_x(lambda fd, x: fd.ops.sum(x, [2]))),
        (with_x(lambda fd, x: fd.ops.sum(x, 0)), with_x(lambda fd, x: fd.ops.sum(x, dim=0))),
        (with_x(lambda fd, x: fd.ops.sum(x, [2, 0])), with_x(lambda fd, x: fd.ops.sum(x, (0, -1)))),
        (
            with_x(lambda fd, x: fd.ops.sum(x)),
            with_x(lambda fd, x: fd.ops.sum(x, [0, 1, 2], keepdim=False, dtype=None)),
        ),
        (
            with_x(lambda fd, x: fd.ops.permute(x, [2, 0, 1])),
            with_x(lambda fd, x: fd.ops.permute(x, (-1, 0, -2))),
        ),
        (
            with_x(lambda fd, x: fd.ops.cast(x, DataType.Half)),
            with_x(lambda fd, x: fd.ops.cast(x, dtype=torch.float16)),
        ),
        (
            with_x(lambda fd, x: fd.ops.slice(x, [0, 0, 0], [1, 2, 3])),
            with_x(lambda fd, x: fd.ops.slice(x, (0, 0, 0), torch.Size([1, 2, 3]), [1, 1, 1])),
        ),
        (
            with_x(lambda fd, x: x * 2 / 3.0),
            with_x(lambda fd, x: fd.ops.truediv(fd.ops.mul(x, 2), 3.0)),
        ),
    ],
)
def test_the_way_a_call_is_written_does_not_matter(first: Any, second: Any) -> None:
    assert hits(first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (scaled(1), scaled(1.0)),
        (scaled(1), scaled(True)),
        (scaled(0.0), scaled(-0.0)),
        (scaled(complex(0.0, 1.0)), scaled(complex(-0.0, 1.0))),
        (scaled(math.inf), scaled(-math.inf)),
        (scaled(dtype=DataType.Float), scaled(dtype=DataType.Double)),
        (with_x(lambda fd, x: fd.ops.sub(x, 2.0)), with_x(lambda fd, x: fd.ops.sub(2.0, x))),
        (with_x(lambda fd, x: fd.ops.neg(x)), with_x(lambda fd, x: fd.ops.neg(x), (-1, 4, 5))),
        (
            with_x(lambda fd, x: fd.ops.squeeze(fd.ops.sum(x, [0], keepdim=True), [0])),
            with_x(
                lambda fd, x: fd.ops.squeeze(
                    fd.ops.sum(x, [0], keepdim=True), [0], squeeze_expanded=True
                )
            ),
        ),
        (
            with_x(lambda fd, x: fd.ops.permute(x, [0, 1, 2])),
            with_x(lambda fd, x: fd.ops.permute(x, [0, 2, 1])),
        ),
        (
            with_x(lambda fd, x: fd.ops.reshape(x, [3, 24])),
            with_x(lambda fd, x: fd.ops.reshape(x, [24, 3])),
        ),
    ],
)
def test_what_means_something_else_misses(first: Any, second: Any) -> None:
    assert not hits(first, second)


def test_a_handle_of_equal_value_is_not_an_inline_literal_of_another_dtype() -> None:
    half = scaled(2.0)

    def declared(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, 4], contiguity=True)
        fd.add_output(fd.ops.mul(x, fd.define_scalar(2.0, DataType.Float)))

    assert not hits(half, declared)


@pytest.mark.parametrize(
    "change",
    [
        {"contiguity": [False, True]},
        {"stride_order": [0, 1]},
        {"dtype": DataType.Half},
        {"shape": [5, 4]},
        {"shape": [-1, 1], "contiguity": [True, None]},
    ],
)
def test_the_layout_of_an_input_is_in_the_key(change: dict[str, Any]) -> None:
    plain: dict[str, Any] = {"shape": [-1, 4], "contiguity": [True, True]}

    def define(arguments: dict[str, Any]) -> Any:
        return lambda fd: fd.add_output(fd.ops.neg(fd.define_tensor(**arguments)))

    assert not hits(define(plain), define({**plain, **change}))
    assert hits(define(plain), define({**plain, "stride_order": [-1, 0], "contiguity": True}))


def test_alias_output_order_and_length_are_in_the_key() -> None:
    def outputs(*calls: tuple[str, bool]) -> Any:
        def define(fd: FusionDefinition) -> None:
            x = fd.define_tensor([-1], contiguity=True)
            values = {"a": fd.ops.neg(x), "b": fd.ops.exp(x)}
            for name, alias in calls:
                fd.add_output(values[name], alias_input=x if alias else None)

        return define

    variants = [
        outputs(("a", False)),
        outputs(("a", True)),
        outputs(("a", False), ("b", False)),
        outputs(("b", False), ("a", False)),
        outputs(("a", True), ("a", False)),
    ]
    cache = new_cache()
    for define in (*variants, *variants):
        defined(define, cache)
    assert cache.num_fusions() == len(variants)


def test_a_walk_misses_creates_hits_and_ends_without_children() -> None:
    cache = new_cache()
    fd = defined(scaled(), cache)
    node = cache.walk()
    for record in fd.leaf.records:
        assert list(node.children) == [record]
        assert node.leaf is None
        node = node.children[record]
    end = node.children[END]
    assert end.leaf is fd.leaf
    assert end.children == {}


def test_prefixes_share_nodes_and_neither_hits_the_other() -> None:
    cache = new_cache()

    def one(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], contiguity=True)
        fd.add_output(fd.ops.neg(x))

    def two(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], contiguity=True)
        fd.add_output(fd.ops.neg(x))
        fd.add_output(x)

    assert defined(one, cache).id != defined(two, cache).id
    assert len(cache.walk().children) == 1


def test_least_recently_used_fusions_leave_and_ids_are_never_used_again() -> None:
    cache = new_cache(max_fusions=2)
    first, second = defined(scaled(1.0), cache), defined(scaled(2.0), cache)
    defined(scaled(1.0), cache)
    third = defined(scaled(3.0), cache)
    assert [leaf.id for leaf in cache.leaves()] == [first.id, third.id]
    assert second.id == 1
    x = torch.randn(2, 4)
    assert torch.equal(second.execute([x])[0], x * 2.0)
    assert defined(scaled(2.0), cache).id == 3
    assert cache.num_fusions() == 2
    with pytest.raises(
        RuntimeError, match=r"no fusion has id 1: live ids are 2-3, the cache keeps 2"
    ):
        FusionDefinition(1, cache=cache)


def test_executing_a_fusion_keeps_it_from_leaving() -> None:
    cache = new_cache(max_fusions=2)
    first = defined(scaled(1.0), cache)
    defined(scaled(2.0), cache)
    first.execute([torch.randn(2, 4)])
    defined(scaled(3.0), cache)
    assert [leaf.id for leaf in cache.leaves()] == [0, 2]


def test_eviction_removes_the_nodes_that_nobody_shares() -> None:
    cache = new_cache(max_fusions=1)
    defined(with_x(lambda fd, x: fd.ops.neg(x)), cache)
    defined(with_x(lambda fd, x: fd.ops.exp(x)), cache)
    (node,) = cache.walk().children.values()
    assert [record.op for record in node.children] == ["exp"]
    assert cache.stats().evictions == 1


def test_stats_count_lookups_hits_and_hits_per_fusion() -> None:
    cache = new_cache()
    for factor in (1.0, 2.0, 1.0, 1.0):
        fd = defined(scaled(factor), cache)
    fd.execute([torch.randn(2, 4)])
    assert str(cache.stats()) == (
        "fusions: 2, kernels: 1, evictions: 0, stored errors: 0\n"
        "lookups: 4, hits: 2, misses: 2, hit rate: 50.0 %\n"
        "fusion 0: 2 hits\n"
        "fusion 1: 0 hits"
    )


def test_the_default_cache_keeps_the_bound_that_was_set() -> None:
    before = FusionCache.get().max_fusions
    try:
        assert FusionCache.get(max_fusions=7).max_fusions == 7
        FusionDefinition()
        assert FusionCache.get().max_fusions == 7
    finally:
        FusionCache.get(max_fusions=before)
    with pytest.raises(ValueError, match="at least 1"):
        FusionCache.get(max_fusions=0)


def test_reset_empties_the_cache_and_live_definitions_still_run() -> None:
    cache = new_cache()
    fd = defined(scaled(), cache)
    cache.reset()
    assert cache.num_fusions() == 0
    x = torch.randn(2, 4)
    assert torch.equal(fd.execute([x])[0], x * 2)
    assert defined(scaled(), cache).id == 1


def test_an_error_is_stored_once_and_raised_with_the_same_text() -> None:
    cache = new_cache()
    mismatched = with_x(lambda fd, x: fd.ops.add(x, fd.define_tensor([5], contiguity=True)))
    texts = []
    for _ in range(2):
        with pytest.raises(ValueError, match="do not broadcast") as caught:
            defined(mismatched, cache)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    assert cache.num_fusions() == 0
    assert cache.stats().errors == 1
    assert defined(scaled(), cache).id == 0


def test_a_program_that_runs_out_of_memory_is_no_stored_error() -> None:
    attempts = []

    def program(fusion: Any) -> TorchProgram:
        attempts.append(fusion)
        if len(attempts) == 1:
            raise torch.OutOfMemoryError("no memory")
        return TorchProgram(fusion)

    cache = FusionCache(program)
    with pytest.raises(torch.OutOfMemoryError):
        defined(scaled(), cache)
    assert cache.stats().errors == 0
    assert defined(scaled(), cache).id == 0


def test_eight_threads_with_one_new_definition_build_it_once() -> None:
    cache, barrier, found = new_cache(), Barrier(8), []
    before = TorchProgram.made

    def define() -> None:
        barrier.wait()
        found.append(defined(scaled(), cache).leaf)

    threads = [Thread(target=define) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len({id(leaf) for leaf in found}) == 1
    assert TorchProgram.made == before + 1
    assert cache.num_fusions() == 1


def test_printing_a_cache_shows_each_fusion_under_its_id() -> None:
    cache = new_cache()
    defined(scaled(1.0), cache)
    defined(scaled(2.0, name="sub"), cache)
    lines = str(cache).splitlines()
    assert [line for line in lines if line.endswith(":")] == ["0:", "1:"]
    assert lines[-2] == "    T2 = fd.ops.sub(T0, 2.0)"


def test_threads_that_define_and_evict_at_once_get_what_they_defined() -> None:
    cache, wrong = new_cache(max_fusions=3), []
    x = torch.randn(2, 4)

    def work(seed: int) -> None:
        for step in range(40):
            factor = float((seed * 7 + step) % 9)
            (y,) = defined(scaled(factor), cache).execute([x])
            if not torch.equal(y, x * factor):
                wrong.append(factor)

    threads = [Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert cache.num_fusions() == 3
    assert cache.stats().lookups == 240
    assert len(cache.walk().children[defined(scaled(), cache).leaf.records[0]].children) <= 3


def test_a_build_that_failed_leaves_one_leaf_to_those_who_waited_for_it() -> None:
    both, found, made = Barrier(2), list[Any](), list[Any]()

    def program(fusion: Fusion) -> TorchProgram:
        made.append(fusion)
        if len(made) == 1:
            sleep(0.5)  # until another waits
            raise MemoryError("once")
        both.wait(timeout=60)  # both build before either is done
        return TorchProgram(fusion)

    cache = FusionCache(program, max_fusions=2)

    def define() -> None:
        with suppress(MemoryError):
            found.append(defined(scaled(), cache).leaf)

    failing, waiting, late = (Thread(target=define) for _ in range(3))
    failing.start()
    while not made:
        sleep(0.001)
    waiting.start()
    failing.join()
    late.start()
    for thread in (waiting, late):
        thread.join()
    assert (len(made), len(found), len(set(map(id, found)))) == (3, 2, 1)
    assert cache.num_fusions() == 1

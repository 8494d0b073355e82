"""Partitions as definitions of their own, and running them through the fid maps."""

from __future__ import annotations

import pytest
import torch

from tests.frontend.fusions import check, defined, example, finest, new_cache
from tests.frontend.test_fids import worked_example
from thunder_fuser.frontend import DataType, FusionCache, FusionDefinition
from thunder_fuser.frontend.segmented_run import Segmented
from thunder_fuser.frontend.segments import segment_definitions
from thunder_fuser.program import Program


def cut_after_sum(fd: FusionDefinition) -> Segmented:
    """Two segments: up to the broadcast sum, and the rest."""
    tensors = [tv for tv in fd.leaf.fusion.tensors if tv.definition is not None]
    groups = [tensors[:2], tensors[2:]]
    return Segmented(fd.leaf, segment_definitions(fd.leaf, groups, fd._cache))


def test_the_worked_example_is_cut_as_published() -> None:
    fd = defined(worked_example)
    first, second = cut_after_sum(fd).segments
    assert (first.to_parent, second.to_parent) == ({0: 0, 1: 3}, {0: 1, 1: 2, 2: 3, 3: -2, 6: 7})
    assert str(first.leaf).splitlines()[1:] == [
        "    T0 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float, "
        "is_cpu=False, stride_order=[1, 0])",
        "    T1 = fd.ops.sum(T0, dims=[1], keepdim=True)",
        "    fd.add_output(T1)",
    ]
    assert str(second.leaf).splitlines()[3:] == [
        "    T2 = fd.define_tensor(shape=[-1, 1], contiguity=[True, None], dtype=DataType.Float, "
        "is_cpu=False, stride_order=[1, 0])",
        "    S3 = fd.define_scalar(None, dtype=DataType.Int)",
        "    T4 = fd.ops.truediv(T2, S3)",
        "    T5 = fd.ops.add(T4, S1)",
        "    T6 = fd.ops.add(T0, T5)",
        "    fd.add_output(T6)",
    ]


def test_the_segments_of_the_worked_example_have_the_published_structures() -> None:
    first, second = cut_after_sum(defined(worked_example)).segments
    assert (first.leaf.fids.inputs, first.leaf.fids.outputs) == ((0,), (1,))
    assert first.leaf.fids.extents == (-1, -2)
    assert (second.leaf.fids.inputs, second.leaf.fids.outputs) == ((0, 1, 2, 3), (6,))
    assert second.leaf.fids.extents == (-1, -2, -3, -4)


def test_values_are_dropped_after_their_last_use() -> None:
    segmented = cut_after_sum(defined(worked_example))
    assert segmented.last_use == {0: 0, 1: 1, 2: 1, 3: 1, -2: 1}
    x, y = torch.randn(2, 32), torch.randn(2, 1)
    (z,) = segmented.execute([x, y, 0.5])
    torch.testing.assert_close(z, y + (x.sum(1, keepdim=True) / 32 + 0.5))


def test_a_reduction_and_its_epilogue_are_two_segments() -> None:
    def define(fd: FusionDefinition) -> None:
        x, y = (fd.define_tensor([-1, -1], contiguity=True) for _ in range(2))
        fd.add_output(fd.ops.add(y, fd.ops.sum(x, [-1], keepdim=True)))

    first, second = cut_after_sum(defined(define)).segments
    assert first.to_parent == {0: 0, 1: 2}
    assert second.to_parent == {0: 1, 1: 2, 2: 3}


def test_a_cut_on_a_hidden_value_of_a_composite_is_mapped() -> None:
    fd = defined(worked_example)
    segments = finest(fd).segments
    assert segments[0].to_parent == {0: 0, 1: 8}
    assert "fd.ops.sum(T0, dims=[1])" in str(segments[0].leaf)
    x, y = torch.randn(2, 32), torch.randn(2, 128)
    (z,) = finest(fd).execute([x, y, 0.5])
    torch.testing.assert_close(z, y + (x.sum(1, keepdim=True) / 32 + 0.5))


def test_the_size_of_a_tensor_that_a_segment_reads_is_read_off_it() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, -1], contiguity=True)
        fd.add_output(fd.ops.mul(fd.ops.neg(x), x.size(1)))

    second = finest(defined(define)).segments[1]
    assert "fd.ops.size(T0, dim=1)" in str(second.leaf)
    assert len(second.leaf.fids.inputs) == 1


def test_scalar_arithmetic_is_repeated_in_the_segment_that_needs_it() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, 6], contiguity=True)
        s, t = fd.define_scalar(None, DataType.Int), fd.define_scalar(None, DataType.Int)
        fd.add_output(fd.ops.mul(fd.ops.neg(x), (s + t) * x.size(0)))

    check(define, [torch.randn(5, 6), 3, 4], lambda x, s, t: [-x * ((s + t) * 5)])


def test_one_segment_is_no_split() -> None:
    fd = defined(worked_example)
    tensors = [tv for tv in fd.leaf.fusion.tensors if tv.definition is not None]
    assert segment_definitions(fd.leaf, [tensors], fd._cache) == ()


def test_segments_that_wait_for_each_other_are_refused() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([4], contiguity=True)
        a = fd.ops.exp(x)
        fd.add_output(fd.ops.add(fd.ops.neg(a), a))

    fd = defined(define)
    exp, neg, add = (tv for tv in fd.leaf.fusion.tensors if tv.definition is not None)
    with pytest.raises(RuntimeError, match=r"wait for each other: no order computes T2"):
        segment_definitions(fd.leaf, [[exp, add], [neg]], fd._cache)


def test_a_view_that_no_group_holds_is_recomputed_by_its_readers() -> None:
    x = torch.randn(4, 6)

    def define(fd: FusionDefinition) -> None:
        (t,) = example(fd, x)
        turned = fd.ops.permute(fd.ops.exp(t), [1, 0])
        fd.add_output(fd.ops.neg(turned))
        fd.add_output(fd.ops.sin(turned))

    fd = defined(define)
    exp, _, neg, sin = (tv for tv in fd.leaf.fusion.tensors if tv.definition is not None)
    segments = segment_definitions(fd.leaf, [[exp], [neg], [sin]], fd._cache)
    assert [str(s.leaf).count("permute") for s in segments] == [0, 1, 1]
    got = Segmented(fd.leaf, segments).execute([x])
    torch.testing.assert_close(got, [-(x.exp().t()), x.exp().t().sin()])


def test_a_segment_reads_the_old_value_of_an_input_that_another_overwrites() -> None:
    x, y = torch.randn(3, 5), torch.randn(3, 5)

    def define(fd: FusionDefinition) -> None:
        a, b = example(fd, x, y)
        fd.add_output(fd.ops.add(a, b), alias_input=a)
        fd.add_output(fd.ops.mul(fd.ops.exp(a), b), alias_input=b)
        fd.add_output(fd.ops.neg(a))

    def eager(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        new_a, new_b, third = a + b, a.exp() * b, -a
        a.copy_(new_a)
        b.copy_(new_b)
        return [third]

    check(define, [x, y], eager)


def test_equal_segments_of_one_fusion_share_a_leaf() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], contiguity=True)
        fd.add_output(fd.ops.neg(fd.ops.neg(x)))

    cache = new_cache()
    first, second = finest(defined(define, cache)).segments
    assert first.leaf is second.leaf
    assert cache.num_fusions() == 2


def test_parameters_and_lists_reach_the_segments() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], contiguity=True)
        fd.add_output(fd.ops.neg(fd.ops.reshape(x, fd.define_vector(2))))

    x = torch.nn.Parameter(torch.randn(12))
    (y,) = finest(defined(define)).execute([x, [3, 4]])
    assert torch.equal(y, -x.reshape(3, 4))


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_segments_serve_other_sizes_than_those_they_were_made_with(rows: int) -> None:
    segmented = finest(defined(worked_example))
    x, y = torch.randn(rows, 5), torch.randn(rows, 7)
    (z,) = segmented.execute([x, y, 0.25])
    torch.testing.assert_close(z, y + (x.sum(1, keepdim=True) / 5 + 0.25))


def test_segments_read_and_write_what_torch_conjugates_lazily() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, -1], contiguity=True, dtype=DataType.ComplexFloat)
        y = fd.ops.exp(x)
        fd.add_output(y, alias_input=x)
        fd.add_output(fd.ops.sum(fd.ops.mul(x, 2.0), [1]))
        fd.add_output(y)

    x = torch.randn(3, 4, dtype=torch.complex64)
    given, before = x.conj(), x.conj().clone()
    total, written = finest(defined(define, FusionCache(Program))).execute([given])
    torch.testing.assert_close(total, (2 * before).sum(1))
    torch.testing.assert_close(given, before.exp())
    torch.testing.assert_close(x, before.exp().conj())
    assert written is given


def test_a_scalar_that_was_cast_is_cast_in_each_segment_that_reads_it() -> None:
    x = torch.randn(9, 30)

    def define(fd: FusionDefinition) -> None:
        (a,) = example(fd, x)
        count = fd.ops.cast(a.size(1), dtype=DataType.Double)
        below = fd.ops.sub(a, fd.ops.truediv(fd.ops.sum(a, [1], keepdim=True), count))
        fd.add_output(fd.ops.cumsum(fd.ops.mul(below, count), 0))

    def eager(x: torch.Tensor) -> list[torch.Tensor]:
        return [((x - x.mean(1, keepdim=True)) * 30).cumsum(0)]

    check(define, [x], eager, exact=False)

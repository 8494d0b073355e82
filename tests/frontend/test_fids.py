"""Which fid names which value: one space for all kinds, extents below zero."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.frontend.fusions import defined, new_cache
from thunder_fuser.frontend import DataType, FusionDefinition
from thunder_fuser.frontend.handles import Handle


def fids(*handles: Handle) -> list[str]:
    return [repr(h) for h in handles]


def worked_example(fd: FusionDefinition) -> None:
    x = fd.define_tensor([-1, -1], contiguity=True)
    y = fd.define_tensor([-1, -1], contiguity=True)
    eps = fd.define_scalar(None, DataType.Double)
    total = fd.ops.sum(x, [1], keepdim=True)
    mean = fd.ops.truediv(total, fd.ops.size(x, 1))
    fd.add_output(fd.ops.add(y, fd.ops.add(mean, eps)))


def test_all_kinds_share_one_space_and_literals_take_fids() -> None:
    def define(fd: FusionDefinition) -> None:
        t0 = fd.define_tensor([-1, 64], contiguity=True)
        s1 = fd.define_scalar(8)
        t4 = fd.ops.reshape(t0, [8, s1, 8])
        t6 = fd.ops.add(t4, 2.0)
        v7 = t0.shape()
        s8 = v7[1]
        assert fids(t0, s1, t4, t6, v7, s8) == ["T0", "S1", "T5", "T7", "V8", "S9"]
        fd.add_output(t6)
        assert fids(fd.ops.neg(t6)) == ["T10"]

    defined(define)


def test_a_literal_shape_makes_its_ints_then_its_vector() -> None:
    def define(fd: FusionDefinition) -> None:
        t0 = fd.define_tensor([-1], contiguity=True)
        assert fids(fd.ops.reshape(t0, [8, 64])) == ["T4"]
        s5 = fd.define_scalar(8)
        assert fids(fd.ops.reshape(t0, [8, s5])) == ["T8"]
        fd.add_output(t0)

    defined(define)


def test_slice_without_strides_records_ones() -> None:
    def define(fd: FusionDefinition) -> None:
        t0 = fd.define_tensor([4, 6], contiguity=True)
        assert fids(fd.ops.slice(t0, [0, 0], [2, 3])) == ["T10"]
        fd.add_output(t0)

    defined(define)


def test_an_absent_operand_takes_no_fid() -> None:
    def define(fd: FusionDefinition) -> None:
        t0 = fd.define_tensor([4, 6], contiguity=True)
        assert fids(fd.ops.pad(t0, [1, 1])) == ["T4"]
        assert fids(fd.ops.pad(t0, [1, 1], 3.0)) == ["T9"]
        fd.add_output(t0)

    defined(define)


def test_a_vector_of_n_is_n_inputs_and_itself() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], contiguity=True)
        vector = fd.define_vector(3)
        assert fids(vector) == ["V4"]
        fd.add_output(fd.ops.reshape(x, vector))

    fd = defined(define)
    assert fd.inputs() == [0, 1, 2, 3]
    x = torch.randn(24)
    for inputs in ([x, [2, 3, 4]], [x, (2, 3, 4)], [x, 2, 3, 4]):
        assert torch.equal(fd.execute(inputs)[0], x.reshape(2, 3, 4))


def test_two_results_take_two_fids_from_left_to_right() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([4, 6], contiguity=True)
        variance, mean = fd.ops.var_mean(x, [1])
        assert fids(variance, mean) == ["T1", "T2"]
        fd.add_output(mean)

    defined(define)


def test_inputs_outputs_and_extents_of_two_rank_three_inputs() -> None:
    def define(fd: FusionDefinition) -> None:
        t0 = fd.define_tensor([-1, -1, -1], contiguity=True)
        t1 = fd.define_tensor([-1, -1, -1], contiguity=True)
        c0 = fd.define_scalar(3.0)
        t3 = fd.ops.add(t0, t1)
        fd.add_output(fd.ops.sum(fd.ops.mul(t3, c0), [-1]))

    fd = defined(define)
    assert (fd.inputs(), fd.outputs()) == ([0, 1], [5])
    assert fd.extents() == [-1, -2, -3, -4, -5, -6]


def test_every_dim_gets_an_extent_static_broadcast_empty_or_expanded() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, 4, 1, 0, 7], contiguity=[True, True, None, True, None])
        s = fd.define_scalar(None)
        y = fd.define_tensor([], contiguity=[])
        fd.add_output(fd.ops.add(fd.ops.mul(x, s), y))

    fd = defined(define)
    assert fd.inputs() == [0, 1, 2]
    assert fd.extents() == [-1, -2, -3, -4, -5]


def test_the_worked_example_has_the_published_structures() -> None:
    fd = defined(worked_example)
    found = fd.fids
    assert (fd.inputs(), fd.outputs(), fd.extents()) == ([0, 1, 2], [7], [-1, -2, -3, -4])
    assert [found.canonical(fid) for fid in range(8)] == [0, 1, 2, 3, -2, 5, 6, 7]
    assert [found.canonical(fid) for fid in (-1, -2, -3, -4)] == [-1, -2, -3, -4]


def test_a_size_is_the_extent_itself() -> None:
    fd = defined(worked_example)
    assert fd.fids.values[4] is fd.fids.values[-2]
    assert fd.fids.fid_of[fd.leaf.fusion.inputs[0].extents[1]] == -2


def test_of_two_dims_with_one_extent_the_last_fid_wins() -> None:
    fd = defined(lambda fd: fd.add_output(fd.ops.neg(fd.define_tensor([1, 5, 1]))))
    extents = fd.leaf.fusion.inputs[0].extents
    assert extents[0] is extents[2]
    assert fd.fids.fid_of[extents[0]] == -3


def test_hidden_values_are_numbered_after_the_last_record_and_never_printed() -> None:
    fd = defined(worked_example)
    (hidden,) = (fid for fid in fd.fids.values if fid > 7)
    assert hidden == 8
    assert fd.fids.values[hidden].definition.op.name == "sum"
    assert "T8" not in str(fd)


def test_the_structures_after_a_hit_are_those_of_the_miss() -> None:
    cache = new_cache()
    first, second = defined(worked_example, cache), defined(worked_example, cache)
    assert first.leaf is second.leaf
    assert first.fids is second.fids


def test_arguments_pair_with_inputs_and_extents() -> None:
    fd = defined(worked_example)
    x, y = torch.randn(2, 32), torch.randn(2, 128)
    values: dict[int, Any] = fd.fids.arguments([x, y, 0.5])
    assert {fid: v for fid, v in values.items() if fid < 0} == {-1: 2, -2: 32, -3: 2, -4: 128}
    assert values[0] is x
    assert values[1] is y
    with pytest.raises(AssertionError, match="sizes"):
        fd.fids.arguments([x, 0.5])


def test_an_input_returned_twice_stands_twice_in_outputs() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], contiguity=True)
        fd.add_output(x)
        fd.add_output(x)

    fd = defined(define)
    assert fd.outputs() == [0, 0]
    x = torch.randn(3)
    assert all(y is x or torch.equal(y, x) for y in fd.execute([x]))


def test_an_op_that_returns_its_argument_as_an_extent_has_two_fids_for_one_value() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, -1], contiguity=True)
        one, two = x.size(0), x.shape()[0]
        assert (one.fid, two.fid) == (1, 3)
        fd.add_output(fd.ops.mul(x, one + two))

    fd = defined(define)
    assert fd.fids.canonical(1) == fd.fids.canonical(3) == -1
    x = torch.randn(3, 4)
    assert torch.equal(fd.execute([x])[0], x * 6)

"""What blocks count in shared memory while they walk rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.devices import ORDERS
from tests.programs import (
    H200,
    check,
    cuda_kernels,
    expand,
    full,
    fusion,
    ints,
    like,
    machine,
    total,
    unsqueeze,
)
from thunder_fuser.codegen.emit import emit
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.presegment.split_reductions import split_reductions


def chosen(x: torch.Tensor, multiprocessors: int) -> Fusion:
    """How often a column has its row's largest element, and the sums of columns below that."""
    (a,) = like(x)
    rows, columns = x.shape
    most = expand(unsqueeze(call("max", a, dims=(1,)), 1), rows, columns)
    below = call("sub", a, most)
    bounds = sc.constant(0), sc.constant(1)
    count = call("iota", *bounds, length=ints([columns]), dtype=DataType.Int)
    places = expand(unsqueeze(count, 0), rows, columns)
    beyond = full(columns, rows, columns, dtype=DataType.Int)
    first = call("min", call("where", call("lt", a, most), beyond, places), dims=(1,))
    truths = call("eq", expand(unsqueeze(first, 1), rows, columns), places)
    program = fusion([a], total(call("cast", truths, dtype=DataType.Float), 0), total(below, 0))
    return split_reductions(program, machine(multiprocessors, H200.max_cluster))


def kernel(rows: int, columns: int) -> RowKernel:
    x = torch.empty(rows, columns)
    target = replace(H200, multiprocessors=8)
    _, (first, *_) = cuda_kernels(chosen(x, 8), x, target=target)
    assert isinstance(first, RowKernel)
    return first


@pytest.mark.parametrize("columns", [64, 4096])
def test_a_thread_counts_what_its_columns_have(columns: int) -> None:
    found = kernel(32_768, columns)
    (counts,) = found.final.counts
    assert len(found.sums) == 2
    assert [s.name for s in found.in_registers] != [counts.name]
    text = emit(found).text
    assert f"__shared__ int {counts.name}[{columns}];" in text
    assert "tf::count<4>(" in text
    assert f"    {counts.name} counts " in str(found)


def test_so_many_columns_are_summed_as_others_are() -> None:
    assert not kernel(1024, 12_288).final.counts


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("columns", [64, 1025])
def test_counts_of_the_largest(columns: int) -> None:
    """Of rows that a block walks in shared memory, side by side, or one after another; some
    elements are as large as the largest."""
    x = torch.randint(-50, 50, (67, columns)).float()
    check(chosen(x, 2), x, orders=ORDERS)

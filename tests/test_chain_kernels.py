"""Running sums down columns whose rows threads and blocks share, one behind another."""

from __future__ import annotations

import pytest
import torch

from tests.devices import CPU, ORDERS, copies, here
from tests.programs import STRICT, cat, chain, check, expand, fusion, like, run, total, whole
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.options import Options
from thunder_fuser.schedule import column_scans, column_stretches

pytestmark = [pytest.mark.usefixtures("device"), pytest.mark.sanitizer]
# Threads of a block alone, whole batches and none, several blocks, columns that no vector fits, a
# row of few columns, rows of a sample that threads have side by side.
SHAPES = (
    ((100, 64), 0),
    ((256, 66), 0),
    ((577, 40), 0),
    ((1031, 33), 0),
    ((12001, 3), 0),
    ((12000, 3), 0),
    ((3, 300, 100), 1),
    ((2, 513, 7, 5), 1),
    ((3, 1031, 3), 1),  # images that begin anywhere in a vector
)


def down(tv: TensorView, dim: int, reverse: bool = False) -> TensorView:
    return call("cumsum", tv, dim=dim, reverse=reverse)


@pytest.fixture
def short_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads have few rows, so that small planes have many blocks one behind another."""
    monkeypatch.setattr(column_scans, "SHARED_REGISTERS", 2)
    monkeypatch.setattr(column_stretches, "BLOCK_BYTES", 1024)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_every_element_is_the_sum_down_to_it(
    shape: tuple[int, ...], dim: int, reverse: bool
) -> None:
    x = whole(*shape)
    (a,) = like(x)
    program = fusion([a], down(chain(a, "neg"), dim, reverse))
    plan = check(program, x, options=Options(strict=True), orders=ORDERS)
    assert plan.launches == 1
    (source,) = (s for s in plan.kernels if s is not None)
    assert "tf::scan_" in source.text


@pytest.mark.usefixtures("short_batches")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "dim"), [((3500, 64), 0), ((2, 3217, 17), 1)], ids=str)
def test_windows_of_blocks_follow_each_other(
    shape: tuple[int, ...], dim: int, reverse: bool
) -> None:
    x = whole(*shape)
    (a,) = like(x)
    plan = check(fusion([a], down(a, dim, reverse)), x, options=STRICT, orders=ORDERS)
    (source,) = (s for s in plan.kernels if s is not None)
    assert source.blocks > column_scans.WINDOW


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.uint8, torch.bool]
)
def test_any_real_type_is_summed(dtype: torch.dtype) -> None:
    x = torch.randint(0, 2, (700, 72)).to(dtype)
    (a,) = like(x)
    options = STRICT if dtype.is_floating_point and dtype.itemsize == 2 else Options()
    check(fusion([a], down(a, 0)), x, options=options, orders=ORDERS)


def test_other_sums_down_the_columns_come_with_them() -> None:
    x, w = whole(1031, 40), whole(40)
    a, b = like(x, w)
    scaled = call("mul", a, expand(b, 1031, 40))
    both = call("add", down(scaled, 0), down(chain(a, "neg"), 0))
    program = fusion([a, b], both, total(a, 0), call("max", a, dims=(0,)), call("mul", both, a))
    plan = check(program, x, w, orders=ORDERS)
    if here() == CPU:
        assert plan.launches == 1


@pytest.mark.parametrize("reverse", [False, True])
def test_what_is_not_finite_stays_in_its_column_from_its_row_on(reverse: bool) -> None:
    x = torch.randn(1500, 24)
    x[700, 3], x[0, 4], x[1499, 5] = torch.inf, torch.nan, -torch.inf
    x[300, 6], x[900, 6] = torch.inf, -torch.inf
    (a,) = like(x)
    (found,) = run(fusion([a], down(a, 0, reverse)), *copies([x]))
    exact = x.double().flip(0).cumsum(0).flip(0) if reverse else x.double().cumsum(0)
    torch.testing.assert_close(found.cpu().double(), exact, equal_nan=True, rtol=1e-5, atol=1e-4)


def test_a_call_leaves_the_marks_as_it_found_them() -> None:
    x = whole(2000, 64)
    (a,) = like(x)
    program = fusion([a], down(a, 0))
    first, second = (run(program, *copies([x]))[0] for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.usefixtures("short_batches")
@pytest.mark.parametrize("reverse", [False, True])
def test_runs_of_rows_out_of_a_stretch_beside_rows_that_are_all_the_same(reverse: bool) -> None:
    x, y = whole(1000, 3, dtype=torch.bfloat16), whole(3, dtype=torch.bfloat16).expand(1000, 3)
    a, b = like(x, y)
    program = fusion([a, b], down(cat(a, b, dim=0), 0, reverse))
    plan = check(program, x, y, options=STRICT, orders=ORDERS)
    (source,) = (s for s in plan.kernels if s is not None)
    assert "_run = tf::load" in source.text


@pytest.mark.usefixtures("short_batches")
@pytest.mark.parametrize("reverse", [False, True])
def test_stretches_have_room_for_what_is_read_and_stored(reverse: bool) -> None:
    """Of several sizes, beside what lies otherwise, and rows that begin where no vector does."""
    x, y, w = whole(901, 5, dtype=torch.bfloat16), whole(901, 5), whole(5, dtype=torch.bfloat16)
    flags, apart = torch.rand(901, 5) > 0.5, whole(902, 5, dtype=torch.bfloat16)[1:]
    a, b, c, d, e = like(x, y, w, flags, apart)
    term = call("add", call("mul", a, expand(c, 901, 5)), call("sub", b, e))
    outputs = down(call("cast", term, dtype=DataType.BFloat16), 0, reverse), down(d, 0, reverse)
    program = fusion([a, b, c, d, e], *outputs, call("mul", outputs[0], a))
    plan = check(program, x, y, w, flags, apart, options=STRICT, orders=ORDERS)
    (source,) = (s for s in plan.kernels if s is not None)
    assert source.text.count("tf::copy_async<16>(") == 3  # not of `apart`

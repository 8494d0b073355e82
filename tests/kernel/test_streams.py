"""Stream kernels: a maximum so far, and sums that are scaled when it grows."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.devices import ORDERS
from tests.programs import H200, chain, fusion, like, plan_of, run, total
from tests.schedule.segments import halves, segment_of
from tests.schedule.test_streams import denominator, softmax
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.streams import lower_streams
from thunder_fuser.options import Options
from thunder_fuser.schedule import streams

COLUMNS = 8192 + 4 * 37  # a last chunk that is not whole
IN_EVERY_ORDER = [Options(thread_order=order) for order in ORDERS]
INFINITE = float("inf")


def test_the_phases_are_those_of_the_row_template() -> None:
    x = halves(600, 20000)
    segment = segment_of([x], denominator(x))
    assert str(lower_streams(streams.schedule(segment, H200))) == dedent("""\
        stream kernel, 4 vectors at a time, below T1_row
        row kernel(T0: bf16*, T6: bf16*) 600 blocks of 1 rows of 256 threads
          rows 600 vectors 2500 lanes 8
          v0 = load T0[20000*group + 8*vector], 8 x bf16, 16 bytes at a time
          phase 0
            T0_0: f32 = v0[k][1*lane + 0]
            T1_part max= T0_0
            T1_part in pairs of v0[k]
            T1_row = max(T1_part)
          phase 1
            T0_1: f32 = v0[k][1*lane + 0]
            T4_0: f32 = sub(T0_1, T1_row)
            T5_0: f32 = exp(T4_0)
            T6_part sum= T5_0
            T6_row = sum(T6_part)
          final
          first thread
            w0[0*lane + 0] = T6_row
            store w0 -> T6[group], 1 x bf16, 2 bytes at a time""")


def test_rows_leave_what_the_last_block_sums() -> None:
    x = halves(600, 20000)
    row = chain(denominator(x), "log")
    segment = segment_of([x], chain(total(row, 0), "neg"))
    text = str(lower_streams(streams.schedule(segment, H200)))
    assert dedent(text[text.index("  first thread") :]) == dedent("""\
        first thread
          T7_0: f32 = log(T6_row)
          T8_part_of_row[group] = T7_0
        after all rows
          T8_total = sum(T8_part_of_row)
          T9_0: f32 = neg(T8_total)
          w0[0*lane + 0] = T9_0
          store w0 -> T9[0], 1 x bf16, 2 bytes at a time""")


def rows_of(scale: float) -> torch.Tensor:
    """Rows whose maximum is at the start, at the end, everywhere, and anywhere."""
    x = torch.randn(5, COLUMNS) * scale
    x[0, 0], x[1, -1], x[2] = 5 * scale, 5 * scale, scale
    return x


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("options", IN_EVERY_ORDER, ids=lambda o: o.thread_order)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0])
def test_the_sum_is_as_exact_as_eager_s(scale: float, options: Options) -> None:
    x = rows_of(scale)
    (a,) = like(x)
    program = fusion([a], chain(denominator(a), "log"), call("max", a, dims=(1,)), total(a, 1))
    logarithm, top, summed = run(program, x, options=options)
    exact = torch.logsumexp(x.double(), 1) - x.double().amax(1)
    eager = (torch.logsumexp(x, 1) - x.amax(1) - exact).abs().max()
    assert (logarithm.cpu() - exact).abs().max() <= 2 * eager + 2**-22
    assert torch.equal(top.cpu(), x.amax(1))
    torch.testing.assert_close(summed.cpu(), x.sum(1), rtol=1e-4, atol=1e-3 * scale)


@pytest.mark.usefixtures("device")
def test_many_rows_are_streamed_by_small_blocks() -> None:
    x = torch.randn(streams.FEW_ROWS, 8192)
    (a,) = like(x)
    (found,) = run(fusion([a], denominator(a)), x, options=Options())
    torch.testing.assert_close(found.cpu(), torch.exp(x - x.amax(1, True)).sum(1))


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("guarded", [False, True])
def test_infinite_and_missing_numbers_are_eager_s(guarded: bool) -> None:
    x = torch.randn(6, COLUMNS)
    x[0], x[1, 7], x[2, -1], x[3, 5000] = -INFINITE, INFINITE, float("nan"), -INFINITE
    x[4, :-1] = -INFINITE
    (a,) = like(x)
    (found,) = run(fusion([a], denominator(a, guarded)), x, options=Options())
    top = x.amax(1, True)
    top = torch.where(top.abs() == INFINITE, 0.0, top) if guarded else top
    wanted = torch.exp(x - top).sum(1)
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-5, atol=0, equal_nan=True)


@pytest.mark.usefixtures("device")
def test_whole_rows_beyond_the_registers_are_read_twice() -> None:
    x = torch.randn(2, 1_000_000, dtype=torch.float64).float()
    (a,) = like(x)
    program = fusion([a], softmax(a))
    (found,) = run(program, x, options=Options())
    exact = torch.softmax(x.double(), 1)
    eager = (torch.softmax(x, 1) - exact).abs().max()
    assert (found.cpu() - exact).abs().max() <= 2 * eager
    (segment,) = plan_of(program, x, options=Options()).segmented.segments
    assert streams.reject(segment, H200) is None


def capped(x: TensorView) -> TensorView:
    return chain(x, "tanh", "neg")


def test_what_both_phases_compute_of_memory_is_held_for_a_chunk() -> None:
    x = halves(600, 20000)
    kernel = lower_streams(streams.schedule(segment_of([x], denominator(capped(x))), H200))
    first, second = kernel.rows.phases
    assert [held.name for held in first.held] == ["T2_held"]
    assert "tanh" in str(first.scope.statements)
    assert "tanh" not in str(second.scope.statements)


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("columns", [COLUMNS, 20011])
def test_capped_rows_are_summed_and_stored(rows: int, columns: int) -> None:
    x = 30 * torch.randn(rows, columns)
    (a,) = like(x)
    values = capped(a)
    found = run(fusion([a], denominator(values), softmax(values)), x, options=Options())
    exact = -torch.tanh(x.double())
    below = torch.exp(exact - exact.max(1, keepdim=True)[0])
    torch.testing.assert_close(found[0].cpu().double(), below.sum(1), rtol=1e-5, atol=0)
    torch.testing.assert_close(found[1].cpu().double(), torch.softmax(exact, 1), rtol=1e-5, atol=0)

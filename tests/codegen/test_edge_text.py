"""The text of elements beside the whole vectors of odd rows, and what such rows come to."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.kernel.test_rows import along, kernel_of
from tests.programs import flip, fusion, like, pad, piece, run, run_in_orders, total
from tests.schedule.segments import halves, segment_of
from tests.schedule.test_streams import softmax
from thunder_fuser.codegen.emit import emit
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.options import Options


def test_a_thread_has_an_element_of_a_row_behind_its_vectors() -> None:
    x = halves(300, 1023)
    text = emit(kernel_of(segment_of([x], softmax(x)))).text
    place = "(8 * ((1023 * group) / 8) + 8 * edge_vector + edge_lane)"
    loaded = f"""
  if (has_edge) {{
    constexpr int k = 4, lane = 0;
    v0[k] = tf::load_first<8, 1>(T0 + {place});
  }}"""
    assert "tf::Vec<tf::bf16, 8> v0[5];" in text
    assert "if ((k + 1) * 32 <= 127 || vector < last) {" in text
    assert loaded in text
    assert f"{place})[0] = w0.v[0];" in text
    assert "_within<" not in text


def test_a_weight_has_its_element_at_the_column() -> None:
    x, w = halves(300, 1030), halves(1030)
    kernel = kernel_of(segment_of([x, w], normed(x, w)))
    assert kernel.has_edges
    text = emit(kernel).text
    assert text.count("= tf::load_first<") == 2
    assert "const auto v0 = tf::load_first<8, 1>(T4 + (-1030 * group" in text


def normed(x: TensorView, w: TensorView) -> TensorView:
    return call("mul", call("mul", x, along(total(x, 1), x.shape[1])), w)


def test_a_weight_is_not_read_behind_its_end() -> None:
    """Vectors of it are put together of two, of which the second lies behind: vector 128 of a row
    that begins with vector 1 is the last in which 1033 columns are, and in the turn up to 128."""
    x, w = halves(300, 1033), halves(1033)
    text = emit(kernel_of(segment_of([x, w], normed(x, w)))).text
    assert "if ((k > 0 && (k + 1) * 64 < 128) || (warp > 0 && warp + 32 < 129)) done(" in text


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("columns", [1025, 1030, 1033, 2049])
def test_rows_with_a_weight(columns: int) -> None:
    x, w = torch.randn(17, columns).bfloat16(), torch.randn(columns).bfloat16()
    a, b = like(x, w)
    (found,) = run(fusion([a, b], normed(a, b)), x, w, options=Options())
    exact = x.double() * x.double().sum(1, True) * w.double()
    torch.testing.assert_close(found.double(), exact, rtol=2**-8, atol=1e-2)


COLUMNS = [225, 226, 250, 257, 511, 1023, 1030, 2047, 4095]
DTYPES = [torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", COLUMNS)
def test_every_element_counts_once(columns: int, dtype: torch.dtype) -> None:
    """Sums of whole numbers are exact; the rows begin in every lane."""
    x = torch.randint(-8, 9, (19, columns)).to(dtype)
    (a,) = like(x)
    wide = call("cast", a, dtype=total(a, 1).dtype.compute_type)
    away = call("sub", wide, along(total(wide, 1), columns))
    _, results = run_in_orders(fusion([a], total(wide, 1), away), x, options=Options())
    sums = x.double().sum(1)
    for found in results:
        assert torch.equal(found[0].double(), sums)
        assert torch.equal(found[1].double(), x.double() - sums[:, None])


Made = Callable[[TensorView], TensorView]


def minus_total(made: TensorView, x: TensorView) -> TensorView:
    return call("sub", made, along(total(x, 1), made.shape[1]))


# What reads elements that are no vectors of the plane, or not only those.
MOVED: dict[str, tuple[Made, Callable[[torch.Tensor], torch.Tensor]]] = {
    "reversed": (lambda x: minus_total(flip(x, 1), x), lambda x: x.flip(1) - x.sum(1, True)),
    "shifted": (
        lambda x: minus_total(pad(piece(x, 1, 3, x.shape[1]), (0, 3), 2.0), x),
        lambda x: torch.nn.functional.pad(x[:, 3:], (0, 3), value=2.0) - x.sum(1, True),
    ),
    "both places": (
        lambda x: minus_total(call("add", x, flip(x, 1)), x),
        lambda x: x + x.flip(1) - x.sum(1, True),
    ),
}


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("case", MOVED)
@pytest.mark.parametrize("columns", [259, 1023])
def test_rows_that_are_read_elsewhere_too(columns: int, case: str) -> None:
    x = torch.randint(-8, 9, (11, columns)).float()
    (a,) = like(x)
    made, wanted = MOVED[case]
    (found,) = run(fusion([a], made(a)), x, options=Options())
    assert torch.equal(found, wanted(x))


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("step", [1, 2, 3])
def test_rows_that_take_every_so_many_elements_of_others(step: int) -> None:
    x, y = torch.randint(-8, 9, (9, 1023)).float(), torch.randint(-8, 9, (9, 1023 * step)).float()
    a, b = like(x, y)
    taken = piece(b, 1, 0, 1023 * step, step)
    (found,) = run(fusion([a, b], minus_total(call("add", a, taken), a)), x, y, options=Options())
    assert torch.equal(found, x + y[:, ::step] - x.sum(1, True))


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
def test_rows_of_bytes_have_more_edges_than_a_vector_has_lanes() -> None:
    x = torch.randint(-8, 9, (7, 1023)).to(torch.int8)
    (a,) = like(x)
    wide = call("cast", a, dtype=like(torch.empty(1))[0].dtype)
    kernel = kernel_of(segment_of([a], total(wide, 1)))
    assert (kernel.lanes, kernel.axes.edges, kernel.threads_per_row) == (16, 30, 32)
    (found,) = run(fusion([a], total(wide, 1)), x, options=Options())
    assert torch.equal(found, x.float().sum(1))

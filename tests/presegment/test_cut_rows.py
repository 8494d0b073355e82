"""Which rows that blocks share are cut into pieces, and that results stay what they are."""

from __future__ import annotations

import pytest
import torch

from tests.presegment.test_one_pass_exponentials import below, top
from tests.programs import cuda_kernels, expand, fusion, like, machine, total, unsqueeze
from tests.schedule.segments import floats
from thunder_fuser.analysis.shared_rows import shared_rows
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.cut_rows import cut_rows
from thunder_fuser.runtime.evaluate import evaluate

SMS = 132


def cut(program: Fusion, multiprocessors: int = SMS) -> Fusion:
    target = machine(multiprocessors)
    return cut_rows(program, shared_rows(program, target), target)


def distance(x: TensorView) -> TensorView:
    return call("sub", x, expand(unsqueeze(top(x, 1), 1), *x.shape))


def entropy(x: TensorView) -> TensorView:
    """Of its terms, those that the distances from the maximum weigh."""
    away = distance(x)
    return total(call("mul", call("exp", away), away), 1)


def test_weighed_exponentials_are_summed_in_pieces() -> None:
    x = floats(8, 1 << 20)
    text = str(cut(Fusion((x,), (entropy(x),))))
    assert "f32[i8, i1024, r1024] = max(" not in text
    assert text.count("f32[i8, i128, r8192] = max(") == 1
    assert text.count("f32[i8, i128, r8192] = sum(") == 2
    assert text.count("f32[i8, r128] = ") == 2


@pytest.mark.parametrize(
    ("rows", "columns", "size"),
    [
        (8, 1 << 20, 8192),
        (8, 3 << 18, 8192),
        (2, 1 << 17, 1024),  # enough pieces for the machine
        (8, (1 << 20) + 8, None),  # no equal pieces in whole lines
        (8, 1 << 15, None),  # blocks keep them
        (SMS, 1 << 20, None),
    ],
)
def test_pieces_are_equal_and_enough(rows: int, columns: int, size: int | None) -> None:
    x = floats(rows, columns)
    program = Fusion((x,), (entropy(x),))
    made = cut(program)
    if size is None:
        assert made is program
    else:
        assert f"f32[i{rows}, i{columns // size}, r{size}] = max(" in str(made)


def test_plain_exponentials_stay() -> None:
    x = floats(8, 1 << 20)
    program = Fusion((x,), (total(below(x, top(x, 1), 1), 1),))
    assert cut(program) is program


def test_capped_logits_are_kept() -> None:
    x = floats(8, 1 << 20)
    capped = call("tanh", x)
    made = cut(Fusion((x,), (total(below(capped, top(capped, 1), 1), 1),)))
    assert "f32[i8, i128, r8192] = max(" in str(made)


def test_rows_stay_of_which_other_sums_wait() -> None:
    x = floats(8, 1 << 20)
    squared = total(call("mul", distance(x), distance(x)), 1)
    program = Fusion((x,), (entropy(x), squared))
    assert cut(program) is program


def test_a_maximum_is_looked_for_in_the_pieces_of_its_place() -> None:
    x = floats(8, 1 << 20)
    pieces = call("reshape", x, new_shape=tuple(map(sc.constant, (8, 256, 4096))))
    made = cut(Fusion((x,), (top(x, 1), call("min", pieces, dims=(2,)))))
    assert "f32[i8, i256, r4096] = max(" in str(made)
    other = floats(8, 1 << 20)
    pieces = call("reshape", other, new_shape=tuple(map(sc.constant, (8, 256, 4096))))
    program = Fusion((x, other), (top(x, 1), call("min", pieces, dims=(2,))))
    assert cut(program) is program


def test_sums_of_all_elements_are_no_pieces_of_each_other() -> None:
    x = floats(1 << 20)
    program = Fusion((x,), (total(x, 0), total(call("neg", x), 0)))
    assert cut(program) is program


def test_an_entropy_reads_its_rows_once() -> None:
    (x,) = like(values := torch.empty(8, 1 << 20))
    segmented, _ = cuda_kernels(cut(fusion([x], entropy(x))), values)
    read = [[tv.shape for tv in segment.inputs] for segment in segmented.segments]
    assert read == [[x.shape], [(8, 128)] * 3]


@pytest.mark.parametrize("columns", [1 << 21, (1 << 21) + 8, 1 << 16])
def test_all_rows_are_summed_by_blocks_that_walk_a_piece_of_each(columns: int) -> None:
    x = floats(8, columns)
    program = Fusion((x,), (total(x, 0), total(x, 1)))
    made = cut(program)
    if columns == 1 << 21:
        assert f"f32[i{columns // 8192}, r8, i8192] = sum(" in str(made)
        values = torch.empty(8, columns)
        (y,) = like(values)
        segmented, _ = cuda_kernels(cut(fusion([y], total(y, 0), total(y, 1))), values)
        assert [len(segment.stores) for segment in segmented.segments] == [2, 1]
    else:
        assert made is program  # no equal pieces, or too little to walk


def test_sums_of_all_rows_stay_that_a_row_waits_for() -> None:
    x = floats(8, 1 << 21)
    down = total(x, 0)
    centred = call("sub", x, expand(unsqueeze(down, 0), *x.shape))
    program = Fusion((x,), (down, total(call("mul", x, centred), 1)))
    assert cut(program) is program


@pytest.mark.parametrize("name", ["sum", "max", "prod"])
def test_what_all_rows_are_reduced_to_is_the_same(name: str) -> None:
    values = torch.rand(3, 1 << 16) + 0.5
    (x,) = like(values)
    program = fusion([x], call(name, x, dims=(0,)), call(name, x, dims=(1,)))
    made = cut(program, 4)
    assert "walked=" in str(made)
    for got, want in zip(evaluate(made, [values]), evaluate(program, [values]), strict=True):
        torch.testing.assert_close(got, want)


def test_values_are_those_of_whole_rows() -> None:
    """Also of pieces and rows of nothing but -inf, beside one that is far above the others."""
    values = torch.randn(8, 1 << 16)
    values[0, :40000], values[1], values[2, 7] = -torch.inf, -torch.inf, torch.inf
    values[3, 9], values[4, 100] = 3e38, torch.nan
    values[5] += torch.arange(1 << 16) / 100
    (x,) = like(values)
    away = distance(x)
    raised = call("exp", away)
    is_zero = call("eq", raised, sc.constant(0.0))
    seen = call("where", is_zero, sc.constant(0.0), away)
    weighed = call("mul", raised, call("sub", call("add", seen, seen), call("neg", call("sin", x))))
    plain = call("mul", away, call("sin", x))
    program = fusion([x], *(total(tv, 1) for tv in (weighed, plain, x)), entropy(x), top(x, 1))
    made, exact = cut(program, 16), evaluate(program, [values.double()])
    assert "f32[i8, i8, r8192] = max(" in str(made)
    for got, want in zip(evaluate(made, [values]), exact, strict=True):
        # Sums of 65,536 terms of about 1, of both signs: an ulp of what they pass is 3e-5.
        torch.testing.assert_close(
            got.double(), want.double(), rtol=1e-4, atol=1e-3, equal_nan=True
        )

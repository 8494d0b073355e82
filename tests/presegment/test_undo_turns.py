"""Which reductions of a permutation are of what it is one of."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.programs import chain, fusion, like, machine, permute, total, unsqueeze
from tests.schedule.segments import floats
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.presegment.undo_turns import undo_turns
from thunder_fuser.runtime.evaluate import evaluate


def test_columns_are_reduced_as_such_beside_rows() -> None:
    x = floats(64, 48)
    program = Fusion((x,), (total(x, 1), total(chain(permute(x, 1, 0), "neg"), 1)))
    assert str(undo_turns(program, machine(1))) == dedent("""\
        fusion(T0: f32[i64, i48]) {
          T1: f32[i64, r48] = sum(T0, dims=[1])
          T2: f32[i64, i48] = neg(T0)
          T3: f32[r64, i48] = sum(T2, dims=[0])
          return T1, T3
        }""")


@pytest.mark.parametrize(("rows", "is_undone"), [(1536, False), (1537, True)])
def test_columns_that_a_block_keeps_are_left_as_rows(rows: int, is_undone: bool) -> None:
    x = floats(rows, 64)
    program = Fusion((x,), (total(permute(x, 1, 0), 1),))
    assert (undo_turns(program, machine(1)) is not program) is is_undone


def test_what_stays_along_memory_is_left() -> None:
    x = floats(2000, 64, 48)
    program = Fusion((x,), (total(permute(x, 1, 0, 2), 2),))
    assert undo_turns(program, machine(1)) is program


def test_what_there_is_one_of_per_column_goes_along() -> None:
    x, mean = floats(1600, 48), floats(48)
    centred = call("sub", permute(x, 1, 0), unsqueeze(mean, 1))
    made = undo_turns(Fusion((x, mean), (total(call("mul", centred, centred), 1),)), machine(1))
    assert str(made) == dedent("""\
        fusion(T0: f32[i1600, i48], T1: f32[i48]) {
          T2: f32[i48, b1] = broadcast(T1, is_broadcast_dim=[False, True])
          T3: f32[b1, i48] = permute(T2, dims=[1, 0])
          T4: f32[i1600, i48] = sub(T0, T3)
          T5: f32[i1600, i48] = mul(T4, T4)
          T6: f32[r1600, i48] = sum(T5, dims=[0])
          return T6
        }""")


def test_what_meets_another_plane_is_left() -> None:
    x, y = floats(2000, 1800), floats(1800, 2000)
    program = Fusion((x, y), (total(call("add", permute(x, 1, 0), y), 1),))
    assert undo_turns(program, machine(1)) is program


def test_what_meets_another_plane_elsewhere_is_left() -> None:
    """One kernel has the sums of both."""
    x, y = floats(2000, 1800), floats(1800, 2000)
    straight = permute(x, 1, 0)
    products = call("mul", straight, y)
    program = Fusion((x, y), (total(straight, 1), total(products, 1)))
    assert undo_turns(program, machine(1)) is program


def test_what_meets_another_plane_leaves_no_other_as_it_is() -> None:
    """But what is reduced of the same permutation beside it."""
    x, y, z = floats(2000, 1800), floats(1800, 2000), floats(2000, 1800)
    turned = permute(x, 1, 0)
    beside = total(call("mul", turned, turned), 1)
    mixed, apart = total(call("add", turned, y), 1), total(chain(permute(z, 1, 0), "neg"), 1)
    made = undo_turns(Fusion((x, y, z), (mixed, beside, apart)), machine(1))
    assert made.outputs[:2] == (mixed, beside)
    assert made.outputs[2].domain.logical[0].is_reduction


def test_values_stay_what_they_are() -> None:
    """Kept axes in another order, and a plane that is read both ways."""
    values = torch.randint(-9, 9, (4, 40, 60)).float()
    (x,) = like(values)
    turned = chain(permute(x, 2, 0, 1), "neg")
    program = fusion([x], total(x, 0, 2), total(turned, 2), call("exp", turned), total(x, 2))
    made = undo_turns(program, machine(1))
    assert made is not program
    for got, want in zip(evaluate(made, [values]), evaluate(program, [values]), strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("rank", [0, 1])
def test_operands_of_fewer_dims_are_broadcast_as_they_were(rank: int) -> None:
    x, w = torch.randn(2048, 512), torch.randn([2048][:rank])
    a, b = like(x, w)
    sums = total(call("mul", permute(a, 1, 0), b), 1)
    whole = fusion([a, b], sums, total(a, 1), call("max", chain(a, "exp"), dims=(0,)))
    made = undo_turns(whole, machine(132))
    for found, exact in zip(evaluate(made, (x, w)), evaluate(whole, (x, w)), strict=True):
        torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-3)

"""Which sums over the columns of samples are marked."""

from __future__ import annotations

from tests.programs import expand, fusion, machine, total, unsqueeze
from tests.schedule.segments import halves
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.meet_columns import meet_columns
from thunder_fuser.target import LARGE_CLUSTER


def shares(x: TensorView) -> Fusion:
    """Each element by what its sample comes to, which the sums of columns are added up for."""
    whole = total(total(x, 1), 1)
    return fusion([x], call("mul", x, expand(unsqueeze(unsqueeze(whole, 1), 1), *x.shape)))


def test_a_sum_of_the_sums_of_columns_is_marked() -> None:
    _, own, met, *_ = str(
        meet_columns(shares(halves(300, 256, 96)), machine(132, LARGE_CLUSTER))
    ).splitlines()
    assert own == "  T1: bf16[i300, r256, i96] = sum(T0, dims=[1])"
    assert met == "  T2: bf16[i300, r96] = sum(T1, dims=[1], met=96)"


def test_others_stay() -> None:
    """Few samples; more than blocks hold; no vectors; results that no element waits for."""
    x = halves(300, 256, 96)
    beside = fusion([x], call("neg", x), total(total(x, 1), 1))
    large = (halves(9, 256, 96), halves(300, 3001, 768), halves(300, 256, 97))
    for program in (beside, *map(shares, large)):
        assert meet_columns(program, machine(132, LARGE_CLUSTER)) is program

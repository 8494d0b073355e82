"""Let blocks share the rows of a running sum that are too few for the machine.

    T1: f32[i8, i1048576] = cumsum(T0, dim=1)
        =>   T1 = cumsum(T0, dim=1, chained=1)

Such rows are columns of one element each, which blocks walk one behind another, and read once.
"""

from __future__ import annotations

from functools import partial

from thunder_fuser.analysis.reductions import CHAINED, is_scan, row_shape
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.presegment.stages import marked
from thunder_fuser.target import Target

MIN_ROW = 32768  # elements of a row: a shorter one is walked as soon


def chain_scans(fusion: Fusion, target: Target) -> Fusion:
    """`fusion` with such running sums marked."""
    return rewrite(fusion, partial(_rule, target))


def _rule(target: Target, tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    rows, columns = (row_shape(tv) if is_scan(tv) else None) or (0, 0)
    is_shared = rows < target.multiprocessors and columns >= MIN_ROW
    return marked(tv, inputs, **{CHAINED: 1}) if is_shared else None

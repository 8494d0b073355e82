"""Programs whose kernels are compared with the texts in tests/golden/codegen."""

from __future__ import annotations

import torch

from tests.presegment.test_both_ways import joined
from tests.programs import (
    cat,
    chain,
    expand,
    flip,
    fusion,
    ints,
    like,
    ordered,
    pad,
    permute,
    piece,
    reshape,
    total,
    unsqueeze,
)
from tests.rope import Rope
from thunder_fuser.analysis.reductions import MET
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import apply, call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops.reductions import MAXIMA, SQUARED_DEVIATION
from thunder_fuser.presegment.both_ways import both_ways

Case = tuple[Fusion, list[torch.Tensor]]


def scaled() -> Case:
    x, w = torch.empty(6, 40, dtype=torch.bfloat16), torch.empty(40)
    a, b = like(x, w)
    return fusion([a, b], call("cast", call("mul", a, b), dtype=DataType.BFloat16)), [x, w]


def padded_and_joined() -> Case:
    x = torch.empty(5, 12)
    (a,) = like(x)
    return fusion([a], cat(flip(a, 1), pad(a, [3, 1], 2.0))), [x]


def padded_all_around() -> Case:
    """Stored in whole vectors, of which each lane finds its place."""
    x = torch.empty(800, 28, 28, dtype=torch.bfloat16)
    (a,) = like(x)
    return fusion([a], pad(a, [1, 1, 1, 1])), [x]


def rolled_both_ways() -> Case:
    """One load of what each lane chooses."""
    x = torch.empty(800, 28, 30, dtype=torch.bfloat16)
    (a,) = like(x)
    rows = cat(piece(a, 1, 3, 28), piece(a, 1, 0, 3), dim=1)
    return fusion([a], cat(piece(rows, 2, 5, 30), piece(rows, 2, 0, 5), dim=2)), [x]


def updated_in_place() -> Case:
    x, y = torch.empty(7, 9), torch.empty(9)
    a, b = like(x, y)
    return fusion([a, b], writes=[(call("add", a, b), a)]), [x, y]


def biased_in_odd_rows() -> Case:
    """Walked as one axis; most vectors lie in one row."""
    x, bias = torch.empty(8, 1031, dtype=torch.bfloat16), torch.empty(1031, dtype=torch.bfloat16)
    a, b = like(x, bias)
    return fusion([a, b], call("cast", call("add", a, b), dtype=DataType.BFloat16)), [x, bias]


def summed_shortly() -> Case:
    x = torch.empty(4, 3, 64, dtype=torch.bfloat16)
    (a,) = like(x)
    return fusion([a], total(a, 1)), [x]


def turned() -> Case:
    x, y = torch.empty(100, 64, dtype=torch.bfloat16), torch.empty(64, 100, dtype=torch.bfloat16)
    a, b = like(x, y)
    added = call("add", permute(a, 1, 0), b)
    return fusion([a, b], added, chain(permute(added, 1, 0), "neg")), [x, y]


def turned_whole() -> Case:
    """Images of 7 x 7 that become channels last."""
    x = torch.empty(700, 16, 49, dtype=torch.bfloat16)
    (a,) = like(x)
    made = permute(a, 0, 2, 1)
    return fusion([a], call("lt", made, chain(made, "abs")), chain(made, "neg")), [x]


def turned_odd() -> Case:
    """Images of 9 channels of 7 x 7, of which neither aligns anything; two places are left."""
    x = torch.empty(2002, 9, 49, dtype=torch.bfloat16)
    (a,) = like(x)
    made = permute(a, 0, 2, 1)
    return fusion([a], call("lt", made, chain(made, "abs")), chain(made, "neg")), [x]


def walked_down() -> Case:
    """Rows centred, and sums down the columns of four groups of 40 rows."""
    x = torch.empty(160, 520, dtype=torch.bfloat16)
    (a,) = like(x)
    mean = call("broadcast_in_dim", total(a, 1), shape=ints([160, 520]), broadcast_dims=(0,))
    sums = total(reshape(a, 4, 40, 520), 1)
    return fusion([a], call("sub", a, mean), sums), [x]


def walked_side_by_side() -> Case:
    """The same of short rows, 16 side by side in five turns for each of four groups."""
    x = torch.empty(320, 96, dtype=torch.bfloat16)
    (a,) = like(x)
    sums = total(permute(reshape(a, 5, 4, 16, 96), 1, 0, 2, 3), 1, 2)
    return fusion([a], call("sub", a, expand(unsqueeze(total(a, 1), 1), 320, 96)), sums), [x]


def walked_by_clusters() -> Case:
    """The same of long rows of odd length with weights: a cluster has those of each group."""
    x, w = torch.empty(128, 32771, dtype=torch.bfloat16), torch.empty(32771, dtype=torch.bfloat16)
    a, b = like(x, w)
    scaled = call("mul", call("cast", a, dtype=DataType.Float), expand(b, 128, 32771))
    sums = total(permute(reshape(a, 16, 8, 32771), 1, 0, 2), 1)
    mean = expand(unsqueeze(total(scaled, 1), 1), 128, 32771)
    made = call("cast", call("sub", scaled, mean), dtype=DataType.BFloat16)
    return fusion([a, b], made, sums), [x, w]


def scanned_in_runs() -> Case:
    """Short odd rows, summed from their end."""
    x = torch.empty(90_001, 63, dtype=torch.bfloat16)
    (a,) = like(x)
    return fusion([a], call("cumsum", a, dim=1, reverse=True)), [x]


def scanned_by_blocks() -> Case:
    """Columns whose rows blocks share, from the last row on."""
    x = torch.empty(100_001, 4097, dtype=torch.bfloat16)
    (a,) = like(x)
    return fusion([a], call("cumsum", a, dim=0, reverse=True)), [x]


def met_by_neighbours() -> Case:
    """Rows of which a block has sixteen groups of three, less the sum of their group."""
    x = torch.empty(40, 3, 90)
    (a,) = like(x)
    own = total(a, 2)
    met = call("sum", own, dims=(1,), **{MET: 3})
    return fusion([a], call("sub", a, expand(reshape(met, 40, 1, 1), 40, 3, 90)), own), [x]


def roped() -> Case:
    case = Rope(length=64)
    program = case.forward()
    return program, case.arguments(program)


def embedded() -> Case:
    """Rows of a table, scaled and divided by their largest element."""
    weight, index = torch.empty(50, 512, dtype=torch.bfloat16), torch.empty(7, dtype=torch.int64)
    w, i = like(weight, index)
    rows = call("mul", call("index_select", w, i, dim=0), sc.constant(22.5))
    largest = expand(unsqueeze(call("max", rows, dims=(1,)), 1), 7, 512)
    return fusion([w, i], call("div", rows, largest)), [weight, index]


def taken_along_rows() -> Case:
    """An index per element, so that it is loaded lane by lane."""
    x, index = torch.empty(5, 9), torch.empty(5, 64, dtype=torch.int32)
    a, i = like(x, index)
    return fusion([a, i], call("take_along_axis", call("neg", a), i, dim=1)), [x, index]


def summed_along() -> Case:
    """A running sum over several warps, scaled on the way in and on the way out."""
    x = torch.empty(6, 2048, dtype=torch.bfloat16)
    (a,) = like(x)
    summed = call("cumsum", call("mul", a, sc.constant(2.0)), dim=1, reverse=False)
    return fusion([a], call("cast", call("neg", summed), dtype=DataType.BFloat16)), [x]


def shared_by_blocks() -> Case:
    """The gradient of softmax along rows that a cluster shares, and the sum that it needs."""
    y, g = (torch.empty(400, 65536, dtype=torch.bfloat16) for _ in range(2))
    a, b = like(y, g)
    inner = total(call("mul", *(call("cast", v, dtype=DataType.Float) for v in (a, b))), 1)
    made = call("mul", a, call("sub", b, expand(unsqueeze(inner, 1), 400, 65536)))
    return fusion([a, b], call("cast", made, dtype=DataType.BFloat16), inner), [y, g]


def summed_by_index() -> Case:
    """The gradient of an embedding, scaled, as it is added to another one."""
    x, other = torch.empty(60, 512, dtype=torch.bfloat16), torch.empty(50, 512)
    index = torch.empty(60, dtype=torch.int32)
    a, b, i = like(x, other, index)
    order, _, ends = ordered(i, 50)
    terms = call("cast", call("mul", a, sc.constant(22.5)), dtype=DataType.Float)
    made = call("group_sum", terms, order, ends, dim=0, skip=3)
    return fusion([a, b, i], call("add", b, made)), [x, other, index]


def picked() -> Case:
    """The gradient of elements that were picked and scaled, added to another one."""
    g, w = torch.empty(600, 32, dtype=torch.bfloat16), torch.empty(600, 32)
    other, index = torch.empty(600, 96), torch.empty(600, 32, dtype=torch.int32)
    a, b, c, i = like(g, w, other, index)
    terms = call("mul", call("cast", a, dtype=DataType.Float), b)
    made = call("add", c, call("pick_sum", terms, i, dim=1, count=ints([96])))
    return fusion([a, b, c, i], call("cast", made, dtype=DataType.BFloat16)), [g, w, other, index]


def shared_down() -> Case:
    """Columns whose rows several blocks share, and a running sum of them."""
    x, running = torch.empty(2048, 40, dtype=torch.bfloat16), torch.empty(40)
    a, r = like(x, running)
    summed = total(call("cast", a, dtype=DataType.Float), 0)
    return fusion([a, r], writes=[(call("add", r, summed), r)]), [x, running]


def shared_along() -> Case:
    """Two sums of a row that several blocks share."""
    x = torch.empty(3, 40000)
    (a,) = like(x)
    return fusion([a], chain(total(a, 1), "neg"), call("max", a, dims=(1,))), [x]


def summed_over_rows() -> Case:
    """The mean of the largest elements of short rows, of which a block has several."""
    x = torch.empty(300, 72, dtype=torch.bfloat16)
    (a,) = like(x)
    largest = call("cast", call("max", a, dims=(1,)), dtype=DataType.Float)
    return fusion([a], call("truediv", total(largest, 0), sc.constant(300.0))), [x]


def summed_over_streams() -> Case:
    """The mean of a logarithm of each row's sum of exponentials, among rows that count."""
    x, w = torch.empty(600, 40000, dtype=torch.bfloat16), torch.empty(600)
    a, b = like(x, w)
    wide = call("cast", a, dtype=DataType.Float)
    top = expand(unsqueeze(call("max", wide, dims=(1,)), 1), 600, 40000)
    row = chain(total(chain(call("sub", wide, top), "exp"), 1), "log")
    mean = call("div", total(call("mul", row, b), 0), total(b, 0))
    return fusion([a, b], row, call("cast", mean, dtype=DataType.BFloat16)), [x, w]


def summed_down_columns() -> Case:
    """A running sum from the last row to the first, of columns of planes."""
    x = torch.empty(3, 50, 24, dtype=torch.bfloat16)
    (a,) = like(x)
    return fusion([a], call("neg", call("cumsum", a, dim=1, reverse=True))), [x]


def kept_down_columns() -> Case:
    """Planes less the sums of their columns, in place, over the largest of what is left."""
    x = torch.empty(3, 50, 24, dtype=torch.bfloat16)
    (a,) = like(x)
    left = call("sub", a, expand(unsqueeze(total(a, 1), 1), 3, 50, 24))
    largest = call("max", left, dims=(1,))
    made = call("div", left, expand(unsqueeze(largest, 1), 3, 50, 24))
    return fusion([a], largest, writes=[(made, a)]), [x]


def summed_along_and_on() -> Case:
    """A running sum of rows that a block walks a piece at a time, and their whole sums."""
    x = torch.empty(3, 50001, dtype=torch.bfloat16)
    (a,) = like(x)
    return fusion([a], call("cumsum", a, dim=1, reverse=False), total(a, 1)), [x]


def counted() -> Case:
    """The largest elements of columns, and how many equal it, in one pass."""
    x = torch.empty(300, 24, dtype=torch.bfloat16)
    (a,) = like(x)
    wide = call("cast", a, dtype=DataType.Float)
    count = apply(MAXIMA, [wide], {"dims": (0,)})
    assert isinstance(count, TensorView)
    return fusion([a], call("max", wide, dims=(0,)), count), [x]


def variances() -> Case:
    """Of channels that lie between reduced axes, and their means."""
    x = torch.empty(64, 24, 56, 56, dtype=torch.bfloat16)
    (a,) = like(x)
    wide = call("cast", a, dtype=DataType.Float)
    squares = apply(SQUARED_DEVIATION, [wide], {"dims": (0, 2, 3)})
    assert isinstance(squares, TensorView)
    return fusion([a], squares, total(wide, 0, 2, 3)), [x]


def normalised_from_the_end() -> Case:
    """Channels that are more than a cluster holds, less their sums: two kernels, there and back."""
    x = torch.empty(130, 64, 112, 112, dtype=torch.bfloat16)
    (a,) = like(x)
    wide = call("cast", a, dtype=DataType.Float)
    sums = expand(reshape(total(wide, 0, 2, 3), 1, 64, 1, 1), *x.shape)
    return fusion([a], call("cast", call("sub", wide, sums), dtype=DataType.BFloat16)), [x]


def reduced_both_ways() -> Case:
    """Maxima of rows and of columns, and the exponentials below them, in one read."""
    x = torch.empty(2048, 2048, dtype=torch.bfloat16)
    (a,) = like(x)
    return both_ways(fusion([a], *joined(call("cast", a, dtype=DataType.Float), 1, 0))), [x]


CASES = {
    f.__name__: f
    for f in (
        scaled,
        padded_and_joined,
        padded_all_around,
        rolled_both_ways,
        updated_in_place,
        biased_in_odd_rows,
        summed_shortly,
        turned,
        turned_whole,
        turned_odd,
        walked_down,
        walked_side_by_side,
        walked_by_clusters,
        scanned_in_runs,
        scanned_by_blocks,
        met_by_neighbours,
        roped,
        embedded,
        taken_along_rows,
        summed_along,
        shared_by_blocks,
        summed_by_index,
        picked,
        shared_down,
        shared_along,
        summed_over_rows,
        summed_over_streams,
        summed_down_columns,
        reduced_both_ways,
        kept_down_columns,
        summed_along_and_on,
        counted,
        variances,
        normalised_from_the_end,
    )
}

"""The CUDA text of kernels: golden files, accepted by NVRTC."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.presegment.test_both_ways import joined
from tests.programs import (
    H200,
    SMALL,
    cat,
    chain,
    cubin_of,
    cuda_kernels,
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
    run,
    total,
    unsqueeze,
)
from tests.rope import Rope
from thunder_fuser.analysis.reductions import MET
from thunder_fuser.codegen.emit import emit
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import apply, call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.templates import AnyKernel
from thunder_fuser.ops.reductions import MAXIMA, SQUARED_DEVIATION
from thunder_fuser.presegment.both_ways import both_ways
from thunder_fuser.runtime.dtypes import DTYPES_OF_TORCH

GOLDEN = Path(__file__).parents[1] / "golden" / "codegen"
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


def reduced_both_ways() -> Case:
    """Maxima of rows and of columns, and the exponentials below them, in one read."""
    x = torch.empty(2048, 2048, dtype=torch.bfloat16)
    (a,) = like(x)
    return both_ways(fusion([a], *joined(call("cast", a, dtype=DataType.Float), 1, 0))), [x]


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


def entry(text: str) -> str:
    """The kernel without the device prelude, which has tests of its own."""
    return text[text.index('extern "C"') :]


def kernels_of(name: str) -> list[AnyKernel]:
    """Two groups of rows are walked on a machine that two blocks keep busy."""
    program, arguments = CASES[name]()
    target = SMALL if name in ("walked_down", "walked_side_by_side") else H200
    return cuda_kernels(program, *arguments, target=target)[1]


@pytest.mark.parametrize("name", CASES)
def test_text(name: str, golden: Callable[[str, str], None]) -> None:
    kernels = kernels_of(name)
    golden(f"codegen/{name}.cu", "".join(entry(emit(k).text) for k in kernels))


def test_narrow_elements_of_a_square_are_loaded_before_any_is_stored() -> None:
    """Two bytes at a time are no background copy, and each would be waited for."""
    x = torch.empty(33, 70, dtype=torch.bfloat16)
    (a,) = like(x)
    _, (kernel,) = cuda_kernels(fusion([a], chain(permute(a, 1, 0), "neg")), x)
    loops = emit(kernel).text.split("#pragma unroll\n  for (int k")
    (loading,) = (k for k, text in enumerate(loops) if "t0_held[k] = tf::load" in text)
    (storing,) = (k for k, text in enumerate(loops) if "t0_held[k]);" in text)
    assert loading < storing


def test_stores_that_no_cache_holds_are_of_the_same_family() -> None:
    """Their hint is a literal."""
    sources = []
    for rows in (64, 65536):
        x = torch.empty(rows, 1024)
        (a,) = like(x)
        _, (kernel,) = cuda_kernels(fusion([a], call("exp", a)), x)
        sources.append(emit(kernel))
    small, large = sources
    assert small.fragments == large.fragments
    (hint,) = small.hints & large.hints
    assert (small.literals[hint], large.literals[hint]) == (0, 1)


@pytest.mark.parametrize("name", CASES)
def test_nvrtc_compiles_the_text_without_spills(name: str) -> None:
    for kernel in kernels_of(name):
        assert cubin_of(kernel).spill_bytes == 0


@pytest.mark.parametrize("columns", [50257, 65536, 262144])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("has_weights", [False, True])
def test_long_rows_are_shared_by_clusters_without_spills(
    columns: int, dtype: torch.dtype, has_weights: bool
) -> None:
    """Softmax, and a norm with weights, of rows enough for every multiprocessor."""
    x, w = torch.empty(400, columns, dtype=dtype), torch.empty(columns, dtype=dtype)
    a, b = like(x, w)
    wide = call("cast", a, dtype=DataType.Float)
    if has_weights:
        mean = expand(unsqueeze(call("mul", total(wide, 1), sc.constant(0.1)), 1), 400, columns)
        far = call("sub", wide, mean)
        deviation = expand(unsqueeze(total(call("mul", far, far), 1), 1), 400, columns)
        made = call("mul", call("mul", far, chain(deviation, "rsqrt")), b)
    else:
        top = expand(unsqueeze(call("max", wide, dims=(1,)), 1), 400, columns)
        power = chain(call("sub", wide, top), "exp")
        made = call("div", power, expand(unsqueeze(total(power, 1), 1), 400, columns))
    program = fusion([a, b], call("cast", made, dtype=DTYPES_OF_TORCH[dtype]))
    _, (kernel,) = cuda_kernels(program, x, w)
    source = emit(kernel)
    assert source.cluster > 1
    assert cubin_of(kernel).spill_bytes == 0


def test_every_golden_file_has_a_case() -> None:
    assert {p.stem for p in GOLDEN.glob("*.cu")} == set(CASES)


def text_of(program: Fusion, *arguments: torch.Tensor) -> str:
    _, kernels = cuda_kernels(program, *arguments)
    return "".join(entry(emit(k).text) for k in kernels)


def test_a_target_that_is_read_is_not_restricted() -> None:
    text = text_of(*_case(updated_in_place))
    assert re.search(r"kernel\(float\* T0, const float\* __restrict__ T1\)", text)


def _case(make: Callable[[], Case]) -> tuple[object, ...]:
    program, arguments = make()
    return program, *arguments


@pytest.mark.parametrize("count", [2**31 - 1, 2**31, 2**31 + 1, 2**31 + 8])
def test_offsets_from_2_31_on_are_64_bits_wide(count: int) -> None:
    x = torch.empty(1, dtype=torch.int8).expand(count)
    (a,) = like(x)
    text = text_of(fusion([a], chain(a, "neg")), x)
    assert ("const long long thread" in text) == (count > 2**31)


def test_what_stands_inside_a_division_may_need_64_bits() -> None:
    n = 65537
    x = torch.randint(0, 1000, (n,))
    (a,) = like(x)
    square = reshape(expand(unsqueeze(a, 0), n, n), n * n)
    program = fusion([a], chain(piece(square, 0, 0, n * n, 65536), "neg"))
    assert "const long long i0" in text_of(program, x)
    (found,) = run(program, x)
    assert torch.equal(found, -x[torch.arange(0, n * n, 65536) % n])


def test_a_large_expanded_operand_of_a_small_result_needs_no_wide_index() -> None:
    x = torch.empty(1, 5, dtype=torch.int8).expand(2**31, 5)
    (a,) = like(x)
    assert "long long" not in text_of(fusion([a], chain(piece(a, 0, 3, 7), "neg")), x)


def test_a_broadcast_at_an_input_is_no_operand_of_its_own() -> None:
    """NVIDIA/Fuser#3366 (a): neg(x[i0]) -> broadcast -> mul(y[i0, i1])."""
    x, y = torch.empty(8), torch.empty(8, 12)
    a, b = like(x, y)
    segmented, (kernel,) = cuda_kernels(
        fusion([a, b], call("mul", unsqueeze(chain(a, "neg"), 1), b)), x, y
    )
    assert [p.name for p in kernel.pointers] == ["T0", "T3", "T4"]
    assert segmented.edge_bytes == 0


@pytest.mark.parametrize(
    "view",
    [
        lambda a: expand(unsqueeze(a, 0), 3, 8, 12),
        lambda a: permute(unsqueeze(a, 1), 2, 1, 0),
        lambda a: reshape(unsqueeze(a, 2), 12, 8),
    ],
    ids=["broadcast", "permute", "squeeze"],
)
def test_trivial_views_are_index_maps(view: object) -> None:
    assert callable(view)
    x = torch.empty(8, 12)
    (a,) = like(x)
    segmented, (kernel,) = cuda_kernels(fusion([a], chain(view(a), "neg")), x)
    assert len(kernel.pointers) == 2
    assert segmented.edges == ()

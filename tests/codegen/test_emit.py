"""The CUDA text of kernels: golden files, accepted by NVRTC."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.codegen.emit_cases import CASES, updated_in_place
from tests.programs import (
    H200,
    SMALL,
    chain,
    cubin_of,
    cuda_kernels,
    expand,
    fusion,
    like,
    permute,
    piece,
    reshape,
    run,
    total,
    unsqueeze,
)
from thunder_fuser.codegen.emit import emit
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.kernel.templates import AnyKernel
from thunder_fuser.runtime.dtypes import DTYPES_OF_TORCH

GOLDEN = Path(__file__).parents[1] / "golden" / "codegen"


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
    program, arguments = updated_in_place()
    text = text_of(program, *arguments)
    assert re.search(r"kernel\(float\* T0, const float\* __restrict__ T1\)", text)


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

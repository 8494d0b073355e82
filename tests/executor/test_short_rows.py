"""Gradients of norms over many short rows: one walk of the plane and a sum of what blocks leave,
values against fp64 beside eager's, the same bits in every thread order."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import thunder
import torch
import torch.nn.functional as F

from tests.executor.judging import Program, judged, runs
from thunder_fuser import fuser
from thunder_fuser.executor.explain import regions_of

pytestmark = pytest.mark.sanitizer
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


def rms_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, w.shape, w, 1e-5)


def layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, w.shape, w, b)


def scaled_layer_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, w.shape, w)


def rms_norm_and_on(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The gradient of the residual is added to that of the norm."""
    doubled = x + x
    return doubled + rms_norm(doubled, w)


def activated_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Its exponentials are held from the sums to the stores."""
    return F.rms_norm(F.silu(x), w.shape, w, 1e-5)


def softmax(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x + b, -1)


CASES: dict[str, tuple[Program, torch.dtype, tuple[int, ...], int]] = {
    "rms_norm": (rms_norm, BF16, (640, 64), 1),
    "rms_norm of heads": (rms_norm, BF16, (2, 50, 8, 128), 1),
    "rms_norm of a prime number of tokens": (rms_norm, BF16, (307, 8, 128), 1),
    "rms_norm in floats": (rms_norm, F32, (640, 96), 1),
    "rms_norm beside its residual": (rms_norm_and_on, F16, (7, 96, 72), 1),
    "layer_norm": (layer_norm, BF16, (640, 64), 2),
    "layer_norm in halves": (layer_norm, F16, (3, 160, 100), 2),
    "layer_norm in floats": (layer_norm, F32, (480, 256), 2),
    "layer_norm of few kinds of divisors": (layer_norm, BF16, (16 * 61, 64), 2),
    "layer_norm of 512 columns": (layer_norm, BF16, (300, 512), 2),
    "norm of an activation": (activated_norm, BF16, (300, 512), 1),
    "layer_norm without a bias": (scaled_layer_norm, BF16, (640, 80), 1),
    "softmax of a sum": (softmax, F32, (960, 50), 1),
    "layer_norm of a row of a thread": (layer_norm, BF16, (4567, 9), 2),
    "layer_norm of odd rows": (layer_norm, F16, (1283, 63), 2),
    "rms_norm of odd rows in floats": (rms_norm, F32, (1283, 33), 1),
}


def texts(jfn: Callable[..., object]) -> list[str]:
    """The kernels of the gradient, where there is one."""
    *_, last = regions_of(jfn)
    assert last.last_used is not None
    (plan,) = last.last_used.leaf.program.plans[-1:]
    return [kernel.text for kernel in plan.kernels if kernel is not None]


@pytest.fixture(params=["in stretches", "in registers"])
def way(request: pytest.FixtureRequest) -> str:
    """How short rows come: without clusters no GPU is known to copy stretches of them."""
    if request.param == "in registers":
        request.getfixturevalue("without_clusters")
    return str(request.param)


@pytest.mark.usefixtures("one_multiprocessor")
@pytest.mark.parametrize("case", CASES)
def test_errors_are_like_those_of_eager_and_every_order_gives_the_same_bits(
    case: str, way: str, device: torch.device
) -> None:
    program, dtype, shape, weights = CASES[case]
    args = [torch.randn(shape).to(dtype), *(torch.randn(shape[-1]).to(dtype) for _ in "wb")]
    args = args[: 1 + weights]
    cotangent = torch.randn(shape).to(dtype)
    jfn = judged(program, args, cotangent, device)
    walk, last = texts(jfn)
    assert "const int side" in walk
    is_vectors_of_floats = dtype == F32 and shape[-1] % 4 == 0
    is_staged = way == "in stretches" and not is_vectors_of_floats
    assert ("tf::copy_stretch" in walk) == is_staged
    assert "const int side" not in last


def modulated(x: torch.Tensor, shift: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Each sample of tokens has its own."""
    return F.layer_norm(x, x.shape[-1:]) * (1 + scale[:, None]) + shift[:, None]


@pytest.mark.usefixtures("one_multiprocessor")
@pytest.mark.parametrize(
    ("shape", "dtype", "count"),
    [
        ((5, 128, 96), BF16, 1),  # a block for each sample, in turns of 32 tokens
        ((4, 256, 100), F16, 1),
        ((3, 256, 100), F16, 2),  # in parts, whose sums are summed
        ((1, 1024, 96), BF16, 2),
        ((5, 197, 96), BF16, 1),  # a last turn of five rows
        ((5, 132, 96), BF16, 1),  # of four, whose deviations fill a vector
        ((3, 577, 384), F16, 2),  # a last part of fewer turns
    ],
)
def test_rows_of_samples_with_sums_of_their_own_are_walked_in_stretches(
    shape: tuple[int, ...], dtype: torch.dtype, count: int, device: torch.device
) -> None:
    args = [torch.randn(shape).to(dtype), *(torch.randn(shape[::2]).to(dtype) for _ in "ab")]
    walk, *rest = texts(judged(modulated, args, torch.randn(shape).to(dtype), device))
    assert "tf::copy_stretch" in walk
    assert ("_of(turn + 1)" in walk) == (shape[1] % 4 != 0)  # no stretches of what rows have one of
    assert len(rest) == count - 1


@pytest.mark.usefixtures("one_multiprocessor")
def test_rows_of_samples_that_are_no_stretch_are_walked_side_by_side(device: torch.device) -> None:
    shape = (5, 130, 100)
    args = [torch.randn(shape), *(torch.randn(shape[::2]) for _ in "ab")]
    (walk,) = texts(judged(modulated, args, torch.randn(shape), device))
    assert "const int side" in walk
    assert "tf::copy_stretch" not in walk
    assert "is_active" in walk  # not all threads have a row in the last turn


def residual_norm(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    both = x + y
    return both + F.layer_norm(both, x.shape[-1:])


@pytest.mark.usefixtures("one_multiprocessor")
@pytest.mark.parametrize(
    ("rows", "columns", "dtype"), [(1277, 65, F16), (4999, 9, BF16), (331, 217, BF16)]
)
def test_odd_rows_without_weights_are_walked_in_stretches_both_ways(
    rows: int, columns: int, dtype: torch.dtype, device: torch.device
) -> None:
    """Both gradients are one value, which is stored twice."""
    args = [torch.randn(rows, columns).to(dtype) for _ in "xy"]
    jfn = judged(residual_norm, args, torch.randn(rows, columns).to(dtype), device)
    for region in regions_of(jfn):
        assert region.last_used is not None
        (plan,) = region.last_used.leaf.program.plans[-1:]
        (kernel,) = (k for k in plan.kernels if k is not None)
        assert "tf::copy_stretch" in kernel.text


@pytest.mark.usefixtures("one_multiprocessor")
@pytest.mark.parametrize(("tokens", "is_uneven"), [(300, False), (307, True)])
def test_blocks_without_a_row_in_the_last_turn_stop_before_it(
    tokens: int, is_uneven: bool, device: torch.device
) -> None:
    args = [torch.randn(tokens, 8, 128), torch.randn(128)]
    jfn = judged(rms_norm, args, torch.randn(tokens, 8, 128), device)
    walk, _ = texts(jfn)
    assert ("while (" in walk and "--turns" in walk) == is_uneven


@pytest.mark.usefixtures("one_multiprocessor", "without_clusters")
@pytest.mark.parametrize("program", [rms_norm, scaled_layer_norm])
@pytest.mark.parametrize(("dtype", "columns"), [(BF16, 512), (F32, 256), (F32, 252), (BF16, 520)])
def test_an_odd_number_of_the_longest_short_rows(
    program: Program, dtype: torch.dtype, columns: int, device: torch.device
) -> None:
    """Of 64 vectors, the last that are short: in the last turn some threads have no row."""
    args = [torch.randn(1021, columns).to(dtype), torch.randn(columns).to(dtype)]
    jfn = judged(program, args, torch.randn(1021, columns).to(dtype), device)
    is_short = columns * dtype.itemsize <= 1024
    assert any("is_active ? wanted : 0" in text for text in texts(jfn)) == is_short


@pytest.mark.usefixtures("few_multiprocessors")
@pytest.mark.parametrize("rows", [1021, 1024])
def test_sums_of_a_transposed_plane_both_ways(rows: int, device: torch.device) -> None:
    x = torch.randn(800, rows)
    jfn = thunder.jit(lambda x: (x.T.sum(0), x.T.sum(1)), executors=[fuser])
    for found, dim in zip(jfn(x.to(device)), (1, 0), strict=True):
        torch.testing.assert_close(found.cpu(), x.sum(dim), rtol=1e-4, atol=1e-3)


@pytest.mark.usefixtures("one_multiprocessor")
@pytest.mark.parametrize("of", ["cat", "pad"])
def test_sums_both_ways_of_a_plane_that_is_nowhere(of: str, device: torch.device) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        plane = torch.cat([x, y]) if of == "cat" else F.pad(x, (8, 8), value=2.0)
        return plane.sum(0), plane.sum(1)

    args = [torch.randn(1024, 512), torch.randn(1024, 512)]
    jfn = thunder.jit(program, executors=[fuser])
    for ours, exact in zip(jfn(*(t.to(device) for t in args)), program(*args), strict=True):
        torch.testing.assert_close(ours.cpu(), exact, rtol=1e-4, atol=1e-3)
    copies = [line for text in texts(jfn) for line in text.splitlines() if "_slots, (slot" in line]
    assert of == "cat" or copies
    assert of == "cat" or all("copy_async_if" in line for line in copies)  # nothing beside x


def test_rows_of_which_no_block_has_several_are_walked_for_the_columns_again() -> None:
    args = [torch.randn(509, 64), torch.randn(64)]
    jfn = thunder.jit(rms_norm, executors=[fuser])
    exact = runs(rms_norm, [x.double() for x in args], torch.ones(509, 64))
    found = runs(jfn, args, torch.ones(509, 64))
    for ours, value in zip(found, exact, strict=True):
        torch.testing.assert_close(ours, value, rtol=1e-4, atol=1e-4)
    assert not any("const int side" in text for text in texts(jfn))


def biased_softmax(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x * 0.125 + b, -1)


def positioned(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x + b, x.shape[-1:])


IMAGES: dict[str, tuple[Program, torch.dtype, tuple[int, ...]]] = {
    "odd rows": (biased_softmax, BF16, (8, 4, 32, 129)),
    "odd rows in floats": (biased_softmax, F32, (8, 2, 64, 131)),
    "rows of which a vector is in three lanes": (biased_softmax, F16, (16, 2, 64, 70)),
    "few rows": (biased_softmax, BF16, (512, 2, 72)),
    "positions of a norm": (positioned, BF16, (32, 24, 264)),
}


@pytest.mark.usefixtures("one_multiprocessor")
@pytest.mark.parametrize("case", IMAGES)
def test_what_images_share_is_summed_beside_their_rows(case: str, device: torch.device) -> None:
    program, dtype, shape = IMAGES[case]
    args = [torch.randn(shape).to(dtype), torch.randn(shape[1:]).to(dtype)]
    jfn = judged(program, args, torch.randn(shape).to(dtype), device)
    walk, *others = texts(jfn)
    assert "const int side" in walk
    assert len(others) == (case == "few rows")


WINDOWS: dict[str, tuple[Program, torch.dtype, tuple[int, ...]]] = {
    "a prime number of windows": (biased_softmax, BF16, (37, 8, 17, 17)),
    "windows in halves": (biased_softmax, F16, (33, 8, 17, 17)),
    "rows of vectors": (biased_softmax, BF16, (40, 8, 16, 16)),
    "floats": (biased_softmax, F32, (37, 8, 17, 17)),
    "windows that begin inside vectors": (biased_softmax, BF16, (64, 3, 17, 17)),
    "few windows": (biased_softmax, BF16, (13, 8, 40, 15)),
    "positions of a norm": (positioned, F16, (41, 160, 31)),
}


@pytest.mark.usefixtures("one_multiprocessor")
@pytest.mark.parametrize("case", WINDOWS)
def test_what_windows_share_is_summed_beside_their_short_rows(
    case: str, device: torch.device
) -> None:
    program, dtype, shape = WINDOWS[case]
    args = [torch.randn(shape).to(dtype), torch.randn(shape[1:]).to(dtype)]
    jfn = judged(program, args, torch.randn(shape).to(dtype), device)
    walk, *others = texts(jfn)
    assert "tf::copy_stretch" in walk
    assert "const int side" in walk
    assert len(others) <= 1
    assert not any("copy_stretch" in text for text in others)


@pytest.mark.usefixtures("few_multiprocessors")
@pytest.mark.parametrize("shape", [(19, 8, 49, 49), (392, 3, 17, 17)])
@pytest.mark.parametrize("dtype", [BF16, F16])
def test_stretches_of_windows_may_begin_inside_a_head(
    shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> None:
    args = [torch.randn(shape).to(dtype), torch.randn(shape[1:]).to(dtype)]
    jfn = judged(biased_softmax, args, torch.randn(shape).to(dtype), device)
    walk, _ = texts(jfn)
    assert "tf::copy_stretch" in walk


def masked_windows(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Those of Swin: a mask of each window of an image, beside what all windows share."""
    mask = torch.where(torch.arange(17) < torch.arange(3, 11)[:, None, None], 0.0, -9.0).to(x)
    scores = (x + b).view(x.shape[0] // 8, 8, *x.shape[1:]) + mask.unsqueeze(1)
    return torch.softmax(scores.view(x.shape), -1)


@pytest.mark.usefixtures("one_multiprocessor")
def test_windows_may_have_masks_of_their_own(device: torch.device) -> None:
    shape = 40, 8, 17, 17
    args = [torch.randn(shape).bfloat16(), torch.randn(shape[1:]).bfloat16()]
    jfn = judged(masked_windows, args, torch.randn(shape).bfloat16(), device)
    walk, *others = texts(jfn)
    assert "tf::copy_stretch" in walk
    assert len(others) <= 1


@pytest.mark.usefixtures("few_multiprocessors", "without_clusters")
@pytest.mark.parametrize("columns", [129, 131, 258])
@pytest.mark.parametrize("program", [rms_norm, scaled_layer_norm])
def test_odd_rows_that_begin_in_one_lane_are_walked_side_by_side(
    program: Program, columns: int, device: torch.device
) -> None:
    args = [torch.randn(4096, columns).bfloat16(), torch.randn(columns).bfloat16()]
    jfn = judged(program, args, torch.randn(4096, columns).bfloat16(), device)
    walk, _ = texts(jfn)
    assert "const int side" in walk
    assert "store_within" in walk


def pooled(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (x + b).mean(-1)


def odd_norm(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.normalize(x + b, dim=-1)


STAGED: dict[str, tuple[Program, torch.dtype, tuple[int, ...]]] = {
    "windows of 49": (biased_softmax, BF16, (6, 2, 56, 49)),
    "rows that leave a block some": (biased_softmax, F16, (3, 1, 40, 49)),
    "one block": (biased_softmax, BF16, (1, 1, 8, 35)),
    "rows of almost a line": (biased_softmax, BF16, (2, 3, 24, 63)),
    "means": (pooled, BF16, (5, 48, 49)),
    "rows of a plane that ends inside a vector": (odd_norm, BF16, (1021, 37)),
    "the same of a few columns": (odd_norm, F16, (333, 9)),
}


@pytest.mark.parametrize("case", STAGED)
def test_odd_short_rows_pass_through_shared_memory(case: str, device: torch.device) -> None:
    program, dtype, shape = STAGED[case]
    args = [torch.randn(shape).to(dtype), torch.randn(shape[1:]).to(dtype)]
    cotangent = torch.randn(shape[:-1] if program is pooled else shape).to(dtype)
    jfn = judged(program, args, cotangent, device)
    forward, _ = regions_of(jfn)
    assert forward.last_used is not None
    (plan,) = forward.last_used.leaf.program.plans[-1:]
    (kernel,) = plan.kernels
    assert kernel is not None
    assert "_rows + place + vector" in kernel.text


@pytest.mark.usefixtures("few_multiprocessors")
def test_a_bias_of_windows_has_its_gradient_in_vectors(device: torch.device) -> None:
    shape = 1024, 6, 37
    args = [torch.randn(shape).bfloat16(), torch.randn(shape[1:]).bfloat16()]
    jfn = judged(biased_softmax, args, torch.randn(shape).bfloat16(), device)
    _, sums, *_ = texts(jfn)
    assert "lane < 8" in sums

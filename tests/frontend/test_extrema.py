"""argmax and argmin: torch's places, ties and NaN, in every template and in one pass."""

from __future__ import annotations

import math

import pytest
import torch

from tests.devices import copies
from tests.frontend.fusions import defined, example, finest
from tests.programs import cubin_of, cuda_kernels
from thunder_fuser.dtypes import DataType
from thunder_fuser.frontend import FusionCache, FusionDefinition, extrema
from thunder_fuser.program import Program

pytestmark = pytest.mark.usefixtures("device")
NAMES = ("argmax", "argmin")
INTEGERS = (torch.uint8, torch.int8, torch.int32, torch.int64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SHAPES = {
    "one": (1,),
    "short rows": (37, 5),
    "rows": (9, 131),
    "long rows": (3, 5000),
    "columns": (200, 13),
    "a middle axis": (3, 45, 7),
}
CASES = [(shape, dim) for shape, sizes in SHAPES.items() for dim in (None, *range(len(sizes)))]


def definition(name: str, x: torch.Tensor, *arguments: object) -> FusionDefinition:
    def define(fd: FusionDefinition) -> None:
        (a,) = example(fd, x)
        fd.add_output(getattr(fd.ops, name)(a, *arguments))

    return defined(define, FusionCache(Program, 8))


def place(name: str, x: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> None:
    """The places are those that torch finds on a CPU, where the first of equals counts."""
    (found,) = definition(name, x, dim, keepdim).execute(copies([x]))
    wanted = getattr(x, name)(dim, keepdim=keepdim) if dim is not None else getattr(x, name)()
    assert torch.equal(found.cpu(), wanted), (x, found, wanted)


def draws(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Few values, so that most extrema are there twice."""
    if not dtype.is_floating_point:
        return torch.randint(0, 4, shape).to(dtype) - (dtype.is_signed * 2)
    return (torch.randn(shape) * 2).round().to(dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.int32], ids=str)
@pytest.mark.parametrize(("shape", "dim"), CASES)
def test_the_first_of_equals_wins(shape: str, dim: int | None, dtype: torch.dtype) -> None:
    name = NAMES[(CASES.index((shape, dim)) + dtype.itemsize // 4) % 2]
    place(name, draws(SHAPES[shape], dtype), dim)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
def test_any_type_has_places(dtype: torch.dtype, name: str) -> None:
    place(name, draws((9, 131), dtype), 1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("shape", "dim"), [((5, 9), 1), ((5, 131), 1), ((131, 5), 0), ((50, 3), 0)]
)
def test_the_first_nan_wins(
    shape: tuple[int, ...], dim: int, dtype: torch.dtype, name: str
) -> None:
    x = draws(shape, dtype)
    chosen = torch.randint(x.numel(), (7,))
    x.view(-1)[chosen] = torch.tensor(
        [math.nan, math.nan, -math.nan, math.inf, -math.inf, 0, -0.0]
    ).to(dtype)
    place(name, x, dim)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("zeros", [(0.0, -0.0), (-0.0, 0.0)])
def test_the_zeros_are_equal(zeros: tuple[float, float], name: str) -> None:
    place(name, torch.tensor([*zeros] * 20), 0)


@pytest.mark.parametrize("name", NAMES)
def test_the_ends_of_a_type_have_their_place(name: str) -> None:
    for dtype in (torch.int32, torch.int64, torch.int16):
        limits = torch.iinfo(dtype)
        place(name, torch.tensor([0, limits.max, limits.min, limits.max, limits.min], dtype=dtype))
    for wide in (torch.float32, torch.float64):
        ends = torch.finfo(wide)
        tiny = ends.smallest_normal / 4
        place(name, torch.tensor([tiny, -tiny, 0.0], dtype=wide))
        place(name, torch.tensor([ends.max, math.inf, ends.min, -math.inf], dtype=wide))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("kind", "places"), [(DataType.BFloat16, 65536), (DataType.Half, 8192)], ids=str
)
@pytest.mark.parametrize("more", [0, 1])
def test_keys_of_16_bit_floats_are_short_while_they_have_room_for_places(
    more: int, kind: DataType, places: int, name: str
) -> None:
    shape = (3, places + more)
    x = draws(shape, {DataType.BFloat16: torch.bfloat16, DataType.Half: torch.float16}[kind])
    x[0] = 1.0
    x[1] = -1.0
    x[1, -1] = 5.0 if name == "argmax" else -5.0  # the last place of all
    with FusionDefinition(cache=FusionCache(Program, 8)) as fd:
        a = fd.define_tensor(shape=list(shape), contiguity=True, dtype=kind)
        fd.add_output(getattr(fd.ops, name)(a, 1))
    (found,) = fd.execute(copies([x]))
    assert torch.equal(found.cpu(), getattr(x, name)(1))
    key = "i64" if more else "i32"
    assert f": {key}[i3, r{places + more}] = max(" in str(fd.leaf.fusion)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("shape", "dim"), [((60, 130), None), ((3, 9000), 1), ((5120, 7), 0)])
def test_a_long_dim_has_the_best_of_its_pieces(
    shape: tuple[int, ...],
    dim: int | None,
    dtype: torch.dtype,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(extrema, "LONG", 5000)
    monkeypatch.setattr(extrema, "PIECES", (100, 700))
    kind = {torch.bfloat16: DataType.BFloat16, torch.float16: DataType.Half}[dtype]
    monkeypatch.setitem(extrema.OF_VALUE, kind, 22)  # which leaves room for 1,024 places
    with FusionDefinition(cache=FusionCache(Program, 8)) as fd:
        a = fd.define_tensor(shape=list(shape), contiguity=True, dtype=kind)
        fd.add_output(getattr(fd.ops, name)(a, dim))
    x = draws(shape, dtype)
    for chosen in ([], [-math.inf, math.inf, math.inf], [math.nan, -math.nan]):
        x.view(-1)[4000 : 4000 + len(chosen)] = torch.tensor(chosen).to(dtype)
        (found,) = fd.execute(copies([x]))
        assert torch.equal(found.cpu(), getattr(x, name)(dim))
    made = (tv.definition for tv in fd.leaf.fusion.tensors if tv.definition is not None)
    best = [e.tensors[0].dtype for e in made if e.op.name == "max"]
    assert best == [DataType.Int32, DataType.Int]


@pytest.mark.parametrize("dim", [None, 0, 2, -1])
def test_kept_dims_have_extent_one(dim: int | None) -> None:
    x = torch.randn(3, 40, 5)
    (found,) = definition("argmax", x, dim, True).execute(copies([x]))
    assert torch.equal(found.cpu(), torch.argmax(x, dim, keepdim=True))


@pytest.mark.parametrize("lies", ["transposed", "strided", "expanded"])
def test_an_operand_may_lie_anyhow(lies: str) -> None:
    x = {
        "transposed": torch.randn(70, 9).t(),
        "strided": torch.randn(9, 140)[:, ::2],
        "expanded": torch.randn(9, 1).expand(9, 70),
    }[lies]
    for dim in (None, 0, 1):
        place("argmax", x, dim)


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_a_large_operand_is_read_once(dim: int | None) -> None:
    x = torch.empty(8192, 4096, dtype=torch.bfloat16)
    program = definition("argmax", x, dim).leaf.fusion
    segmented, kernels = cuda_kernels(program, x)
    (operand,) = segmented.fusion.inputs
    assert sum(operand in segment.inputs for segment in segmented.segments) == 1
    assert not any(s.is_opaque for s in segmented.segments)
    for kernel in kernels:
        assert cubin_of(kernel).spill_bytes == 0


def test_what_has_no_largest_element_is_refused() -> None:
    with pytest.raises(TypeError, match="dtype bool; it takes integers and floats"):
        definition("argmax", torch.ones(3, dtype=torch.bool))
    with FusionDefinition(cache=FusionCache(Program, 8)) as fd:
        x = fd.define_tensor(shape=[3, 0], contiguity=True)
        with pytest.raises(ValueError, match="dim 1 of extent 0 has no result"):
            fd.ops.argmin(x, 1)
        fd.add_output(fd.ops.argmin(x, 0))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_an_extent_that_a_run_has_as_0_is_refused_where_it_is_reduced(
    name: str, dtype: torch.dtype
) -> None:
    x = torch.ones(2, 3, dtype=dtype)
    rows, all_of_it = (definition(name, x, dim) for dim in (1, None))
    for fd in (rows, all_of_it, finest(rows)):
        with pytest.raises(ValueError, match="has no result"):
            fd.execute(copies([torch.ones(2, 0, dtype=dtype)]))
    with pytest.raises(ValueError, match=rf"{name}.*along dim 1 of extent 0 has no result"):
        rows.execute(copies([torch.ones(2, 0, dtype=dtype)]))
    (found,) = rows.execute(copies([torch.ones(0, 3, dtype=dtype)]))
    assert found.shape == (0,)

"""Kernels whose threads own values of an axis to load once what they share: rotary embeddings in
Hugging Face's layout, and what else repeats along an axis. Values are those of the trace."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pytest
import torch

from tests.devices import CPU, copies, here
from tests.programs import (
    STRICT,
    assert_same,
    cat,
    chain,
    cubin_of,
    cuda_kernels,
    expand,
    fusion,
    like,
    pad,
    permute,
    piece,
    plan_of,
    reshape,
    unsqueeze,
)
from tests.schedule.segments import halves, segment_of
from thunder_fuser.codegen.emit import emit
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import build
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.lower import lower
from thunder_fuser.kernel.map_ir import Kernel
from thunder_fuser.options import Options
from thunder_fuser.runtime.dtypes import TORCH_DTYPES
from thunder_fuser.runtime.evaluate import evaluate
from thunder_fuser.runtime.kernels import KERNELS
from thunder_fuser.runtime.targets import target_for
from thunder_fuser.schedule import map
from thunder_fuser.schedule.parameters import MapParameters

pytestmark = [pytest.mark.sanitizer, pytest.mark.usefixtures("device")]

FAR = MapParameters(near=0)  # as if stores lay far apart
OWNING = replace(FAR, reused=8, again=1, kept=0)  # whatever is read twice


def owning(
    program: Fusion, *tensors: torch.Tensor, options: Options = STRICT, owns: bool = True
) -> list[torch.Tensor]:
    """The results, and then the arguments after the call, of kernels whose threads own as many
    values as they can; one of them must own some unless nothing can be owned."""
    given = copies(tensors)
    plan, target = plan_of(program, *given, options=options), target_for(here())
    changed = 0
    for position, segment in enumerate(plan.segmented.segments):
        made = map.schedule(segment, OWNING)
        plain = map.schedule(segment, FAR)
        changed += str(made) != str(plain)
        source = emit(lower(made, options.strict))
        launcher = KERNELS.launcher(source, target, options)
        plan = plan.with_kernel(position, source, launcher)
    assert bool(changed) == owns, plan.segmented
    return [tv.cpu() for tv in (*plan.run(*given), *given)]


def assert_traced(program: Fusion, *tensors: torch.Tensor, owns: bool = True) -> None:
    """Results and written arguments are those of the evaluator, bit for bit."""
    wanted = copies(tensors, CPU)
    results = evaluate(program, wanted)
    for got, want in zip(owning(program, *tensors, owns=owns), (*results, *wanted), strict=True):
        assert_same(got, want, str(program))


@dataclass(frozen=True)
class Turned:
    """q and k of Hugging Face's attention: x (B, T, heads size), tables (1, T, size) -> turned,
    (B, heads, T, size), those of k once for each head of q."""

    heads: int = 28
    groups: int = 4
    length: int = 13
    size: int = 48
    batch: int = 1
    dtype: DataType = DataType.BFloat16

    def forward(self) -> Fusion:
        tables = [build.tensor(self.dtype, 1, self.length, self.size) for _ in range(2)]
        counts = (self.heads, self.groups, self.groups)
        given = [build.tensor(self.dtype, self.batch, self.length, n * self.size) for n in counts]
        q, k, v = (self._heads(x, n) for x, n in zip(given, counts, strict=True))
        q, k = (self._turn(x, *(unsqueeze(t, 1) for t in tables)) for x in (q, k))
        return fusion([*given, *tables], q, self._repeated(k), self._repeated(chain(v, "neg")))

    def _heads(self, x: TensorView, count: int) -> TensorView:
        return permute(reshape(x, self.batch, self.length, count, self.size), 0, 2, 1, 3)

    def _turn(self, x: TensorView, cos: TensorView, sin: TensorView) -> TensorView:
        half = self.size // 2
        low, high = piece(x, 3, 0, half), piece(x, 3, half, self.size)
        turned = cat(chain(high, "neg"), low)
        return call("add", call("mul", x, cos), call("mul", turned, sin))

    def _repeated(self, x: TensorView) -> TensorView:
        times = self.heads // self.groups
        if times == 1:
            return x
        wide = expand(unsqueeze(x, 2), self.batch, self.groups, times, self.length, self.size)
        return reshape(wide, self.batch, self.heads, self.length, self.size)

    def arguments(self, program: Fusion) -> list[torch.Tensor]:
        tensors = (tv for tv in program.inputs if isinstance(tv, TensorView))
        return [torch.randn(tv.shape).to(TORCH_DTYPES[tv.dtype]) for tv in tensors]

    def eager(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        *given, cos, sin = inputs
        q, k, v = (x.view(*x.shape[:2], -1, self.size).transpose(1, 2) for x in given)

        def turn(x: torch.Tensor) -> torch.Tensor:
            low, high = x.chunk(2, dim=-1)
            return x * cos[:, None] + torch.cat((-high, low), dim=-1) * sin[:, None]

        times = self.heads // self.groups
        return [turn(q), *(x.repeat_interleave(times, dim=1) for x in (turn(k), -v))]


CASES = {
    "28 heads of 4": Turned(),
    "7 heads of 1": Turned(heads=7, groups=1, length=17),
    "3 heads, two of a batch": Turned(heads=3, groups=3, length=31, batch=2),
    "32 heads of 8": Turned(heads=32, groups=8, length=5, size=32),
    "22 heads of 11, single positions": Turned(heads=22, groups=11, length=1, batch=3, size=64),
    "halves of odd length": Turned(heads=6, groups=2, length=7, size=38),
    "f32": Turned(heads=12, groups=4, length=11, dtype=DataType.Float),
    "f16": Turned(heads=14, groups=2, length=19, dtype=DataType.Half, size=80),
    "one head, three of a batch": Turned(heads=1, groups=1, batch=3, length=23),
}


@pytest.mark.parametrize("name", CASES)
def test_heads_in_one_thread_have_the_bits_of_eager(name: str) -> None:
    case = CASES[name]
    program = case.forward()
    arguments = case.arguments(program)
    found = owning(program, *arguments)
    for got, want in zip(found, case.eager(*arguments), strict=False):
        assert torch.equal(got, want)
    assert_traced(program, *arguments)


@pytest.mark.parametrize("name", CASES)
def test_without_the_roundings_of_the_trace_they_are_nearer_to_fp64(name: str) -> None:
    case = CASES[name]
    program = case.forward()
    arguments = case.arguments(program)
    found = owning(program, *arguments, options=Options())
    exact = case.eager(*(t.double() for t in arguments))
    for got, want, rounded in zip(found, exact, case.eager(*arguments), strict=False):
        ours, theirs = ((t.double() - want).abs().mean().item() for t in (got, rounded))
        assert ours <= theirs * 1.01 + 1e-9


@pytest.mark.parametrize(("reused", "heads"), [(2, 2), (3, 2), (4, 4), (7, 7), (8, 7)])
def test_a_table_is_loaded_once_for_several_heads(reused: int, heads: int) -> None:
    """Loads and stores of one thread of each class: a load is half a head, or all of v's."""
    case = Turned(length=1009, size=128)
    program = case.forward()
    segmented, _ = cuda_kernels(program, *case.arguments(program))
    (segment,) = segmented.segments
    made = lower(map.schedule(segment, MapParameters(reused=reused)), strict=False)
    bodies = [body for group in made.groups for body in group]
    counts = {(len(body.loads), len(body.stores)) for body in bodies}
    q, k, v = (4 + 2 * heads, 2 * heads), (4 + 2, 2 * 7), (1, 7)
    assert counts == {q, k, v}


def test_kernels_for_an_h200_do_not_spill() -> None:
    for case in (Turned(length=4096, size=128), Turned(32, 8, 4096, 128), Turned(32, 32, 4096, 96)):
        program = case.forward()
        _, kernels = cuda_kernels(program, *case.arguments(program))
        for kernel in kernels:
            assert cubin_of(kernel).spill_bytes == 0


def test_a_mask_for_all_heads() -> None:
    scores, mask = torch.randn(2, 7, 5, 48), torch.randn(5, 48).bfloat16()
    a, m = like(scores, mask)
    assert_traced(fusion([a, m], chain(call("add", a, m), "relu")), scores, mask)


def test_rows_of_a_bias_and_a_number_of_each_row() -> None:
    x, bias, scale = torch.randn(21, 72).bfloat16(), torch.randn(72), torch.randn(21)
    a, b, c = like(x, bias, scale)
    program = fusion([a, b, c], call("mul", call("add", a, b), unsqueeze(c, 1)))
    assert_traced(program, x, bias, scale)


def test_tables_at_positions_that_a_tensor_holds() -> None:
    x, table = torch.randn(17, 6, 64).bfloat16(), torch.randn(50, 64).bfloat16()
    places = torch.randint(50, (17,))
    a, t, i = like(x, table, places)
    turned = call("mul", permute(a, 1, 0, 2), call("index_select", t, i, dim=0))
    assert_traced(fusion([a, t, i], turned), x, table, places)


def test_a_target_that_is_read_is_written_once_with_what_was_there() -> None:
    x, table = torch.randn(9, 11, 40).bfloat16(), torch.randn(11, 40).bfloat16()
    a, t = like(x, table)
    program = fusion([a, t], writes=[(call("mul", call("add", a, t), t), a)])
    assert_traced(program, x, table)


@pytest.mark.parametrize("repeated", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1)], ids=str)
def test_a_table_without_some_axes(repeated: tuple[int, ...]) -> None:
    """Sizes are random, and the order in which the axes are stored."""
    sizes = [int(n) for n in torch.randint(2, 13, (3,))]
    size = 16 * int(torch.randint(1, 5, ()))
    table_sizes = [1 if d in repeated else n for d, n in enumerate(sizes)]
    x, table = torch.randn(*sizes, size).bfloat16(), torch.randn(*table_sizes, size)
    a, t = like(x, table)
    made = permute(call("mul", a, chain(t, "neg")), *torch.randperm(3).tolist(), 3)
    owns = any(n % k == 0 for n in (sizes[d] for d in repeated) for k in range(2, 9))
    assert_traced(fusion([a, t], chain(made, "abs")), x, table, owns=owns)


@pytest.mark.parametrize(("length", "kind"), [(1 << 18, "int"), (1 << 20, "long long")])
def test_offsets_between_heads_are_as_wide_as_they_must_be(length: int, kind: str) -> None:
    """22 heads of 128 elements, of which a thread turns 11."""
    x, *tables = halves(length, 22, 128), halves(length, 128), halves(length, 128)
    made = call("mul", call("mul", permute(x, 1, 0, 2), tables[0]), tables[1])
    schedule = map.schedule(segment_of([x, *tables], made), MapParameters(reused=11))
    assert [c.group.nests[0].instances for c in schedule.classes] == [11]
    text = emit(lower(schedule, strict=False)).text
    assert set(re.findall(r"const (int|long long) i[0-9]", text)) == {kind}


def scaled_columns(x: TensorView, *others: TensorView) -> TensorView:
    """A plane of 16 bits, computed with several values of each column, and of each row."""
    wide = call("cast", x, dtype=DataType.Float)
    for k, other in enumerate(others):
        wide = call("mul" if k % 2 else "add", wide, other)
    return call("cast", wide, dtype=x.dtype)


@pytest.mark.parametrize("columns", [257, 1031, 1030])
@pytest.mark.parametrize("rows", [1, 8 * 16, 8 * 13, 8 * 9 + 5], ids=str)
def test_columns_of_odd_rows_are_loaded_for_several_of_them(rows: int, columns: int) -> None:
    x, per_row = torch.randn(rows, columns).bfloat16(), torch.randn(rows, 1)
    values = [torch.randn(columns) for _ in range(4)]
    a, r, *v = like(x, per_row, *values)
    program = fusion([a, r, *v], scaled_columns(a, *v, expand(r, rows, columns)))
    assert_traced(program, x, per_row, *values, owns=rows > 8)


def test_a_target_of_odd_rows_is_written_in_place() -> None:
    x, values = torch.randn(8 * 7 + 2, 259).half(), [torch.randn(259) for _ in range(4)]
    a, *v = like(x, *values)
    assert_traced(fusion([a, *v], writes=[(scaled_columns(a, *v), a)]), x, *values)


def test_columns_of_odd_rows_spill_nothing() -> None:
    """Two planes with five values of each column, as the gradient of a batch norm has."""
    x, g = (torch.empty(32784, 2047, dtype=torch.float16) for _ in range(2))
    values = [torch.empty(2047) for _ in range(5)]
    a, b, *v = like(x, g, *values)
    program = fusion([a, b, *v], scaled_columns(a, *v, call("cast", b, dtype=DataType.Float)))
    _, (kernel,) = cuda_kernels(program, x, g, *values)
    assert isinstance(kernel, Kernel)
    ((body,),) = kernel.groups
    assert len(body.stores) == 6
    assert cubin_of(kernel).spill_bytes == 0


def test_few_rows_that_are_neighbours_in_one_thread() -> None:
    """The inside of small images with a wide border, of which each element needs those around."""
    x = build.tensor(DataType.Half, 4, 16, 14)
    above, middle, below = (piece(x, 1, k, k + 14) for k in range(3))
    beside = call("add", piece(middle, 2, 0, 12), piece(middle, 2, 2, 14))
    inside = call("add", beside, call("mul", piece(above, 2, 1, 13), piece(below, 2, 1, 13)))
    program = fusion([x], pad(inside, (3, 3), 2.0))
    assert "u0{7} in one thread" in str(map.schedule(segment_of([x], *program.outputs), FAR))
    assert_traced(program, torch.randn(4, 16, 14).half(), owns=False)

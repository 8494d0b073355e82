"""Map kernels: what they read and write, what they compute, and how bodies share a launch."""

from __future__ import annotations

import random
from math import prod
from textwrap import dedent

import pytest

from tests.kernel.interpreted import walk
from tests.programs import cat, chain, expand, pad, piece, total, unsqueeze
from tests.random_fusions import random_fusion
from tests.schedule.segments import floats, halves, segment_of
from thunder_fuser.codegen.emit import emit
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.lower import lower
from thunder_fuser.kernel.map_ir import Kernel
from thunder_fuser.kernel.names import name_values
from thunder_fuser.runtime.bind import bind
from thunder_fuser.schedule import map
from thunder_fuser.schedule.parameters import MapParameters
from thunder_fuser.segment.segment import Segment

P = MapParameters()


def kernel_of(segment: Segment, strict: bool = False) -> Kernel:
    return lower(map.schedule(segment, P), strict)


def body_of(segment: Segment, strict: bool = False) -> str:
    """The lines of the only body, without its headings."""
    return dedent("\n".join(str(kernel_of(segment, strict)).split("\n")[3:]))


@pytest.mark.parametrize("seed", random.Random(11).sample(range(1 << 20), 60))
def test_every_element_is_written_once_and_no_read_leaves_its_tensor(seed: int) -> None:
    program, arguments = random_fusion(seed)
    bound = bind(program, arguments)
    inputs = [v for v in bound.fusion.inputs if isinstance(v, TensorView)]
    for tv in bound.fusion.outputs:
        segment = segment_of(inputs, call("ne", tv, sc.constant(1)), lies=bound.layouts)
        if map.reject(segment, P) is not None:
            continue
        (store,), names = segment.stores, name_values(segment).tensors
        found = walk(kernel_of(segment))
        assert found.misaligned == []
        count = prod(store.value.shape)
        assert found.written.get(names[store.target], {}) == {k: 1 for k in range(count)}
        for leaf in segment.inputs:
            read = found.read.get(names[leaf], set())
            assert read <= reachable(segment, leaf)


def reachable(segment: Segment, leaf: TensorView) -> set[int]:
    """The offsets from the first to the last element of a tensor."""
    return set(range(segment.layouts[leaf].span))


def test_a_vector_store_moves_what_its_lanes_computed() -> None:
    x, bias = halves(4, 64), halves(64)
    assert body_of(segment_of([x, bias], chain(call("add", x, bias), "exp"))) == dedent("""\
        v0 = load T1[8*i1], 8 x bf16, 16 bytes at a time
        v1 = load T0[64*i0 + 8*i1], 8 x bf16, 16 bytes at a time
        T1_0: f32 = v0[1*lane + 0]
        T0_0: f32 = v1[1*lane + 0]
        T2_0: f32 = add(T0_0, T1_0)
        T3_0: f32 = exp(T2_0)
        w0[1*lane + 0] = T3_0
        store w0 -> T3[64*i0 + 8*i1], 8 x bf16, 16 bytes at a time""")


def test_what_lanes_have_one_of_is_computed_before_them() -> None:
    """A compiler leaves in each lane what it finds behind a branch, such as a power."""
    x, scale = halves(4, 64), floats(4)
    power = call("pow", scale, sc.constant(-0.25))
    program = segment_of([x, scale], call("div", x, unsqueeze(power, 1)))
    assert body_of(program) == dedent("""\
        v0 = load T1[i0], 1 x f32, 4 bytes at a time
        v1 = load T0[64*i0 + 4*i1], 4 x bf16, 8 bytes at a time
        once T1_0: f32 = v0[0*lane + 0]
        once T2_0: f32 = pow(T1_0, -0.25)
        T0_0: f32 = v1[1*lane + 0]
        T4_0: f32 = div(T0_0, T2_0)
        w0[1*lane + 0] = T4_0
        store w0 -> T4[64*i0 + 4*i1], 4 x f32, 16 bytes at a time""")
    text = emit(kernel_of(program)).text
    assert text.index("tf::pow(") < text.index("< 4; ++lane") < text.index("tf::divided_by_row(")


def test_strict_keeps_every_rounding_of_the_trace() -> None:
    x = halves(64)
    assert body_of(segment_of([x], chain(x, "neg", "exp")), strict=True) == dedent("""\
        v0 = load T0[8*i0], 8 x bf16, 16 bytes at a time
        T0_0: f32 = v0[1*lane + 0]
        T1_0: f32 = neg(T0_0)
        T1_1: f32 = round(T1_0, bf16)
        T2_0: f32 = exp(T1_1)
        T2_1: f32 = round(T2_0, bf16)
        w0[1*lane + 0] = T2_1
        store w0 -> T2[8*i0], 8 x bf16, 16 bytes at a time""")


def test_a_short_sum_combines_its_terms_in_order() -> None:
    x = floats(8, 3)
    assert "T1_0: f32 = sum(T0_0, T0_1, T0_2)" in body_of(segment_of([x], total(x, 1)))


def test_a_store_that_is_repeated_is_computed_once() -> None:
    x = floats(4, 8)
    wide = expand(unsqueeze(x, 1), 4, 3, 8)
    assert body_of(segment_of([x], chain(wide, "neg"))) == dedent("""\
        v0 = load T0[8*i0 + 4*i1], 4 x f32, 16 bytes at a time
        T0_0: f32 = v0[1*lane + 0]
        T3_0: f32 = neg(T0_0)
        w0[1*lane + 0] = T3_0
        store w0 -> T3[24*i0 + 4*i1], 4 x f32, 16 bytes at a time
        store w0 -> T3[8 + 24*i0 + 4*i1], 4 x f32, 16 bytes at a time
        store w0 -> T3[16 + 24*i0 + 4*i1], 4 x f32, 16 bytes at a time""")


def test_padding_is_stored_without_a_load_or_a_test() -> None:
    x = floats(256)
    first, second = kernel_of(segment_of([x], pad(x, [0, 64], 2.5))).groups[0]
    assert [len(b.loads) for b in (first, second)] == [1, 0]
    assert " where " not in str(kernel_of(segment_of([x], pad(x, [0, 64]))))


def test_a_window_that_no_box_resolves_is_tested_per_element() -> None:
    """Forty pieces of unequal sizes are more than the boxes of one store."""
    parts = [floats(n) for n in range(2, 42)]
    kernel = kernel_of(segment_of(parts, cat(*parts)))
    assert " where 0 <= " in str(kernel)
    found = walk(kernel)
    for position, part in enumerate(parts):
        assert found.read[f"T{position}"] == set(range(part.shape[0]))


def test_a_rolled_row_is_read_once_at_the_place_that_a_lane_chooses() -> None:
    x = floats(8, 13)
    made = cat(piece(x, 1, 3, 13), piece(x, 1, 0, 3))
    assert body_of(segment_of([x], made)) == dedent("""\
        v0 = load T0[-10 + 4*i0 + lane], 4 x f32, 4 bytes at a time where 0 <= -10 + ((4*i0 + lane)%13) < 3, [3 + 4*i0 + lane] where 0 <= ((4*i0 + lane)%13) < 10
        T0_0: f32 = v0[1*lane + 0]
        w0[1*lane + 0] = T0_0
        store w0 -> T3[4*i0], 4 x f32, 16 bytes at a time""")  # noqa: E501


def test_bodies_of_one_target_take_turns_and_others_follow() -> None:
    a, b, c = floats(64, 20), floats(64, 8), floats(4096)
    kernel = kernel_of(segment_of([a, b, c], cat(a, b), chain(c, "neg")))
    first, second = kernel.ranges
    assert [body.threads for body in first.bodies] == [320, 128]
    assert (first.counts, first.rounds, first.start, first.end) == ((3, 1), 1, 0, 4)
    assert (second.counts, second.rounds, second.start, second.end) == ((1,), 8, 4, 12)
    assert kernel.blocks == 12


@pytest.mark.parametrize("sizes", [(5, 8), (3, 8), (1, 8), (7, 4), (12, 5), (2, 3, 8)])
def test_turns_hold_every_block_of_every_body(sizes: tuple[int, ...]) -> None:
    parts = [floats(257, n) for n in sizes]
    kernel = kernel_of(segment_of(parts, cat(*parts)))
    (group,) = kernel.ranges
    for body, count in zip(group.bodies, group.counts, strict=True):
        assert group.rounds * count * kernel.threads >= body.threads
        assert (group.rounds * count - group.rounds) * kernel.threads < body.threads
    assert group.end == group.rounds * sum(group.counts)


def test_an_empty_segment_launches_no_block() -> None:
    x = floats(0, 8)
    assert kernel_of(segment_of([x], chain(x, "neg"))).blocks == 0


def index_type(segment: Segment) -> str:
    """The type of a thread's number in the text."""
    text = emit(kernel_of(segment)).text
    return next(line for line in text.split("\n") if " thread = " in line).split(" thread")[0]


@pytest.mark.parametrize(
    ("rows", "kind"), [(1 << 28, "const int"), ((1 << 28) + 2, "const long long")]
)
def test_offsets_beyond_31_bits_are_counted_in_64(rows: int, kind: str) -> None:
    """The last offset that is read decides, not the number of threads."""
    x = floats(rows, 8)
    assert index_type(segment_of([x], chain(piece(x, 1, 0, 1), "neg"))).strip() == kind


def test_pointers_say_who_reads_and_who_writes() -> None:
    x, y = floats(64), floats(64)
    kernel = kernel_of(segment_of([x, y], writes=[(call("add", x, y), x)]))
    found = [(p.name, p.is_read, p.is_written) for p in kernel.pointers]
    assert found == [("T0", True, True), ("T1", True, False)]
    kernel = kernel_of(segment_of([x], chain(x, "neg")))
    found = [(p.name, p.is_read, p.is_written) for p in kernel.pointers]
    assert found == [("T0", True, False), ("T1", False, True)]


def test_run_time_scalars_are_parameters_in_order_of_use() -> None:
    x = floats(64)
    a, b = sc.symbol("b", DataType.Double), sc.symbol("a", DataType.Float)
    made = call("add", call("mul", call("mul", x, a), b), a)
    kernel = kernel_of(segment_of([x], made))
    assert [(s.name, s.dtype) for s in kernel.scalars] == [
        ("s0", DataType.Double),
        ("s1", DataType.Float),
    ]
    assert "convert(s0, f32)" in str(kernel)
    assert "convert(s1, f32)" not in str(kernel)

"""Row kernels: what is loaded once, kept, recomputed, and rounded."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import pytest
import torch

from tests.devices import ORDERS, copies
from tests.programs import (
    H200,
    assert_same,
    cat,
    chain,
    expand,
    full,
    fusion,
    ints,
    like,
    pad,
    permute,
    piece,
    plan_of,
    reshape,
    run,
    total,
    unsqueeze,
)
from tests.schedule.segments import floats, halves, segment_of
from thunder_fuser.codegen.emit import emit
from thunder_fuser.codegen.row_text import row_lines
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.kernel.rows import lower_rows
from thunder_fuser.kernel.source import Source
from thunder_fuser.options import Options
from thunder_fuser.runtime.errors import LaunchError
from thunder_fuser.runtime.kernels import KERNELS
from thunder_fuser.schedule import rows
from thunder_fuser.schedule.parameters import RowParameters
from thunder_fuser.segment.segment import Segment
from thunder_fuser.target import HOST


def along(reduced: TensorView, columns: int) -> TensorView:
    shape = ints([reduced.shape[0], columns])
    return call("broadcast_in_dim", reduced, shape=shape, broadcast_dims=(0,))


def centred(x: TensorView) -> TensorView:
    return call("sub", x, along(total(x, 1), x.shape[1]))


def kernel_of(segment: Segment, strict: bool = False) -> RowKernel:
    return lower_rows(rows.schedule(segment, H200), strict)


def test_a_row_is_loaded_once_and_values_are_computed_anew_in_each_phase() -> None:
    x = floats(5, 48)
    top = call("max", x, dims=(1,))
    e = chain(call("sub", x, along(top, 48)), "exp")
    assert str(kernel_of(segment_of([x], call("div", e, along(total(e, 1), 48))))) == dedent("""\
        row kernel(T0: f32*, T7: f32*) 1 blocks of 16 rows of 8 threads
          rows 5 vectors 12 lanes 4
          v0 = load T0[48*group + 4*vector], 4 x f32, 16 bytes at a time
          phase 0
            T0_0: f32 = v0[k][1*lane + 0]
            T1_part max= T0_0
            T1_row = max(T1_part)
          phase 1
            T0_1: f32 = v0[k][1*lane + 0]
            T3_0: f32 = sub(T0_1, T1_row)
            T4_0: f32 = exp(T3_0)
            T5_part sum= T4_0
            T5_row = sum(T5_part)
          final
            T0_2: f32 = v0[k][1*lane + 0]
            T3_1: f32 = sub(T0_2, T1_row)
            T4_1: f32 = exp(T3_1)
            T7_0: f32 = div(T4_1, T5_row)
            w0[1*lane + 0] = T7_0
            store w0 -> T7[48*group + 4*vector], 4 x f32, 16 bytes at a time""")


def test_a_row_beyond_the_registers_is_loaded_in_every_phase() -> None:
    x = halves(2, 1 << 20)
    kernel = kernel_of(segment_of([x], centred(x)))
    assert kernel.kept == ()
    scopes = [kernel.phases[0].scope, kernel.final]
    assert [[a.pointer for a in scope.loads] for scope in scopes] == [["T0"], ["T0"]]


def test_a_value_per_row_is_loaded_once_and_weights_are_not_kept() -> None:
    x, shift, weight = floats(5, 48), floats(5), floats(48)
    made = call("mul", call("add", centred(x), along(shift, 48)), weight)
    segment = segment_of([x, shift, weight], made)
    kernel = kernel_of(segment)
    found = segment.names
    assert [a.pointer for a in kernel.once] == [found[shift]]
    assert [a.pointer for a in kernel.kept] == [found[x]]
    assert [a.pointer for a in kernel.final.loads] == [found[weight]]


def of_groups(x: TensorView, weight: TensorView) -> TensorView:
    """Centred groups of channels, each times its weight."""
    _, groups, channels, _ = x.shape
    mean = expand(unsqueeze(unsqueeze(total(x, 2, 3), 2), 3), *x.shape)
    wide = expand(unsqueeze(unsqueeze(reshape(weight, groups, channels), 0), 3), *x.shape)
    return call("mul", call("sub", x, mean), wide)


def test_a_weight_that_changes_once_along_a_vector_is_two_elements() -> None:
    """That of the vector's first channel, of 49 places each, and of its last one."""
    x, weight = halves(6, 4, 8, 49), halves(32)
    segment = segment_of([x, weight], of_groups(x, weight))
    (load,) = kernel_of(segment).final.loads
    assert load.carried is not None
    assert (load.pointer, load.length) == (segment.names[weight], 8)


@pytest.mark.parametrize("places", [9, 49, 225, 5, 64])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.usefixtures("device")
def test_weights_of_channels_that_vectors_lie_across(places: int, order: str) -> None:
    x, weight = torch.randn(6, 4, 8, places).bfloat16(), torch.randn(32).bfloat16()
    a, b = like(x, weight)
    (got,) = run(fusion([a, b], of_groups(a, b)), x, weight, options=Options(thread_order=order))
    wide = x.double() - x.double().sum((2, 3), keepdim=True)
    want = wide * weight.double().view(4, 8, 1)
    torch.testing.assert_close(got.double(), want, rtol=2e-2, atol=2e-1)


def test_weights_for_which_no_registers_are_left_are_stowed_in_shared_memory() -> None:
    x, weight = floats(512, 8192), floats(8192)
    scaled = call("mul", centred(x), call("expand", weight, shape=ints([512, 8192])))
    kernel = kernel_of(segment_of([x, weight], scaled, total(reshape(x, 8, 64, 8192), 1)))
    (stowed,) = kernel.stowed
    assert (stowed.pointer, kernel.fixed) == ("T4", ())
    assert f"  {stowed.name} = stowed T4[4*vector], 4 x f32, 16 bytes at a time" in str(kernel)
    (row,) = kernel.slotted
    assert kernel.shared_bytes == kernel.slots * kernel.row_bytes(row) + 4 * 8192
    text = "\n".join(row_lines(kernel))
    assert text.count(f"= {stowed.name}_slots[(0 * ") == 1  # where it is read
    assert text.count(f"{stowed.name}_slots[(0 * ") == 2


def test_one_element_a_row_is_stored_by_its_first_thread() -> None:
    x = floats(5, 48)
    kernel = kernel_of(segment_of([x], chain(total(x, 1), "exp")))
    text = str(kernel)
    assert text[text.index("  final") :].split("\n") == [
        "  final",
        "  first thread",
        "    T2_0: f32 = exp(T1_row)",
        "    w0[0*lane + 0] = T2_0",
        "    store w0 -> T2[group], 1 x f32, 4 bytes at a time",
    ]


def test_a_piece_of_a_row_stores_what_it_sums() -> None:
    x = floats(3, 40_004)
    made = chain(x, "exp")
    kernel = kernel_of(segment_of([x], made, total(made, 1)))
    assert (kernel.splits, kernel.vectors_per_split % kernel.threads) == (5, 209)
    (phase,) = kernel.phases
    assert [a.pointer for a in phase.scope.stores] == ["T1"]
    assert (kernel.final.statements, kernel.final.stores) == ((), ())
    assert str(kernel).count(" exp(") == 1


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("columns", [40_003, 40_004, 40_960])
def test_what_pieces_of_a_row_store_and_sum(columns: int, order: str) -> None:
    """Pieces that divide the row, that do not, and rows that begin anywhere."""
    x = torch.randn(3, columns)
    (a,) = like(x)
    made = chain(a, "exp")
    program = fusion([a], made, total(made, 1))
    (source,) = plan_of(program, x, options=Options()).kernels
    assert source is not None
    assert "is_last" in source.text
    stored, summed = run(program, *copies([x]), options=Options(thread_order=order))
    exact = x.double().exp()
    for got, eager, want in [(stored, x.exp(), exact), (summed, x.exp().sum(1), exact.sum(1))]:
        error = (eager.double() - want).abs().max()
        scale = want.abs().max() * torch.finfo(torch.float32).eps
        assert (got.double() - want).abs().max() <= 2 * error + 4 * scale


def test_strict_rounds_the_result_of_a_reduction() -> None:
    x = halves(5, 48)
    for strict, rounded in [(True, DataType.BFloat16), (False, None)]:
        (phase,) = kernel_of(segment_of([x], centred(x)), strict).phases
        assert [r.rounded for r in phase.reductions] == [rounded]


def test_a_block_sums_down_the_columns_of_the_rows_it_walks() -> None:
    x = floats(512, 1024)
    sums = total(reshape(x, 8, 64, 1024), 1)
    kernel = kernel_of(segment_of([x], centred(x), sums))
    assert (kernel.blocks, kernel.rows, kernel.rows_per_block) == (8, 512, 1)
    final, after = str(kernel).split("  final\n")[1].split("  after the rows of the block\n")
    assert "T5_part[k][lane] sum= T0_1" in final
    assert "= T5_part[k][lane]" in after
    assert "-> T5[1024*group + 4*vector]" in after


def test_a_block_that_walks_rows_keeps_what_it_reads_again_and_the_weights() -> None:
    x, weight = floats(512, 1024), floats(1024)
    scaled = call("mul", centred(x), call("expand", weight, shape=ints([512, 1024])))
    kernel = kernel_of(segment_of([x, weight], scaled, total(reshape(x, 8, 64, 1024), 1)))
    assert [a.pointer for a in kernel.fixed] == ["T4"]
    assert kernel.kept == kernel.slotted
    assert not kernel.phases[0].scope.loads
    assert not kernel.final.loads
    head = str(kernel).split("  phase 0\n")[0].split("\n")
    assert head[2:] == [
        "  v0 = load T4[4*vector], 4 x f32, 16 bytes at a time",
        "  v1 = slot of T0[65536*group + 1024*turn + 4*vector], 4 x f32, 16 bytes at a time, "
        "in registers",
        "",
    ]


@pytest.mark.parametrize(("rows", "kind"), [(1 << 19, "int"), (1 << 20, "long long")])
def test_turns_of_which_offsets_need_64_bits_have_them(rows: int, kind: str) -> None:
    """Offsets are multiples of the turn."""
    x = floats(rows, 4096)
    dealt = call("permute", reshape(x, rows // 256, 256, 4096), dims=(1, 0, 2))
    text = emit(kernel_of(segment_of([x], centred(x), total(dealt, 1)))).text
    assert f"for ({kind} turn = 0;" in text


def test_blocks_hold_several_short_rows_and_the_last_is_not_full() -> None:
    x = floats(130, 48)
    kernel = kernel_of(segment_of([x], centred(x)))
    assert (kernel.rows_per_block, kernel.threads, kernel.blocks) == (16, 128, 9)


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("columns", [56008, 65536])
def test_a_row_in_registers_and_shared_memory(columns: int, order: str) -> None:
    """Softmax's gradient y * (g - sum(g * y)), whose operands registers do not hold together."""
    y, g = (torch.rand(3, columns).bfloat16() for _ in range(2))
    a, b = like(y, g)
    inner = total(call("mul", *(call("cast", v, dtype=DataType.Float) for v in (a, b))), 1)
    made = call("mul", a, call("sub", b, along(inner, columns)))
    program = fusion([a, b], call("cast", made, dtype=DataType.BFloat16))
    (found,) = run(program, *copies([y, g]), options=Options(thread_order=order))
    wide = y.double() * (g.double() - (y.double() * g.double()).sum(1, True))
    torch.testing.assert_close(found.cpu().double(), wide, rtol=2**-8, atol=1e-6)
    (segment,) = plan_of(program, y, g).segmented.segments
    held = rows.schedule(segment, HOST).residency
    assert len(held.registers) == len(held.shared) == 1
    assert held.cluster == 4


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.float64, torch.float32])
def test_the_blocks_of_a_cluster_agree_on_every_reduction(dtype: torch.dtype, order: str) -> None:
    """All of one phase: mail of one word and of two, and whole rows that need what came."""
    columns = 70_001
    x = torch.randint(0, 2, (3, columns)).to(dtype)
    x[1] = 0
    (a,) = like(x)
    names = ["any", "all", "sum", "prod"] + ([] if dtype is torch.bool else ["max", "min"])
    made = [call(name, a, dims=(1,)) for name in names]
    beside = call(
        "eq", a, along(call("min", call("cast", a, dtype=DataType.Int), dims=(1,)), columns)
    )
    program = fusion([a], beside, *made)
    found = [t.cpu() for t in run(program, *copies([x]), options=Options(thread_order=order))]
    assert_same(found[0], x == x.long().amin(1, True))
    for name, got in zip(names, found[1:], strict=True):
        torch_name = {"max": "amax", "min": "amin"}.get(name, name)
        assert_same(got, getattr(torch, torch_name)(x, dim=1))
    (source,) = plan_of(program, x, options=Options()).kernels
    assert source is not None
    assert source.cluster > 1


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_thread_of_a_cluster_gets_the_same_bits(dtype: torch.dtype) -> None:
    """The sum of a row where no two orders give the same, in each element of that row."""
    x = torch.randn(4, 66_000, dtype=dtype).exp()
    (a,) = like(x)
    top = call("mul", along(call("max", a, dims=(1,)), 66_000), along(total(a, 1), 66_000))
    program = fusion([a], call("maximum", top, a))  # the product is larger than any element
    (found,) = run(program, *copies([x]), options=Options(thread_order="shuffled"))
    assert torch.equal(found, found[:, :1].expand_as(found))
    exact = x.amax(1, True) * x.double().sum(1, True)
    torch.testing.assert_close(found.cpu().double()[:, :1], exact.double(), rtol=1e-5, atol=0)


def test_the_text_says_how_many_blocks_share_a_row() -> None:
    x = halves(600, 65536)
    lines = str(kernel_of(segment_of([x], centred(x)))).splitlines()
    assert lines[0].endswith("1200 blocks, 2 to a row, of 512 threads")
    assert lines[2] == "  v0 = slot of T0[65536*group + 8*vector], 8 x bf16, 16 bytes at a time"


PLANTED = {
    "mail that nobody waits for": ("tf::await_mail(mail[0]);", "__syncthreads();"),
    "blocks that may not have begun": ("tf::cluster_wait();", ""),
    "a value that is not there yet": ("__syncthreads();", ""),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_barrier_left_out_shows_in_some_order(fault: str) -> None:
    """A wrong value or an error; the kernel as it is gives the right ones."""
    x = torch.randint(1, 4, (3, 33_004)).float()
    (a,) = like(x)
    program = fusion([a], call("sub", a, along(total(a, 1), x.shape[1])))
    (source,) = plan_of(program, x, options=Options()).kernels
    assert source is not None
    text = source.text
    assert text.count(PLANTED[fault][0]) == 1
    wrong = replace(source, fragments=(text.replace(*PLANTED[fault]),), literals=())
    assert all(is_right(source, x, order) for order in ORDERS)
    assert not all(is_right(wrong, x, order) for order in ORDERS)


def is_right(source: Source, x: torch.Tensor, order: str) -> bool:
    """Whether a kernel computes x - sum(x) along the rows."""
    found = torch.empty_like(x)
    return runs(source, order, x, found) and torch.equal(found, x - x.sum(1, True))


def runs(source: Source, order: str, *tensors: torch.Tensor) -> bool:
    """Whether a launch comes to its end."""
    launch = KERNELS.launcher(source, HOST, Options(thread_order=order, cache="off"))
    try:
        launch(0, *(t.data_ptr() for t in tensors))
    except LaunchError:
        return False
    return True


def walked_by_clusters(rows_and_columns: tuple[int, int], groups: int, cluster: int) -> RowKernel:
    """Rows centred, and the sums down the columns of what that makes."""
    count, columns = rows_and_columns
    x = floats(count, columns)
    away = centred(x)
    parts = permute(reshape(away, count // groups, groups, columns), 1, 0, 2)
    segment = segment_of([x], away, total(parts, 1))
    planned = rows.schedule(segment, H200, RowParameters(cluster=cluster))
    return lower_rows(planned, strict=False)


def test_the_blocks_of_a_cluster_walk_rows_and_sum_their_own_columns() -> None:
    kernel = walked_by_clusters((4096, 16384), groups=64, cluster=4)
    assert (kernel.blocks, kernel.cluster, kernel.threads, kernel.slots) == (256, 4, 512, 2)
    assert (kernel.vectors_per_thread, kernel.shared_bytes) == (2, 2 * 2 * 512 * 16)
    assert str(kernel) == dedent("""\
        row kernel(T0: f32*, T3: f32*, T6: f32*) 256 blocks, 4 to a row, of 512 threads
          rows 4096 vectors 4096 lanes 4
          v0 = slot of T0[1048576*turn + 16384*group + 4*vector], 4 x f32, 16 bytes at a time, in registers
          phase 0
            T0_0: f32 = v0[k][1*lane + 0]
            T1_part sum= T0_0
            T1_row = sum(T1_part)
          final
            T0_1: f32 = v0[k][1*lane + 0]
            T3_0: f32 = sub(T0_1, T1_row)
            w0[1*lane + 0] = T3_0
            T6_part[k][lane] sum= T3_0
            store w0 -> T3[1048576*turn + 16384*group + 4*vector], 4 x f32, 16 bytes at a time
          after the rows of the block
            w0[1*lane + 0] = T6_part[k][lane]
            store w0 -> T6[16384*group + 4*vector], 4 x f32, 16 bytes at a time""")  # noqa: E501


WALK_PLANTED = {
    "mail that nobody waits for": ("tf::await_mail(mail[turn % 2][0], turn / 2 % 2);", ""),
    "the delivery before": ("turn / 2 % 2", "0"),
    "one mailbox": ("mail[turn % 2][0]", "mail[0][0]"),
    "one set of places": ("T1_part_ranks[turn % 2]", "T1_part_ranks[0]"),
    "mail that is not expected": ("tf::expect_mail(mail[turn", "if (0) tf::expect_mail(mail[turn"),
    "blocks that may not have begun": ("tf::cluster_wait();", ""),
    "a value that is not there yet": ("__syncthreads();", ""),
}


@pytest.mark.parametrize("fault", WALK_PLANTED)
def test_what_clusters_that_walk_leave_out_shows_in_some_order(fault: str) -> None:
    """Whole numbers, so that every order of summing gives the same."""
    kernel = walked_by_clusters((198, 8196), groups=2, cluster=2)
    x = torch.randint(-4, 5, (198, 8196)).float()
    away = x - x.sum(1, True)
    wanted = away, away.reshape(99, 2, -1).sum(0)
    source = emit(kernel)
    assert WALK_PLANTED[fault][0] in source.text
    text = source.text.replace(*WALK_PLANTED[fault])
    wrong = replace(source, fragments=(text,), literals=())

    def is_wrong(made: Source, order: str) -> bool:
        found = torch.empty_like(x), torch.empty(2, 8196)
        return not (runs(made, order, x, *found) and all(map(torch.equal, found, wanted)))

    assert not any(is_wrong(source, order) for order in ORDERS)
    assert any(is_wrong(wrong, order) for order in ORDERS)


def test_pieces_of_a_row_that_cut_no_vector_are_vectors() -> None:
    """Of a row of heads that is normalised and turned: its halves change places."""
    x = halves(40, 128)
    wide = call("cast", x, dtype=DataType.Float)
    scaled = call("mul", wide, along(total(call("mul", wide, wide), 1), 128))
    turned = cat(chain(piece(scaled, 1, 64, 128), "neg"), piece(scaled, 1, 0, 64))
    result = call("cast", call("add", scaled, turned), dtype=DataType.BFloat16)
    text = emit(kernel_of(segment_of([x], result))).text
    assert text.count("load<tf::bf16, 8, 16>(T0") == 2  # its own, and that of either piece
    assert "load_if" not in text
    assert "T0[" not in text


def test_what_is_read_at_some_places_of_a_row_is_loaded_there() -> None:
    """The gradient of the end of a running sum: one number a row, read where the row ends."""
    x = floats(40)
    row = cat(full(0.0, 40, 40), expand(unsqueeze(x, 1), 40, 3))
    scan = call("cumsum", row, dim=1, reverse=True)
    _, body = emit(kernel_of(segment_of([x], scan))).text.split("__global__")
    assert body.index("const int vector") < body.index("load_if")


@pytest.mark.parametrize(
    ("is_truth", "made", "counted"),
    [
        (True, DataType.Int, DataType.Int32),
        (False, DataType.Int, DataType.Int),
        (True, DataType.Float, DataType.Float),
    ],
)
def test_truths_are_counted_in_single_words(
    is_truth: bool, made: DataType, counted: DataType
) -> None:
    """As the largest elements are, which share the gradient of a maximum."""
    x = floats(5, 64)
    source = call("eq", x, along(call("max", x, dims=(1,)), 64)) if is_truth else x
    kernel = kernel_of(segment_of([x], total(call("cast", source, dtype=made), 1)))
    assert kernel.phases[-1].reductions[0].accumulator.dtype is counted


def test_rows_that_are_copied_with_others_are_masked() -> None:
    """A stretch has all rows of memory, also those that a pad has none of."""
    x = halves(4096, 33)
    rows_of = pad(piece(x, 0, 0, 4000), [0, 0, 0, 96])
    made = call("add", rows_of, unsqueeze(total(rows_of, 1), 1))
    planned = rows.schedule(segment_of([x], made), H200)
    assert planned.is_staged
    assert str(lower_rows(planned, False)).count(" else 0.0 where 0 <= group < 4000") == 2


def test_the_width_of_indices_is_that_of_every_place_that_a_load_has() -> None:
    x = floats(100, 128)
    swapped = cat(piece(x, 1, 64, 128), piece(x, 1, 0, 64))
    kernel = kernel_of(segment_of([x], call("sub", swapped, along(total(swapped, 1), 128))))
    (load,) = kernel.kept
    assert load.offset.reach < kernel.reach == max(form.reach for form in load.forms)

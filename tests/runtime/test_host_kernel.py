"""Kernel text on the host: values, barriers, shuffles, orders of execution, faults."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from thunder_fuser.codegen.prelude import prelude
from thunder_fuser.dtypes import DataType
from thunder_fuser.kernel.source import Parameter, Source
from thunder_fuser.options import Options
from thunder_fuser.runtime import host_compiler
from thunder_fuser.runtime.compilation import Unit
from thunder_fuser.runtime.errors import CompileError, FuserError, IndexRangeError, LaunchError
from thunder_fuser.runtime.host_kernel import ORDERS, HostKernel
from thunder_fuser.target import HOST

pytestmark = pytest.mark.skipif(not host_compiler.compiler_available(), reason="no C++ compiler")


def pointer(name: str, dtype: DataType = DataType.Float) -> Parameter:
    return Parameter(name, dtype, is_pointer=True)


def kernel(
    body: str, *parameters: Parameter, blocks: int = 1, threads: int = 64, shared: int = 0
) -> Source:
    names = {DataType.Float: "float", DataType.Int: "long long", DataType.Int32: "int"}
    declared = ", ".join(
        f"{names[p.dtype]}{'*' if p.is_pointer else ''} {p.name}" for p in parameters
    )
    text = f'extern "C" __global__ void k({declared}) {{\n{body}\n}}\n'
    return Source("k", (text,), (), parameters, blocks, threads, shared)


def compiled(source: Source, dump: str | None = None) -> HostKernel:
    unit = host_compiler.unit(source.name, source.text)
    flags = host_compiler.flags(HOST, Options())
    return HostKernel(host_compiler.compile_object(unit, flags, dump).payload, source.name)


def run(source: Source, *tensors: torch.Tensor, order: str = "forward") -> None:
    launch = compiled(source).bind(source, (), Options(thread_order=order), None)
    launch(0, *(tensor.data_ptr() for tensor in tensors))


@pytest.mark.parametrize("order", ORDERS)
def test_every_thread_of_every_block_runs_once(order: str) -> None:
    seen = torch.zeros(37 * 96, dtype=torch.int32)
    body = "seen[blockIdx.x * blockDim.x + threadIdx.x] += gridDim.x * 1000 + blockDim.x;"
    run(kernel(body, pointer("seen", DataType.Int32), blocks=37, threads=96), seen, order=order)
    assert seen.eq(37 * 1000 + 96).all()


@pytest.mark.parametrize("order", ORDERS)
def test_threads_and_blocks_run_in_the_chosen_order(order: str) -> None:
    log = torch.zeros(1 + 5 * 7, dtype=torch.int64)
    body = "log[++log[0]] = blockIdx.x * 100 + threadIdx.x;"
    run(kernel(body, pointer("log", DataType.Int), blocks=5, threads=7), log, order=order)
    forward = [block * 100 + thread for block in range(5) for thread in range(7)]
    ran = log[1:].tolist()
    assert sorted(ran) == forward
    assert (ran == forward) == (order == "forward")
    assert (ran == forward[::-1]) == (order == "reverse")


def test_shuffled_launches_differ_and_repeat_in_a_new_launcher() -> None:
    source = kernel("log[++log[0]] = threadIdx.x;", pointer("log", DataType.Int))
    loaded = compiled(source)

    def two_launches() -> list[list[int]]:
        launch = loaded.bind(source, (), Options(thread_order="shuffled"), None)
        logs = [torch.zeros(65, dtype=torch.int64) for _ in range(2)]
        for log in logs:
            launch(0, log.data_ptr())
        return [log.tolist() for log in logs]

    first, second = two_launches()
    assert first != second
    assert two_launches() == [first, second]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("threads", [32, 96, 256, 1024])
def test_block_sum_through_shuffles_and_shared_memory(order: str, threads: int) -> None:
    x = torch.randn(3, threads)
    body = """
    __shared__ float parts[32];
    float sum = x[blockIdx.x * blockDim.x + threadIdx.x];
    for (int n = 16; n; n /= 2) sum += __shfl_xor_sync(~0u, sum, n);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.f;
    for (int w = 0; w < blockDim.x / 32; ++w) sum += parts[w];
    __syncthreads();
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    """
    y = torch.full((3, threads), float("nan"))
    run(kernel(body, pointer("x"), pointer("y"), blocks=3, threads=threads), x, y, order=order)
    expected = x.double().sum(1, keepdim=True).expand_as(x)
    torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=1e-5)


def test_missing_barrier_shows_as_an_order_that_gives_other_values() -> None:
    body = """
    __shared__ float tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    BARRIER
    y[threadIdx.x] = tile[63 - threadIdx.x];
    """
    x = torch.randn(64)

    def values(text: str) -> list[bool]:
        found = []
        for order in ORDERS:
            y = torch.zeros(64)
            run(kernel(text, pointer("x"), pointer("y")), x, y, order=order)
            found.append(torch.equal(y, x.flip(0)))
        return found

    assert values(body.replace("BARRIER", "__syncthreads();")) == [True, True, True]
    assert not any(values(body.replace("BARRIER", "")))


SHUFFLES = {
    "__shfl_sync(~0u, v, 5)": lambda lane: 5,
    "__shfl_sync(~0u, v, lane + 1, 8)": lambda lane: lane // 8 * 8 + (lane + 1) % 8,
    "__shfl_up_sync(~0u, v, 3)": lambda lane: lane - 3 if lane >= 3 else lane,
    "__shfl_up_sync(~0u, v, 3, 8)": lambda lane: lane - 3 if lane % 8 >= 3 else lane,
    "__shfl_down_sync(~0u, v, 7)": lambda lane: lane + 7 if lane + 7 < 32 else lane,
    "__shfl_down_sync(~0u, v, 7, 16)": lambda lane: lane + 7 if lane % 16 + 7 < 16 else lane,
    "__shfl_xor_sync(~0u, v, 9)": lambda lane: lane ^ 9,
}


@pytest.mark.parametrize("call", SHUFFLES)
def test_shuffles_take_from_the_lane_that_cuda_takes(call: str) -> None:
    body = f"""
    int lane = threadIdx.x % 32;
    long long v = threadIdx.x * 1000000007ll;
    y[threadIdx.x] = {call} / 1000000007ll;
    """
    expected = [warp * 32 + SHUFFLES[call](lane) for warp in range(3) for lane in range(32)]
    for order in ORDERS:
        y = torch.zeros(96, dtype=torch.int64)
        run(kernel(body, pointer("y", DataType.Int), threads=96), y, order=order)
        assert y.tolist() == expected


def test_votes_count_the_threads_that_ask() -> None:
    body = """
    int odd = threadIdx.x % 2;
    if (threadIdx.x == 63) return;
    y[threadIdx.x] = __syncthreads_count(odd) * 1000 + __syncthreads_or(threadIdx.x == 7) * 100
                   + __syncthreads_and(odd) * 10;
    if (threadIdx.x < 32) y[threadIdx.x] += (long long)__ballot_sync(~0u, odd) << 32;
    """
    y = torch.zeros(64, dtype=torch.int64)
    run(kernel(body, pointer("y", DataType.Int)), y, order="shuffled")
    ballot = torch.tensor(0xAAAAAAAA - (1 << 32)) * (1 << 32)  # as signed 64 bits
    assert y[32:63].eq(31 * 1000 + 100).all()
    assert y[:32].eq(31 * 1000 + 100 + ballot).all()
    assert y[63] == 0


def test_part_of_a_warp_can_shuffle_alone() -> None:
    body = """
    int v = threadIdx.x;
    if (v < 8) for (int n = 4; n; n /= 2) v += __shfl_down_sync(0xffu, v, n, 8);
    v = __shfl_sync(~0u, v, threadIdx.x / 8 * 8);
    y[threadIdx.x] = v;
    """
    for order in ORDERS:
        y = torch.zeros(32, dtype=torch.int32)
        run(kernel(body, pointer("y", DataType.Int32), threads=32), y, order=order)
        assert y.tolist() == [sum(range(8))] * 8 + [8] * 8 + [16] * 8 + [24] * 8


def test_shared_memory_sized_at_launch() -> None:
    body = """
    float* tile = (float*)tf_host::dynamic_shared;
    tile[threadIdx.x] = threadIdx.x;
    __syncthreads();
    y[threadIdx.x] = tile[(threadIdx.x + 1) % 64];
    """
    y = torch.zeros(64)
    run(kernel(body, pointer("y"), shared=256), y)
    assert y.tolist() == [*range(1, 64), 0]


def test_last_block_sees_what_the_others_wrote() -> None:
    body = """
    __shared__ bool is_last;
    if (threadIdx.x == 0) {
      parts[blockIdx.x] = blockIdx.x;
      __threadfence();
      is_last = atomicInc(counter, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last && threadIdx.x == 0) for (int b = 0; b < gridDim.x; ++b) y[0] += parts[b];
    """
    source = kernel(body, pointer("parts"), pointer("y"), blocks=11)
    text = source.text.replace("float* y", "float* y, unsigned* counter")
    parameters = (*source.parameters, pointer("counter", DataType.Int32))
    source = replace(source, fragments=(text,), parameters=parameters)
    for order in ORDERS:
        parts, y, counter = torch.zeros(11), torch.zeros(1), torch.zeros(1, dtype=torch.int32)
        run(source, parts, y, counter, order=order)
        assert (y.item(), counter.item()) == (55.0, 0)


CLUSTER_SUM = """
    __shared__ float mine, sums[4];
    __shared__ tf::Mailbox mail;
    const unsigned rank = blockIdx.x % 4;
    if (threadIdx.x == 0) mine = 0.f;
    if (threadIdx.x == 0) {
      tf::open_mail(mail);
      tf::expect_mail(mail, 16);
    }
    tf::cluster_arrive();
    __syncthreads();
    atomicAdd(&mine, x[blockIdx.x * blockDim.x + threadIdx.x]);
    __syncthreads();
    tf::cluster_wait();
    if (threadIdx.x < 4) tf::send_mail(sums + rank, mine, mail, threadIdx.x);
    tf::await_mail(mail);
    y[blockIdx.x * blockDim.x + threadIdx.x] = ((sums[0] + sums[1]) + sums[2]) + sums[3];
"""


def clusters(body: str, threads: int = 40) -> Source:
    """Three clusters of four blocks."""
    source = kernel(body, pointer("x"), pointer("y"), blocks=12, threads=threads)
    return replace(source, fragments=(prelude(source.text) + source.text,), cluster=4)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("threads", [4, 32, 40, 1024])
def test_blocks_of_a_cluster_send_each_other_their_sums(order: str, threads: int) -> None:
    x, y = torch.randint(-9, 10, (3, 4 * threads)).float(), torch.zeros(3, 4 * threads)
    run(clusters(CLUSTER_SUM, threads), x, y, order=order)
    assert torch.equal(y, x.sum(1, keepdim=True).expand_as(x))


CLUSTER_TURNS = """
    __shared__ float sums[2][4];
    __shared__ tf::Mailbox mail[2];
    const unsigned rank = blockIdx.x % 4;
    if (threadIdx.x < 2) {
      tf::open_mail(mail[threadIdx.x]);
      tf::expect_mail(mail[threadIdx.x], 16);
    }
    tf::cluster_arrive();
    tf::cluster_wait();
    float all = 0.f;
    for (int turn = 0; turn < 5; ++turn) {
      const float mine = x[(blockIdx.x / 4 * 5 + turn) * 4 + rank];
      float* const place = sums[turn % 2] + rank;
      __syncthreads();
      if (threadIdx.x < 4) tf::send_mail(place, mine, mail[turn % 2], threadIdx.x);
      tf::await_mail(mail[turn % 2], turn / 2 % 2);
      if (threadIdx.x == 0) tf::expect_mail(mail[turn % 2], 16);
      for (int other = 0; other < 4; ++other) all = 2.f * all + sums[turn % 2][other];
    }
    y[blockIdx.x * blockDim.x + threadIdx.x] = all;
"""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("threads", [4, 40])
def test_two_mailboxes_serve_the_blocks_of_a_cluster_by_turns(order: str, threads: int) -> None:
    x, y = torch.randint(0, 2, (3, 20)).float(), torch.zeros(3, 4 * threads)
    run(clusters(CLUSTER_TURNS, threads), x, y, order=order)
    whole = (x * 2.0 ** torch.arange(19, -1, -1)).sum(1, keepdim=True)
    assert torch.equal(y, whole.expand_as(y))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (("tf::expect_mail(mail[turn % 2], 16)", ""), "does not expect"),
        (("expect_mail(mail[turn % 2], 16)", "expect_mail(mail[turn % 2], 20)"), "never"),
        (("turn / 2 % 2", "1"), "does not expect|never"),
    ],
)
def test_deliveries_that_are_not_expected_are_an_error(
    wrong: tuple[str, str], reason: str, order: str
) -> None:
    with pytest.raises(LaunchError, match=reason):
        run(clusters(CLUSTER_TURNS.replace(*wrong)), torch.ones(60), torch.zeros(480), order=order)


def test_values_that_nobody_waits_for_are_missed_in_some_order() -> None:
    source = clusters(CLUSTER_SUM.replace("tf::await_mail(mail);", "__syncthreads();"))
    x = torch.ones(3, 160)
    for order in ORDERS:
        y = torch.zeros(3, 160)
        with pytest.raises(LaunchError, match="has ended"):
            run(source, x, y, order=order)
        assert not torch.equal(y, torch.full_like(y, 160))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (("tf::cluster_wait();", ""), "does not expect"),  # the other block may not have begun
        (("expect_mail(mail, 16)", "expect_mail(mail, 12)"), "does not expect"),
        (("expect_mail(mail, 16)", "expect_mail(mail, 20)"), "others never reach"),
        (("tf::cluster_arrive();", "if (rank) tf::cluster_arrive();"), "expect|never reach"),
    ],
)
def test_mail_that_goes_astray_is_an_error(wrong: tuple[str, str], reason: str, order: str) -> None:
    source = clusters(CLUSTER_SUM.replace(*wrong))
    x, y = torch.ones(3, 160), torch.zeros(3, 160)
    with pytest.raises(LaunchError, match=reason):
        run(source, x, y, order=order)


@pytest.mark.parametrize("order", ORDERS)
def test_every_block_of_a_cluster_has_shared_memory_of_its_own(order: str) -> None:
    body = """
    __shared__ float kept;
    float* tile = (float*)tf_host::dynamic_shared;
    if (threadIdx.x == 0) kept = tile[blockIdx.x % 4] = blockIdx.x;
    tf::cluster_arrive();
    tf::cluster_wait();
    __syncthreads();
    y[blockIdx.x * 40 + threadIdx.x] = kept == tile[blockIdx.x % 4] ? kept : -1.f;
    """
    y = torch.zeros(12, 40)
    run(replace(clusters(body), shared_bytes=16), y, y, order=order)
    assert torch.equal(y, torch.arange(12.0)[:, None].expand_as(y))


@pytest.mark.parametrize(("blocks", "cluster"), [(12, 5), (34, 17), (4, 0)])
def test_clusters_that_no_gpu_forms_are_refused(blocks: int, cluster: int) -> None:
    source = replace(kernel("", pointer("y"), blocks=blocks), cluster=cluster)
    with pytest.raises(LaunchError, match=f"{blocks} blocks in clusters of {cluster}"):
        compiled(source).bind(source, (), Options(), None)


def test_barrier_in_a_branch_is_an_error_and_the_kernel_still_usable() -> None:
    source = kernel(
        "if (threadIdx.x < n) { __syncthreads(); } else { __syncwarp(); } y[threadIdx.x] = 1.f;",
        pointer("y"),
        Parameter("n", DataType.Int32, is_pointer=False),
    )
    launch = compiled(source).bind(source, (), Options(), None)
    y = torch.zeros(64)
    with pytest.raises(LaunchError, match=r"kernel k on the host: .*barrier.*never reach"):
        launch(0, y.data_ptr(), 10)
    launch(0, y.data_ptr(), 64)
    assert y.eq(1).all()


def test_products_and_sums_round_one_by_one() -> None:
    a, b, c = torch.randn(3, 4096).unbind()
    y = torch.zeros(4096)
    body = "int i = blockIdx.x * 64 + threadIdx.x; y[i] = a[i] * b[i] + c[i];"
    run(kernel(body, *map(pointer, "abcy"), blocks=64), a, b, c, y)
    assert torch.equal(y, a * b + c)


def test_two_objects_do_not_share_variables() -> None:
    body = "__shared__ float kept; kept += 1.f; y[0] = kept;"
    sources = [kernel(body + f"// {n}", pointer("y"), threads=1) for n in range(2)]
    for source in sources:
        y = torch.zeros(1)
        run(source, y)
        assert y.item() == 1.0


def test_object_that_does_not_load_says_what_to_try() -> None:
    with pytest.raises(LaunchError, match=r"kernel k could not be loaded .*set TMPDIR"):
        HostKernel(b"not an object", "k")


@pytest.mark.parametrize("threads", [0, 1025])
def test_impossible_blocks_are_refused(threads: int) -> None:
    source = kernel("", pointer("y"), threads=threads)
    with pytest.raises(LaunchError, match=f"{threads} threads"):
        compiled(source).bind(source, (), Options(), None)


def test_compiler_error_shows_its_lines_and_keeps_the_text(tmp_path: Path) -> None:
    source = kernel("int a = 1;\nint b = undeclared + a;\ny[b] = 0;", pointer("y"))
    with pytest.raises(CompileError) as caught:
        compiled(source, dump=str(tmp_path / "dump"))
    message = str(caught.value)
    assert f"refused the kernel k, written to {tmp_path}/dump/k.cu" in message
    assert "->    3 | int b = undeclared + a;\n      4 | y[b] = 0;" in message
    assert "'undeclared' was not declared" in message or "undeclared identifier" in message
    assert caught.value.path.read_text() == source.text


def test_what_runs_the_threads_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def made(unit: Unit, *rest: Any) -> bytes:
        names.append(unit.name)
        return compile_one(unit, *rest)

    compile_one = host_compiler._made
    monkeypatch.setattr(host_compiler, "_made", made)
    host_compiler._object_beside.cache_clear()
    for value in range(3):
        compiled(kernel(f"y[threadIdx.x] = {value};", pointer("y")))
    assert names == ["beside", "k", "k", "k"]


def test_without_a_compiler_the_answer_is_no_and_one_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host_compiler, "_find_compiler", lambda: None)
    host_compiler._warn_missing.cache_clear()
    with pytest.warns(RuntimeWarning, match="no C.. compiler was found") as warned:
        answers = [host_compiler.compiler_available() for _ in range(3)]
    assert answers == [False, False, False]
    assert len(warned) == 1
    with pytest.raises(FuserError, match=r"install g\+\+, or set CXX"):
        host_compiler.identity()


@pytest.mark.parametrize("order", ORDERS)
def test_a_bad_index_ends_the_launch_and_nothing_else(order: str) -> None:
    """Also where other threads wait at a barrier, and the next launch is not the worse for it."""
    body = (
        "__syncthreads();\n"
        "if (threadIdx.x == 13 && at[0] > 5) tf_host::fail_index(at[0], 5);\n"
        "__syncthreads();\n"
        "atomicAdd(at + 1, 1);"
    )
    source = kernel(body, pointer("at", DataType.Int), blocks=3)
    launch = compiled(source).bind(source, (), Options(thread_order=order), None)
    at = torch.tensor([7, 0])
    with pytest.raises(IndexRangeError, match="index 7 is out of range for an axis of extent 5"):
        launch(0, at.data_ptr())
    assert at.tolist() == [7, 0]
    at[0] = 4
    launch(0, at.data_ptr())
    assert at.tolist() == [4, 3 * 64]

"""The kernels of a process: levels of the cache, families, threads, errors."""

import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from tests import fresh
from thunder_fuser.dtypes import DataType
from thunder_fuser.kernel.source import Lifting, Parameter, Source, lift
from thunder_fuser.options import Options
from thunder_fuser.runtime import cuda_kernel, host_compiler
from thunder_fuser.runtime.cache_entry import Entry, decode, encode
from thunder_fuser.runtime.compilation import Unit
from thunder_fuser.runtime.disk_cache import DiskCache
from thunder_fuser.runtime.errors import CaptureError, CompileError
from thunder_fuser.runtime.kernels import KernelCache
from thunder_fuser.runtime.toolchain import TOOLCHAINS
from thunder_fuser.target import HOST, cuda

pytestmark = pytest.mark.skipif(not host_compiler.compiler_available(), reason="no C++ compiler")

PARAMETERS = (
    Parameter("y", DataType.Float, is_pointer=True),
    Parameter("x", DataType.Float, is_pointer=True),
)
THREADS = 32


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(cache_dir=str(tmp_path / "cache"))


def affine(length: int, scale: int = 3, shift: int = 5) -> Source:
    """y[i] = x[i] * scale + shift for i < length, with all three numbers as literals."""
    return Source(
        "affine",
        (
            'extern "C" __global__ void __launch_bounds__(32) affine(float* y, const float* x) {\n'
            "  int i = blockIdx.x * 32 + threadIdx.x;\n  if (i < ",
            ") y[i] = x[i] * ",
            " + ",
            ";\n}\n",
        ),
        (length, scale, shift),
        PARAMETERS,
        blocks=-(-length // THREADS),
        threads=THREADS,
    )


def apart(*positions: int) -> Lifting:
    """Each literal a parameter of its own."""
    return tuple((position, position) for position in positions)


def check(
    cache: KernelCache, options: Options, length: int, scale: int = 3, shift: int = 5
) -> None:
    """The launcher of this member computes this member, and stays inside its length."""
    x, y = torch.randn(length + 40), torch.zeros(length + 40)
    launch = cache.launcher(affine(length, scale, shift), HOST, options)
    launch(0, y.data_ptr(), x.data_ptr())
    assert torch.equal(y[:length], x[:length] * scale + shift)
    assert not y[length:].any()


def test_twenty_lengths_cost_three_kernels(options: Options) -> None:
    cache = KernelCache()
    for length in range(100, 2100, 100):
        check(cache, options, length + 1)
    found = cache.statistics()
    assert (found.compiled, found.families, found.lifted_families) == (3, 1, 1)
    assert found.memory_hits == 17


def test_a_kernel_is_another_with_another_text_beside_it(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = TOOLCHAINS["host"]
    cache = KernelCache()
    for comment in ("// one\n", "// two\n", "// two\n"):

        def unit(name: str, text: str, comment: str = comment) -> Unit:
            known = chain.unit(name, text)
            return replace(known, beside=comment + known.beside)

        monkeypatch.setitem(TOOLCHAINS, "host", replace(chain, unit=unit))
        check(cache, options, 10)
    assert (cache.statistics().compiled, cache.statistics().memory_hits) == (2, 1)


def test_first_members_keep_their_own_kernels(options: Options) -> None:
    cache = KernelCache()
    for _ in range(2):
        for length in (10, 20, 30):
            check(cache, options, length)
    assert cache.statistics().compiled == 3


def test_a_literal_that_changes_later_costs_one_more_kernel(options: Options) -> None:
    cache = KernelCache()
    for length in range(10, 60, 10):
        check(cache, options, length)
    assert cache.statistics().compiled == 3
    for shift in range(-10, 10):
        check(cache, options, 70 + shift, shift=shift)
    assert cache.statistics().compiled == 4


def test_a_kernel_of_small_launches_is_built_again_for_large_ones(options: Options) -> None:
    """As a member of the same family."""
    cache = KernelCache()
    small, large = affine(10), replace(affine(10), moved=1 << 30)
    found = [cache.metadata(cache.launcher(source, HOST, options)) for source in (small, large)]
    assert ["-O0" in known.flags for known in found if known] == [True, False]
    assert (cache.statistics().compiled, cache.statistics().families) == (2, 1)


def test_members_of_several_texts_share_one_that_is_general(options: Options) -> None:
    """The first ones keep their own text, all others are launches of the general kernel."""
    cache = KernelCache()
    for length in range(10, 110, 10):
        general = affine(length)
        own = f"  // {length % 20}\n  if (i < "
        text = general.fragments[0].replace("  if (i < ", own)
        source = replace(
            general, fragments=(text, *general.fragments[1:]), general=partial(affine, length)
        )
        x, y = torch.randn(200), torch.zeros(200)
        cache.launcher(source, HOST, options)(0, y.data_ptr(), x.data_ptr())
        assert torch.equal(y[:length], x[:length] * 3 + 5)
        assert not y[length:].any()
    found = cache.statistics()
    assert (found.compiled, found.families, found.lifted_families) == (3, 1, 1)


def test_literals_that_shared_a_parameter_may_part_later(options: Options) -> None:
    cache = KernelCache()
    for length, shift in ((10, 20), (50, 60), (30, 40), (70, 80), (33, 3), (90, 100), (20, 90)):
        check(cache, options, length, shift=shift)
    assert cache.statistics().compiled == 4


@pytest.mark.parametrize("static_kernels", [1, 4])
def test_the_number_of_static_kernels_is_an_option(options: Options, static_kernels: int) -> None:
    cache = KernelCache()
    for length in range(10, 110, 10):
        check(cache, replace(options, static_kernels=static_kernels), length)
    assert cache.statistics().compiled == static_kernels + 1


def test_other_text_is_another_family(options: Options) -> None:
    cache = KernelCache()
    cache.launcher(affine(10), HOST, options)
    other = affine(20)
    other = replace(other, fragments=(other.fragments[0] + " ", *other.fragments[1:]))
    cache.launcher(other, HOST, options)
    assert cache.statistics().families == 2


def test_lifting_declares_the_parameters_of_the_entry_point() -> None:
    lifted = lift(affine(10), apart(0, 2))
    assert lifted.text.splitlines()[0] == (
        'extern "C" __global__ void __launch_bounds__(32) '
        "affine(float* y, const float* x, int n0, int n1) {"
    )
    assert lifted.text.splitlines()[2] == "  if (i < n0) y[i] = x[i] * 3 + n1;"
    assert [parameter.name for parameter in lifted.parameters] == ["y", "x", "n0", "n1"]


def test_lifting_gives_an_empty_parameter_list_its_first() -> None:
    source = Source("k", ('extern "C" __global__ void k() { f(', "); }"), (4,), (), 1, 1)
    assert lift(source, apart(0)).text == ('extern "C" __global__ void k(int n0) { f(n0); }')


def test_lifted_parameter_has_the_type_of_its_literal(options: Options) -> None:
    source = Source(
        "wide",
        ('extern "C" __global__ void wide(long long* y) { y[0] = 2 * ', "; y[1] = ", "; }"),
        (2**40 + 3, -7),
        (Parameter("y", DataType.Int, is_pointer=True),),
        blocks=1,
        threads=1,
    )
    lifted = lift(source, apart(0, 1))
    assert "(long long* y, long long n0, int n1)" in lifted.text
    y = torch.zeros(2, dtype=torch.int64)
    KernelCache().launcher(lifted, HOST, options)(0, y.data_ptr(), 2**40 + 3, -7)
    assert y.tolist() == [2**41 + 6, -7]


def test_every_member_of_a_family_is_lifted_to_the_same_text() -> None:
    assert lift(affine(10, 2, 7), apart(0, 2)).text == lift(affine(99, 2, 1), apart(0, 2)).text


def test_lifted_cuda_text_compiles() -> None:
    chain, target = TOOLCHAINS["cuda"], cuda("sm_90a", 132)
    lifted = lift(affine(10), apart(0, 1, 2))
    unit = chain.unit(lifted.name, lifted.text)
    assert chain.compile(unit, chain.flags(target, Options()), None).payload[:4] == b"\x7fELF"


def test_second_cache_finds_the_kernels_of_the_first_on_disk(options: Options) -> None:
    for cache in (KernelCache(), KernelCache()):
        for length in (10, 20, 30, 40):
            check(cache, options, length)
    found = cache.statistics()
    assert (found.compiled, found.disk_hits, found.memory_hits) == (0, 3, 1)


def test_second_process_compiles_nothing(options: Options) -> None:
    lengths, first = (10, 20, 30, 40), KernelCache()
    for length in lengths:
        first.launcher(affine(length), HOST, options)
    assert first.statistics().compiled == 3
    code = f"""
from tests.runtime.test_kernels import HOST, KernelCache, Options, affine
cache = KernelCache()
for length in {lengths}:
    cache.launcher(affine(length), HOST, Options(cache_dir={options.cache_dir!r}))
print(cache.statistics().compiled)
"""
    assert fresh.output(code) == "0\n"


def test_cache_off_compiles_in_every_cache_and_writes_nothing(options: Options) -> None:
    for _ in range(2):
        cache = KernelCache()
        check(cache, replace(options, cache="off"), 10)
        assert cache.statistics().compiled == 1
    assert options.cache_dir is not None
    assert not Path(options.cache_dir).exists()


def test_damaged_object_on_disk_is_compiled_again(options: Options) -> None:
    check(KernelCache(), options, 10)
    assert options.cache_dir is not None
    (stored,) = Path(options.cache_dir).rglob("*.kernel")
    data = bytearray(stored.read_bytes())
    data[len(data) // 2] ^= 1
    stored.write_bytes(data)
    cache = KernelCache()
    with pytest.warns(RuntimeWarning, match="checksum"):
        check(cache, options, 10)
    assert cache.statistics().compiled == 1


@pytest.mark.parametrize("mode", ["rw", "ro"])
def test_whole_entry_that_holds_no_kernel_is_compiled_again(options: Options, mode: str) -> None:
    check(KernelCache(), options, 10)
    assert options.cache_dir is not None
    (stored,) = Path(options.cache_dir).rglob("*.kernel")
    found = decode(stored.read_bytes(), stored.stem)
    stored.write_bytes(encode(Entry(found.metadata, b"")))
    cache, again = KernelCache(), DiskCache(Path(options.cache_dir), mode, 1 << 20)
    with pytest.warns(RuntimeWarning, match="it is no kernel: kernel affine could not be loaded"):
        check(cache, replace(options, cache=mode, cache_max_bytes=1 << 20), 10)
    assert cache.statistics().compiled == 1
    kept = again.get(stored.stem)
    assert kept is not None
    assert bool(kept.payload) == (mode == "rw")


def test_oldest_kernels_are_forgotten_but_their_launchers_work(options: Options) -> None:
    cache = KernelCache(max_kernels=1)
    launch = cache.launcher(affine(10), HOST, options)
    check(cache, options, 20)
    x, y = torch.randn(10), torch.zeros(10)
    launch(0, y.data_ptr(), x.data_ptr())
    assert torch.equal(y, x * 3 + 5)
    check(cache, options, 10)
    assert cache.statistics().disk_hits == 1


def test_several_sources_compile_together_and_keep_their_order(options: Options) -> None:
    cache = KernelCache()
    many = [affine(20, scale=n) for n in range(6)]
    launchers = cache.launchers(many, HOST, replace(options, static_kernels=6, compile_jobs=3))
    for n, launch in enumerate(launchers):
        x, y = torch.randn(20), torch.zeros(20)
        launch(0, y.data_ptr(), x.data_ptr())
        assert torch.equal(y, x * n + 5)
    assert cache.statistics().compiled == 6


def test_sixteen_threads_that_ask_for_one_kernel_compile_it_once(options: Options) -> None:
    cache, together = KernelCache(), threading.Barrier(16)
    faults: list[BaseException] = []

    def ask() -> None:
        try:
            together.wait()
            check(cache, options, 33)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert cache.statistics().compiled == 1


def test_one_launcher_serves_several_threads(options: Options) -> None:
    launch = KernelCache().launcher(affine(500), HOST, options)
    faults: list[int] = []

    def ask() -> None:
        for _ in range(50):
            x, y = torch.randn(500), torch.zeros(500)
            launch(0, y.data_ptr(), x.data_ptr())
            faults.append(int((y != x * 3 + 5).sum()))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == [0] * 200


def test_empty_grid_compiles_and_launches_nothing(options: Options) -> None:
    cache = KernelCache()
    cache.launcher(affine(0), HOST, options)(0, 0, 0)
    assert cache.statistics().compiled == 0


def test_refused_kernel_is_not_stored(options: Options) -> None:
    cache = KernelCache()
    bad = replace(affine(10), fragments=("nonsense ", "", "", ""))
    for _ in range(2):
        with pytest.raises(CompileError, match="refused the kernel affine"):
            cache.launcher(bad, HOST, replace(options, dump=options.cache_dir))
    assert cache.statistics().compiled == 0
    assert options.cache_dir is not None
    assert not list(Path(options.cache_dir).rglob("*.kernel"))


def test_compiling_during_a_graph_capture_is_a_clear_error(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    cache = KernelCache()
    with pytest.raises(CaptureError, match=r"kernel affine .*call the function once .*before"):
        cache.launcher(affine(10), cuda("sm_90a", 132), options)
    assert cache.statistics().compiled == 0


def test_target_of_a_device_is_what_torch_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    class H200:
        major, minor = 9, 0
        multi_processor_count = 132
        max_threads_per_multi_processor = 2048
        shared_memory_per_block_optin = 232448
        L2_cache_size = 60 << 20

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: H200)
    found = cuda_kernel.target_of(torch.device("cuda", 1))
    assert str(found) == "cuda:sm_90a"
    assert (found.multiprocessors, found.shared_bytes) == (132, 232448)

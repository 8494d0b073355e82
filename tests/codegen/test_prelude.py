"""The device prelude: what is selected, that it compiles, and what loads, stores and Philox do."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import pytest
import torch

import thunder_fuser.codegen
from tests.programs import chain, cuda_kernels, fusion, like, ptx_of, total
from thunder_fuser.codegen.emit import emit
from thunder_fuser.codegen.prelude import chunks, mentions, prelude
from thunder_fuser.codegen.types import COMPUTE_TYPES, CUDA_TYPES
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.options import Options
from thunder_fuser.runtime import host_compiler
from thunder_fuser.runtime.dtypes import TORCH_DTYPES
from thunder_fuser.runtime.torch_ops import philox, tf_philox_uniform, tf_philox_within
from thunder_fuser.target import HOST

HOST_HEADER = Path(thunder_fuser.codegen.__file__).parent / "device" / "host.h"
KNOWN_PHILOX = [  # Random123's known answers: counter, key, result
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
SWIGLU = """\
extern "C" __global__ void kernel(const tf::bf16* a, const tf::bf16* b, tf::bf16* y) {
  const int i = (blockIdx.x * 256 + threadIdx.x) * 8;
  const auto va = tf::load<tf::bf16, 8, 16>(a + i), vb = tf::load<tf::bf16, 8, 16>(b + i);
  tf::Vec<float, 8> out;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const float x = tf::convert<float>(va.v[k]);
    out.v[k] = x / (1.0f + tf::exp(-x)) * tf::convert<float>(vb.v[k]);
  }
  tf::store<16>(y + i, tf::convert_vec<tf::bf16>(out));
}
"""


def host(text: str, folder: Path) -> ctypes.CDLL:
    source, library = folder / "unit.cc", folder / "unit.so"
    source.write_text(f'#include "{HOST_HEADER}"\n{prelude(text)}{text}')
    command = ["g++", "-std=c++17", "-O1", "-fPIC", "-shared", str(source), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(library))


def nvrtc_ptx(text: str) -> str:
    return ptx_of(prelude(text) + text)


def test_a_kernel_without_device_names_has_no_prelude() -> None:
    assert prelude("__global__ void k(float* y) { y[0] = 1.0f; }") == ""


def test_only_what_is_mentioned_is_included() -> None:
    assert prelude("float y = tf::exp(x);") == (
        "namespace tf {\n"
        "#define TF_FN __device__ __forceinline__\n"
        "#ifdef TF_HOST\n"
        "#define TF_LIBM(name)                                                       \\\n"
        "  TF_FN float name(float x) { return __builtin_##name##f(x); }              \\\n"
        "  TF_FN double name(double x) { return __builtin_##name(x); }\n"
        "#else\n"
        "#define TF_LIBM(name)                                                       \\\n"
        "  TF_FN float name(float x) { return ::name##f(x); }                        \\\n"
        "  TF_FN double name(double x) { return ::name(x); }\n"
        "#endif\n"
        "TF_LIBM(exp)\n"
        "}  // namespace tf\n"
    )


def test_no_header_of_the_cpp_library_is_included() -> None:
    """Each would cost every kernel of the host target some 0.3 s to compile."""
    texts = [path.read_text() for path in HOST_HEADER.parent.iterdir() if path.is_file()]
    included = {name for text in texts for name in re.findall(r"#include <(.+)>", text)}
    assert included == {"setjmp.h", "ucontext.h"}


def test_the_complex_overload_comes_with_the_complex_type_alone() -> None:
    assert "complex" not in prelude("tf::exp(x)")
    assert "complex<T> exp(" in prelude("tf::complex<float> y = tf::exp(x);")


def test_an_unknown_device_name_is_named_in_the_error() -> None:
    with pytest.raises(KeyError, match="no chunk of codegen/device provides expp"):
        prelude("tf::expp(x)")


def test_chunks_use_only_what_stands_before_them() -> None:
    position: dict[str, int] = {}
    late = []
    for k, chunk in enumerate(chunks()):
        for name in chunk.names:
            position.setdefault(name, k)
        late += [(sorted(chunk.names), name) for name in chunk.mentions if name not in position]
    assert late == []


def test_mentions_are_device_names_and_macros() -> None:
    text = "tf::load<tf::bf16, 8, 16>(p) TF_LIBM(exp) mytf::x #ifdef TF_HOST"
    assert mentions(text) == {"load", "bf16", "TF_LIBM"}


@pytest.mark.parametrize("dtype", DataType, ids=str)
def test_every_element_type_has_the_size_of_its_dtype(dtype: DataType, tmp_path: Path) -> None:
    name = CUDA_TYPES[dtype]
    library = host(
        f'extern "C" int size() {{ return sizeof({name}) * 100 + alignof({name}); }}', tmp_path
    )
    alignment = dtype.itemsize
    assert library.size() == dtype.itemsize * 100 + alignment
    assert COMPUTE_TYPES[dtype] == CUDA_TYPES[dtype.compute_type]


def test_a_kernel_carries_little_text_beside_its_own() -> None:
    """Compilers read every line of it: these take NVRTC 35 ms on an idle core."""
    assert len(prelude(SWIGLU).splitlines()) < 260


@pytest.mark.parametrize("use", ["compared", "converted"])
def test_bytes_above_a_difference_of_bytes_are_those_of_its_sign(use: str) -> None:
    """NVRTC 13.0 read two bytes of four differences of this kernel, unless told."""
    x = torch.empty(2, 201, 203, dtype=torch.int8, device="meta")
    a, b = like(x, x)
    both = call("sub", a, b)
    used = call("gt", both, chain(both, "neg")) if use == "compared" else both
    wide = call("cast", call("cast", used, dtype=DataType.Int), dtype=DataType.Float)
    program = fusion([a, b], both, total(wide, 1, 2), call("max", b, dims=(1, 2)))
    _, (kernel,) = cuda_kernels(program, x, x)
    _, mark, body = emit(kernel).text.partition('extern "C" __global__ void')
    ptx = nvrtc_ptx(mark + body)
    differences = re.findall(r"(?:sub|neg)\.s16\s+(%rs\d+)", ptx)
    reads = re.findall(r"(?:setp\.gt|cvt\.rn\.f32)\.s16\s+.*", ptx)
    assert "cvt.s32.s8" in ptx
    assert not set(differences) & set(re.findall(r"%rs\d+", "".join(reads)))


def test_vector_accesses_are_as_wide_as_asked_and_bf16_narrows_in_pairs() -> None:
    ptx = nvrtc_ptx(SWIGLU)
    assert ptx.count("ld.global.v4.u32") == 2
    assert ptx.count("st.global.v4.u32") == 1
    assert ptx.count("cvt.rn.bf16x2.f32") == 4
    assert "cvt.rn.bf16.f32" not in ptx
    assert ".local" not in ptx


def test_streaming_accesses_carry_the_hint() -> None:
    ptx = nvrtc_ptx(
        'extern "C" __global__ void k(const float* x, float* y) {\n'
        "  tf::store_streaming<16>(y, tf::load_streaming<float, 8, 16>(x));\n}"
    )
    assert ptx.count("ld.global.cs.v4") == 2
    assert ptx.count("st.global.cs.v4") == 2


@pytest.mark.parametrize("hint", ["", "_streaming"])
@pytest.mark.parametrize(("dtype", "count"), [("tf::bf16", 8), ("float", 6), ("tf::u8", 3)])
def test_every_legal_access_width_moves_the_same_bytes(
    dtype: str, count: int, hint: str, tmp_path: Path
) -> None:
    size = {"tf::bf16": 2, "float": 4, "tf::u8": 1}[dtype]
    widths = [w for w in (1, 2, 4, 8, 16) if count * size % w == 0]
    text = "".join(
        f'extern "C" void copy_{w}({dtype}* y, const {dtype}* x) {{ '
        f"tf::store{hint}<{w}>(y, tf::load{hint}<{dtype}, {count}, {w}>(x)); }}\n"
        for w in widths
    )
    library = host(text, tmp_path)
    for width in widths:
        x = torch.randint(0, 256, (count * size,), dtype=torch.uint8)
        y = torch.zeros_like(x)
        getattr(library, f"copy_{width}")(
            ctypes.c_void_p(y.data_ptr()), ctypes.c_void_p(x.data_ptr())
        )
        assert torch.equal(x, y), width


def test_dynamic_shared_memory_compiles_for_both_targets() -> None:
    text = (
        'extern "C" __global__ void k(float* y) {\n  TF_DYNAMIC_SHARED(float, tile);\n'
        "  tile[threadIdx.x] = y[threadIdx.x];\n  __syncthreads();\n"
        "  y[threadIdx.x] = tile[31 - threadIdx.x];\n}"
    )
    assert "st.shared.f32" in nvrtc_ptx(text)
    unit = host_compiler.unit("k", prelude(text) + text)
    assert host_compiler.compile_object(unit, host_compiler.flags(HOST, Options()), None).payload


def test_mail_is_counted_where_it_arrives_and_no_write_is_waited_for() -> None:
    ptx = nvrtc_ptx(
        'extern "C" __global__ void __cluster_dims__(4, 1, 1) k(float* y) {\n'
        "  __shared__ tf::Mailbox mail;\n  __shared__ float narrow[4];\n"
        "  __shared__ double wide[4];\n"
        "  if (threadIdx.x == 0) {\n    tf::open_mail(mail);\n    tf::expect_mail(mail, 48);\n  }\n"
        "  tf::cluster_arrive();\n  tf::cluster_wait();\n"
        "  if (threadIdx.x < 4) {\n"
        "    tf::send_mail(narrow + blockIdx.x % 4, y[0], mail, threadIdx.x);\n"
        "    tf::send_mail(wide + blockIdx.x % 4, 2.0 * y[1], mail, threadIdx.x);\n  }\n"
        "  tf::await_mail(mail);\n  y[threadIdx.x] = narrow[threadIdx.x] + wide[threadIdx.x];\n}"
    )
    assert ".reqnctapercluster 4" in ptx
    assert ptx.count("st.async.shared::cluster.mbarrier::complete_tx::bytes.b") == 2
    assert ptx.count("mapa.shared::cluster") == 4
    assert "barrier.cluster.arrive.relaxed" in ptx
    assert "arrive.release" not in ptx
    assert "membar" not in ptx


def test_a_mailbox_that_serves_again_counts_one_arrival_a_delivery() -> None:
    ptx = nvrtc_ptx(
        'extern "C" __global__ void __cluster_dims__(4, 1, 1) k(float* y, int turns) {\n'
        "  __shared__ tf::Mailbox mail;\n  __shared__ float sent[4];\n"
        "  if (threadIdx.x == 0) {\n    tf::open_mail(mail);\n    tf::expect_mail(mail, 16);\n  }\n"
        "  tf::cluster_arrive();\n  tf::cluster_wait();\n"
        "#pragma unroll 1\n"
        "  for (int turn = 0; turn < turns; ++turn) {\n"
        "    if (threadIdx.x < 4) tf::send_mail(sent + blockIdx.x % 4, y[0], mail, threadIdx.x);\n"
        "    tf::await_mail(mail, turn % 2);\n"
        "    if (threadIdx.x == 0) tf::expect_mail(mail, 16);\n"
        "    y[threadIdx.x] = sent[threadIdx.x];\n  }\n}"
    )
    assert ptx.count("mbarrier.init.shared") == 1
    assert ptx.count("mbarrier.arrive.expect_tx.shared") == 2
    assert ptx.count("mbarrier.try_wait.parity.shared") == 1


def test_round_to_is_the_rounding_point_of_the_trace(tmp_path: Path) -> None:
    library = host(
        'extern "C" float bf(float x) { return tf::round_to<tf::bf16>(x); }\n'
        'extern "C" float hf(float x) { return tf::round_to<tf::f16>(x); }',
        tmp_path,
    )
    for name, dtype in (("bf", torch.bfloat16), ("hf", torch.float16)):
        function = getattr(library, name)
        function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
        for x in (torch.randn(50) * 100).tolist():
            assert function(x) == torch.tensor(x).to(dtype).float().item()


def test_products_kept_apart_are_not_contracted() -> None:
    text = (
        'extern "C" __global__ void k(float* y, float a, float b, float c) {\n'
        "  const float p = %s;\n  y[0] = p + c;\n}"
    )
    assert "fma.rn.f32" in nvrtc_ptx(text % "a * b")
    assert "fma" not in nvrtc_ptx(text % "tf::mul_rn(a, b)")


@pytest.mark.parametrize(("counter", "key", "wanted"), KNOWN_PHILOX)
def test_philox_gives_the_known_answers(
    counter: tuple[int, ...], key: tuple[int, ...], wanted: tuple[int, ...], tmp_path: Path
) -> None:
    seed, offset = key[0] | key[1] << 32, counter[0] | counter[1] << 32
    subsequence = counter[2] | counter[3] << 32
    library = host(
        'extern "C" void draw(unsigned* y, unsigned long long s, unsigned long long o, '
        "unsigned long long q) { const auto r = tf::philox(s, o, q);\n"
        "for (int k = 0; k < 4; ++k) y[k] = r.v[k]; }",
        tmp_path,
    )
    words = (ctypes.c_uint * 4)()
    library.draw(words, *(ctypes.c_uint64(v) for v in (seed, offset, subsequence)))
    assert tuple(words) == wanted
    signed = subsequence - (1 << 64) if subsequence >> 63 else subsequence
    found = philox(seed, offset, torch.tensor([signed]))
    assert tuple(word.item() for word in found) == wanted


def test_a_round_of_philox_is_two_products() -> None:
    ptx = nvrtc_ptx(
        'extern "C" __global__ void k(unsigned* y, unsigned long long s) {\n'
        "  const auto r = tf::philox(s, y[0], y[1]);\n"
        "  for (int k = 0; k < 4; ++k) y[k] = r.v[k];\n}"
    )
    assert re.findall(r"\bmul\.\S+", ptx) == 20 * ["mul.wide.u32"]


@pytest.mark.parametrize(
    "dtype", [DataType.Float, DataType.Double, DataType.BFloat16, DataType.Half]
)
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-2.5, 7.25)])
def test_device_and_torch_draw_the_same_uniform_bits(
    dtype: DataType, bounds: tuple[float, float], tmp_path: Path
) -> None:
    kind, compute = CUDA_TYPES[dtype], COMPUTE_TYPES[dtype]
    library = host(
        f'extern "C" void draw({compute}* y, unsigned long long seed, unsigned long long offset,'
        f" double low, double high, int n) {{\n  for (int i = 0; i < n; ++i) "
        f"y[i] = tf::philox_uniform<{kind}>(seed, offset, i - i % 4, i % 4, low, high);\n}}",
        tmp_path,
    )
    count, seed, offset = 10_007, 2**63 + 12345, 77
    y = torch.empty(count, dtype=TORCH_DTYPES[dtype.compute_type])
    low, high = (ctypes.c_double(b) for b in bounds)
    library.draw(
        ctypes.c_void_p(y.data_ptr()),
        ctypes.c_uint64(seed),
        ctypes.c_uint64(offset),
        low,
        high,
        count,
    )
    torch_dtype = TORCH_DTYPES[dtype]
    cpu = torch.device("cpu")
    wanted = tf_philox_uniform(*bounds, (count,), seed, offset, torch_dtype, cpu)
    assert torch.equal(y.to(torch_dtype), wanted)
    assert torch.equal(y.to(torch_dtype).to(y.dtype), y)
    assert (y >= bounds[0]).all()
    assert (y < bounds[1]).all()
    assert abs(y.double().mean().item() - sum(bounds) / 2) < 0.02 * (bounds[1] - bounds[0])


def test_device_and_torch_find_the_same_words(tmp_path: Path) -> None:
    library = host(
        'extern "C" void draw(bool* y, unsigned long long seed, unsigned long long offset, int n)'
        " {\n  for (int i = 0; i < n; ++i)"
        " y[i] = tf::philox_within(seed, offset, i - i % 4, i % 4, 4286578560ll, 3875537153ll);\n}",
        tmp_path,
    )
    y = torch.empty(10_007, dtype=torch.bool)
    seed, offset = 2**63 + 12345, 77
    key = ctypes.c_uint64(seed), ctypes.c_uint64(offset)
    library.draw(ctypes.c_void_p(y.data_ptr()), *key, len(y))
    cpu = torch.device("cpu")
    where = y.shape, seed, offset
    assert torch.equal(y, tf_philox_within(4286578560, 3875537153, *where, cpu))
    assert torch.equal(y, tf_philox_uniform(0.0, 1.0, *where, torch.bfloat16, cpu).float() < 0.9)

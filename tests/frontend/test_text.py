"""The printed definition: running it defines the same fusion, bit for bit."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.frontend.fusions import defined, new_cache, redefined
from thunder_fuser.frontend import DataType, FusionDefinition
from thunder_fuser.frontend.constants import decode, encode


def round_trips(define: Any) -> str:
    """The text, after asserting that it is a hit with equal records and fids."""
    cache = new_cache()
    fd = defined(define, cache)
    again = redefined(str(fd), cache)
    assert cache.num_fusions() == 1
    assert again.leaf is fd.leaf
    return "\n".join(line.strip() for line in str(fd).splitlines()[1:])


def body(*lines: str) -> str:
    return "\n".join(lines)


def test_literals_are_folded_into_the_call_that_reads_them() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([4, 6], contiguity=True)
        fd.add_output(fd.ops.reshape(fd.ops.add(x, 2), [8, 3]))

    assert round_trips(define).endswith(
        body(
            "T2 = fd.ops.add(T0, 2)",
            "T6 = fd.ops.reshape(T2, new_shape=[8, 3])",
            "fd.add_output(T6)",
        )
    )


def test_scalars_in_a_list_keep_their_names() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], contiguity=True)
        n = fd.define_scalar(8)
        fd.add_output(fd.ops.reshape(x, [n, 3]))
        fd.add_output(fd.ops.broadcast_in_dim(fd.ops.sum(x), [3, n, 2], []))

    assert round_trips(define).splitlines()[1:] == [
        "S1 = fd.define_scalar(8, dtype=DataType.Int)",
        "T4 = fd.ops.reshape(T0, new_shape=[S1, 3])",
        "fd.add_output(T4)",
        "T5 = fd.ops.sum(T0, dims=[0])",
        "T9 = fd.ops.broadcast_in_dim(T5, shape=[3, S1, 2], broadcast_dims=[])",
        "fd.add_output(T9)",
    ]


def test_a_constant_read_twice_keeps_its_line() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], contiguity=True)
        s = fd.define_scalar(2.5)
        fd.add_output(fd.ops.mul(fd.ops.add(x, s), s))

    assert "S1 = fd.define_scalar(2.5, dtype=DataType.Double)" in round_trips(define)


def test_a_constant_of_another_dtype_keeps_its_line() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], contiguity=True)
        fd.add_output(fd.ops.mul(x, fd.define_scalar(0.1, DataType.Half)))

    assert "S1 = fd.define_scalar(0.0999755859375, dtype=DataType.Half)" in round_trips(define)


def test_every_kind_of_argument_round_trips() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([4, -1, 1], contiguity=[True, False, None], stride_order=[1, 2, 0])
        c = fd.define_tensor([], contiguity=[], dtype=DataType.Double, is_cpu=True)
        v = fd.define_vector(2)
        a, b = fd.ops.var_mean(x, [0], correction=0, keepdim=True)
        d = fd.ops.cat([fd.ops.cast(x, torch.float16), fd.ops.cast(b, DataType.Half)], dim=0)
        e = fd.ops.pad(fd.ops.slice(d, [0, 0, 0], [4, 2, 1], [2, 1, 1]), [1, -1], value=-0.0)
        f = fd.ops.full([2, v[0]], complex(0.0, math.inf), torch.complex64)
        sizes = fd.ops.tensor_sizes(e)
        g = fd.ops.iota(sizes[1], start=3, dtype=DataType.Int32)
        fd.add_output(fd.ops.where(fd.ops.lt(x, c), fd.ops.mul(x, sizes[0]), a))
        fd.add_output(e, stride_order=[0, 2, 1])
        fd.add_output(f)
        fd.add_output(g)
        fd.add_output(fd.ops.neg(x), alias_input=x)

    text = round_trips(define)
    assert "[S19, S20, S21] = fd.ops.tensor_sizes(" in text or "fd.ops.tensor_sizes(" in text
    assert "alias_input=T0" in text
    assert "complex(0.0, float(" in text


@given(st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True))
def test_every_float_prints_as_itself(value: float) -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], contiguity=True)
        fd.add_output(fd.ops.mul(x, value))

    round_trips(define)


@given(st.complex_numbers(allow_nan=True, allow_infinity=True))
def test_every_complex_number_prints_as_itself(value: complex) -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], contiguity=True, dtype=DataType.ComplexDouble)
        fd.add_output(fd.ops.add(fd.define_scalar(value), x))

    round_trips(define)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (math.nan, 'float("nan")'),
        (math.inf, 'float("inf")'),
        (-math.inf, 'float("-inf")'),
        (-0.0, "-0.0"),
        (0.1234567890123, "0.1234567890123"),
        (True, "True"),
        (2**63 - 1, "9223372036854775807"),
        (complex(math.nan, -0.0), 'complex(float("nan"), -0.0)'),
    ],
)
def test_special_numbers_print_as_python(value: Any, text: str) -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], contiguity=True, dtype=DataType.ComplexDouble)
        fd.add_output(fd.ops.mul(x, value))

    assert f"fd.ops.mul(T0, {text})" in round_trips(define)


@given(st.floats(width=32))
def test_a_constant_is_rounded_to_its_dtype_as_torch_rounds(value: float) -> None:
    for dtype, torch_dtype in (
        (DataType.Half, torch.float16),
        (DataType.BFloat16, torch.bfloat16),
        (DataType.Float, torch.float32),
    ):
        got = decode(encode(value, dtype))[0]
        assert isinstance(got, float)
        want = torch.tensor(value, dtype=torch_dtype).item()
        assert struct.pack("<d", got) == struct.pack("<d", want) or math.isnan(got * want)


def test_an_open_definition_prints_what_it_has() -> None:
    with FusionDefinition(cache=new_cache()) as fd:
        x = fd.define_tensor([-1], contiguity=True)
        assert str(fd).splitlines()[0] == "def fuser_fusion(fd : FusionDefinition) -> None :"
        assert len(str(fd).splitlines()) == 2
        fd.add_output(x)

"""Kernel text with its literals set apart."""

from __future__ import annotations

from dataclasses import replace

import torch

from tests.programs import chain, cuda_kernels, fusion, like
from thunder_fuser.codegen.emit import emit
from thunder_fuser.dtypes import DataType
from thunder_fuser.kernel.source import Parameter, Source, lift

SOURCE = Source(
    "k",
    ('extern "C" void k(float* x) {\n  x[', "] = ", " * x[", "];\n}\n"),
    (7, 2**31, 3),
    (Parameter("x", DataType.Float, True),),
    1,
    32,
)


def test_text_is_fragments_and_literals_in_turn() -> None:
    assert SOURCE.text == 'extern "C" void k(float* x) {\n  x[7] = 2147483648 * x[3];\n}\n'


def test_lifted_literals_become_parameters_of_their_width() -> None:
    lifted = lift(SOURCE, ((0, 0), (1, 1)))
    assert lifted.text == (
        'extern "C" void k(float* x, int n0, long long n1) {\n  x[n0] = n1 * x[3];\n}\n'
    )
    assert lifted.literals == (3,)
    assert [p.dtype for p in lifted.parameters[1:]] == [DataType.Int32, DataType.Int]


def test_literals_that_share_a_parameter_differ_from_it_by_a_number() -> None:
    source = replace(SOURCE, literals=(7, 7, 3))
    lifted = lift(source, ((0, 0), (1, 0), (2, 0)))
    assert lifted.text == 'extern "C" void k(float* x, int n0) {\n  x[n0] = n0 * x[(n0 - 4)];\n}\n'
    source = replace(SOURCE, literals=(7, 5, 9))
    lifted = lift(source, ((1, 1), (2, 1)))
    assert lifted.text == 'extern "C" void k(float* x, int n0) {\n  x[7] = n0 * x[(n0 + 4)];\n}\n'


def test_a_kernel_without_parameters_gets_a_list() -> None:
    source = Source("k", ("void k() { f(", "); }"), (4,), (), 1, 32)
    assert lift(source, ((0, 0),)).text == "void k(int n0) { f(n0); }"


def test_kernels_of_other_sizes_differ_in_literals_only() -> None:
    made = []
    for rows in (6, 10):
        x = torch.empty(rows, 40)
        (a,) = like(x)
        _, (kernel,) = cuda_kernels(fusion([a], chain(a, "neg", "exp")), x)
        made.append(emit(kernel))
    first, second = made
    assert first.fragments == second.fragments
    assert first.literals != second.literals

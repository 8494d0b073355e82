"""Liger's versions of the workloads that it has an op for. Nothing is imported before it is asked
for: its kernels need Triton and a GPU.

Its ops may write into their inputs, so whoever calls them gives them copies. Where it can be asked
not to write into cotangents, it is.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

import torch

from benchmarks.cases import Function

Load: TypeAlias = Callable[[], Function]


def _op(name: str) -> Any:
    return getattr(import_module("liger_kernel.transformers.functional"), f"liger_{name}")


def rms_norm(epsilon: float) -> Load:
    def load() -> Function:
        op = _op("rms_norm")
        return lambda x, weight: op(x, weight, epsilon, in_place=False)

    return load


def add_rms_norm(epsilon: float) -> Load:
    def load() -> Function:
        op = _op("fused_add_rms_norm")
        return lambda x, residual, weight: op(x, residual, weight, epsilon, in_place=False)

    return load


def layer_norm(epsilon: float) -> Load:
    def load() -> Function:
        op = _op("layer_norm")
        return lambda x, weight, bias: op(x, weight, bias, epsilon)

    return load


def softmax() -> Load:
    return lambda: _op("softmax")


def swiglu() -> Load:
    return lambda: _op("swiglu")


def cross_entropy() -> Load:
    return lambda: _op("cross_entropy")


def rope(turned: Callable[..., tuple[torch.Tensor, ...]]) -> Load:
    """`turned(turn, *inputs)` is the workload with `turn(q, k, cos, sin)` for its rotation, which
    Liger's kernel does in place.

    So a forward overwrites the projections of q and k, from which nobody else can read any more,
    and peaks lower than any other; what is cut from one projection it copies first. It takes the
    left half of cos and sin for both. A backward copies dense cotangents before it turns them.
    What repeats the heads of k and v are eager torch's kernels. All of that is measured.
    """

    def load() -> Function:
        op = _op("rope")
        return lambda *inputs: turned(op, *inputs)

    return load

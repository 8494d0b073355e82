"""What is measured. A workload is a row: a name, a builder, its sizes.

Minimal bytes count each input that has to be read and each output that has to be written once. The
backward is charged with what it cannot do without: cotangents, the saved inputs, the gradients.
Sizes are those of LLM training steps; the quick ones, which a host target can run, are uneven.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

Function = Callable[..., Any]
Builder = Callable[..., "Case"]
DTYPE = torch.bfloat16
EPSILON = 1e-5
FROZEN = False  # in `_random`: the input gets no gradient


@dataclass(frozen=True)
class Case:
    """A workload on a device. Inputs that require a gradient get one; bytes are the least that
    each pass can move."""

    function: Function
    inputs: tuple[torch.Tensor, ...]
    forward_bytes: int
    backward_bytes: int


@dataclass(frozen=True)
class Workload:
    """`build` takes a device and the sizes by name."""

    name: str
    build: Builder
    sizes: Mapping[str, int]
    quick: Mapping[str, int]
    dtype: torch.dtype = DTYPE

    def case(self, device: torch.device, is_quick: bool) -> Case:
        """Inputs are the same in every process: the seed is fixed."""
        torch.manual_seed(0)
        return self.build(device, **self.chosen(is_quick))

    def chosen(self, is_quick: bool) -> Mapping[str, int]:
        return self.quick if is_quick else self.sizes


def _rope(
    device: torch.device,
    *,
    batch: int,
    length: int,
    heads: int,
    groups: int,
    head_size: int,
    rotated: int,
) -> Case:
    """LitGPT's attention front end: qkv (batch, length, (heads + 2 groups) head_size) and cos, sin
    (length, rotated) -> rotated q and k, and v, each (batch, heads, length, head_size)."""
    is_replicated = groups not in (1, heads)

    def function(
        qkv: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        per_group = heads // groups
        grouped = qkv.view(batch, length, groups, per_group + 2, head_size).permute(0, 2, 3, 1, 4)
        q, k, v = grouped.split((per_group, 1, 1), dim=2)
        if is_replicated:
            k, v = (t.expand(batch, groups, per_group, length, head_size) for t in (k, v))
        q, k, v = (t.reshape(batch, -1, length, head_size) for t in (q, k, v))
        return _turn(q, cos, sin), _turn(k, cos, sin), v

    qkv = _random(device, batch, length, (heads + 2 * groups) * head_size)
    cos, sin = (_random(device, length, rotated, gradient=FROZEN) for _ in range(2))
    one_head, tables = _bytes(qkv) // (heads + 2 * groups), _bytes(cos, sin)
    wide = heads if is_replicated else groups
    # Without replication v is a view of the input.
    values = groups + wide if is_replicated else 0
    forward = tables + one_head * (heads + groups + heads + wide + values)
    backward = tables + one_head * (heads + 2 * wide) + _bytes(qkv)
    return Case(function, (qkv, cos, sin), forward, backward)


def _turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    rotated = cos.size(-1)
    part = x[..., :rotated]
    low, high = part[..., : rotated // 2], part[..., rotated // 2 :]
    turned = part * cos + torch.cat((-high, low), dim=-1) * sin
    return torch.cat((turned.to(x.dtype), x[..., rotated:]), dim=-1)


def _rms_norm(device: torch.device, *, rows: int, columns: int) -> Case:
    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPSILON)
        return (wide * scale).to(x.dtype) * weight

    x, weight = _random(device, rows, columns), _random(device, columns)
    forward, backward = 2 * _bytes(x) + _bytes(weight), 3 * _bytes(x) + 2 * _bytes(weight)
    return Case(function, (x, weight), forward, backward)


def _layer_norm(device: torch.device, *, rows: int, columns: int) -> Case:
    def function(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (columns,), weight, bias)

    x, weight, bias = (
        _random(device, *shape) for shape in ((rows, columns), (columns,), (columns,))
    )
    # The backward reads the weight and writes two gradients of its size.
    forward, backward = 2 * _bytes(x) + _bytes(weight, bias), 3 * _bytes(x) + 3 * _bytes(weight)
    return Case(function, (x, weight, bias), forward, backward)


def _softmax(device: torch.device, *, rows: int, columns: int) -> Case:
    x = _random(device, rows, columns)
    return Case(lambda x: torch.softmax(x, -1), (x,), 2 * _bytes(x), 3 * _bytes(x))


def _swiglu(device: torch.device, *, rows: int, columns: int) -> Case:
    gate, up = (_random(device, rows, columns) for _ in range(2))
    one = _bytes(gate)
    return Case(lambda gate, up: F.silu(gate) * up, (gate, up), 3 * one, 5 * one)


def _gelu_bias(device: torch.device, *, rows: int, columns: int) -> Case:
    def function(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.gelu(x + bias, approximate="tanh")

    x, bias = _random(device, rows, columns), _random(device, columns)
    forward, backward = 2 * _bytes(x) + _bytes(bias), 3 * _bytes(x) + 2 * _bytes(bias)
    return Case(function, (x, bias), forward, backward)


def _cross_entropy(device: torch.device, *, rows: int, columns: int) -> Case:
    x = _random(device, rows, columns)
    target = torch.randint(0, columns, (rows,), device=device)
    scalar = x.element_size()
    forward, backward = _bytes(x, target) + scalar, 2 * _bytes(x) + _bytes(target) + scalar
    return Case(F.cross_entropy, (x, target), forward, backward)


def _pointwise(device: torch.device, *, rows: int, columns: int) -> Case:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * y + x).exp() * y

    x, y = (_random(device, rows, columns) for _ in range(2))
    return Case(function, (x, y), 3 * _bytes(x), 5 * _bytes(x))


def _column_sum(device: torch.device, *, rows: int, columns: int) -> Case:
    x = _random(device, rows, columns)
    moved = _bytes(x) + columns * x.element_size()
    return Case(lambda x: (x * 2.0).sum(0), (x,), moved, moved)


def _transpose(device: torch.device, *, rows: int, columns: int) -> Case:
    x, y = _random(device, rows, columns), _random(device, columns, rows)
    return Case(lambda x, y: torch.relu(x.t() + y), (x, y), 3 * _bytes(x), 4 * _bytes(x))


def _random(device: torch.device, *shape: int, gradient: bool = True) -> torch.Tensor:
    return torch.randn(shape, dtype=DTYPE, device=device, requires_grad=gradient)


def _bytes(*tensors: torch.Tensor) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def _rope_sizes(batch: int, length: int, heads: int, groups: int, rotated: int) -> dict[str, int]:
    sizes = {"batch": batch, "length": length, "heads": heads, "groups": groups}
    return sizes | {"head_size": 128, "rotated": rotated}


_QUICK_MHA = dict(batch=1, length=9, heads=4, groups=4, head_size=16, rotated=16)
_QUICK_GQA = _QUICK_MHA | {"groups": 2}
_QUICK_ROWS = {"rows": 33, "columns": 200}


def _rows(name: str, build: Builder, rows: int, columns: int) -> Workload:
    return Workload(name, build, {"rows": rows, "columns": columns}, _QUICK_ROWS)


WORKLOADS: Sequence[Workload] = (
    Workload("rope_llama2_7b", _rope, _rope_sizes(2, 4096, 32, 32, 128), _QUICK_MHA),
    Workload("rope_llama3_8b", _rope, _rope_sizes(2, 8192, 32, 8, 128), _QUICK_GQA),
    Workload(
        "rope_mistral_7b", _rope, _rope_sizes(1, 4096, 32, 8, 128), _QUICK_GQA | {"length": 7}
    ),
    Workload("rope_partial", _rope, _rope_sizes(2, 4096, 32, 32, 32), _QUICK_MHA | {"rotated": 4}),
    _rows("rmsnorm", _rms_norm, 16384, 4096),
    _rows("layernorm", _layer_norm, 16384, 4096),
    _rows("softmax", _softmax, 16384, 4096),
    _rows("swiglu", _swiglu, 8192, 14336),
    _rows("gelu_bias", _gelu_bias, 8192, 16384),
    _rows("cross_entropy", _cross_entropy, 8192, 32000),
    _rows("pointwise", _pointwise, 16384, 8192),
    _rows("column_sum", _column_sum, 16384, 8192),
    _rows("transpose", _transpose, 8192, 8192),
)

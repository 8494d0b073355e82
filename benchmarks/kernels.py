"""Memory-bound patterns of LLM and vision training, one or two kernels each.

Minimal bytes count each input that has to be read and each output that has to be written once. The
backward is charged with what it cannot do without: cotangents, the saved inputs, the gradients.
Sizes are those of LLM training steps; the quick ones, which a host target can run, are uneven.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F

from benchmarks import liger, rope
from benchmarks.cases import FROZEN, Case, Function, Make, Tensors, Workload, nbytes
from benchmarks.dropout import believe

EPSILON = 1e-5
KEEP = 0.9  # of the elements that a dropout sees


def rms_norm(make: Make, *, rows: int, columns: int) -> Case:
    """x (rows, columns) and a weight (columns,)."""
    x, weight = make.random(rows, columns), make.weight(columns)
    result = _promoted_bytes(x, weight)
    return Case(
        lambda x, weight: normed(x) * weight,
        (x, weight),
        nbytes(x) + result + nbytes(weight),
        2 * nbytes(x) + result + 2 * nbytes(weight),
        liger=liger.rms_norm(EPSILON),
    )


def _promoted_bytes(x: torch.Tensor, weight: torch.Tensor) -> int:
    """Of x in the dtype that it has once a weight was applied."""
    return int(x.numel() * torch.promote_types(x.dtype, weight.dtype).itemsize)


def normed(x: torch.Tensor) -> torch.Tensor:
    """By the root of the mean of the squares of its rows."""
    exact = wide(x)
    scale = torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + EPSILON)
    return (exact * scale).to(x.dtype)


def wide(x: torch.Tensor) -> torch.Tensor:
    """In fp32, as models compute norms; what is fp64, to judge others by, stays."""
    return x if x.dtype == torch.float64 else x.float()


def add_rms_norm(make: Make, *, rows: int, columns: int) -> Case:
    """The end of a transformer block: the new residual, and it normalised."""

    def function(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> Tensors:
        total = x + residual
        return normed(total) * weight, total

    x, residual, weight = (
        *(make.random(rows, columns) for _ in range(2)),
        make.weight(columns),
    )
    # One gradient serves both terms of the sum. The backward reads two cotangents and the sum.
    forward = 4 * nbytes(x) + nbytes(weight)
    backward = 4 * nbytes(x) + 2 * nbytes(weight)
    return Case(
        function, (x, residual, weight), forward, backward, liger=liger.add_rms_norm(EPSILON)
    )


def layer_norm(make: Make, *, rows: int, columns: int) -> Case:
    """x (rows, columns), a weight and a bias (columns,): in their dtype, as torch's kernels on CUDA
    take no others, the result in that of x."""

    def function(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        wide = x.to(weight.dtype)
        return F.layer_norm(wide, (columns,), weight, bias, EPSILON).to(x.dtype)

    x, weight, bias = make.random(rows, columns), make.weight(columns), make.weight(columns)
    # The backward reads the weight and writes two gradients of its size.
    forward, backward = 2 * nbytes(x) + nbytes(weight, bias), 3 * nbytes(x) + 3 * nbytes(weight)
    return Case(function, (x, weight, bias), forward, backward, liger=liger.layer_norm(EPSILON))


def dropout_norm(make: Make, *, rows: int, columns: int) -> Case:
    """Dropout, residual and layer norm, the end of a GPT-2 block: the new residual, and it
    normalised. The backward is charged with a random mask that it computes again."""

    def function(
        x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
    ) -> Tensors:
        total = residual + F.dropout(x, 1 - KEEP)
        return F.layer_norm(total, (columns,), weight, bias, EPSILON), total

    sizes = make.random(rows, columns, gradient=FROZEN)
    # Far from zero, so that the sum shows which elements were kept.
    x = (sizes + 4 * sizes.sign()).requires_grad_()
    residual, weight, bias = (
        make.random(rows, columns),
        make.weight(columns),
        make.weight(columns),
    )

    def replay(outputs: Tensors) -> Function:
        kept = (outputs[1] - residual).detach().abs() > 1
        believe(kept, KEEP, x.dtype)

        def repeated(
            x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
        ) -> Tensors:
            total = residual + x * kept / KEEP
            return F.layer_norm(total, (columns,), weight, bias, EPSILON), total

        return repeated

    forward = 4 * nbytes(x) + nbytes(weight, bias)
    backward = 5 * nbytes(x) + 3 * nbytes(weight)
    return Case(function, (x, residual, weight, bias), forward, backward, replay=replay)


def batch_norm(make: Make, *, batch: int, channels: int, height: int, width: int) -> Case:
    """A training step's, (batch, channels, height, width); updates running statistics (channels,)
    in place."""

    def function(
        x: torch.Tensor,
        mean: torch.Tensor,
        variance: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
    ) -> torch.Tensor:
        return F.batch_norm(x, mean, variance, weight, bias, training=True, eps=EPSILON)

    x, weight, bias = (
        make.random(batch, channels, height, width),
        make.weight(channels),
        make.weight(channels),
    )
    mean, variance = torch.zeros_like(weight).detach(), torch.ones_like(weight).detach()
    forward = 2 * nbytes(x) + 2 * nbytes(mean, variance) + nbytes(weight, bias)
    backward = 3 * nbytes(x) + 3 * nbytes(weight)
    return Case(function, (x, mean, variance, weight, bias), forward, backward)


def softmax(make: Make, *, rows: int, columns: int) -> Case:
    """Of the rows of (rows, columns)."""
    x = make.random(rows, columns)
    return Case(
        lambda x: torch.softmax(x, -1), (x,), 2 * nbytes(x), 3 * nbytes(x), liger=liger.softmax()
    )


def swiglu(make: Make, *, rows: int, columns: int) -> Case:
    """Two inputs (rows, columns)."""
    gate, up = (make.random(rows, columns) for _ in range(2))
    one = nbytes(gate)
    return Case(
        lambda gate, up: F.silu(gate) * up, (gate, up), 3 * one, 5 * one, liger=liger.swiglu()
    )


def gelu_bias(make: Make, *, rows: int, columns: int) -> Case:
    """x (rows, columns) and a bias (columns,)."""

    def function(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.gelu(x + bias, approximate="tanh")

    x, bias = make.random(rows, columns), make.weight(columns)
    result = _promoted_bytes(x, bias)
    forward, backward = nbytes(x) + result + nbytes(bias), 2 * nbytes(x) + result + 2 * nbytes(bias)
    return Case(function, (x, bias), forward, backward)


def cross_entropy(make: Make, *, rows: int, columns: int) -> Case:
    """The mean over rows of logits (rows, columns)."""
    x, target = make.random(rows, columns), make.indices(columns, rows)
    scalar = x.element_size()
    forward, backward = nbytes(x, target) + scalar, 2 * nbytes(x) + nbytes(target) + scalar
    return Case(F.cross_entropy, (x, target), forward, backward, liger=liger.cross_entropy())


def embedding(make: Make, *, tokens: int, vocabulary: int, columns: int) -> Case:
    """Rows of a table (vocabulary, columns) for `tokens` indices. The backward writes all of the
    table's gradient."""
    table, indices = make.weight(vocabulary, columns), make.indices(vocabulary, tokens)
    chosen = tokens * columns * table.element_size()
    read = min(tokens, vocabulary) * columns * table.element_size()
    forward, backward = nbytes(indices) + read + chosen, nbytes(indices, table) + chosen
    return Case(
        lambda indices, table: F.embedding(indices, table), (indices, table), forward, backward
    )


def pointwise(make: Make, *, rows: int, columns: int) -> Case:
    """A chain on two inputs (rows, columns)."""
    x, y = (make.random(rows, columns) for _ in range(2))
    return Case(lambda x, y: torch.tanh(x * y + x).exp() * y, (x, y), 3 * nbytes(x), 5 * nbytes(x))


def column_sum(make: Make, *, rows: int, columns: int) -> Case:
    """Down (rows, columns)."""
    x = make.random(rows, columns)
    moved = nbytes(x) + columns * x.element_size()
    return Case(lambda x: (x * 2.0).sum(0), (x,), moved, moved)


def square_sum(make: Make, *, rows: int, columns: int) -> Case:
    """Of all elements of (rows, columns), in fp32."""
    x = make.random(rows, columns)
    scalar = torch.finfo(torch.float32).bits // 8
    return Case(lambda x: wide(x).pow(2).sum(), (x,), nbytes(x) + scalar, 2 * nbytes(x) + scalar)


def transpose(make: Make, *, rows: int, columns: int) -> Case:
    """x (rows, columns) turned and added to (columns, rows)."""
    x, y = make.random(rows, columns), make.random(columns, rows)
    return Case(lambda x, y: torch.relu(x.t() + y), (x, y), 3 * nbytes(x), 4 * nbytes(x))


_QUICK_ROWS = {"rows": 33, "columns": 200}


def _rows(name: str, build: Callable[..., Case], *shapes: tuple[int, int]) -> Workload:
    sizes = tuple({"rows": rows, "columns": columns} for rows, columns in shapes)
    return Workload(name, build, sizes, (_QUICK_ROWS,))


WORKLOADS: Sequence[Workload] = (
    *rope.ANCHORS,
    _rows("rmsnorm", rms_norm, (16384, 4096), (8192, 16384)),
    _rows("add_rmsnorm", add_rms_norm, (16384, 4096)),
    _rows("layernorm", layer_norm, (16384, 4096)),
    _rows("dropout_norm", dropout_norm, (16384, 4096)),
    Workload(
        "batchnorm",
        batch_norm,
        ({"batch": 64, "channels": 256, "height": 56, "width": 56},),
        ({"batch": 3, "channels": 5, "height": 7, "width": 4},),
    ),
    _rows("softmax", softmax, (16384, 4096), (2048, 65536)),
    _rows("swiglu", swiglu, (8192, 14336)),
    _rows("gelu_bias", gelu_bias, (8192, 16384)),
    _rows("cross_entropy", cross_entropy, (8192, 32000)),
    Workload(
        "embedding",
        embedding,
        (
            {"tokens": 16384, "vocabulary": 32000, "columns": 4096},
            {"tokens": 16384, "vocabulary": 128256, "columns": 4096},
        ),
        ({"tokens": 33, "vocabulary": 50, "columns": 24},),
    ),
    _rows("pointwise", pointwise, (16384, 8192)),
    _rows("column_sum", column_sum, (16384, 8192)),
    _rows("square_sum", square_sum, (16384, 8192)),
    _rows("transpose", transpose, (8192, 8192)),
)

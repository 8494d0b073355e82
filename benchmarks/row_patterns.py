"""What rows (rows, columns) and attention scores (batch, heads, queries, keys) are put through."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import isqrt

import torch
import torch.nn.functional as F

from benchmarks.cases import Case, Make, Tensors, nbytes
from benchmarks.image_patterns import cross_entropy
from benchmarks.kernels import normed, wide
from benchmarks.pattern import (
    ROWS,
    SCORES,
    TARGET,
    Pattern,
    alone,
    paired,
    planes,
    scaled,
    weighted,
)

_CAP, _SMOOTHING = 30.0, 0.1  # of logits, and of labels


def _layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (x.shape[-1],), weight, bias)


def _rms_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return normed(x) * weight + bias


def _column_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """A batch norm of features."""
    return F.batch_norm(x, None, None, weight, bias, training=True)


def _swiglu(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return F.silu(x[..., :half]) * x[..., -half:]


def _sandwich(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """A residual beside the norm of what it was gated to."""
    return x + normed(F.silu(x) * weight) * scale


def _quantised(x: torch.Tensor, weight: torch.Tensor) -> Tensors:
    """A norm in 8 bits, with a scale a row."""
    y = normed(x) * weight
    scale = wide(y.abs().amax(-1, keepdim=True)) / 127
    return torch.round(wide(y) / scale).to(torch.int8), scale


def _margins(x: torch.Tensor) -> Tensors:
    return x.sum(0), x.sum(1)


def _residual_norm(make: Make, rows: int, columns: int) -> Case:
    """The sum of two planes, and that normalised."""

    def function(
        x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
    ) -> Tensors:
        total = x + y
        return total, F.layer_norm(total, (columns,), weight, bias)

    both = make.random(rows, columns), make.random(rows, columns)
    return planes(function, (*both, make.weight(columns), make.weight(columns)), 4, 4)


def _divergence(x: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """A distillation's loss, of two planes of logits."""
    given, wanted = torch.log_softmax(wide(x), -1), torch.log_softmax(wide(teacher), -1)
    return (wanted.exp() * (wanted - given)).sum(-1).mean()


def _entropy(x: torch.Tensor) -> torch.Tensor:
    """Of a policy, of which reinforcement learning wants more."""
    given = torch.log_softmax(wide(x), -1)
    return -(given.exp() * given).sum(-1)


def _capped_cross_entropy(make: Make, *shape: int) -> Case:
    """Gemma's: logits pass through a tanh first."""
    case = cross_entropy(make, *shape)

    def function(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(_CAP * torch.tanh(x / _CAP), target)

    return Case(function, case.inputs, case.forward_bytes, case.backward_bytes)


def _smooth_cross_entropy(make: Make, *shape: int) -> Case:
    case = cross_entropy(make, *shape)
    function = partial(F.cross_entropy, label_smoothing=_SMOOTHING)
    return Case(function, case.inputs, case.forward_bytes, case.backward_bytes)


def _weighted_cross_entropy(make: Make, rows: int, classes: int) -> Case:
    """Classes that count for less the more there are of them."""
    case = cross_entropy(make, rows, classes)
    weight = make.random(classes, gradient=False).abs()

    def function(x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, target, weight=weight)

    return Case(function, (*case.inputs, weight), case.forward_bytes, case.backward_bytes)


def _turned_sum(make: Make, rows: int, columns: int) -> Case:
    """A plane turned onto another one. torch hands on the gradient as both; here each is a copy."""
    both = make.random(rows, columns), make.random(columns, rows)
    return planes(lambda x, y: x.t() + y, both, 3, 3)


def _matched(x: torch.Tensor) -> torch.Tensor:
    """Of square logits whose rows and columns are each other's targets."""
    target = torch.arange(x.shape[0], device=x.device)
    return (F.cross_entropy(x, target) + F.cross_entropy(x.t(), target)) / 2


def _contrastive(make: Make, rows: int, columns: int) -> Case:
    """CLIP's loss."""
    size = isqrt(rows * columns)
    return planes(_matched, (make.random(size, size),), 1, 2)


def _scaled_contrastive(make: Make, rows: int, columns: int) -> Case:
    """CLIP's loss with a temperature that is learnt, of the smaller number of rows and columns."""
    size = min(rows, columns)
    inputs = make.random(size, size), make.weight(1)
    return planes(lambda x, scale: _matched(x * scale.exp()), inputs, 1, 2)


def _balance(x: torch.Tensor) -> torch.Tensor:
    """Of the experts that tokens are sent to (a switch transformer's)."""
    experts = x.shape[-1]
    share = torch.softmax(wide(x), -1)
    chosen = F.one_hot(share.argmax(-1), experts).to(share.dtype)
    return experts * (share.mean(0) * chosen.mean(0)).sum()


def _gathered(make: Make, rows: int, columns: int) -> Case:
    """Rows of a table in another order, as tokens go to experts: each row once."""
    order = torch.randperm(rows, device=make.device)
    return planes(lambda x, order: x[order], (make.random(rows, columns), order), 2, 2)


def _embedded(make: Make, rows: int, columns: int) -> Case:
    """Rows of a table of a fourth of the size, which get as many gradients each as they are read.
    The forward reads what it can of the table from the cache."""
    table = make.weight(max(rows // 4, 1), columns)
    inputs = table, make.indices(table.shape[0], rows)
    return planes(lambda table, index: F.embedding(index, table), inputs, 5, 5)


def _picked(make: Make, rows: int, columns: int) -> Case:
    """As many elements of each row as it has, each at an index of its own."""
    x, index = make.random(rows, columns), make.indices(columns, rows, columns)
    read = 2 + nbytes(index) / nbytes(x)
    return planes(lambda x, index: x.gather(-1, index), (x, index), read, read)


def _biased_scores(make: Make, *shape: int) -> Case:
    """Attention scores with a bias of each head."""
    bias = make.weight(*shape[1:])
    return planes(lambda x, bias: torch.softmax(x + bias, -1), (make.random(*shape), bias), 2, 3)


def _padded_scores(make: Make, *shape: int) -> Case:
    """Attention scores of sequences that end early."""
    batch, *_, keys = shape
    lengths = make.indices(keys, batch) + 1
    hidden = torch.arange(keys, device=make.device) >= lengths[:, None]

    def function(x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.masked_fill(hidden[:, None, None, :], -torch.inf), -1)

    return planes(function, (make.random(*shape), hidden), 2, 3)


def _causal_scores(x: torch.Tensor) -> torch.Tensor:
    """Attention scores of what came before."""
    queries, keys = (torch.arange(size, device=x.device) for size in x.shape[-2:])
    return torch.softmax(x.masked_fill(keys > queries[:, None], -torch.inf), -1)


def _moments(x: torch.Tensor) -> torch.Tensor:
    """Of each row, one after the other."""
    return torch.stack((x.mean(-1), x.std(-1), x.amax(-1), x.amin(-1)))


def _sloped_scores(x: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
    """Attention scores that rise along the keys, by a slope of each head (ALiBi)."""
    keys = torch.arange(x.shape[-1], device=x.device)
    return torch.softmax(x + slope[:, None, None] * keys, -1)


def _sinks(x: torch.Tensor, sink: torch.Tensor) -> torch.Tensor:
    """Attention scores beside one more of each head, of which nothing is read (gpt-oss)."""
    one = wide(sink)[:, None, None].expand(*x.shape[:3], 1)
    return torch.softmax(torch.cat((wide(x), one), -1), -1)[..., :-1].to(x.dtype)


def _clamped_glu(x: torch.Tensor) -> torch.Tensor:
    """Of gates and values that lie in turns (gpt-oss)."""
    even = x[:, : x.shape[1] // 2 * 2]
    gate, value = even[:, ::2].clamp(max=7), even[:, 1::2].clamp(-7, 7)
    return (value + 1) * gate * torch.sigmoid(1.702 * gate)


def _bucketed_scores(make: Make, batch: int, heads: int, queries: int, keys: int) -> Case:
    """Attention scores with a bias for each bucket of distances (T5)."""
    places = torch.arange(max(queries, keys), device=make.device)
    index = (places[:queries, None] - places[:keys]).clamp(-15, 16) + 15

    def scored(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x + F.embedding(index, table).permute(2, 0, 1), -1)

    return planes(scored, (make.random(batch, heads, queries, keys), make.weight(32, heads)), 2, 3)


def _straight_through(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Rounded to 4 bits, and in the gradient only clamped."""
    y = (x / scale).clamp(-8, 7)
    return (y + (torch.round(y) - y).detach()) * scale


def _distilled(x: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """The divergence from what a teacher's logits say, both at a temperature of 2."""
    found, wanted = F.log_softmax(wide(x) / 2, -1), F.softmax(wide(teacher) / 2, -1)
    return F.kl_div(found, wanted, reduction="batchmean") * 4


PATTERNS: Mapping[str, Pattern] = {
    "softmax": Pattern(ROWS, alone(partial(torch.softmax, dim=-1), 2, 3)),
    "column_softmax": Pattern(ROWS, alone(partial(torch.softmax, dim=0), 2, 3)),
    "logsoftmax": Pattern(ROWS, alone(partial(torch.log_softmax, dim=-1), 2, 3)),
    "logsumexp": Pattern(ROWS, alone(partial(torch.logsumexp, dim=-1), 1, 2)),
    "l2": Pattern(ROWS, alone(partial(F.normalize, dim=-1), 2, 3)),
    "std_rows": Pattern(ROWS, alone(partial(torch.std, dim=-1), 1, 2)),
    "column_std": Pattern(ROWS, alone(partial(torch.std, dim=0), 1, 2)),
    "column_max": Pattern(ROWS, alone(partial(torch.amax, dim=0), 1, 2)),
    "moments": Pattern(ROWS, alone(_moments, 1, 2)),
    "max_rows": Pattern(ROWS, alone(partial(torch.max, dim=-1), 1, 1)),
    "cumsum": Pattern(ROWS, alone(partial(torch.cumsum, dim=-1), 2, 2)),
    "column_cumsum": Pattern(ROWS, alone(partial(torch.cumsum, dim=0), 2, 2)),
    "rmsnorm": Pattern(ROWS, weighted(_rms_norm, -1, 2, 3)),
    "layernorm": Pattern(ROWS, weighted(_layer_norm, -1, 2, 3)),
    "column_norm": Pattern(ROWS, weighted(_column_norm, -1, 2, 3)),
    "scale_bias": Pattern(ROWS, weighted(lambda x, w, b: F.relu(x * w + b), -1, 2, 3)),
    "gelu_bias": Pattern(ROWS, scaled(lambda x, bias: F.gelu(x + bias), (1,), 2, 3)),
    "row_scale": Pattern(ROWS, scaled(lambda x, scale: x * scale[:, None], (0,), 2, 3)),
    "margins": Pattern(ROWS, alone(_margins, 1, 1)),
    "sandwich": Pattern(ROWS, weighted(_sandwich, -1, 2, 3)),
    "quantised": Pattern(ROWS, scaled(_quantised, (1,), 1.5, 2)),
    "straight_through": Pattern(ROWS, scaled(_straight_through, (1,), 2, 3)),
    "addln": Pattern(ROWS, _residual_norm),
    "swiglu_chunk": Pattern(ROWS, alone(_swiglu, 1.5, 2.5)),
    "clamped_glu": Pattern(ROWS, alone(_clamped_glu, 1.5, 2.5)),
    "swiglu": Pattern(ROWS, paired(lambda gate, up: F.silu(gate) * up, 3, 5)),
    "mse": Pattern(ROWS, paired(F.mse_loss, 2, 3, TARGET)),
    "bce": Pattern(ROWS, paired(F.binary_cross_entropy_with_logits, 2, 3, TARGET)),
    "kl": Pattern(ROWS, paired(_divergence, 2, 3, TARGET)),
    "distilled": Pattern(ROWS, paired(_distilled, 2, 3, TARGET)),
    "entropy": Pattern(ROWS, alone(_entropy, 1, 2)),
    "ce": Pattern(ROWS, cross_entropy),
    "capped_ce": Pattern(ROWS, _capped_cross_entropy),
    "smooth_ce": Pattern(ROWS, _smooth_cross_entropy),
    "weighted_ce": Pattern(ROWS, _weighted_cross_entropy),
    "turned_sum": Pattern(ROWS, _turned_sum),
    "clip": Pattern(ROWS, _contrastive),
    "clip_scaled": Pattern(ROWS, _scaled_contrastive),
    "balance": Pattern(ROWS, alone(_balance, 1, 2)),
    "gathered": Pattern(ROWS, _gathered),
    "embedded": Pattern(ROWS, _embedded),
    "picked": Pattern(ROWS, _picked),
    "bias_rows_softmax": Pattern(SCORES, _biased_scores),
    "sloped_softmax": Pattern(SCORES, scaled(_sloped_scores, (1,), 2, 3)),
    "bucketed_softmax": Pattern(SCORES, _bucketed_scores),
    "sinks": Pattern(SCORES, scaled(_sinks, (1,), 2, 3)),
    "padded_softmax": Pattern(SCORES, _padded_scores),
    "causal_softmax": Pattern(SCORES, alone(_causal_scores, 2, 3)),
}

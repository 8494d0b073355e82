"""Plain operations, one or two at a time: reductions of every kind along rows, down columns and of
all, losses, and planes that are turned.

What has no gradient, such as the place of a maximum, is measured forward only.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
import torch.nn.functional as F

from benchmarks.cases import FROZEN, Case, Function, Make, nbytes
from benchmarks.image_patterns import cross_entropy
from benchmarks.kernels import wide
from benchmarks.pattern import (
    ROWS,
    SCORES,
    TARGET,
    TOKENS,
    Build,
    Pattern,
    alone,
    paired,
    planes,
    weighted,
)

_SECTOR = 32  # bytes: memory is read in these


def _places(function: Function) -> Build:
    """Of one plane that gets no gradient."""

    def build(make: Make, *shape: int) -> Case:
        return planes(function, (make.random(*shape, gradient=FROZEN),), 1, 0)

    return build


def _turned(*dims: int) -> Build:
    """A plane in another order, past a relu: else its gradient is a view."""
    return alone(lambda x: F.relu(x.permute(dims)).contiguous(), 2, 3)


def _square_sums(x: torch.Tensor) -> torch.Tensor:
    return x.square().sum(0)


def _gelu_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """A norm of what a gelu, of itself a costly function, is added to."""
    return F.layer_norm(x + F.gelu(x), (x.shape[-1],), weight, bias)


def _mixed_norm(make: Make, rows: int, columns: int) -> Case:
    """A norm of 16 bits, whose weights have 32."""

    def function(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(wide(x), (columns,), weight, bias).to(x.dtype)

    exact = Make(make.device, torch.float32, torch.float32)
    inputs = make.random(rows, columns), exact.weight(columns), exact.weight(columns)
    return planes(function, inputs, 2, 3)


def _hidden_softmax(make: Make, rows: int, columns: int) -> Case:
    """Of what a mask of each element leaves."""
    hidden = make.random(rows, columns, gradient=FROZEN) > 1

    def function(x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.masked_fill(hidden, -torch.inf), -1)

    masked = 2 + 1 / make.dtype.itemsize, 3 + 1 / make.dtype.itemsize
    return planes(function, (make.random(rows, columns), hidden), *masked)


def _losses(make: Make, *shape: int) -> Case:
    """One of each row, not their mean."""
    case = cross_entropy(make, *shape)
    function = partial(F.cross_entropy, reduction="none")
    return Case(function, case.inputs, case.forward_bytes, case.backward_bytes)


def _nll(make: Make, rows: int, columns: int) -> Case:
    """Of logarithms that lie in memory: a sector of each row is read, and its index."""
    case = cross_entropy(make, rows, columns)
    backward = nbytes(case.inputs[0])
    return Case(F.nll_loss, case.inputs, rows * (_SECTOR + 8), backward)


def _probable(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """A cross entropy whose targets are probabilities."""
    return F.cross_entropy(x, target.abs())


_ROWS: Mapping[str, Build] = {
    "amin_rows": alone(partial(torch.amin, dim=-1), 1, 2),
    "prod_rows": alone(partial(torch.prod, dim=-1), 1, 2),
    "norm_rows": alone(partial(torch.linalg.vector_norm, dim=-1), 1, 2),
    "var_mean_rows": alone(partial(torch.var_mean, dim=-1), 1, 2),
    "argmax_rows": _places(partial(torch.argmax, dim=-1)),
    "any_rows": _places(lambda x: torch.any(x > 4, dim=-1)),
    "square_sums": alone(_square_sums, 1, 2),
    "column_var": alone(partial(torch.var, dim=0), 1, 2),
    "column_prod": alone(partial(torch.prod, dim=0), 1, 2),
    "column_argmin": _places(partial(torch.argmin, dim=0)),
    "column_any": _places(lambda x: torch.any(x > 4, dim=0)),
    "max_of_all": alone(torch.amax, 1, 2),
    "mean_of_all": alone(torch.mean, 1, 1),
    "var_of_all": alone(torch.var, 1, 2),
    "norm_of_all": alone(torch.linalg.vector_norm, 1, 2),
    "argmax_of_all": _places(torch.argmax),
    "any_of_all": _places(lambda x: torch.any(x > 9)),
    "l1": paired(F.l1_loss, 2, 3, TARGET),
    "nll": _nll,
    "ce_of_rows": _losses,
    "probable_ce": paired(_probable, 2, 3, TARGET),
    "gelu_norm": weighted(_gelu_norm, -1, 2, 3),
    "mixed_norm": _mixed_norm,
    "hidden_softmax": _hidden_softmax,
}
_TOKENS: Mapping[str, Build] = {
    "squares_around": alone(lambda x: x.square().sum((0, 2)), 1, 2),
    "max_inside": alone(partial(torch.amax, dim=(1, 2)), 1, 2),
    "turned_last": _turned(0, 2, 1),
    "turned_first": _turned(1, 0, 2),
    "turned_all": _turned(2, 1, 0),
}
_SCORES: Mapping[str, Build] = {
    "turned_heads": _turned(0, 2, 1, 3),
    "turned_scores": _turned(3, 2, 1, 0),
}
PATTERNS: Mapping[str, Pattern] = {
    **{name: Pattern(ROWS, build) for name, build in _ROWS.items()},
    **{name: Pattern(TOKENS, build) for name, build in _TOKENS.items()},
    **{name: Pattern(SCORES, build) for name, build in _SCORES.items()},
}

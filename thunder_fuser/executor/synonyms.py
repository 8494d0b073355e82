"""Ops that Thunder takes for torch's own although it knows them by another name.

    t0 = ltorch.clip(x, 0, 1)    =>    t0 = ltorch.clamp(x, 0, 1)

Thunder 0.2.6 registers each of these as an opaque torch op, whose gradient runs the op again under
torch's autograd.
"""

from __future__ import annotations

from typing import Any

import thunder.torch as ltorch
import torch

from thunder_fuser.executor.limits import clamp
from thunder_fuser.executor.stand_ins import Compose


def _subtract(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    return ltorch.sub(a, b, alpha=alpha)


def _divide(a: Any, b: Any, *, rounding_mode: str | None = None) -> Any:
    return ltorch.div(a, b, rounding_mode=rounding_mode)


def _clamp_min(a: Any, min: Any) -> Any:
    return clamp(a, min=min)


def _clamp_max(a: Any, max: Any) -> Any:
    return clamp(a, max=max)


SYNONYMS: dict[Any, Compose] = {
    torch.absolute: ltorch.abs,
    torch.arccos: ltorch.acos,
    torch.arccosh: ltorch.acosh,
    torch.arcsin: ltorch.asin,
    torch.arcsinh: ltorch.asinh,
    torch.arctan: ltorch.atan,
    torch.arctan2: ltorch.atan2,
    torch.arctanh: ltorch.atanh,
    torch.clamp_max: _clamp_max,
    torch.clamp_min: _clamp_min,
    torch.clip: clamp,
    torch.divide: _divide,
    torch.greater: ltorch.gt,
    torch.greater_equal: ltorch.ge,
    torch.less: ltorch.lt,
    torch.less_equal: ltorch.le,
    torch.moveaxis: ltorch.movedim,
    torch.multiply: ltorch.mul,
    torch.negative: ltorch.neg,
    torch.not_equal: ltorch.ne,
    torch.special.erf: ltorch.erf,
    torch.special.erfc: ltorch.erfc,
    torch.special.exp2: ltorch.exp2,
    torch.special.expm1: ltorch.expm1,
    torch.special.log1p: ltorch.log1p,
    torch.special.logsumexp: ltorch.logsumexp,
    torch.subtract: _subtract,
    torch.swapaxes: ltorch.transpose,
    torch.swapdims: ltorch.transpose,
}

"""Remainders of floats of 16 bits by a number, which torch rounds to their type.

    y = remainder(x, 0.1)    x: bf16    =>    y = remainder(x, 0.10009765625)

Thunder takes them in f32, where the number is another than the bf16 that was made of it, and
leaves nearly all of that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import thunder.torch as ltorch
import torch

from thunder_fuser.executor.dtypes import rounded_numbers
from thunder_fuser.executor.stand_ins import Compose


def _by_rounded(remainder: Callable[..., Any]) -> Compose:
    def by_rounded(a: Any, b: Any) -> Any:
        x, y = rounded_numbers(a, b)
        return NotImplemented if x is a and y is b else remainder(x, y)

    return by_rounded


REMAINDERS: dict[Any, Compose] = {
    torch.fmod: _by_rounded(ltorch.fmod),
    torch.remainder: _by_rounded(ltorch.remainder),
    torch.Tensor.fmod_: _by_rounded(ltorch.fmod_),
    torch.Tensor.remainder_: _by_rounded(ltorch.remainder_),
}

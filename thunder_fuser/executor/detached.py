"""What is detached stays in its region, and no gradient goes through it.

    t0 = ltorch.detach(x)    =>    t0 = detach(x)  # shallow_copy(x), constant to the gradient

Thunder 0.2.6 registers it as an opaque torch op, which cuts a region in two, and computes a
gradient of it, of zeros.
"""

from __future__ import annotations

from typing import Any

import thunder.core.prims as prims
import thunder.torch as ltorch
import torch
from thunder.core.proxies import ProxyTag, TensorProxy
from thunder.core.symbol import Symbol

from thunder_fuser.executor.stand_ins import Compose


def _constant(x: TensorProxy) -> TensorProxy:
    shown: TensorProxy = prims.shallow_copy(x)
    shown.tags.add(ProxyTag.DETACHED_AUTOGRAD_GRAPH)
    return shown


SYMBOL = Symbol("detach", meta=_constant, id="thunder_fuser.detach")
ltorch._syms_returning_views.add(SYMBOL)


def _detach(x: Any) -> Any:
    return SYMBOL(x) if isinstance(x, TensorProxy) else NotImplemented


DETACHED: dict[Any, Compose] = {torch.detach: _detach, torch.Tensor.detach: _detach}

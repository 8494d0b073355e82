"""What stands in for a torch function while Thunder traces: mostly for one that is opaque to it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import thunder.torch as ltorch
from thunder.core.symbol import Symbol

Compose = Callable[..., Any]


def lookasides(
    compositions: dict[Any, Compose], composites: dict[Any, Compose]
) -> dict[Any, Compose]:
    """Each torch function, and Thunder's symbol of it, with what stands in for them; a method of a
    tensor is called by the symbol of the function.

    A composition that returns NotImplemented, or has no such parameters, leaves the call to
    Thunder's symbol. What Thunder sees into stays as it is, but for `composites`.
    """
    symbols = ltorch._torch_to_thunder_function_map
    found: dict[Any, Compose] = {}
    for function, compose in (compositions | composites).items():
        symbol = symbols.get(function)
        if symbol is not None and (function in composites or symbol.is_prim):
            signature = inspect.signature(getattr(compose, "meta", compose))
            stand_in = partial(_call, symbol, compose, signature)
            called = (f for f, s in symbols.items() if s is symbol)
            found.update(dict.fromkeys((symbol, *called), stand_in))
    return found


def _call(
    symbol: Symbol, compose: Compose, signature: inspect.Signature, *args: Any, **kwargs: Any
) -> Any:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return symbol(*args, **kwargs)
    result = compose(*args, **kwargs)
    return symbol(*args, **kwargs) if result is NotImplemented else result

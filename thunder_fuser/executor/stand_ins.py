"""What stands in for a torch function while Thunder traces: mostly for one that is opaque to it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import thunder.torch as ltorch
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import Symbol

Compose = Callable[..., Any]

# Operators that call a symbol behind the tracer's back, and the same with operands exchanged.
_OPERATORS = {
    ltorch.floor_divide: (TensorProxy.__floordiv__, TensorProxy.__rfloordiv__),
    # Thunder 0.2.6 asks for a method "mod", which it does not have.
    ltorch.remainder: (TensorProxy.__mod__, TensorProxy.__rmod__),
}


def lookasides(
    compositions: Mapping[Any, Compose], *composites: Mapping[Any, Compose]
) -> dict[Any, Compose]:
    """Each torch function, and Thunder's symbol of it, with what stands in for them; a method of a
    tensor is called by the symbol of the function.

    What returns NotImplemented, or has no such parameters, leaves the call to the next, that of
    `composites` first and in order, at last to Thunder's symbol. What Thunder sees into stays as it
    is, but for `composites`.
    """
    symbols = ltorch._torch_to_thunder_function_map
    composed: dict[Any, list[Compose]] = {}  # by the symbol
    for table in (*composites, compositions):
        for function, compose in table.items():
            symbol = symbols.get(function)
            if symbol is not None and (table is not compositions or symbol.is_prim):
                composed.setdefault(symbol, []).append(compose)
    found: dict[Any, Compose] = {}
    for symbol, composes in composed.items():
        stand_in = partial(_call, symbol, [(c, _signature(c)) for c in composes])
        called = (f for f, s in symbols.items() if s is symbol)
        found.update(dict.fromkeys((symbol, *called), stand_in))
    for symbol, (operator, exchanged) in _OPERATORS.items():
        called_so = found.get(symbol, symbol)
        found |= {operator: called_so, exchanged: partial(_exchanged, called_so)}
    return found


def _exchanged(function: Compose, b: Any, a: Any) -> Any:
    return function(a, b)


def _signature(compose: Compose) -> inspect.Signature:
    return inspect.signature(getattr(compose, "meta", compose))


def _call(
    symbol: Symbol,
    composes: Sequence[tuple[Compose, inspect.Signature]],
    *args: Any,
    **kwargs: Any,
) -> Any:
    for compose, signature in composes:
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            continue
        result = compose(*args, **kwargs)
        if result is not NotImplemented:
            return result
    return symbol(*args, **kwargs)

"""What stands in for a torch function while Thunder traces: mostly for one that is opaque to it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import thunder.torch as ltorch
from thunder.core.interpreter import get_interpreterruntimectx, unwrap
from thunder.core.jit_ext import record_source_loc_in_symbol_header, recursively_proxy
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import Symbol

from thunder_fuser.executor.strong_types import may_be_weak, strengthened

Compose = Callable[..., Any]

# Operators call their symbols behind the tracer's back.
_OPERATORS = {
    TensorProxy.__add__: ltorch.add,
    TensorProxy.__floordiv__: ltorch.floor_divide,
    TensorProxy.__getitem__: ltorch.getitem,
    TensorProxy.__mod__: ltorch.remainder,  # Thunder 0.2.6 asks for a method that it does not have
    TensorProxy.__mul__: ltorch.mul,
    TensorProxy.__pow__: ltorch.pow,
    TensorProxy.__sub__: ltorch.sub,
    TensorProxy.__truediv__: ltorch.true_divide,
}
_EXCHANGED = {
    TensorProxy.__radd__: ltorch.add,
    TensorProxy.__rfloordiv__: ltorch.floor_divide,
    TensorProxy.__rmod__: ltorch.remainder,
    TensorProxy.__rmul__: ltorch.mul,
    TensorProxy.__rpow__: ltorch.pow,
    TensorProxy.__rsub__: ltorch.sub,
    TensorProxy.__rtruediv__: ltorch.true_divide,
}


def lookasides(
    compositions: Mapping[Any, Compose], *composites: Mapping[Any, Compose]
) -> dict[Any, Compose]:
    """Each torch function, and Thunder's symbol of it, with what stands in for them; a method of a
    tensor is called by the symbol of the function. A table may name a symbol itself.

    What returns NotImplemented, or has no such parameters, leaves the call to the next, that of
    `composites` first and in order, at last to Thunder's symbol. What Thunder sees into stays as it
    is, but for `composites`.
    """
    symbols = ltorch._torch_to_thunder_function_map
    composed: dict[Any, list[Compose]] = {}  # by the symbol
    for table in (*composites, compositions):
        for function, compose in table.items():
            symbol = function if isinstance(function, Symbol) else symbols.get(function)
            if symbol is not None and (table is not compositions or symbol.is_prim):
                composed.setdefault(symbol, []).append(compose)
    weak = (symbol for function, symbol in symbols.items() if may_be_weak(function))
    for symbol in (*weak, *_OPERATORS.values()):
        composed.setdefault(symbol, [])
    found: dict[Any, Compose] = {}
    for symbol, composes in composed.items():
        given = [(c, _signature(c)) for c in composes]
        stand_in = record_source_loc_in_symbol_header(partial(_call, symbol, given))
        called = (f for f, s in symbols.items() if s is symbol)
        found.update(dict.fromkeys((symbol, *called), stand_in))
    for method, symbol in _OPERATORS.items():
        found[method] = found[symbol]
    for method, symbol in _EXCHANGED.items():
        exchanged = partial(_exchanged, found[symbol])
        found[method] = record_source_loc_in_symbol_header(exchanged)
    return found


def _exchanged(function: Compose, b: Any, a: Any) -> Any:
    return function(a, b)


def _signature(compose: Compose) -> inspect.Signature:
    return inspect.signature(getattr(compose, "meta", compose))


def _seen(value: Any) -> Any:
    """A container with Thunder's proxies for what is in it, whose contents it compares before it
    runs the trace again: as it does for symbols of its own, but not for what stands in for them."""
    if isinstance(value, str) or not isinstance(value, (Sequence, dict)):
        return value
    known = get_interpreterruntimectx()._known_wrappers.get(id(value))
    wrapper = known[0]() if known is not None else None
    if wrapper is None:
        return value
    recursively_proxy(wrapper)
    return unwrap(wrapper)


def _call(
    symbol: Symbol, composes: Sequence[tuple[Compose, inspect.Signature]], *args: Any, **kwargs: Any
) -> Any:
    args = tuple(map(_seen, args))
    kwargs = {name: _seen(value) for name, value in kwargs.items()}
    for compose, signature in composes:
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            continue
        result = compose(*args, **kwargs)
        if result is not NotImplemented:
            return strengthened(result)
    return strengthened(symbol(*args, **kwargs))

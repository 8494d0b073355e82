"""What tells one class of arguments from another: shapes, strides, alignment, device.

The key function is generated, so that a steady call pays for four reads per tensor and one tuple
comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import torch

from thunder_fuser.analysis.layout import Layout, alignment_of
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.scalar import Symbol, symbols_of
from thunder_fuser.ir.tensor import TensorView

Key: TypeAlias = tuple[object, ...]


_OF_COMPLEX = (torch.float16, torch.float32, torch.float64)  # types of the parts of a number
_OF_TENSOR = "{0}.shape, {0}.stride(), {0}.data_ptr() & 15, {0}.device"


def key_function(fusion: Fusion) -> Callable[..., Key]:
    """A function from a fusion's arguments to the key of their class."""
    shaping = shape_symbols(fusion)
    return _key(
        _OF_TENSOR if isinstance(value, TensorView) else "{0}" if value in shaping else ""
        for value in fusion.inputs
    )


def tensor_key_function(dtypes: Iterable[torch.dtype | None]) -> Callable[..., Key]:
    """A function from arguments to the key of the class that the tensors among them are of, which
    have these types: None is no tensor. Complex ones may be conjugated lazily, and parts of these,
    which are real, negated."""
    return _key("" if dtype is None else _OF_TENSOR + _bits(dtype) for dtype in dtypes)


def _bits(dtype: torch.dtype) -> str:
    if dtype.is_complex:
        return ", {0}.is_conj(), {0}.is_neg()"
    return ", {0}.is_neg()" if dtype in _OF_COMPLEX else ""


def _key(fields: Iterable[str]) -> Callable[..., Key]:
    """The function that `fields` say, one per argument, each written of `{0}`."""
    templates = dict(enumerate(fields))
    names = ", ".join(f"a{k}" for k in templates)
    parts = ", ".join(text.format(f"a{k}") for k, text in templates.items() if text)
    function: Callable[..., Key] = eval(f"lambda {names}: ({parts}{',' if parts else ''})")
    return function


def difference(fusion: Fusion, old: Key, new: Key) -> str:
    """The first field in which two keys of `key_function` differ, and its earlier value.

    `shape of argument 0 is (4, 8), was (4, 7)`
    """
    for name, before, now in zip(_fields(fusion), old, new, strict=True):
        if before != now:
            return f"{name} is {_plain(now)}, was {_plain(before)}"
    return "nothing differs"


def _fields(fusion: Fusion) -> Iterator[str]:
    """What each entry of a key is, in order."""
    shaping = shape_symbols(fusion)
    for position, value in enumerate(fusion.inputs):
        if isinstance(value, TensorView):
            for what in ("shape", "strides", "address modulo 16", "device"):
                yield f"{what} of argument {position}"
        elif value in shaping:
            yield f"argument {position}"


def _plain(value: object) -> object:
    return tuple(value) if isinstance(value, tuple) else value


def shape_symbols(fusion: Fusion) -> frozenset[Symbol]:
    """Symbols that extents or attributes of the fusion depend on: these are bound per class."""
    found: set[Symbol] = set()
    for tv in fusion.tensors:
        for axis in (*tv.domain.root, *tv.domain.logical):
            found.update(symbols_of(axis.extent))
        for _, attr in tv.definition.attrs if tv.definition is not None else ():
            found.update(_attr_symbols(attr))
    return frozenset(found)


def _attr_symbols(attr: object) -> Sequence[Symbol]:
    if isinstance(attr, tuple):
        return [s for entry in attr for s in _attr_symbols(entry)]
    if isinstance(attr, Symbol) or hasattr(attr, "args"):
        return list(symbols_of(attr))  # type: ignore[arg-type]
    return []


def layout_of(tensor: torch.Tensor) -> Layout:
    return Layout(tuple(tensor.shape), tensor.stride(), alignment_of(tensor.data_ptr()))

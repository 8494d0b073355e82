"""The words in which schedules print: names of axes, stores with their index.

map, blocks of 128
  class over i0{2}, i1{6} and lane{8}
    T12[i0, i1, 8*u0 + lane], u0{2} in one thread
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from thunder_fuser.analysis.access import Element, Index
from thunder_fuser.analysis.digits import format_form
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.ir.tensor import TensorView

Names = Mapping[IterDomain, str]


def named(prefix: str, axes: Sequence[IterDomain]) -> dict[IterDomain, str]:
    """`i0`, `i1`, ... for a prefix i."""
    return {axis: f"{prefix}{k}" for k, axis in enumerate(axes)}


def print_axes(axes: Iterable[IterDomain], names: Names) -> str:
    """`i0{2}, i1{6}`, and `one point` for none."""
    return ", ".join(f"{names[axis]}{{{axis.size}}}" for axis in axes) or "one point"


def print_element(tensor: str, index: Index, names: Names) -> str:
    """`T12[i0, 8*i1 + lane]`."""
    return f"{tensor}[{', '.join(format_form(form, names) for form in index)}]"


def print_elements(
    elements: Sequence[Element], tensors: Mapping[TensorView, str], names: Names
) -> str:
    """Several elements in a row."""
    return ", ".join(print_element(tensors[tv], index, names) for tv, index in elements)

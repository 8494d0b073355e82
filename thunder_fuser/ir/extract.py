"""A part of a fusion as a fusion of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from thunder_fuser.ir.build import again
from thunder_fuser.ir.fusion import Fusion, Write, topological
from thunder_fuser.ir.scalar import Scalar
from thunder_fuser.ir.tensor import TensorView, Value


def extract(
    inputs: Sequence[TensorView],
    scalars: Sequence[Scalar],
    outputs: Sequence[TensorView],
    writes: Sequence[tuple[TensorView, TensorView]] = (),
) -> Fusion:
    """The fusion that computes `outputs` from `inputs`, which become undefined tensors of the same
    domain, and writes the first of each pair of `writes` into the second."""
    new: dict[TensorView, TensorView] = {tv: replace(tv, definition=None) for tv in inputs}

    def value(v: Value) -> Value:
        return new[v] if isinstance(v, TensorView) else v

    leaves = frozenset(inputs)
    for tv in topological([*outputs, *(w for w, _ in writes)], leaves):
        if tv in leaves:
            continue
        expr = tv.definition
        assert expr is not None, "an input of the part is missing"
        made = again(expr, [value(v) for v in expr.inputs])
        new[tv] = made
    return Fusion(
        (*(new[tv] for tv in inputs), *scalars),
        tuple(new[tv] for tv in outputs),
        tuple(Write(new[v], new[t]) for v, t in writes),
    )

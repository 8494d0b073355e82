"""What a pattern is that is measured at shapes drawn at random, and the common ways to build one.

Bytes are the least that a pass can move: each input and output once, in the backward cotangents,
saved inputs and gradients. What there is one of per row or channel is not counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from benchmarks.cases import FROZEN, Case, Function, Make, Tensors, nbytes

Build: TypeAlias = Callable[..., Case]
IMAGES, ROWS, SCORES, TOKENS = "images", "rows", "scores", "tokens"


@dataclass(frozen=True)
class Pattern:
    """`build` takes a Make and a shape of the family: images are (batch, channels, height, width),
    rows (rows, columns), scores (batch, heads, queries, keys), tokens (batch, tokens, channels)."""

    family: str
    build: Build


def planes(function: Function, inputs: Tensors, forward: float, backward: float) -> Case:
    """Bytes in planes of the first input's size."""
    one = nbytes(inputs[0])
    return Case(function, inputs, int(forward * one), int(backward * one))


def alone(function: Function, forward: float, backward: float) -> Build:
    """Of one plane."""

    def build(make: Make, *shape: int) -> Case:
        return planes(function, (make.random(*shape),), forward, backward)

    return build


def weighted(function: Function, dim: int, forward: float, backward: float) -> Build:
    """Of one plane, a weight and a bias along `dim`."""

    def build(make: Make, *shape: int) -> Case:
        weights = make.weight(shape[dim]), make.weight(shape[dim])
        return planes(function, (make.random(*shape), *weights), forward, backward)

    return build


def paired(
    function: Function, forward: float, backward: float, gradients: tuple[bool, bool] = (True, True)
) -> Build:
    """Of two planes, of which those get a gradient that `gradients` names."""

    def build(make: Make, *shape: int) -> Case:
        inputs = tuple(make.random(*shape, gradient=wanted) for wanted in gradients)
        return planes(function, inputs, forward, backward)

    return build


def scaled(function: Function, dims: tuple[int, ...], forward: float, backward: float) -> Build:
    """Of one plane, and a weight with the sizes of `dims`."""

    def build(make: Make, *shape: int) -> Case:
        weight = make.weight(*(shape[dim] for dim in dims))
        return planes(function, (make.random(*shape), weight), forward, backward)

    return build


TARGET = (True, FROZEN)  # as `gradients`: what a loss compares with gets none

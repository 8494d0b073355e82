"""Axes by brute force: the definition of every transform, evaluated at every point, and random
programs of transforms as plain data, so that another implementation can run the same cases."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from types import ModuleType

import pytest

from thunder_fuser.ir.domain import (
    Flip,
    IterDomain,
    Merge,
    Resize,
    Split,
    axis,
    flip,
    merge,
    resize,
    split,
)
from thunder_fuser.ir.scalar import static_int

Program = tuple[tuple[object, ...], ...]
Column = list[int | None]


def table(axes: Sequence[IterDomain], roots: Sequence[IterDomain]) -> dict[IterDomain, Column]:
    """The index of every axis at every point of the roots; None where a resize cuts it off."""
    points = list(product(*(range(r.size) for r in roots)))
    known: dict[object, Column] = {r: [p[k] for p in points] for k, r in enumerate(roots)}

    def column(a: IterDomain) -> Column:
        name = a if a.definition is None else (a.definition, a.position)
        if name not in known:
            assert a.definition is not None
            known[name] = _apply(a, [column(i) for i in a.definition.inputs])
        return known[name]

    return {a: column(a) for a in axes}


def _apply(a: IterDomain, inputs: list[Column]) -> Column:
    match a.definition:
        case Split(input=source, factor=factor, inner=inner):
            f = static_int(factor)
            assert f is not None
            c = f if inner else -(-source.size // f)
            pick = (lambda v: v // c) if a.position == 0 else (lambda v: v % c)
            return [None if v is None else pick(v) for v in inputs[0]]
        case Merge(inner=inner_axis):
            size = inner_axis.size
            return [
                None if x is None or y is None else x * size + y
                for x, y in zip(*inputs, strict=True)
            ]
        case Resize(left=left):
            moved = [None if v is None else v + (static_int(left) or 0) for v in inputs[0]]
            return [v if v is not None and 0 <= v < a.size else None for v in moved]
        case Flip(input=source):
            return [None if v is None else source.size - 1 - v for v in inputs[0]]
    raise AssertionError(a.definition)


def agree(a: Column, b: Column) -> bool:
    """Equal at every point where both are defined."""
    return all(x == y for x, y in zip(a, b, strict=True) if x is not None and y is not None)


def replay(
    roots: Sequence[IterDomain], program: Program
) -> tuple[list[IterDomain], list[IterDomain]]:
    """The final axes and every axis made on the way."""
    domain, made = list(roots), []
    for kind, position, *args in program:
        assert isinstance(position, int)
        if kind == "split":
            new = list(split(domain[position], args[0], inner=args[1]))
            domain[position : position + 1] = new
        elif kind == "merge":
            new = [merge(domain[position], domain[position + 1])]
            domain[position : position + 2] = new
        elif kind == "flip":
            new = [flip(domain[position])]
            domain[position] = new[0]
        else:
            new = [resize(domain[position], args[0], args[1])]
            domain[position] = new[0]
        made += new
    return domain, made


def random_case(
    rng: random.Random, kinds: str = "split merge", programs: int = 2
) -> tuple[list[int], list[Program]]:
    """Root extents and some programs that each start from the roots again."""
    extents = [rng.choice([1, 2, 3, 4, 6, 8, 12]) for _ in range(rng.randint(1, 3))]
    if "resize" in kinds:
        extents = extents[:2]
    return extents, [_program(rng, extents, kinds.split()) for _ in range(programs)]


def _program(rng: random.Random, extents: list[int], kinds: list[str]) -> Program:
    sizes, steps = list(extents), []
    for _ in range(rng.randint(1, 6)):
        kind, k = rng.choice([*kinds, "split"]), rng.randrange(len(sizes))
        if kind == "merge" and len(sizes) > 1:
            k = rng.randrange(len(sizes) - 1)
            steps.append(("merge", k))
            sizes[k : k + 2] = [sizes[k] * sizes[k + 1]]
        elif kind == "resize":
            left = rng.randint(1 - sizes[k], 4)
            right = rng.randint(1 - sizes[k] - left, 4)
            steps.append(("resize", k, left, right))
            sizes[k] += left + right
        elif kind == "flip":
            steps.append(("flip", k))
        elif kind in ("split", "merge") and len(sizes) < 6:
            factor, inner = rng.choice([1, 2, 3, 4, 5, 6, 8]), rng.random() < 0.5
            other = -(-sizes[k] // factor)
            steps.append(("split", k, factor, inner))
            sizes[k : k + 1] = [other, factor] if inner else [factor, other]
    return tuple(steps)


def roots_of(extents: Sequence[int]) -> list[IterDomain]:
    return [axis(e) for e in extents]


def oracle(name: str) -> ModuleType:
    """A module of ../shared/oracles; skips the test where the checkout has none beside it."""
    folder = Path(__file__).resolve().parents[3] / "shared" / "oracles"
    if not (folder / f"{name}.py").is_file():
        pytest.skip(f"no independent oracle at {folder}")
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def cases(
    rng: random.Random, count: int, kinds: str, programs: int = 2
) -> Iterator[tuple[list[int], list[Program], list[IterDomain], list[IterDomain]]]:
    """`count` random cases: extents, programs, root axes, every axis made."""
    for _ in range(count):
        extents, steps = random_case(rng, kinds, programs)
        roots = roots_of(extents)
        axes = list(roots)
        for program in steps:
            axes += replay(roots, program)[1]
        yield extents, steps, roots, axes

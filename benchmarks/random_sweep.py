"""What nobody listed: random patterns at random shapes of more than 100 MB.

    python -m benchmarks.random_sweep --seed 77 --seconds 240
    python -m benchmarks.random_sweep --case "chnorm 2761x31x28x28 bfloat16"
    python -m benchmarks.random_sweep --case "rows 16384x4097 bfloat16"

A family in place of a pattern is all of its patterns. A line per case: the kernels' time and
their share of the copy roof, of the least traffic, forward and backward if it has one; LOW where a
share is below 0.6, WRONG where results are further from fp64 than eager's by more than a rounding.
The same seed draws the same cases in the same order.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from statistics import median

import torch

from benchmarks.cases import BACKWARD, FORWARD, PASSES, Case, Make
from benchmarks.executors import EXECUTORS, forget_compilations
from benchmarks.measure import copy_gbps, kernel_times
from benchmarks.numerics import Results, gradients, reference, starts, tensors
from benchmarks.pattern import IMAGES, ROWS, TOKENS
from benchmarks.patterns import PATTERNS
from benchmarks.runner import Runner

ELEMENTS = 1 << 26  # of the plane, about: 134 MB of 16 bits
CLIFF = 0.6  # of the roof
SLOW = 10.0  # seconds of both passes' first calls
FURTHER = 4.0  # times eager's error, beside a rounding, that is wrong
CALLS = 8
CHANNELS = (9, 12, 16, 19, 21, 24, 31, 32, 40, 48, 64, 96, 100, 128, 150, 192, 256, 320, 512, 768)
PLANES = ((7, 7), (14, 14), (16, 16), (28, 28), (32, 32), (37, 41), (56, 56), (64, 64), (100, 100))
LARGE_PLANES = ((112, 112), (128, 128), (224, 224), (256, 256))
COLUMNS = (
    *(9, 20, 32, 34, 48, 50, 63, 65, 66, 96, 128, 154, 200, 257, 400, 500, 577, 768, 1000),
    *(1024, 1536, 2047, 3000, 4097, 5000, 6144, 8192, 10000, 20480, 50257, 100000, 262144),
)
LENGTHS, WIDTHS = (49, 197, 256, 577, 1024, 4096), (96, 100, 384, 768, 1152, 3072, 4096)
HEADS, SEQUENCES = (3, 8, 16), (17, 49, 64, 197, 256, 577)
DTYPES = (torch.bfloat16, torch.bfloat16, torch.float16, torch.float32)


@dataclass(frozen=True)
class Drawn:
    """A pattern at a shape."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype

    @staticmethod
    def parse(text: str) -> Drawn:
        """`chnorm 8x31x28x28 bfloat16`. Raises ValueError."""
        try:
            name, sizes, kind = text.split()
            shape, dtype = tuple(map(int, sizes.split("x"))), getattr(torch, kind)
        except (ValueError, AttributeError):
            raise ValueError(f"{text!r} is not a pattern, sizes and a dtype") from None
        if name not in PATTERNS:
            raise ValueError(f"no pattern {name!r}: there are {', '.join(PATTERNS)}")
        return Drawn(name, shape, dtype)

    def case(self, device: torch.device) -> Case:
        """With random inputs."""
        torch.manual_seed(0)
        return PATTERNS[self.name].build(Make(device, self.dtype, self.dtype), *self.shape)

    def __str__(self) -> str:
        return f"{self.name} {'x'.join(map(str, self.shape))} {str(self.dtype)[len('torch.') :]}"


def named(text: str) -> list[Drawn]:
    """`Drawn.parse`; of all patterns of a family, where it is named: `rows 16384x4097 bfloat16`."""
    name, _, rest = text.partition(" ")
    chosen = [key for key, pattern in PATTERNS.items() if pattern.family == name]
    return [Drawn.parse(f"{key} {rest}") for key in chosen or [name]]


def drawn(seed: int) -> Iterator[Drawn]:
    """Cases without an end."""
    rng = random.Random(seed)
    while True:
        name = rng.choice(list(PATTERNS))
        yield Drawn(name, _shape(PATTERNS[name].family, rng), rng.choice(DTYPES))


def _shape(family: str, rng: random.Random) -> tuple[int, ...]:
    if family == ROWS:
        inner: tuple[int, ...] = (rng.choice(COLUMNS),)
    elif family == TOKENS:
        inner = (rng.choice(LENGTHS), rng.choice(WIDTHS))
    elif family == IMAGES:
        inner = (rng.choice(CHANNELS), *rng.choice(PLANES + LARGE_PLANES))
    else:
        length = rng.choice(SEQUENCES)
        inner = (rng.choice(HEADS), length, length)
    return max(ELEMENTS // prod(inner), 1), *inner


@dataclass(frozen=True)
class Found:
    """Of a pass: microseconds, kernels, the share of the roof, and whether results are right."""

    phase: str
    microseconds: float
    kernels: int
    share: float
    is_right: bool

    def __str__(self) -> str:
        return f"{self.phase} {self.microseconds:.0f} us n{self.kernels} {self.share:.2f}"


@dataclass(frozen=True)
class Judged:
    """Our executor's calls, whether the results of each pass are right, and the seconds that the
    first of both took."""

    runner: Runner
    is_right: dict[str, bool]
    first_s: float


def judged(case: Case, dtype: torch.dtype, device: torch.device) -> Judged:
    """The passes of our executor beside eager."""
    phases = phases_of(case)
    expected = reference(case, phases)
    ours = next(e for e in EXECUTORS if e.name == "ours")
    function = ours.load(device)(case, ours.keywords(False))
    runner = Runner.of(function, case, expected.cotangents, writes_inputs=False)
    begun = time.monotonic()
    outputs = tensors(runner.function(*runner.fresh()))
    begin = starts(case, outputs)
    found = Results(outputs, begin, gradients(begin, case.wanted, expected.cotangents))
    first_s = time.monotonic() - begun

    def is_right(phase: str) -> bool:
        error, eager = expected.error(found, phase), expected.eager[phase]
        assert error is not None
        assert eager is not None
        return error <= FURTHER * eager + float(torch.finfo(dtype).eps)

    return Judged(runner, {phase: is_right(phase) for phase in phases}, first_s)


def phases_of(case: Case) -> tuple[str, ...]:
    """There is no backward where nothing wants a gradient."""
    return PASSES if case.wanted else (FORWARD,)


def measured(case: Case, ours: Judged, device: torch.device, gbps: float) -> list[Found]:
    """The passes that were judged."""
    found = []
    for phase in ours.is_right:
        calls = kernel_times(ours.runner.prepare(phase), device, CALLS)
        moved = case.backward_bytes if phase == BACKWARD else case.forward_bytes
        took = median(map(sum, calls))
        share = (moved or 0) / took / 1e3 / gbps
        found.append(
            Found(phase, took, round(median(map(len, calls))), share, ours.is_right[phase])
        )
    return found


def line(case: Drawn, found: Sequence[Found], first_s: float) -> str:
    """What is told of a case."""
    flag = "LOW" if any(f.share < CLIFF for f in found) else "   "
    flag = "SLOW" if first_s > SLOW else flag
    flag = "WRONG" if not all(f.is_right for f in found) else flag
    return f"{flag} {case} {' '.join(map(str, found))} first {first_s:.1f} s"


def main(argv: Sequence[str]) -> int:
    """Exit status 1 where a result was wrong or a case failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.random_sweep")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=240, help="no case begins later")
    parser.add_argument("--case", action="append", type=named, help="instead of random ones")
    arguments = parser.parse_args(argv)
    if not torch.cuda.is_available():
        print("python -m benchmarks.random_sweep: there is no GPU to measure", file=sys.stderr)
        return 2
    device, end = torch.device("cuda"), time.monotonic() + arguments.seconds
    gbps = copy_gbps(device)
    assert gbps is not None
    print(f"# seed {arguments.seed}, copy {gbps:.0f} GB/s", flush=True)
    status = 0
    chosen = chain.from_iterable(arguments.case) if arguments.case else drawn(arguments.seed)
    for case in chosen:
        if time.monotonic() > end:
            break
        forget_compilations()
        try:
            built = case.case(device)
            ours = judged(built, case.dtype, device)
            found = measured(built, ours, device, gbps)
        except Exception as failure:  # of any kind: the others go on
            print(f"FAILED {case}: {failure!r}"[:300], flush=True)
            status = 1
            continue
        print(line(case, found, ours.first_s), flush=True)
        status |= not all(f.is_right for f in found)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

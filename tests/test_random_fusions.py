"""Random programs: however they are cut, planned and compiled, the bits are torch's.

Each run draws new programs; a failure prints the seed, and `FUSION_TEST_SEED` repeats it.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
import torch

from tests.devices import CPU, copies, here, running_on
from tests.programs import H200, STRICT, UNCOMPILED, assert_same, check, plan_of, ptx_of
from tests.random_fusions import LARGE, MEDIUM, SMALL, Sizes, random_fusion
from thunder_fuser import pipeline
from thunder_fuser.codegen.emit import emit
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion, Write
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.source import Source
from thunder_fuser.kernel.templates import Draft, draft, general, variants
from thunder_fuser.options import Options
from thunder_fuser.presegment import arrange, tidy
from thunder_fuser.runtime.bind import bind
from thunder_fuser.runtime.evaluate import evaluate
from thunder_fuser.runtime.kernels import KERNELS
from thunder_fuser.runtime.plan import Plan
from thunder_fuser.segment.segment import Segment

pytestmark = pytest.mark.sanitizer
UNCOMPILED_PROGRAMS = 400
TRANSLATED_PROGRAMS = 10  # about 0.4 s each: one run of NVRTC or several
SIZED_PROGRAMS = 80
WILD = 1 << 28  # bytes: no tensor of a random program has as many
ADDED = re.compile(r"add\.[su]64\s+%rd\d+, %rd\d+, (-?\d+);|\[%rd\d+\+(-?\d+)\]")  # to an address
COMPILED_PROGRAMS = 60  # about 0.2 s each: one or two runs of the C++ compiler
MEDIUM_PROGRAMS = 40  # about a second each
CUT_PROGRAMS = 40
BATCH = 20


def seeds(count: int) -> Iterator[range]:
    """Fresh seeds in batches, or the one to be repeated."""
    repeated = os.environ.get("FUSION_TEST_SEED")
    if repeated is not None:
        yield range(int(repeated), int(repeated) + 1)
        return
    first = random.SystemRandom().randrange(1 << 40)
    for start in range(first, first + count, BATCH):
        yield range(start, start + BATCH)


def check_seed(seed: int, options: Options, sizes: Sizes = SMALL) -> None:
    program, arguments = random_fusion(seed, 14, sizes)
    with naming(seed, program):
        check(program, *arguments, options=options)


@contextmanager
def naming(seed: int, program: Fusion) -> Iterator[None]:
    """A failure tells which program it is of. A kernel that ends the process leaves its seed, where
    pytest captures nothing, as in the sanitizer's environment of tox."""
    print(f"FUSION_TEST_SEED={seed}", flush=True)
    try:
        yield
    except Exception as error:
        error.add_note(f"FUSION_TEST_SEED={seed}\n{program}")
        raise


@pytest.mark.parametrize("batch", range(UNCOMPILED_PROGRAMS // BATCH))
def test_segments_and_views_of_a_random_program_give_its_values(batch: int) -> None:
    for seed in next(seeds(BATCH)):
        check_seed(seed, UNCOMPILED)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("batch", range(COMPILED_PROGRAMS // BATCH))
def test_kernels_of_a_random_program_give_its_bits(batch: int) -> None:
    for seed in next(seeds(BATCH)):
        check_seed(seed, STRICT)


def test_nvrtc_takes_random_programs_of_large_tensors_and_stays_in_them() -> None:
    """It derives addresses from others, and some were 32 GB away."""
    for seed in next(seeds(BATCH))[:TRANSLATED_PROGRAMS]:
        program, arguments = random_fusion(seed, 14, LARGE)
        with naming(seed, program):
            for source in sources_of(program, arguments, strict=seed % 2 == 1):
                constants = [int(a or b) for a, b in ADDED.findall(ptx_of(source.text))]
                assert max(map(abs, constants), default=0) < WILD, source.text


@pytest.mark.parametrize("batch", range(SIZED_PROGRAMS // BATCH))
def test_a_block_has_room_in_shared_memory_for_what_a_random_program_puts_there(batch: int) -> None:
    for seed in next(seeds(BATCH)):
        program, arguments = random_fusion(seed, 14, LARGE)
        with naming(seed, program):
            for source in sources_of(program, arguments, strict=seed % 2 == 1):
                assert source.shared_bytes <= H200.shared_bytes, source.text


def sources_of(
    program: Fusion, arguments: Sequence[torch.Tensor], strict: bool
) -> Iterator[Source]:
    """Of the kernels for an H200."""
    bound = bind(program, arguments)
    arranged = arrange(tidy(bound.fusion), bound.layouts, H200, strict=strict)
    found = pipeline.cut_region(arranged, bound.layouts, H200, strict=strict)
    for segment in found.segments:
        if not segment.is_opaque:
            yield emit(draft(segment, H200, strict).lower(strict))


@pytest.mark.gpu
@pytest.mark.parametrize("batch", range(COMPILED_PROGRAMS // BATCH))
def test_kernels_of_a_random_program_of_large_tensors_give_its_bits(batch: int) -> None:
    """The host target would take minutes for some."""
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    with running_on(torch.device("cuda")):
        for seed in next(seeds(BATCH)):
            check_seed(seed, STRICT, LARGE)


@pytest.mark.usefixtures("wide_host")
@pytest.mark.parametrize("options", [UNCOMPILED, STRICT], ids=["uncompiled", "compiled"])
def test_programs_for_a_machine_of_several_multiprocessors_give_the_same_bits(
    options: Options,
) -> None:
    """Which few blocks do not keep busy."""
    for seed in next(seeds(BATCH)):
        check_seed(seed, options)


@pytest.mark.usefixtures("widest_host")
@pytest.mark.parametrize("batch", range(MEDIUM_PROGRAMS // BATCH))
def test_kernels_for_a_machine_of_the_size_of_an_h200_give_the_same_bits(batch: int) -> None:
    for seed in next(seeds(BATCH)):
        check_seed(seed, STRICT, MEDIUM)


@pytest.mark.usefixtures("widest_host")
def test_kernels_of_other_parameters_and_for_many_sizes_give_the_same_bits() -> None:
    for seed in next(seeds(BATCH)):
        program, arguments = random_fusion(seed, 14, MEDIUM)
        with naming(seed, program):
            plan = plan_of(program, *copies(arguments), options=STRICT)
            wanted = evaluate(program, copies(arguments, CPU))
            for position, segment in enumerate(plan.segmented.segments):
                for found, other in _rivals(plan, position, segment):
                    for got, want in zip(found.run(*copies(arguments)), wanted, strict=True):
                        assert_same(got, want, f"{other.schedule}")


def _rivals(plan: Plan, position: int, segment: Segment) -> Iterator[tuple[Plan, Draft]]:
    """The plan with other kernels for a segment, which take the same; none for one of a program
    that writes its arguments."""
    model = plan.kernels[position]
    if model is None or plan.segmented.fusion.writes:
        return
    target = pipeline.target_for(here())
    preferred = draft(segment, target, strict=True)
    for other in (*variants(segment, target, preferred), general(preferred, target)):
        source = emit(other.lower(strict=True))
        if (source.parameters, source.workspace_bytes, source.tickets) == (
            model.parameters,
            model.workspace_bytes,
            model.tickets,
        ):
            launcher = KERNELS.launcher(source, target, STRICT)
            yield plan.with_kernel(position, source, launcher), other


@pytest.mark.parametrize("order", ["reverse", "shuffled"])
def test_the_order_of_threads_changes_nothing(order: str) -> None:
    for seed in next(seeds(BATCH)):
        check_seed(seed, Options(strict=True, thread_order=order))


@pytest.mark.parametrize("batch", range(CUT_PROGRAMS // BATCH))
def test_a_cut_after_any_value_changes_no_bit(batch: int) -> None:
    for seed in next(seeds(BATCH)):
        program, arguments = random_fusion(seed, steps=8)
        for position, tv in enumerate(program.tensors):
            if tv.definition is None:
                continue
            stopped = stop_after(program, tv)
            try:
                check(stopped, *arguments, options=UNCOMPILED)
                given, wanted = copies(arguments), copies(arguments)
                results = plan_of(stopped, *given).run(*given)
                if not program.writes:
                    for got, want in zip(results, evaluate(program, wanted), strict=True):
                        assert_same(got, want)
            except Exception as error:
                error.add_note(f"FUSION_TEST_SEED={seed}, cut after T{position}\n{stopped}")
                raise


def stop_after(program: Fusion, stopped: TensorView) -> Fusion:
    """`program` with a stop point behind one of its tensors."""
    new: dict[TensorView, TensorView] = {}
    for tv in program.tensors:
        expr = tv.definition
        if expr is None:
            new[tv] = tv
            continue
        operands = [new[v] if isinstance(v, TensorView) else v for v in expr.inputs]
        new[tv] = call(expr.op.name, *operands, **dict(expr.attrs))
        if tv is stopped:
            new[tv] = call("segment_set", new[tv])
    writes = tuple(Write(new[w.value], w.target) for w in program.writes)
    return Fusion(program.inputs, tuple(new[tv] for tv in program.outputs), writes)

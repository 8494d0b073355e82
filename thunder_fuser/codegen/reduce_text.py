"""The values of a block's threads combined into one per row, as C++ text."""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.codegen.types import COMPUTE_TYPES, CUDA_TYPES
from thunder_fuser.kernel.row_ir import Reduce, RowKernel

WARP = 32


def combined(reductions: Sequence[Reduce], kernel: RowKernel) -> list[str]:
    """Every accumulator combined over the threads of its row; all of them get the result."""
    lines = []
    width = min(kernel.threads_per_row, WARP)
    warps = kernel.threads_per_row // WARP
    shares = kernel.threads > kernel.threads_per_row  # a block holds several rows
    own = f" + threadIdx.x / {kernel.threads_per_row} * {warps}" if shares else ""
    # Two sets of partial results by turns: a warp that is a row ahead writes into the other one.
    sets, which = ("[2]", "[turn % 2]") if kernel.sums else ("", "")
    for reduction in reductions:
        name = reduction.accumulator.name
        lines.append(f"{name} = tf::warp_reduce<{width}>({name}, {_combine(reduction)});")
    if warps > 1:
        for reduction in reductions:
            name, kind = reduction.accumulator.name, COMPUTE_TYPES[reduction.accumulator.dtype]
            lines.append(f"__shared__ {kind} {name}s{sets}[{kernel.threads // WARP}];")
            lines.append(f"if (part % {WARP} == 0) {name}s{which}[threadIdx.x / {WARP}] = {name};")
        lines.append("__syncthreads();")
    for reduction in reductions:
        name, kind = reduction.accumulator.name, COMPUTE_TYPES[reduction.accumulator.dtype]
        result = f"tf::combine_warps<{warps}>({name}s{which}{own}, {_combine(reduction)})"
        value = result if warps > 1 else name
        if reduction.rounded is not None:
            value = f"tf::round_to<{CUDA_TYPES[reduction.rounded]}>({value})"
        lines.append(f"const {kind} {reduction.result.name} = {value};")
    return lines


def declared(reductions: Sequence[Reduce]) -> list[str]:
    """The accumulators of a thread, at their identities."""
    return [
        f"{kind} {r.accumulator.name} = {r.op.identity.format(t=kind)};"
        for r in reductions
        for kind in (COMPUTE_TYPES[r.accumulator.dtype],)
    ]


def _combine(reduction: Reduce) -> str:
    kind = COMPUTE_TYPES[reduction.accumulator.dtype]
    body = reduction.op.combine.format("a", "b", t=kind)
    return f"[]({kind} a, {kind} b) -> {kind} {{ return {body}; }}"

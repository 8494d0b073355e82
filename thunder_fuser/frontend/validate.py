"""Compare a run with what torch computes in fp64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from thunder_fuser.analysis.views import is_metadata
from thunder_fuser.frontend.arguments import check_arguments
from thunder_fuser.ir.build import again
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Family
from thunder_fuser.runtime.evaluate import evaluate

if TYPE_CHECKING:
    from thunder_fuser.frontend.definition import FusionDefinition

# Per output dtype: absolute and relative difference allowed for one op on values near 1.
_TOLERANCE = {
    "torch.float8_e4m3fn": (2e-3, 0.13),
    "torch.float8_e5m2": (2e-5, 0.26),
    "torch.float16": (2e-3, 4e-3),
    "torch.bfloat16": (2e-2, 3e-2),
    "torch.float32": (1e-5, 2e-5),
    "torch.float64": (1e-12, 1e-12),
    "torch.complex64": (1e-5, 2e-5),
    "torch.complex128": (1e-12, 1e-12),
}


def validate(
    fd: FusionDefinition,
    inputs: Sequence[object],
    references: Sequence[torch.Tensor] | None,
    keywords: Mapping[str, Any],
) -> list[torch.Tensor]:
    """Execute `fd` and compare every output; the outputs. See FusionDefinition.validate."""
    if references is None:
        return _validate_with_evaluator(fd, inputs, keywords)
    outputs = fd.execute(inputs, **keywords)
    if len(outputs) != len(references):
        raise AssertionError(f"{len(outputs)} outputs, {len(references)} reference outputs")
    for index, (tv, got, want) in enumerate(
        zip(fd.leaf.fusion.outputs, outputs, references, strict=True)
    ):
        if got.dtype != want.dtype:
            raise AssertionError(f"output {index}: dtype {got.dtype}, expected {want.dtype}")
        compare(f"output {index}", got, want, reduced_elements(tv, inputs))
    return outputs


def _validate_with_evaluator(
    fd: FusionDefinition, inputs: Sequence[object], keywords: Mapping[str, Any]
) -> list[torch.Tensor]:
    """Compare outputs, and inputs that are written in place, with the rows' torch expressions."""
    fusion, definition = fd.leaf.fusion, fd.leaf.definition
    if definition.draws:
        raise ValueError(
            "the definition draws random numbers at every run, so there is nothing to compare "
            "with: give the op rng_seed and rng_offset, or pass reference_outputs"
        )
    arguments = check_arguments(definition.specs, inputs)
    before = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
    outputs = fd.execute(inputs, **keywords)
    targets = [arguments[fusion.inputs.index(w.target)] for w in fusion.writes]
    written = [t for t in targets if isinstance(t, torch.Tensor)]
    values = tuple(
        _after_writes(tv, fusion) if _shares_storage(got, written) else tv
        for tv, got in zip(fusion.outputs, outputs, strict=True)
    )
    expected = (*values, *(write.value for write in fusion.writes))
    wanted = evaluate(Fusion(fusion.inputs, expected), before, dtype=torch.float64)
    names = [f"output {index}" for index in range(len(outputs))]
    names += [f"T{fid}, written in place," for fid in fd.fids.aliases.values()]
    for name, tv, got, want in zip(names, expected, [*outputs, *written], wanted, strict=True):
        compare(name, got, want, reduced_elements(tv, inputs))
    return outputs


def _shares_storage(tensor: torch.Tensor, others: Sequence[torch.Tensor]) -> bool:
    storage = tensor.untyped_storage().data_ptr()
    return any(storage == other.untyped_storage().data_ptr() for other in others)


def _after_writes(tv: TensorView, fusion: Fusion) -> TensorView:
    """`tv`, a view of an in-place target, as it reads once the write is done."""
    for write in fusion.writes:
        if tv is write.target:
            return write.value
    if tv.definition is None or not is_metadata(tv):
        return tv
    old, *rest = tv.definition.inputs
    assert isinstance(old, TensorView)
    new = _after_writes(old, fusion)
    if new is old:
        return tv
    return again(tv.expr, [new, *rest])


def reduced_elements(tv: TensorView, inputs: Sequence[object]) -> int:
    """The most elements that one reduction before `tv` adds up; 1 without a reduction."""
    most = 1
    largest = max((getattr(v, "numel", lambda: 1)() for v in inputs), default=1)
    for producer in topological((tv,)):
        if producer.family is Family.REDUCTION:
            sizes = [a.extent for a in producer.domain.logical if a.is_reduction]
            known = [int(str(e)) if str(e).isdigit() else largest for e in sizes]
            most = max([most, *known])
    return most


def compare(where: str, got: torch.Tensor, want: torch.Tensor, reduced: int = 1) -> None:
    """Raises AssertionError unless `got` agrees with `want` in shape, dtype kind and value."""
    if got.shape != want.shape:
        raise AssertionError(f"{where}: shape {list(got.shape)}, expected {list(want.shape)}")
    floating = got.is_floating_point() or got.is_complex()
    if not floating:
        if not torch.equal(got, want.to(got.dtype)):
            position = tuple((got != want.to(got.dtype)).nonzero()[0].tolist())
            raise AssertionError(
                f"{where}: {got[position].item()} at {position}, expected {want[position].item()}"
            )
        return
    if not (want.is_floating_point() or want.is_complex()):
        raise AssertionError(f"{where}: dtype {got.dtype}, expected {want.dtype}")
    absolute, relative = (t * max(1.0, reduced**0.5) for t in _TOLERANCE[str(got.dtype)])
    wide = torch.complex128 if got.is_complex() else torch.float64
    exact = want.to(got.device, wide)
    if not got.is_complex():  # what overflows the output's dtype, once rounded, is infinite or NaN
        held = exact.to(got.dtype).to(wide)
        exact = torch.where(held.isfinite(), exact, held)
    bad = ~torch.isclose(got.to(wide), exact, rtol=relative, atol=absolute, equal_nan=True)
    if bad.any():
        difference = torch.where(bad, (got.to(wide) - exact).abs(), torch.zeros_like(exact.abs()))
        flat = torch.nan_to_num(difference, nan=torch.inf).argmax()
        position = tuple(int(i) for i in torch.unravel_index(flat, got.shape))
        raise AssertionError(
            f"{where}: {int(bad.sum())} of {got.numel()} elements differ, "
            f"max(abs(diff)) = {difference[position].item():.6g} at {position}: "
            f"{got[position].item()}, expected {exact[position].item()} "
            f"(atol {absolute:.3g}, rtol {relative:.3g})"
        )

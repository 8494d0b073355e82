"""The Thunder executor: claims bound symbols and turns groups of them into fusions.

`fusion_pass` is the whole of it on one page. It runs on the joint trace of forward and backward;
Thunder splits that afterwards.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from thunder.core.devices import DeviceType
from thunder.core.prims import PrimIDs
from thunder.core.proxies import unvariableify
from thunder.core.symbol import BoundSymbol, Symbol
from thunder.core.trace import TraceCtx, TraceProvenance
from thunder.executors.passes import update_fusion_call_ctx
from thunder.extend import FUEL_LEVEL, FusionExecutor

from thunder_fuser import log
from thunder_fuser.executor import (
    claims,
    diagonals,
    missing_gradients,
    products,
    scans,
    stable_gradients,
)
from thunder_fuser.executor.attention import ATTENTION, flash_by_cudnn
from thunder_fuser.executor.bilinear import INTERPOLATIONS
from thunder_fuser.executor.bool_counts import count_bools
from thunder_fuser.executor.bool_numbers import widen_bool_numbers
from thunder_fuser.executor.borders import BORDERS
from thunder_fuser.executor.casts import remove_redundant_casts
from thunder_fuser.executor.class_weights import CLASS_WEIGHTS
from thunder_fuser.executor.composites import COMPOSITES
from thunder_fuser.executor.compositions import COMPOSITIONS, NORMALIZED
from thunder_fuser.executor.conversions import CONVERSIONS
from thunder_fuser.executor.cross_entropy import CROSS_ENTROPY
from thunder_fuser.executor.cse import eliminate_common_subexpressions
from thunder_fuser.executor.donate import donate
from thunder_fuser.executor.draw import draw
from thunder_fuser.executor.early_sums import sums_beside_terms
from thunder_fuser.executor.explain import explain, regions_of
from thunder_fuser.executor.extrema import extrema_again
from thunder_fuser.executor.factories import FACTORIES, has_zeros, zeros
from thunder_fuser.executor.facts import Facts, facts
from thunder_fuser.executor.idle_pads import drop_idle_pads
from thunder_fuser.executor.inplace import (
    in_split_order,
    move_writes_out_of_backward,
    split_at_writes,
    write_results,
)
from thunder_fuser.executor.integers import INTEGERS, NATURALS
from thunder_fuser.executor.joint import returned
from thunder_fuser.executor.limits import LIMITS
from thunder_fuser.executor.liveness import Boundary, boundaries, live, trim
from thunder_fuser.executor.log_softmax import LOG_SOFTMAX
from thunder_fuser.executor.logsumexp import LOGSUMEXP
from thunder_fuser.executor.losses import REPLACED_LOSSES
from thunder_fuser.executor.max_along import MAX_ALONG
from thunder_fuser.executor.memory_order import choose_memory_orders
from thunder_fuser.executor.movements import MOVEMENTS
from thunder_fuser.executor.nll_loss import NLL_LOSS
from thunder_fuser.executor.numbers import split_numbers
from thunder_fuser.executor.own_gradients import own_gradients
from thunder_fuser.executor.partition import Group, Kind, partition
from thunder_fuser.executor.pools import POOLS
from thunder_fuser.executor.private_writes import without_private_writes
from thunder_fuser.executor.profile import FunctionProfile, profile
from thunder_fuser.executor.reduce_once import reduce_once
from thunder_fuser.executor.refusals import REFUSALS
from thunder_fuser.executor.region import FusedRegion
from thunder_fuser.executor.relu import RELU
from thunder_fuser.executor.relu_masks import drop_relu_masks
from thunder_fuser.executor.remainders import REMAINDERS
from thunder_fuser.executor.remat import rematerialize
from thunder_fuser.executor.replacement import Replacement
from thunder_fuser.executor.report import Report, keep_report
from thunder_fuser.executor.row_scatters import scatters_of_rows
from thunder_fuser.executor.rules import leave_to_torch, must_fuse
from thunder_fuser.executor.segments import segments
from thunder_fuser.executor.settings import Settings, read_settings
from thunder_fuser.executor.shown_views import show_views
from thunder_fuser.executor.stand_ins import lookasides
from thunder_fuser.executor.statistics import Statistics, statistics
from thunder_fuser.executor.storage import Storages, check_versions, rebuilt
from thunder_fuser.executor.synonyms import SYNONYMS
from thunder_fuser.executor.uniform import stateless
from thunder_fuser.executor.unread_zeros import leave_unread_zeros
from thunder_fuser.executor.view_gradients import check_view_gradients
from thunder_fuser.options import current

NAME = "thunder_fuser"
FUSION_PREFIX = "TF"  # region names are TF0, TF1, ...: Thunder reads the digits back
# Symbols that are replaced as a whole, with their gradients.
REPLACEMENTS: tuple[Replacement, ...] = (
    ATTENTION,
    CROSS_ENTROPY,
    LOG_SOFTMAX,
    LOGSUMEXP,
    MAX_ALONG,
    NLL_LOSS,
    RELU,
    *REPLACED_LOSSES,
)
GRADIENTS = diagonals.GRADIENTS | missing_gradients.GRADIENTS | stable_gradients.GRADIENTS
# Of symbols of which Thunder has one, which is left behind.
OVER_THUNDERS = products.GRADIENTS | missing_gradients.LOST | stable_gradients.AT_ZERO
# While Thunder traces.
STAND_INS = CONVERSIONS | SYNONYMS | COMPOSITIONS | MOVEMENTS | products.PRODUCTS
SEEN_INTO = (
    REFUSALS,
    NATURALS,
    INTEGERS,
    CLASS_WEIGHTS,
    COMPOSITES,
    POOLS,
    INTERPOLATIONS,
    BORDERS,
    LIMITS,
    REMAINDERS,
    NORMALIZED,
)  # refused first
# Replaced where a composite holds them too, because their values are not Thunder's: it takes a
# negative class from the end, and has no NaN beside an infinite logit.
_REPLACED_INSIDE = frozenset({LOG_SOFTMAX.symbol.id, NLL_LOSS.symbol.id})


class FuserExecutor(FusionExecutor):  # type: ignore[misc]
    """Fuses regions of a trace into generated kernels.

    Pass it in `thunder.jit(fn, executors=[fuser])`, or its name "thunder_fuser". It claims CUDA
    tensors, or CPU tensors where there is no CUDA device.
    """

    def __init__(self, version: str) -> None:
        super().__init__(NAME, version=version)
        for prim in claims.OWN_PRIMS:
            if (symbol_id := getattr(PrimIDs, prim, None)) is not None:
                self.register_supported(symbol_id)
        missing_gradients.register(GRADIENTS)
        missing_gradients.register_over(OVER_THUNDERS)
        self._lookasides.update(lookasides(STAND_INS, *SEEN_INTO) | FACTORIES)
        for one in REPLACEMENTS:
            self.register_supported(
                one.symbol,
                one.can_replace,
                execution_transform=one.forward,
                grad_transform=one.gradient,
            )
        self.register_supported("torch.zeros", has_zeros, execution_transform=zeros)
        self.register_translator(scans.SYMBOL, scans.translate, scans.refusal)
        fuel = current().fuel
        self._fuel: int | FUEL_LEVEL = FUEL_LEVEL.UNLIMITED if fuel is None else fuel
        self._fusion_seconds = 0.0
        leave_unread_zeros()

    def can_execute(self, bsym: BoundSymbol) -> bool:
        """True if the symbol itself, not only its parts, can be recorded."""
        return claims.is_claimed_directly(bsym) and claims.why_not(bsym) is None

    def can_fuse(self, bsym: BoundSymbol) -> bool:
        """True if the symbol can be part of a region as it is, or is replaced by symbols that can;
        `why_not` gives the reason otherwise."""
        if self._is_replaced(bsym):
            return True
        return claims.why_not(bsym) is None and not self._holds_replaced(bsym)

    def can_execute_or_fuse(self, bsym: BoundSymbol) -> bool:
        """What Thunder asks before it takes our gradient of a symbol, without its arguments."""
        if self.get_grad_transform(bsym.sym) is not None:
            return self._is_replaced(bsym)
        return self.can_execute(bsym) or self.can_fuse(bsym)

    def why_not(self, bsym: BoundSymbol) -> str | None:
        """The reason why the symbol cannot be part of a region, None if it can."""
        return claims.why_not(bsym)

    def _is_replaced(self, bsym: BoundSymbol) -> bool:
        return self.get_execution_transform(bsym) is not None

    def _holds_replaced(self, bsym: BoundSymbol) -> bool:
        """True for a composite that Thunder has to take apart for one of its parts."""
        return any(
            (part.sym.id in _REPLACED_INSIDE and self._is_replaced(part))
            or self._holds_replaced(part)
            for part in bsym.subsymbols
        )

    def get_fuel(self, amount: int = 1, /) -> bool:
        """Take fuel for `amount` regions; False, and nothing taken, if there is not enough."""
        if self._fuel is FUEL_LEVEL.UNLIMITED:
            return True
        assert isinstance(self._fuel, int)
        if self._fuel < amount:
            return False
        self._fuel -= amount
        return True

    def set_fuel(self, value: int | FUEL_LEVEL) -> None:
        """How many regions may still be fused. Raises ValueError for a negative number."""
        if isinstance(value, int) and value < 0:
            raise ValueError(f"fuel {value} is negative; give 0 or more, or FUEL_LEVEL.UNLIMITED")
        self._fuel = value

    def register_translator(
        self, symbol: Symbol, translator: claims.Translator, checker: claims.Checker | None = None
    ) -> None:
        """Let the executor claim an op of the user's.

        `translator(fd, *args, **kwargs)` gets the symbol's arguments with tensors as handles,
        records ops and returns the handle(s) of the result. `checker(*args, **kwargs)` gets the
        proxies and returns True or None for yes, False or a reason for no.
        """
        symbol_id = symbol.id if isinstance(symbol, Symbol) else symbol
        claims.CUSTOM_OPS[symbol_id] = claims.CustomOp(translator, checker)
        self.register_supported(symbol_id)

    def profile(self, jfn: Callable[..., Any], *args: Any, **kwargs: Any) -> FunctionProfile:
        """Time, bytes, bandwidth and grid of every segment in one call of `jfn`, which is called
        once before that. See `executor.profile.profile`."""
        return profile(jfn, *args, **kwargs)

    def explain(self, jfn: Callable[..., Any]) -> str:
        """What became of every symbol of `jfn`, and why. See `executor.explain.explain`."""
        return explain(jfn)

    def draw(self, jfn: Callable[..., Any], path: str | os.PathLike[str]) -> None:
        """Write regions, segments, kernels and aliases of `jfn` as an SVG file. See
        `executor.draw.draw`."""
        draw(jfn, path)

    def segments(self, jfn: Callable[..., Any]) -> Any:
        """Every segment of the regions of `jfn`, as a DataFrame or as rows. See
        `executor.segments.segments`."""
        return segments(jfn)

    def facts(self, jfn: Callable[..., Any]) -> Facts:
        """Regions, segments, kernels, unclaimed ops, bytes and registers of `jfn`. See
        `executor.facts.facts`."""
        return facts(jfn)

    def statistics(self) -> Statistics:
        """What compiling cost this process so far. See `executor.statistics.Statistics`."""
        return statistics(self._fusion_seconds)

    def repro(self, jfn: Callable[..., Any], region: str | int = 0) -> str:
        """A script that runs one region of `jfn` alone, on random tensors of the shapes and strides
        that it was called with. `region` is its name or its position, forward before backward.

        Raises ValueError for a region that does not exist or was not called.
        """
        found = regions_of(jfn)
        names = [r.name for r in found]
        position = names.index(region) if region in names else region
        if not isinstance(position, int) or not -len(found) <= position < len(found):
            raise ValueError(
                f"there is no region {region!r}; there are {', '.join(names) or 'none'}"
            )
        return found[position].repro()

    def fusion_pass(self, trace: TraceCtx) -> TraceCtx:
        """The trace with regions of claimed symbols replaced by fusions."""
        start = time.perf_counter()
        settings, report = read_settings(), Report()
        if claims.claimed_device_type() is DeviceType.CUDA and not claims.is_uniform_kept():
            trace = stateless(trace)
        trace = show_views(flash_by_cudnn(trace))
        check_view_gradients(trace)
        trace = drop_idle_pads(widen_bool_numbers(trace))
        trace = extrema_again(count_bools(without_private_writes(trace)))
        trace = reduce_once(scatters_of_rows(drop_relu_masks(own_gradients(trace))))
        storages = Storages(trace.bound_symbols)
        kind = _kind_of(report)
        ordered = sums_beside_terms(trace, kind, storages)
        groups = partition(ordered, kind, storages, settings.fusion_type)
        groups = [piece for group in groups for piece in split_at_writes(group, storages)]
        groups = move_writes_out_of_backward(groups, returned(trace))
        fused = self._fuse_groups(trace, groups, settings, report)
        if settings.options.rematerialize:
            # Of two equal values one is handed over, and what follows from it is computed again.
            fused = rematerialize(eliminate_common_subexpressions(fused, storages), storages)
        check_versions(
            trace.bound_symbols, in_split_order(fused.bound_symbols, returned(trace)), storages
        )
        fused = remove_redundant_casts(fused, storages, strict=settings.options.strict)
        fused = eliminate_common_subexpressions(fused, storages)
        fused = trim(fused)  # the passes before leave arguments and outputs unused
        fused = choose_memory_orders(fused, storages)
        fused = update_fusion_call_ctx(fused)
        if settings.options.alias == "view":
            donate(fused)
        keep_report(report)
        seconds = time.perf_counter() - start
        self._fusion_seconds += seconds
        fused.set_provenance(
            TraceProvenance(f"Fusion by {NAME} (took {int(seconds * 1e3)} milliseconds)")
        )
        return fused

    def fuse(self, region: Any, fusion_counter: int) -> BoundSymbol:
        """One fusion of the region's bound symbols.

        Has no side effects and compiles nothing: Thunder calls it again for fusions that passes
        have changed.
        """
        # Thunder hands variables over, our own pass proxies; the latter stay as they are.
        inputs = [unvariableify(p) for p in region.inputs]
        outputs = [unvariableify(p) for p in region.outputs]
        flat = [leaf for bsym in region.bound_symbols for leaf in _flatten(bsym)]
        flat, needed = live(flat, outputs)
        inputs = [p for p in inputs if p.name in needed]
        listed = {p.name for p in outputs}
        outputs += [p for p in write_results(flat) if p.name not in listed]
        name = f"{FUSION_PREFIX}{fusion_counter}"
        device = _device_of_region(flat)
        options = read_settings().options
        call = FusedRegion(name, flat, inputs, outputs, device, options)
        fusion: BoundSymbol = self.register_temporary_operation(
            name, call, inputs=inputs, outputs=outputs, bsyms=flat
        )
        return fusion

    def _fuse_groups(
        self, trace: TraceCtx, groups: Sequence[Group], settings: Settings, report: Report
    ) -> TraceCtx:
        bsyms: list[BoundSymbol] = []
        counter = 0
        fuel = math.inf if settings.options.fuel is None else settings.options.fuel
        edges = boundaries([group.bsyms for group in groups])
        for group, boundary in zip(groups, edges, strict=True):
            boundary, numbers = split_numbers(group.bsyms, boundary)
            reason = leave_to_torch(group, boundary, settings)
            has_fuel = reason is not None or (counter < fuel and self.get_fuel())
            if not has_fuel and not must_fuse(group):
                reason = "the fuel is spent"
            if reason is None:
                bsyms.append(self.fuse(_Region(group, boundary), counter))
                names = ", ".join(b.sym.name for b in group.bsyms)
                log.event("claim", "%s%s: %s", FUSION_PREFIX, counter, names)
                bsyms.extend(numbers)
                counter += 1
            else:
                report.unclaimed(group.bsyms, reason)
                bsyms.extend(group.bsyms)
        return rebuilt(trace, bsyms)


class _Region:
    """What `fuse` reads of a region, as Thunder's own callers give it."""

    def __init__(self, group: Group, boundary: Boundary) -> None:
        self.inputs = boundary.inputs
        self.outputs = boundary.outputs
        self.bound_symbols = group.bsyms


def _kind_of(report: Report) -> Kind:
    """Regions hold symbols of one device, and of the forward or of the backward."""
    known: dict[int, tuple[BoundSymbol, Hashable]] = {}

    def kind(bsym: BoundSymbol) -> Hashable:
        if id(bsym) not in known:
            known[id(bsym)] = (bsym, examine(bsym))
        return known[id(bsym)][1]

    def examine(bsym: BoundSymbol) -> Hashable:
        reason = claims.why_not(bsym)
        if reason is not None:
            report.refused(bsym, reason)
            return None
        device = claims.device_of(bsym)
        assert device is not None
        return device, claims.is_backward(bsym)

    return kind


def _flatten(bsym: BoundSymbol) -> list[BoundSymbol]:
    """The symbols that are recorded one by one."""
    if claims.is_claimed_directly(bsym):
        return [bsym]
    return [leaf for part in bsym.subsymbols for leaf in _flatten(part)]


def _device_of_region(bsyms: Sequence[BoundSymbol]) -> str:
    """The device of a region: every claimed symbol computes on it."""
    devices = [device for bsym in bsyms if (device := claims.device_of(bsym)) is not None]
    assert devices, "a region touches at least one device"
    return devices[0]

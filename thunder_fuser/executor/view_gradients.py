"""Refuse a gradient that Thunder gets wrong: of what was written through another view.

    v = slice(y)                v, y: one memory
    t = copy_(mul(v, 3), v)     y holds it too
    z = exp(y)                  the gradient goes to y as if nothing was written

Thunder 0.2.6 follows values by name. The forward is right, as memory is; the gradient of `y` misses
the product, and that of `v` is zero. A write that adds what needs no gradient changes none, and
`y[:2] *= 3` assigns the written view to its place in `y`, where the gradient finds it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import torch
from thunder.core.dtypes import is_inexact_dtype
from thunder.core.proxies import ProxyTag, TensorProxy
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx

from thunder_fuser.executor.claims import is_backward, prim_name
from thunder_fuser.executor.joint import RESULTS, is_joint, returned
from thunder_fuser.executor.storage import Storages, leaves, renamed, tensors, written_tensors
from thunder_fuser.executor.torch_names import as_prim
from thunder_fuser.executor.torch_views import taken
from thunder_fuser.executor.translate import place_of


def check_view_gradients(trace: TraceCtx) -> None:
    """Raises NotImplementedError for the first read, or the first result, of such a tensor."""
    bsyms = trace.bound_symbols
    found = returned(trace)
    if not is_joint(found):
        return
    storages = Storages(bsyms)
    if not storages.written:
        return
    walk = _Walk(storages)
    for bsym in bsyms[:-1]:
        if not is_backward(bsym):
            for leaf in leaves([bsym]):
                walk.enter(leaf, bsym)
    for result in tensors(found[RESULTS]):
        walk.check(result, bsyms[-1])


@dataclass
class _Walk:
    """Follows the tensors of the forward: names that Thunder knows to be one are one tensor."""

    storages: Storages
    tensor_of: dict[str, str] = field(default_factory=dict)
    views: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    differentiable: set[str] = field(default_factory=set)  # names
    made: dict[str, BoundSymbol] = field(default_factory=dict)
    # tensor: other views of its memory that were written, and by whom
    stale: dict[str, dict[str, BoundSymbol]] = field(default_factory=dict)

    def enter(self, leaf: BoundSymbol, bsym: BoundSymbol) -> None:
        if pairs := renamed(leaf):
            for old, new in pairs:
                self._name(new, self._tensor(old), old.name in self.differentiable)
            return
        targets = written_tensors(leaf)
        read = [p for p in tensors(leaf.flat_proxy_args) if all(p is not t for t in targets)]
        outs = tensors(leaf.flat_proxy_outs)
        if any(is_inexact_dtype(p.dtype) for p in outs):
            for tensor in read[self._puts_back(leaf) :]:
                self.check(tensor, bsym)
        is_detached = leaf.sym.name == "detach" or any(
            ProxyTag.DETACHED_AUTOGRAD_GRAPH in p.tags for p in outs
        )
        needs = not is_detached and any(p.name in self.differentiable for p in read)
        for target in targets:
            self._write(leaf, bsym, target, needs)
        for out in outs:
            tensor = self._tensor(targets[0]) if targets else out.name
            is_argument = prim_name(leaf) == "UNPACK_TRIVIAL" and out.requires_grad
            self._name(out, tensor, is_argument or (needs and is_inexact_dtype(out.dtype)))
            self.made[out.name] = leaf

    def check(self, tensor: Any, reader: BoundSymbol) -> None:
        for writer in self.stale.get(self._tensor(tensor), {}).values():
            raise NotImplementedError(
                f"thunder_fuser has no gradient of {_text(reader)}: {tensor.name} shows what "
                f"{_text(writer)} wrote through another view, which the gradient would miss. Write "
                "into a clone of that view, and compose the result with torch.cat or torch.where"
            )

    def _write(self, leaf: BoundSymbol, bsym: BoundSymbol, target: Any, needs: bool) -> None:
        written, storage = self._tensor(target), self.storages.of(target.name)
        others = self.views[storage] - {written}
        matters = needs or any(self.tensor_of[n] in others for n in self._shown(storage))
        if matters and not self._adds_a_constant(leaf, written):
            for other in others:
                self.stale.setdefault(other, {})[written] = bsym
        self.stale.pop(written, None)

    def _puts_back(self, leaf: BoundSymbol) -> bool:
        """True for `y[key] = v` where `v` is `y[key]`, and nothing else of `y` was written."""
        prim = as_prim(leaf) or leaf
        if prim_name(prim) != "COPY_WITH_SETITEM" or not isinstance(prim.args[2], TensorProxy):
            return False
        y, key, v = prim.args
        is_only = self.stale.get(self._tensor(y), {}).keys() == {self._tensor(v)}
        try:
            place = torch.empty(y.shape, device="meta")[key]
        except (TypeError, IndexError, RuntimeError):  # tensors among the indices
            return False
        found = self._place(self._tensor(v), y)
        return is_only and found is not None and _lies_as(found, place)

    def _place(self, tensor: str, y: TensorProxy) -> torch.Tensor | None:
        """Where a view lies in `y`, if it is made by slices and squeezes."""
        if tensor == self._tensor(y):
            return torch.empty(y.shape, device="meta")
        maker = self.made.get(tensor)
        if maker is None or prim_name(maker) not in ("SLICE", "SQUEEZE"):
            return None
        source = self._place(self._tensor(maker.args[0]), y)
        return None if source is None else taken(source, maker)

    def _shown(self, storage: str) -> list[str]:
        """The names in a storage that have gradients."""
        names = (n for n in self.differentiable if n in self.tensor_of)
        return [n for n in names if self.storages.of(n) == storage]

    def _adds_a_constant(self, write: BoundSymbol, written: str) -> bool:
        """True for `v.add_(c)`, of which the gradient is that of what was there before."""
        source = self.made.get(getattr(write.args[0], "name", ""))
        if source is None or prim_name(source) not in ("ADD", "SUB"):
            return False
        first, *rest = source.args
        is_same = self.tensor_of.get(getattr(first, "name", "")) == written
        return is_same and all(p.name not in self.differentiable for p in tensors(rest))

    def _tensor(self, tensor: Any) -> str:
        name: str = tensor.name
        return self.tensor_of.get(name, name)

    def _name(self, proxy: Any, tensor: str, has_gradient: bool) -> None:
        self.tensor_of[proxy.name] = tensor
        self.views[self.storages.of(proxy.name)].add(tensor)
        if has_gradient:
            self.differentiable.add(proxy.name)


def _lies_as(a: torch.Tensor, b: torch.Tensor) -> bool:
    """True for the same elements in the same order."""
    first, second = ((t.shape, t.stride(), t.storage_offset()) for t in (a, b))
    return first == second


def _text(bsym: BoundSymbol) -> str:
    """Its first line, with the user's where that is known."""
    line, place = str(bsym).strip().split("  #")[0].splitlines()[-1].strip(), place_of(bsym)
    return f"`{line}`" if place is None else f"`{line}` ({place.file}:{place.line})"

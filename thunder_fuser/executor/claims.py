"""Which bound symbols the executor claims, and why not the others.

Everything here is a pure function of the bound symbol: Thunder asks several times per op. What an
op accepts is read off its row; the few conditions that depend on more than dtypes stand in one
table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from thunder.core.compile_data import get_compile_option
from thunder.core.devices import DeviceType
from thunder.core.dtypes import is_exact_dtype
from thunder.core.prims import PrimIDs
from thunder.core.proxies import NumberProxy, TensorProxy
from thunder.core.symbol import BoundSymbol, BoundSymbolTag, has_tags

from thunder_fuser.executor.dilated_pads import pad_refusal
from thunder_fuser.executor.dtypes import data_type
from thunder_fuser.executor.index_sums import embedding_backward_refusal, index_put_refusal
from thunder_fuser.executor.reductions import (
    extremum_refusal,
    position_refusal,
    reduction_refusal,
    variance_refusal,
)
from thunder_fuser.executor.scatters import SCATTERS, scatter_refusal
from thunder_fuser.executor.torch_names import as_prim
from thunder_fuser.ops import OPS, Family, OpDef
from thunder_fuser.ops.dtype_sets import INDICES, INTEGERS

Checker = Callable[..., "bool | str | None"]
Translator = Callable[..., Any]


@dataclass(frozen=True)
class CustomOp:
    """A user's op: `translator(fd, *handles, **kwargs)` records it, `checker(*args, **kwargs)` says
    whether it can (True or None: yes; False or a reason: no)."""

    translator: Translator
    checker: Checker | None = None


ROW_OF_PRIM: dict[str, OpDef] = {prim: row for row in OPS.values() for prim in row.prims}
# Prims that several rows together make; the translator knows which.
COMPOSED_PRIMS = frozenset(
    {
        "ARGMAX",
        "ARGMIN",
        "EMBEDDING",
        "EMBEDDING_BACKWARD",
        "GATHER",
        "INDEX_PUT",
        "PAD",
        *SCATTERS,
        "STD",
        "TAKE_ALONG_AXIS",
        "VAR",
        "VAR_MEAN",
    }
)

# Prims that name an existing tensor anew or write into one. They have no row: the translator
# resolves them to values.
ALIAS_PRIMS = frozenset({"UPDATE_ALIASES", "SHALLOW_COPY"})
WRITE_PRIM = "COPY_"
SHAPE_PRIM = "SHAPE"
# Has no row either: the fusion pass turns it into UNIFORM_PHILOX, on CUDA, before regions form.
UNIFORM_PRIM = "UNIFORM"

OWN_PRIMS = ROW_OF_PRIM.keys() | COMPOSED_PRIMS | ALIAS_PRIMS | {WRITE_PRIM, UNIFORM_PRIM}

# Why prims that could be claimed, and an operator of torch's, are left to torch.
LEFT = {
    **dict.fromkeys(
        ("COPY_WITH_SETITEM", "INDEX_COPY"), "it writes where indices say, which no template does"
    ),
    "TOPK": "it orders the elements of a row, which no template does",
    # Torch's ops, not Thunder's symbols.
    **dict.fromkeys(
        ("diagonal", "imag", "real"), "its result may be written or returned, and is a view"
    ),
}

# Composites that torch refuses to take of integers. Thunder's give integers, cut off what they
# compute: a softmax of zeros.
OF_FLOATS = frozenset(
    {
        "torch.batch_norm",
        "torch.layer_norm",
        "torch.log_softmax",
        "torch.nn.functional.group_norm",
        "torch.softmax",
    }
)

_LAST_RESORTS = ("torch", "python")  # Thunder's executors for what nobody else claims

CUSTOM_OPS: dict[Any, CustomOp] = {}


def prim_name(bsym: BoundSymbol) -> str:
    """The name of the prim in PrimIDs, empty for anything else."""
    # Asked 34,000 times a layer of a model; `.name` is the same behind two Python calls.
    return bsym.sym.id._name_ if isinstance(bsym.sym.id, PrimIDs) else ""


def is_backward(bsym: BoundSymbol) -> bool:
    """True for what the backward of a joint trace computes."""
    return bool(has_tags(bsym, {BoundSymbolTag.BACKWARD}))


def is_claimed_directly(bsym: BoundSymbol) -> bool:
    """True if the symbol itself is translated, rather than what it is composed of."""
    if bsym.sym.is_fusion:
        return False
    return is_host_number(bsym) or (_own_rule(bsym) and _refusal(bsym) is None)


def why_not(bsym: BoundSymbol) -> str | None:
    """The reason why the bound symbol cannot be part of a region, None if it can.

    A composite is claimed when each of its parts is; its reason is that of the first part refused.
    """
    if bsym.sym.is_fusion:
        return "it is a fusion already"
    if _own_rule(bsym):
        return _refusal(bsym)
    executor = bsym.sym.executor
    if executor is not None and executor.name not in _LAST_RESORTS:
        return f"taken by executor {executor.name}"
    left = LEFT.get(prim_name(bsym) or bsym.sym.id)
    if (prim := as_prim(bsym)) is not None and _own_rule(prim):
        return _refusal(prim) or left or f"taken by executor {executor.name}"
    reason = left or _integers_refusal(bsym) or _part_refusal(bsym)
    # What torch or Python has taken over is asked for the reason, but stays where it is.
    is_left = executor is not None or not bsym.subsymbols
    return reason or f"no rule for {bsym.sym.name}" if is_left else reason


def _integers_refusal(bsym: BoundSymbol) -> str | None:
    is_cut = bsym.sym.id in OF_FLOATS and any(is_exact_dtype(p.dtype) for p in _outs(bsym))
    return f"torch refuses {bsym.sym.name} of integers" if is_cut else None


def _part_refusal(bsym: BoundSymbol) -> str | None:
    for part in bsym.subsymbols:
        if prim_name(part) == UNIFORM_PRIM:
            return f"{part.sym.name}: it must stand alone to be given a seed"
        reason = None if is_host_number(part) else why_not(part)
        if reason is not None:
            names_it = bool(part.subsymbols) or reason.startswith("no rule for ")
            return reason if names_it else f"{part.sym.name}: {reason}"
    return None


def is_host_number(bsym: BoundSymbol) -> bool:
    """True for a prim that only gives numbers: the sizes of a tensor, or arithmetic on numbers.

    Inside a composite the region does it on scalars; alone it stays with Python.
    """
    name, outs = prim_name(bsym), bsym.flat_proxy_outs
    if not bsym.sym.is_prim or any(not isinstance(p, NumberProxy) for p in outs):
        return False
    if name == SHAPE_PRIM:
        return True
    has_tensor = any(isinstance(p, TensorProxy) for p in bsym.flat_proxy_args)
    row = ROW_OF_PRIM.get(name)
    return bool(outs) and not has_tensor and row is not None and row.host != ""


def device_of(bsym: BoundSymbol) -> str | None:
    """The device on which a claimed bound symbol computes; None if it touches no such device.

    CUDA tensors count, or CPU tensors where the machine has no CUDA device.
    """
    kind = claimed_device_type()
    for proxy in (*bsym.flat_proxy_args, *bsym.flat_proxy_outs):
        if isinstance(proxy, TensorProxy) and proxy.device.devicetype is kind:
            text: str = proxy.device.device_str()
            return text
    return None


def is_cpu_scalar(proxy: Any) -> bool:
    """True for a 0-d CPU tensor that a CUDA region takes as a number."""
    cpu = DeviceType.CPU
    return claimed_device_type() is not cpu and proxy.device.devicetype is cpu


@cache
def claimed_device_type() -> Any:
    """CUDA, or CPU on a machine without CUDA, where kernels run through the host target."""
    return DeviceType.CUDA if torch.cuda.is_available() else DeviceType.CPU


def _own_rule(bsym: BoundSymbol) -> bool:
    name = prim_name(bsym)
    return name in OWN_PRIMS or bsym.sym.id in CUSTOM_OPS


def _refusal(bsym: BoundSymbol) -> str | None:
    tensors = list(_tensors(bsym))
    reason = _tensor_refusal(tensors) or _dtype_refusal(tensors)
    if reason is not None:
        return reason
    custom = CUSTOM_OPS.get(bsym.sym.id)
    if custom is not None:
        return _custom_refusal(custom, bsym)
    name = prim_name(bsym)
    row = ROW_OF_PRIM.get(name)
    if row is not None and row.family is not Family.RANDOM:
        illegal = [p for p in _inputs(bsym) if data_type(p.dtype) not in row.dtypes]
        if illegal:
            return f"{row.name} is not defined on {data_type(illegal[0].dtype)}"
    if row is not None and row.results is not None:
        illegal = [p for p in _outs(bsym) if data_type(p.dtype) not in row.results]
        if illegal:
            return f"{row.name} gives no {data_type(illegal[0].dtype)}"
    condition = _CONDITIONS.get(name)
    return condition(bsym) if condition is not None else None


def _custom_refusal(custom: CustomOp, bsym: BoundSymbol) -> str | None:
    verdict = custom.checker(*bsym.args, **bsym.kwargs) if custom.checker is not None else None
    if isinstance(verdict, str):
        return verdict
    return None if verdict is None or verdict else f"the checker of {bsym.sym.name} refused"


def _tensors(bsym: BoundSymbol) -> Iterable[Any]:
    proxies = (*bsym.flat_proxy_args, *bsym.flat_proxy_outs)
    return (p for p in proxies if isinstance(p, TensorProxy))


def _inputs(bsym: BoundSymbol) -> list[Any]:
    return [p for p in bsym.flat_proxy_args if isinstance(p, TensorProxy)]


def _outs(bsym: BoundSymbol) -> list[Any]:
    return [p for p in bsym.flat_proxy_outs if isinstance(p, TensorProxy)]


def _tensor_refusal(tensors: Sequence[Any]) -> str | None:
    """Tensors of one supported device, none distributed; 0-d CPU tensors may stand beside CUDA."""
    kind = claimed_device_type()
    computing = [t for t in tensors if t.device.devicetype is kind]
    if not computing:
        wanted = "CUDA tensor" if kind is DeviceType.CUDA else "tensor"
        return f"no {wanted}"
    if any(type(t) is not TensorProxy for t in tensors):
        return "DTensor operands"
    devices = {t.device.device_str() for t in computing}
    if len(devices) > 1:
        return f"tensors on several devices: {', '.join(sorted(devices))}"
    for t in tensors:
        if t.device.devicetype is not kind and (
            t.ndim > 0 or t.device.devicetype is not DeviceType.CPU
        ):
            where, others = t.device.device_str(), computing[0].device.device_str()
            return f"{t.name} is on {where}, the others on {others}"
    return None


def _dtype_refusal(tensors: Sequence[Any]) -> str | None:
    for t in tensors:
        if data_type(t.dtype) is None:
            return f"dtype {t.dtype} of {t.name} is not supported"
    return None


def _uniform(bsym: BoundSymbol) -> str | None:
    if claimed_device_type() is not DeviceType.CUDA:
        return "the CPU generator has no (seed, offset)"
    return "disable_replace_uniform is set" if is_uniform_kept() else None


def _uniform_philox(bsym: BoundSymbol) -> str | None:
    if any(isinstance(bsym.kwargs[name], TensorProxy) for name in ("seed", "offset")):
        return "a tensor as the random seed or offset"
    return None


def _gather(bsym: BoundSymbol) -> str | None:
    """Indices are integers: Thunder counts bool as one. In brackets torch takes bytes for a mask,
    and refuses other small integers. It reads a tensor of rank 0 as one of one dim."""
    is_embedding = prim_name(bsym) == "EMBEDDING"
    index = bsym.args[0] if is_embedding else bsym.args[1]
    if not (is_embedding or bsym.args[0].ndim):
        return "a tensor without dims"
    dtype = data_type(index.dtype)
    legal = INDICES if prim_name(bsym) == "TAKE" else INTEGERS
    return None if dtype in legal else f"an index of dtype {dtype}"


def is_uniform_kept() -> bool:
    """True if the user keeps `uniform` as it is, so that dropout is stored, not recomputed."""
    return bool(
        get_compile_option(
            "disable_replace_uniform", "Keeps uniform as it is, so that dropout is not recomputed."
        )
    )


_CONDITIONS: dict[str, Callable[[BoundSymbol], str | None]] = {
    **dict.fromkeys(SCATTERS, scatter_refusal),
    "EMBEDDING_BACKWARD": embedding_backward_refusal,
    "INDEX_PUT": index_put_refusal,
    **dict.fromkeys(("EMBEDDING", "GATHER", "TAKE", "TAKE_ALONG_AXIS"), _gather),
    "PAD": pad_refusal,
    "SUM": reduction_refusal,
    "PROD": reduction_refusal,
    "AMAX": extremum_refusal,
    "AMIN": extremum_refusal,
    "ARGMAX": position_refusal,
    "ARGMIN": position_refusal,
    "STD": variance_refusal,
    "VAR": variance_refusal,
    "VAR_MEAN": variance_refusal,
    "UNIFORM": _uniform,
    "UNIFORM_PHILOX": _uniform_philox,
}

"""Record the bound symbols of a region into a FusionDefinition.

A row names the prims it serves and its parameters name their kinds, so most prims are recorded as
they stand: `prims.mul(t0, 2.0)` becomes `fd.ops.mul(T0, 2.0)`. The few whose arguments Thunder
writes in another way have an adapter each. Writes are resolved as `inplace` describes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import thunder
from thunder.core.dtypes import dtype as ThunderDtype
from thunder.core.proxies import NumberProxy, TensorProxy
from thunder.core.symbol import BoundSymbol

from thunder_fuser.dtypes import DataType
from thunder_fuser.executor.claims import (
    ALIAS_PRIMS,
    COMPOSED_PRIMS,
    CUSTOM_OPS,
    ROW_OF_PRIM,
    SHAPE_PRIM,
    WRITE_PRIM,
    is_cpu_scalar,
    prim_name,
)
from thunder_fuser.executor.dilated_pads import pad, with_extents
from thunder_fuser.executor.dtypes import data_type, rounded_numbers
from thunder_fuser.executor.index_sums import embedding_backward, index_put, with_shapes
from thunder_fuser.executor.inplace import Ref, advance, is_identity_cast
from thunder_fuser.executor.scatters import index_add, scatter, scatter_add, with_places, with_sizes
from thunder_fuser.frontend.definition import FusionDefinition
from thunder_fuser.frontend.source_line import Place
from thunder_fuser.ops import Family, Kind, OpDef
from thunder_fuser.ops.definition import Operand

Layout = tuple[Sequence["bool | None"], Sequence[int]]
Call = tuple[Sequence[Any], Mapping[str, Any]]


def translate(
    fd: FusionDefinition,
    bsyms: Sequence[BoundSymbol],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    shapes: Sequence[Sequence[int] | None],
    layouts: Sequence[Layout | None],
    over: Mapping[str, Any],
) -> None:
    """Record `bsyms` into the open definition `fd`. `outputs` are other tensors than `inputs`.

    `shapes` and `layouts` (contiguity, stride order) describe the tensors among `inputs` as they
    arrive at run time; they are None for numbers. A shape entry is -1 where it may change. `over`
    has what is written over inputs besides, by the input's name.
    """
    translation = _Translation(fd)
    for proxy, shape, layout in zip(inputs, shapes, layouts, strict=True):
        translation.define(proxy, shape, layout)
    for bsym in bsyms:
        fd.written_at(place_of(bsym))
        translation.add(bsym)
    fd.written_at(None)
    translation.finish(outputs, over)


_THUNDER = str(Path(thunder.__file__).parent)


def place_of(bsym: BoundSymbol) -> Place | None:
    """The user's line that a symbol comes from, where Thunder knows it: not in the backward, and
    not where it took the line of its own wrapper of the op."""
    file, line = bsym.source_filename, getattr(bsym.source_positions, "lineno", None)
    if not file or not line or file.startswith(_THUNDER):
        return None
    return Place(file, line)


class _Translation:
    def __init__(self, fd: FusionDefinition) -> None:
        self._fd = fd
        self._values: dict[str, Any] = {}  # name -> handle
        self._refs: dict[str, Ref] = {}
        self._written: dict[str, Any] = {}  # root -> handle of its newest value
        self._drawn: set[str] = set()  # names of random numbers

    def define(self, proxy: Any, shape: Sequence[int] | None, layout: Layout | None) -> None:
        if shape is None or layout is None:
            self._values[proxy.name] = self._fd.define_scalar(None, data_type(proxy.python_type))
            return
        contiguity, stride_order = layout
        self._values[proxy.name] = self._fd.define_tensor(
            shape=list(shape),
            contiguity=list(contiguity),
            dtype=data_type(proxy.dtype),
            stride_order=list(stride_order),
            is_cpu=is_cpu_scalar(proxy),
        )

    def add(self, bsym: BoundSymbol) -> None:
        name = prim_name(bsym)
        if name in ALIAS_PRIMS or is_identity_cast(bsym):
            sources = [p for p in bsym.flat_proxy_args if isinstance(p, TensorProxy)]
            for source, out in zip(sources, bsym.flat_proxy_outs, strict=True):
                self._values[out.name] = self._tensor(source)
        elif name == WRITE_PRIM:
            self._write(bsym)
        elif name == SHAPE_PRIM:
            tensor = self._tensor(bsym.args[0])
            for dim, out in enumerate(bsym.flat_outs):
                if isinstance(out, NumberProxy):
                    self._values.setdefault(out.name, tensor.size(dim))
        else:
            results = self._call(bsym, self._convert)
            flat = results if isinstance(results, (tuple, list)) else (results,)
            for out, handle in zip(bsym.flat_proxy_outs, flat, strict=True):
                self._values[out.name] = handle
                self._drawn |= {out.name} if name == "UNIFORM_PHILOX" else set()
        advance(bsym, self._refs)

    def finish(self, outputs: Sequence[Any], over: Mapping[str, Any]) -> None:
        written = self._written | {name: self._tensor(proxy) for name, proxy in over.items()}
        for root, handle in written.items():
            self._fd.add_output(handle, alias_input=self._values[root])
        for proxy in outputs:
            self._fd.add_output(self._output(proxy))

    def _output(self, proxy: Any) -> Any:
        """What the region computes and returns; of a written tensor a view of that tensor."""
        ref = self._refs.get(proxy.name, Ref(proxy.name))
        if ref.root in self._written and ref.chain:
            return self._replay(self._values[ref.root], ref.chain)
        return self._tensor(proxy)

    def _write(self, bsym: BoundSymbol) -> None:
        source, target = bsym.args[0], bsym.args[1]
        # A value of its own: `source` may be returned beside the target, which is another tensor.
        handle, dtype = self._fd.ops.set(self._tensor(source)), data_type(target.dtype)
        if data_type(source.dtype) is not dtype:
            handle = self._fd.ops.cast(handle, dtype)
        root = self._refs.get(target.name, Ref(target.name)).root
        self._written[root] = handle
        for out in bsym.flat_proxy_outs:
            self._values[out.name] = handle

    def _tensor(self, proxy: Any) -> Any:
        """The value of a tensor now: views of a written root are taken again from its new value."""
        ref = self._refs.get(proxy.name, Ref(proxy.name))
        if ref.root not in self._written:
            return self._values[proxy.name]
        return self._replay(self._written[ref.root], ref.chain)

    def _replay(self, handle: Any, chain: Sequence[BoundSymbol]) -> Any:
        """The views of `chain`, taken of another value."""
        for view in chain:
            handle = self._call(view, _replacing(view.args[0].name, handle, self._convert))
        return handle

    def _call(self, bsym: BoundSymbol, convert: Callable[[Any], Any]) -> Any:
        custom = CUSTOM_OPS.get(bsym.sym.id)
        name = prim_name(bsym)
        adapt = _ADAPTERS.get(name, _as_written)
        if adapt is _compared and any(p.name in self._drawn for p in bsym.flat_proxy_args):
            adapt = _as_written  # a share of random numbers is the exact one, as of torch's dropout
        args, kwargs = adapt(bsym.args, bsym.kwargs)
        args = [_map(convert, arg) for arg in args]
        kwargs = {key: _map(convert, value) for key, value in kwargs.items()}
        if custom is not None:
            return custom.translator(self._fd, *args, **kwargs)
        if name in COMPOSED_PRIMS:
            return _COMPOSED[name](self._fd.ops, *args, **kwargs)
        row = ROW_OF_PRIM[name]
        handle = getattr(self._fd.ops, row.name)(*args, **kwargs)
        if isinstance(bsym.flat_proxy_outs[0], NumberProxy):
            return handle
        wanted = data_type(bsym.flat_proxy_outs[0].dtype)
        return handle if _result_type(row, bsym) is wanted else self._fd.ops.cast(handle, wanted)

    def _convert(self, value: Any) -> Any:
        if isinstance(value, TensorProxy):
            return self._tensor(value)
        if isinstance(value, NumberProxy):
            return self._values[value.name]
        if isinstance(value, (ThunderDtype, type)):
            return data_type(value)
        return value


def _replacing(name: str, handle: Any, convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def converted(value: Any) -> Any:
        return handle if getattr(value, "name", None) == name else convert(value)

    return converted


def _map(convert: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_map(convert, element) for element in value]
    return convert(value)


def _result_type(row: OpDef, bsym: BoundSymbol) -> DataType | None:
    """The type that the op gives by its own rule; Thunder's prims sometimes want another."""
    out = bsym.flat_proxy_outs[0]
    if any(param.kind is Kind.DTYPE for param in row.params):
        return data_type(out.dtype)
    operands = []
    for value in bsym.flat_args:
        if isinstance(value, TensorProxy):
            operands.append(Operand(_known(value.dtype), False))
        elif row.family is Family.POINTWISE and isinstance(
            value, (NumberProxy, int, float, complex)
        ):
            python_type = value.python_type if isinstance(value, NumberProxy) else type(value)
            operands.append(Operand(_known(python_type), True))
    return row.dtype(operands)


def _known(dtype: Any) -> DataType:
    found = data_type(dtype)
    assert found is not None, f"{dtype} was claimed without a DataType"
    return found


def _as_written(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    return args, kwargs


def _first_only(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    return args[:1], {}


def _without_device(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    return args, {key: value for key, value in kwargs.items() if key != "device"}


def _uniform(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    """(shape, low, high, seed=, offset=)  =>  (low, high, shape, rng_seed=, rng_offset=)"""
    shape, low, high = args
    numbers = {"rng_seed": kwargs["seed"], "rng_offset": kwargs["offset"]}
    return (low, high, shape), {"dtype": kwargs["dtype"], **numbers}


def _embedding(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    """The other arguments are for the gradient, or for a norm that Thunder refuses."""
    return args[:2], {}


def _variance(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    """The correction of a claimed variance is a whole number, written as any type."""
    return args, {"correction": int(kwargs["correction"])}


def _compared(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    """Torch rounds a number that it compares a tensor with: 0.7 equals a bf16 that was made of
    it."""
    return rounded_numbers(*args), kwargs


_ADAPTERS: dict[str, Callable[[Sequence[Any], Mapping[str, Any]], Call]] = {
    "CLONE": _first_only,
    "EMBEDDING": _embedding,
    "EQ": _compared,
    "FULL": _without_device,
    "GE": _compared,
    "GT": _compared,
    "INDEX_ADD": with_places,
    "INDEX_PUT": with_shapes,
    "IOTA": _without_device,
    "LE": _compared,
    "LT": _compared,
    "NE": _compared,
    "PAD": with_extents,
    "SCATTER": with_places,
    "SCATTER_ADD": with_sizes,
    "STD": _variance,
    "UNIFORM_PHILOX": _uniform,
    "VAR": _variance,
    "VAR_MEAN": _variance,
}


def _take_along_axis(ops: Any, x: Any, index: Any, dim: int) -> Any:
    """As torch's take_along_dim, which counts negative indices from the end."""
    wrapped = ops.where(ops.lt(index, 0), ops.add(index, x.size(dim)), index)
    return ops.take_along_axis(x, wrapped, dim)


_COMPOSED: dict[str, Callable[..., Any]] = {
    "ARGMAX": lambda ops, x, dim: ops.argmax(x, dim),
    "ARGMIN": lambda ops, x, dim: ops.argmin(x, dim),
    "EMBEDDING": lambda ops, index, weight: ops.embedding(index, weight),
    "EMBEDDING_BACKWARD": embedding_backward,
    "GATHER": lambda ops, x, index, dim: ops.gather(x, index, dim),
    "TAKE_ALONG_AXIS": _take_along_axis,
    "INDEX_ADD": index_add,
    "INDEX_PUT": index_put,
    "PAD": pad,
    "SCATTER": scatter,
    "SCATTER_ADD": scatter_add,
    "STD": lambda ops, x, dims, correction: ops.sqrt(ops.var(x, dims, correction)),
    "VAR": lambda ops, x, dims, correction: ops.var(x, dims, correction),
    "VAR_MEAN": lambda ops, x, dims, correction: ops.var_mean(x, dims, correction),
}

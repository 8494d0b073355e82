"""What is called while a definition is open: inputs, constants, outputs, `ops`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

from thunder_fuser.dtypes import DataType
from thunder_fuser.frontend.element_types import element_type
from thunder_fuser.frontend.handles import Scalar, Tensor, Vector
from thunder_fuser.frontend.layout import canonical_stride_order
from thunder_fuser.frontend.recorder import Operations, Recorder, Verbatim
from thunder_fuser.frontend.records import ADD_OUTPUT, DEFINE_SCALAR, Record
from thunder_fuser.frontend.sharding import mesh_record, place_record
from thunder_fuser.frontend.tensors import derived_tensor, described_tensor, torch_tensor


class DefinitionCalls(ABC):
    """The recording half of FusionDefinition."""

    def __init__(self) -> None:
        self.ops = Operations(self._open)

    @abstractmethod
    def _open(self, call: str) -> Recorder:
        """The recorder that takes `call`. Raises RuntimeError unless the definition is open."""

    def define_tensor(
        self,
        shape: Sequence[int] | None = None,
        contiguity: Sequence[bool | None] | Sequence[int] | bool | None = None,
        dtype: object = DataType.Float,
        *,
        is_cpu: bool = False,
        stride_order: Sequence[int] = (),
        sizes: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        static_sizes: bool = False,
    ) -> Tensor:
        """A tensor input, described in one of two ways.

        `shape, contiguity`: -1 any size, 0 empty, 1 a broadcast, n static; contiguity one bool for
        all dims, or a list in allocation order with None for broadcast and expanded dims.
        `stride_order[dim]` ranks the strides, the largest outermost; omitted means row-major.

        `sizes, strides`: those of an example. Size 1 is a broadcast, stride 0 an expanded dim, any
        other size is symbolic unless `static_sizes`. A list of ints in second place is strides.

        Raises ValueError or TypeError for what contradicts itself.
        """
        recorder = self._open("fd.define_tensor")
        written: dict[str, object] = {
            "shape": shape,
            "contiguity": contiguity,
            "stride_order": stride_order,
        }
        written |= {"sizes": sizes, "strides": strides, "dtype": dtype, "is_cpu": is_cpu}
        shown = {key: value for key, value in written.items() if not _is_absent(value)}
        with recorder.call("fd.define_tensor", (), shown):
            if strides is None and _are_strides(contiguity):
                sizes, strides = shape, contiguity  # type: ignore[assignment]
            if sizes is not None and strides is not None:
                record = derived_tensor(sizes, strides, dtype, static_sizes, is_cpu)
            elif shape is not None:
                record = described_tensor(shape, contiguity, dtype, is_cpu, stride_order)
            else:
                raise TypeError("give shape and contiguity, or sizes and strides")
            (tensor,) = recorder.append(record)
        assert isinstance(tensor, Tensor)
        return tensor

    def from_pytorch(self, tensor: torch.Tensor, static_sizes: bool = False) -> Tensor:
        """A tensor input with the layout of `tensor`: on CUDA, or a CPU tensor of rank 0.

        Raises ValueError for any other device.
        """
        recorder = self._open("fd.from_pytorch")
        with recorder.call("fd.from_pytorch", (_brief(tensor),)):
            (made,) = recorder.append(torch_tensor(tensor, static_sizes))
        assert isinstance(made, Tensor)
        return made

    def define_scalar(self, value: object = None, dtype: object = None) -> Scalar:
        """A constant, or, without a value, a scalar input (of `dtype`, Double by default).

        A constant's dtype follows from its Python type: bool, int64, f64, c128. `define_scalar(
        DataType.Int)` is an input too. Raises TypeError for what is no number and for an 8-bit
        float, ValueError for a value the dtype cannot hold.
        """
        recorder = self._open("fd.define_scalar")
        with recorder.call("fd.define_scalar", (value,), {"dtype": dtype} if dtype else None):
            if isinstance(value, DataType):
                value, dtype = None, value
            resolved = None if dtype is None else element_type(dtype)
            if resolved is not None and resolved.is_float8:
                raise TypeError(f"a scalar of dtype {resolved}; only tensors are stored in 8 bits")
            if value is not None:
                return recorder.constant(value, resolved)
            attrs = (("value", None), ("dtype", resolved or DataType.Double))
            (scalar,) = recorder.append(Record(DEFINE_SCALAR, attrs))
        assert isinstance(scalar, Scalar)
        return scalar

    def define_constant(self, value: object, dtype: object = None) -> Scalar:
        """A constant: the older name of `define_scalar(value, dtype)`."""
        return self.define_scalar(value, dtype)

    def define_vector(
        self, elements: int | Sequence[int | Scalar], dtype: object = DataType.Int
    ) -> Vector:
        """A vector of int64: of that many scalar inputs, or of ints >= -1 and Scalars.

        Raises TypeError for other elements or dtypes, ValueError for a negative size or element.
        """
        recorder = self._open("fd.define_vector")
        with recorder.call("fd.define_vector", (elements,)):
            if element_type(dtype) is not DataType.Int:
                raise TypeError(f"a vector holds int64, not {dtype!r}")
            if isinstance(elements, int):
                if elements < 0:
                    raise ValueError(f"size {elements} is negative")
                return recorder.vector(
                    [self.define_scalar(None, DataType.Int) for _ in range(elements)]
                )
            for position, element in enumerate(elements):
                _check_element(position, element, recorder)
            return recorder.vector(
                [e if isinstance(e, Scalar) else recorder.constant(e) for e in elements]
            )

    def add_output(
        self,
        tensor: Tensor,
        alias_input: Tensor | None = None,
        stride_order: Sequence[int] | None = None,
    ) -> None:
        """Return `tensor`, laid out by `stride_order` if given. With `alias_input`, write it into
        that input's storage instead: it is returned only if it is added plainly as well.

        Raises TypeError for what is no Tensor, ValueError for an alias that cannot hold.
        """
        recorder = self._open("fd.add_output")
        written = {"alias_input": alias_input, "stride_order": stride_order}
        shown = {key: value for key, value in written.items() if value is not None}
        with recorder.call("fd.add_output", (tensor,), shown):
            for name, value in (("output", tensor), ("alias_input", alias_input)):
                if value is not None or name == "output":
                    if not isinstance(value, Tensor):
                        raise TypeError(f"{name} is {value!r}; only tensors can be returned")
                    recorder.check_owner(value, name)
            if alias_input is not None and stride_order is not None:
                raise ValueError("an aliased output has the layout of its input; drop stride_order")
            order = None
            if stride_order is not None:
                order = canonical_stride_order(stride_order, tensor.ndim)
            target = alias_input.ref if alias_input is not None else None
            recorder.append(Record(ADD_OUTPUT, (("stride_order", order),), (tensor.ref, target)))

    def define_mesh(
        self, shape: Sequence[int], names: Sequence[str] = (), devices: Sequence[int] = ()
    ) -> None:
        """The device mesh that the definition's tensors are placed on, one per definition: `shape`
        counts devices per mesh dim, `devices` are their ranks row-major, by default 0, 1, 2, ...

        Raises ValueError for a dim without devices, wrong counts, a rank twice, or a second mesh.
        """
        recorder = self._open("fd.define_mesh")
        with recorder.call("fd.define_mesh", (shape,)):
            recorder.append(mesh_record(shape, names, devices))

    def place(self, tensor: Tensor, placements: Sequence[object]) -> None:
        """Fix where `tensor` lives, one placement per mesh dim; before anything reads it.

        A placement is `"S(0)"` (blocks of axis 0), `"S(0, strided by 3)"` (each of 3 blocks cut),
        `"R"` (replicated), `"P(sum)"` (terms of a sum), or what prints so: torch's `Shard(0)`,
        `Replicate()`, `Partial()`. Tensors that are not placed follow from those that are.

        Raises ValueError for placements that do not match the mesh or the tensor, for symbolic
        extents on several devices, and for a tensor that is placed, read or written already.
        """
        recorder = self._open("fd.place")
        with recorder.call("fd.place", (tensor, placements)):
            if not isinstance(tensor, Tensor):
                raise TypeError(f"{tensor!r} is no Tensor; only tensors are placed")
            recorder.check_owner(tensor, "tensor")
            recorder.append(place_record(tensor, placements))


def _is_absent(value: object) -> bool:
    return value is None or (isinstance(value, tuple) and not value)


def _are_strides(contiguity: object) -> bool:
    """A list with ints that are not bools."""
    return isinstance(contiguity, Sequence) and any(
        isinstance(entry, int) and not isinstance(entry, bool) for entry in contiguity
    )


def _check_element(position: int, element: object, recorder: Recorder) -> None:
    if isinstance(element, Scalar):
        recorder.check_owner(element, f"elements[{position}]")
    elif isinstance(element, bool) or not hasattr(element, "__index__"):
        raise TypeError(f"element {position} is {element!r}; legal: an int or a Scalar")
    elif element.__index__() < -1:
        raise ValueError(f"element {position} is {element!r}; legal: -1 and above")


def _brief(tensor: object) -> Verbatim:
    """A tensor by its description, not its elements."""
    if not isinstance(tensor, torch.Tensor):
        return Verbatim(repr(tensor))
    return Verbatim(f"{tensor.dtype} tensor of shape {list(tensor.shape)} on {tensor.device}")

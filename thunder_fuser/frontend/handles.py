"""What a definition hands out: Tensor, Scalar and Vector, each a fid and what Python needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from thunder_fuser.frontend.records import SCALAR, TENSOR, VECTOR, Ref

if TYPE_CHECKING:
    from thunder_fuser.frontend.definition import FusionDefinition


class Handle:
    """A value of one FusionDefinition. `==` records an op, so handles are told apart by fid.

    `recording` is the same for all handles of one `with`: where that failed, the next one counts
    its fids anew.
    """

    __slots__ = ("_fd", "fid", "recording")
    kind = ""

    def __init__(self, fid: int, fd: FusionDefinition, recording: object) -> None:
        self.fid = fid
        self._fd = fd
        self.recording = recording

    @property
    def definition(self) -> FusionDefinition:
        """The definition this handle belongs to."""
        return self._fd

    @property
    def ref(self) -> Ref:
        return Ref(self.kind, self.fid)

    def __repr__(self) -> str:
        return f"{self.kind}{self.fid}"


def _unary(op: str) -> Callable[[Operand], Any]:
    return lambda x: getattr(x.definition.ops, op)(x)


def _binary(op: str) -> Callable[[Operand, object], Any]:
    return lambda a, b: getattr(a.definition.ops, op)(a, b)


def _reflected(op: str) -> Callable[[Operand, object], Any]:
    return lambda b, a: getattr(b.definition.ops, op)(a, b)


class Operand(Handle):
    """A Tensor or Scalar: the operators record the op of the same meaning; `/` is `truediv`."""

    __slots__ = ()
    __hash__ = object.__hash__

    __neg__, __abs__, __invert__ = _unary("neg"), _unary("abs"), _unary("bitwise_not")
    __add__, __radd__ = _binary("add"), _reflected("add")
    __sub__, __rsub__ = _binary("sub"), _reflected("sub")
    __mul__, __rmul__ = _binary("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _binary("truediv"), _reflected("truediv")
    __mod__, __rmod__ = _binary("mod"), _reflected("mod")
    __pow__, __rpow__ = _binary("pow"), _reflected("pow")
    __and__, __rand__ = _binary("bitwise_and"), _reflected("bitwise_and")
    __or__, __ror__ = _binary("bitwise_or"), _reflected("bitwise_or")
    __xor__, __rxor__ = _binary("bitwise_xor"), _reflected("bitwise_xor")
    __lshift__, __rlshift__ = _binary("bitwise_left_shift"), _reflected("bitwise_left_shift")
    __rshift__, __rrshift__ = _binary("bitwise_right_shift"), _reflected("bitwise_right_shift")
    __eq__, __ne__ = _binary("eq"), _binary("ne")
    __lt__, __le__, __gt__, __ge__ = _binary("lt"), _binary("le"), _binary("gt"), _binary("ge")

    def __bool__(self) -> bool:
        raise TypeError(
            f"{self!r} has no truth value while a fusion is being defined; "
            "use fd.ops.where(condition, x, y)"
        )


class Tensor(Operand):
    """A tensor of known rank."""

    __slots__ = ("ndim",)
    kind = TENSOR

    def __init__(self, fid: int, ndim: int, fd: FusionDefinition, recording: object) -> None:
        super().__init__(fid, fd, recording)
        self.ndim = ndim

    def shape(self) -> Vector:
        """Records `fd.ops.shape(self)`: the logical extents as a Vector."""
        vector: Vector = self._fd.ops.shape(self)
        return vector

    def size(self, dim: int) -> Scalar:
        """Records `fd.ops.size(self, dim)`: one logical extent."""
        scalar: Scalar = self._fd.ops.size(self, dim)
        return scalar


class Scalar(Operand):
    """A number known at definition, given at run time, or computed from such."""

    __slots__ = ()
    kind = SCALAR


class Vector(Handle):
    """A list of scalars, as shapes are made of."""

    __slots__ = ("size",)
    kind = VECTOR

    def __init__(self, fid: int, size: int, fd: FusionDefinition, recording: object) -> None:
        super().__init__(fid, fd, recording)
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Scalar:
        """Records `fd.ops.at(self, index)`."""
        if not -self.size <= index < self.size:
            raise IndexError(f"index {index} of {self!r}, a Vector of length {self.size}")
        scalar: Scalar = self._fd.ops.at(self, index)
        return scalar


def handle(
    kind: str, fid: int, size: int, fd: FusionDefinition, recording: object
) -> Tensor | Scalar | Vector:
    """The handle of a value: `size` is the rank of a tensor or the length of a vector."""
    if kind == SCALAR:
        return Scalar(fid, fd, recording)
    return (Tensor if kind == TENSOR else Vector)(fid, size, fd, recording)

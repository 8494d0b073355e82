"""TensorViews and the expressions that define them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.domain import IterDomain, TensorDomain
from thunder_fuser.ir.scalar import Number, Scalar, is_constant
from thunder_fuser.ops import Family, OpDef

Attr: TypeAlias = "DataType | Number | Scalar | tuple[Attr, ...]"


@dataclass(frozen=True, eq=False, repr=False)
class TensorView:
    """A tensor value."""

    dtype: DataType
    domain: TensorDomain
    definition: Expr | None = None
    is_cpu: bool = False

    def __repr__(self) -> str:
        """`<f32[4, 6] of add>`: a name is known to its fusion only."""
        of = "" if self.definition is None else f" of {self.definition.op.name}"
        return f"<{self.dtype}[{', '.join(map(str, self.extents))}]{of}>"

    @property
    def expr(self) -> Expr:
        """The definition of a tensor that is no input."""
        assert self.definition is not None, f"{self} is an input"
        return self.definition

    @property
    def producers(self) -> tuple[TensorView, ...]:
        """The tensors that it is computed from, in order; an input from none."""
        return () if self.definition is None else self.definition.tensors

    @property
    def family(self) -> Family | None:
        """That of the op that makes it; None for an input."""
        return None if self.definition is None else self.definition.op.family

    def is_of(self, *names: str) -> bool:
        """True for what an op of one of these names makes."""
        return self.definition is not None and self.definition.op.name in names

    @property
    def logical(self) -> tuple[IterDomain, ...]:
        """The axes a consumer sees: logical without reductions."""
        return self.domain.without_reductions

    @property
    def ndim(self) -> int:
        return len(self.logical)

    @property
    def extents(self) -> tuple[Scalar, ...]:
        return tuple(a.extent for a in self.logical)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Sizes of a tensor of a concrete fusion."""
        return tuple(a.size for a in self.logical)


Value: TypeAlias = "TensorView | Scalar"


@dataclass(frozen=True, eq=False)
class Expr:
    """One op applied to values.

    `axis_maps` has an entry per input: for a tensor, the position among the consumer's root axes of
    each of its logical axes, None where the consumer reads index 0 of it (broadcast or squeezed)
    or, of the first input of a gather, the index that the second one holds; for a scalar, the empty
    tuple.
    """

    op: OpDef
    inputs: tuple[Value, ...]
    attrs: tuple[tuple[str, Attr], ...] = ()
    axis_maps: tuple[tuple[int | None, ...], ...] = ()

    def attr(self, name: str) -> Attr:
        return dict(self.attrs)[name]

    @property
    def dim(self) -> int:
        """The attribute `dim`, which is one."""
        found = self.attr("dim")
        assert isinstance(found, int)
        return found

    def dims(self, name: str = "dims") -> tuple[int, ...]:
        """The attribute of that name, which lists dims."""
        found = self.attr(name)
        assert isinstance(found, tuple)
        return tuple(dim for dim in found if isinstance(dim, int))

    @cached_property
    def tensors(self) -> tuple[TensorView, ...]:
        """The tensor inputs, in order."""
        return tuple(v for v in self.inputs if isinstance(v, TensorView))


def is_zero(value: Value) -> bool:
    """True for the number 0 and for what is filled with it."""
    if not isinstance(value, TensorView):
        return is_constant(value, 0)
    return value.family is Family.FULL and is_zero(value.expr.inputs[0])

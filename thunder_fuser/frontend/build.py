"""Records to IR: replay each record in order and keep what every fid stands for.

    define_tensor([-1, 8]), mul(T0, T0), add_output(T1)    =>    fusion(T0: f32[i{i0}, i8]) {
                                                                   T1: f32[i{i0}, i8] = mul(T0, T0)
                                                                   return T1
                                                                 }

Symbolic extents are `i0, i1, ...`, numbered as the extents' fids are; scalar inputs are `S<fid>`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from thunder_fuser.analysis.placement import Sharding
from thunder_fuser.dtypes import DataType
from thunder_fuser.frontend import records
from thunder_fuser.frontend.arguments import InputSpec, ScalarSpec, TensorSpec
from thunder_fuser.frontend.composites import OPERATIONS
from thunder_fuser.frontend.constants import decode
from thunder_fuser.frontend.fids import Fids, FidValue, frozen, number_values
from thunder_fuser.frontend.leaf import Definition
from thunder_fuser.frontend.operations import Argument, tensor
from thunder_fuser.frontend.records import SCALAR, TENSOR, VECTOR, Arg, Record, Ref, Result
from thunder_fuser.frontend.sharding import placed, plan_on, sharding_on
from thunder_fuser.ir import build as ir
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.fusion import Fusion, Write
from thunder_fuser.ir.mesh import DeviceMesh
from thunder_fuser.ir.scalar import Scalar
from thunder_fuser.ir.tensor import Attr, TensorView, Value
from thunder_fuser.ir.text import print_type
from thunder_fuser.ops import Family, Kind, OpDef, op


def define(steps: Iterable[Record]) -> Definition:
    """The definition of complete records. Raises TypeError or ValueError for a bad one."""
    return Builder.replay(steps).finish()


class Builder:
    """Builds the IR of a definition record by record; `finish` closes it."""

    def __init__(self) -> None:
        self.states: dict[int, FidValue] = {}
        self.specs: list[InputSpec] = []
        self.draws: list[sc.Symbol] = []
        self._required: list[Scalar] = []
        self._inputs: list[int] = []
        self._outputs: list[tuple[int, tuple[int, ...] | None]] = []
        self._writes: dict[int, tuple[TensorView, int]] = {}  # target fid -> value, its fid
        self._mesh: DeviceMesh | None = None
        self._shardings: dict[int, Sharding] = {}  # by fid
        self._built: list[Value] = []
        self._extents = 0
        self._records: list[Record] = []
        self._results: list[tuple[Result, ...]] = []
        self._owners: list[tuple[TensorView, ...]] = []

    @property
    def length(self) -> int:
        """How many records it has stepped through."""
        return len(self._records)

    @staticmethod
    def replay(steps: Iterable[Record]) -> Builder:
        """A builder that has stepped through `steps`."""
        builder = Builder()
        for record in steps:
            builder.step(record)
        return builder

    def step(self, record: Record) -> tuple[Result, ...]:
        """Build one record. Raises TypeError or ValueError, leaving the builder as it was."""
        built, draws, required = len(self._built), len(self.draws), len(self._required)
        try:
            made = self._make(record)
        except (TypeError, ValueError):
            del self._built[built:], self.draws[draws:], self._required[required:]
            raise
        for value in made:
            self.states[len(self.states)] = value
        results = tuple(_result(value) for value in made)
        self._records.append(record)
        self._results.append(results)
        self._owners.append(_tensors(self._built[built:]))
        return results

    def _make(self, record: Record) -> tuple[FidValue, ...]:
        attrs = dict(record.attrs)
        match record.op:
            case records.DEFINE_TENSOR:
                return (self._define_tensor(attrs),)
            case records.DEFINE_SCALAR:
                return (self._define_scalar(attrs),)
            case records.DEFINE_VECTOR:
                return (tuple(self._integer(ref) for ref in _list(record.args[0])),)
            case records.ADD_OUTPUT:
                self._add_output(record)
                return ()
            case records.DEFINE_MESH:
                self._define_mesh(attrs)
                return ()
            case records.PLACE:
                self._place(record)
                return ()
            case _:
                return self._operation(record)

    def finish(self) -> Definition:
        """The fusion with its fids. Raises ValueError for a definition that computes nothing."""
        if not self._outputs and not self._writes:
            raise ValueError(
                "the definition has no output: call fd.add_output(tensor) before it closes"
            )
        outputs = tuple(self._output(fid, order) for fid, order in self._outputs)
        writes = tuple(
            Write(value, tensor(self._value(target))) for target, (value, _) in self._writes.items()
        )
        inputs = [self._value(fid) for fid in self._inputs]
        values, fid_of, extents = number_values(self.states, self._inputs, self._built)
        fids = Fids(
            inputs=tuple(self._inputs),
            draws=tuple(fid_of[symbol] for symbol in self.draws),
            outputs=tuple(fid for fid, _ in self._outputs),
            results=tuple(fid_of[value] for value in outputs),
            extents=extents,
            aliases=frozen({fid: target for target, (_, fid) in self._writes.items()}),
            values=values,
            fid_of=fid_of,
        )
        fusion = Fusion((*inputs, *self.draws), outputs, writes)
        shardings = {tensor(self._value(fid)): s for fid, s in self._shardings.items()}
        needed = {tv: s for tv, s in shardings.items() if tv in fusion.tensors}
        return Definition(
            tuple(self._records),
            tuple(self._results),
            fusion,
            fids,
            tuple(self.specs),
            tuple(self.draws),
            tuple(self._owners),
            self._mesh,
            plan_on(fusion, self._mesh, needed),
            tuple(self._required),
        )

    # What an operation may do while it builds (operations.Scope).

    def apply(self, row: OpDef, inputs: Sequence[Value], attrs: Mapping[str, Attr]) -> Value:
        """The value of a row; it is numbered as a hidden value if no record names it. Raises
        TypeError and ValueError for inputs that the row does not take."""
        scalars_only = not any(isinstance(v, TensorView) for v in inputs)
        if row.family is Family.POINTWISE and scalars_only and not row.host:
            raise TypeError(
                f"{row.name} has no meaning on scalars alone; an operand must be a Tensor"
            )
        made = ir.apply(row, inputs, attrs)
        self._built.append(made)
        return made

    def draw(self, name: str) -> Scalar:
        """A number that is drawn from torch's generator at every run: an input after the user's."""
        symbol = sc.symbol(f"{name}{len(self.draws)}")
        self.draws.append(symbol)
        self._built.append(symbol)
        return symbol

    def require_elements(self, extent: Scalar, what: str) -> None:
        """Ask that `extent` is not 0, of every run where it is not known. Raises ValueError."""
        if sc.is_constant(extent, 0):
            raise ValueError(f"{what} of extent 0 has no result")
        if not isinstance(extent, sc.Constant):
            self._required.append(extent)

    # One function per kind of record.

    def _define_tensor(self, attrs: Mapping[str, object]) -> TensorView:
        spec = TensorSpec(len(self.states), **attrs)  # type: ignore[arg-type]
        extents: list[int | Scalar] = []
        for position, size in enumerate(spec.shape):
            extents.append(sc.symbol(f"i{self._extents + position}") if size < 0 else size)
        made = ir.tensor(
            spec.dtype,
            *extents,
            stride_order=spec.stride_order,
            contiguity=spec.contiguity,
            is_cpu=spec.is_cpu,
        )
        self._extents += len(extents)
        self._inputs.append(spec.fid)
        self.specs.append(spec)
        return made

    def _define_scalar(self, attrs: Mapping[str, object]) -> Scalar:
        bits, dtype = attrs["value"], attrs["dtype"]
        assert isinstance(dtype, DataType)
        if bits is not None:
            return sc.constant(*decode(bits))  # type: ignore[arg-type]
        fid = len(self.states)
        self._inputs.append(fid)
        self.specs.append(ScalarSpec(fid, dtype))
        return sc.symbol(f"S{fid}", dtype)

    def _operation(self, record: Record) -> tuple[FidValue, ...]:
        operation = OPERATIONS[record.op]
        given: dict[str, Argument] = dict(record.attrs)  # type: ignore[arg-type]
        for param, arg in zip(operation.operands, record.args, strict=True):
            given[param.name] = self._argument(arg, param.kind)
        return operation.build(self, given)  # type: ignore[return-value]

    def _argument(self, arg: Arg, kind: Kind) -> Argument:
        if arg is None:
            return None
        if not isinstance(arg, Ref):
            return tuple(self._value(ref) for ref in arg)
        value = self.states[arg.fid]
        return (self._integer(arg),) if kind is Kind.EXTENT else value

    def _add_output(self, record: Record) -> None:
        (_, order), (source, target) = record.attrs[0], record.args
        assert isinstance(source, Ref)
        if target is None:
            self._outputs.append((source.fid, order))  # type: ignore[arg-type]
            return
        assert isinstance(target, Ref)
        value = self._writable(source, target)
        if value.definition is None:  # an input written into an input is copied first
            value = tensor(self.apply(op("set"), (value,), {}))
        self._writes[target.fid] = (value, source.fid)

    def _define_mesh(self, attrs: Mapping[str, object]) -> None:
        if self._mesh is not None:
            raise ValueError(f"the definition is on {self._mesh} already; it has one mesh")
        self._mesh = DeviceMesh(**attrs)  # type: ignore[arg-type]

    def _place(self, record: Record) -> None:
        """Write a sharding into the loop domain of a tensor that nothing has read."""
        ref, texts = record.args[0], dict(record.attrs)["placements"]
        assert isinstance(ref, Ref)
        assert isinstance(texts, tuple)
        old = tensor(self._value(ref))
        sharding = sharding_on(self._mesh, [str(text) for text in texts], old.ndim)
        if ref.fid in self._shardings:
            raise ValueError(f"{ref} is placed {self._shardings[ref.fid]} already; place it once")
        if any(source == ref.fid for _, source in self._writes.values()):
            raise ValueError(f"{ref} is written into an input already; place it before")
        new = placed(old, sharding, _tensors(self._built))
        self._shardings[ref.fid] = sharding
        self.states[ref.fid] = new
        self._built = [new if value is old else value for value in self._built]
        self._owners = [tuple(new if tv is old else tv for tv in made) for made in self._owners]

    def _writable(self, source: Ref, target: Ref) -> TensorView:
        """The value to write, once it is clear that `target` can take it."""
        value, into = tensor(self._value(source)), tensor(self._value(target))
        names = f"{source}: {print_type(value)} cannot be written into {target}: {print_type(into)}"
        if target.fid not in self._inputs:
            raise ValueError(f"{names}: only an input can be an alias, {target} is computed")
        if target.fid in self._writes:
            earlier = self._writes[target.fid][1]
            raise ValueError(f"{names}: {target} already takes {TENSOR}{earlier}")
        if value.dtype is not into.dtype:
            raise ValueError(f"{names}: dtypes differ")
        if into.is_cpu or value.is_cpu:
            raise ValueError(f"{names}: a CPU scalar takes no part in an alias")
        if any(a.is_broadcast and not a.is_unit for a in into.logical):
            raise ValueError(f"{names}: {target} is expanded, its elements share storage")
        if value.ndim != into.ndim or any(map(_differ, value.extents, into.extents)):
            raise ValueError(f"{names}: shapes differ")
        return value

    def _output(self, fid: int, order: tuple[int, ...] | None) -> TensorView:
        """The returned value of an output: the written one if it is aliased, else as laid out."""
        for value, source in self._writes.values():
            if source == fid:
                return value
        value = tensor(self._value(Ref(TENSOR, fid)))
        if order is None:
            return value
        return tensor(self.apply(op("stride_order"), (value,), {"stride_order": order}))

    def _value(self, fid: Ref | int) -> Value:
        value = self.states[fid.fid if isinstance(fid, Ref) else fid]
        assert not isinstance(value, tuple)
        return value

    def _integer(self, ref: Ref) -> Scalar:
        """What may be an extent. Raises TypeError for a scalar of another type."""
        value = self._value(ref)
        assert not isinstance(value, TensorView)
        if not value.dtype.is_integral:
            raise TypeError(f"{ref} has dtype {value.dtype}; an extent is an integer: {value}")
        return value


def _list(arg: Arg) -> tuple[Ref, ...]:
    assert arg is not None
    assert not isinstance(arg, Ref)
    return arg


def _tensors(values: Iterable[Value]) -> tuple[TensorView, ...]:
    return tuple(v for v in values if isinstance(v, TensorView))


def _differ(a: Scalar, b: Scalar) -> bool:
    """Two extents that are known to differ."""
    have, want = sc.static_int(a), sc.static_int(b)
    return have is not None and want is not None and have != want


def _result(value: FidValue) -> Result:
    if isinstance(value, TensorView):
        return Result(TENSOR, value.ndim)
    return Result(VECTOR, len(value)) if isinstance(value, tuple) else Result(SCALAR)

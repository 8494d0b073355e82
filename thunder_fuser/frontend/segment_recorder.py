"""Recording one segment: the parent's records where they lie whole inside it, IR rows elsewhere.

A scalar is a literal if it is constant, `size` if it is the extent of a tensor that the segment
reads, arithmetic on such if it is computed, and an input of the segment otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from thunder_fuser.frontend.bind import bind
from thunder_fuser.frontend.cache import FusionCache
from thunder_fuser.frontend.composites import OPERATIONS
from thunder_fuser.frontend.handles import Handle, Scalar, Tensor
from thunder_fuser.frontend.leaf import Leaf
from thunder_fuser.frontend.recorder import Recorder
from thunder_fuser.frontend.records import (
    ADD_OUTPUT,
    DEFINE_SCALAR,
    DEFINE_TENSOR,
    Arg,
    Record,
    Ref,
    refs,
)
from thunder_fuser.frontend.tensors import described_tensor
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.tensor import Attr, Expr, TensorView, Value
from thunder_fuser.ops import Kind


class SegmentRecorder:
    """Records one group of tensors of `parent`, producers first, as a definition of its own."""

    def __init__(self, parent: Leaf, group: Sequence[TensorView], cache: FusionCache) -> None:
        self._parent = parent
        self._group = tuple(group)
        self._recorder = Recorder(self, cache, max_length=2**31)
        self._owner = {
            tv: index
            for index, built in enumerate(parent.definition.owners)
            for tv in built
            if parent.records[index].op in OPERATIONS
        }
        self._first = list(accumulate(map(len, parent.definition.results), initial=0))
        self._handles: dict[Value, Handle] = {}
        self._to_parent: dict[int, int] = {}

    def record(self, outputs: Sequence[TensorView]) -> tuple[Leaf, dict[int, int]]:
        """The segment's leaf, and its inputs and outputs as fids of the parent."""
        self._define_inputs()
        for tv in self._group:
            if tv not in self._handles:
                self._compute(tv, outputs)
        for tv in outputs:
            handle = self._handles[tv]
            layout = (("stride_order", None),)
            self._recorder.append(Record(ADD_OUTPUT, layout, (handle.ref, None)))
            self._to_parent[handle.fid] = self._parent.fids.fid_of[tv]
        return self._recorder.finish(), self._to_parent

    # Inputs: the parent's in its order, produced tensors in theirs, extents -1, -2, ...

    def _define_inputs(self) -> None:
        read = self._read_tensors()
        symbols = {s for scalar in self._scalars() for s in self._unread(scalar, read)}
        fids, inputs = self._parent.fids, self._parent.fusion.inputs
        for value in inputs:
            if value in read or value in symbols:
                self._define_input(value)
        for tv in (tv for tv in self._parent.fusion.tensors if tv in read and tv not in inputs):
            self._define_input(tv)
        for symbol in sorted(
            (s for s in symbols if s not in inputs), key=lambda s: -fids.fid_of[s]
        ):
            self._define_input(symbol)

    def _define_input(self, value: Value) -> None:
        fid = self._parent.fids.fid_of[value]
        if not isinstance(value, TensorView):
            record = Record(DEFINE_SCALAR, (("value", None), ("dtype", value.dtype)))
        elif value.definition is None:
            record = self._input_record(fid)
        else:
            record = _produced(value)
        (handle,) = self._recorder.append(record)
        self._handles[value] = handle
        self._to_parent[handle.fid] = fid

    def _input_record(self, fid: int) -> Record:
        tensors = [r for r in self._parent.records if r.op == DEFINE_TENSOR]
        inputs = [f for f in self._parent.fids.inputs if self._is_tensor(f)]
        return tensors[inputs.index(fid)]

    def _is_tensor(self, fid: int) -> bool:
        return isinstance(self._parent.fids.values[fid], TensorView)

    def _read_tensors(self) -> set[TensorView]:
        inside = set(self._group)
        return {p for tv in self._group for p in tv.producers if p not in inside}

    def _scalars(self) -> Iterator[sc.Scalar]:
        """Every scalar that the group's expressions mention."""
        for tv in self._group:
            yield from (v for v in tv.expr.inputs if not isinstance(v, TensorView))
            for _, attr in tv.expr.attrs:
                yield from _scalars_of(attr)

    def _unread(self, scalar: sc.Scalar, read: set[TensorView]) -> Iterator[sc.Symbol]:
        """The symbols of `scalar` that no extent of a tensor that the segment reads gives."""
        if any(scalar is extent for tv in read for extent in tv.extents):
            return
        match scalar:
            case sc.Symbol():
                yield scalar
            case sc.ScalarExpr(args=args):
                for arg in args:
                    yield from self._unread(arg, read)

    # Computation.

    def _compute(self, tv: TensorView, outputs: Sequence[TensorView]) -> None:
        index = self._whole_record(tv, outputs)
        if index is None:
            self._handles[tv] = self._row(tv.expr)
            return
        handles = self._replay(self._parent.records[index])
        for fid, handle in zip(self._made(index), handles, strict=True):
            value = self._parent.fids.values[fid]
            if not isinstance(value, tuple):
                self._handles[value] = handle

    def _whole_record(self, tv: TensorView, outputs: Sequence[TensorView]) -> int | None:
        """The parent's record that made `tv`, if the group can repeat it as it is."""
        index = self._owner.get(tv)
        return index if index is not None and self._can_repeat(index, outputs) else None

    def _can_repeat(self, index: int, outputs: Sequence[TensorView]) -> bool:
        """The group holds all that the record built, and nobody else reads its hidden values; its
        operands are at hand, which a record may name without reading them (`rand_like`); and it
        draws no number, which would be another one here."""
        built = set(self._parent.definition.owners[index])
        hidden = built - {self._parent.fids.values[fid] for fid in self._made(index)}
        consumers = {c for h in hidden for c in self._parent.fusion.uses.get(h, ())}
        scalars = {v for tv in built if tv.definition is not None for v in tv.definition.inputs}
        return (
            built <= set(self._group)
            and consumers <= built
            and not hidden & set(outputs)
            and not scalars & set(self._parent.definition.draws)
            and all(self._is_at_hand(ref) for ref in refs(self._parent.records[index]))
        )

    def _is_at_hand(self, ref: Ref) -> bool:
        value = self._parent.fids.values[ref.fid]
        return not isinstance(value, TensorView) or value in self._handles

    def _made(self, index: int) -> range:
        """The fids of a record's results."""
        return range(self._first[index], self._first[index + 1])

    def _replay(self, record: Record) -> list[Tensor | Scalar | Handle]:
        operation = OPERATIONS[record.op]
        given: dict[str, object] = dict(record.attrs)
        for param, arg in zip(operation.operands, record.args, strict=True):
            given[param.name] = self._argument(arg)
        return [*self._recorder.append(bind(operation, (), given, self._recorder))]

    def _argument(self, arg: Arg) -> object:
        if arg is None:
            return None
        if not isinstance(arg, Ref):
            return [self._argument(ref) for ref in arg]
        value = self._parent.fids.values[arg.fid]
        return [self._value(v) for v in value] if isinstance(value, tuple) else self._value(value)

    def _row(self, expr: Expr) -> Handle:
        """Record one IR expression: a composite was cut, or the value has no record."""
        given: dict[str, object] = {name: self._attr(attr) for name, attr in expr.attrs}
        values = [self._value(v) for v in expr.inputs]
        for param in expr.op.params:
            if param.kind is Kind.TENSORS:
                given[param.name] = values
            elif param in expr.op.operands:
                given[param.name] = values.pop(0)
            elif param.kind is Kind.EXTENT:
                (given[param.name],) = given[param.name]  # type: ignore[misc]
        (handle,) = self._recorder.append(bind(OPERATIONS[expr.op.name], (), given, self._recorder))
        return handle

    def _attr(self, attr: Attr) -> object:
        if isinstance(attr, tuple):
            return [self._attr(entry) for entry in attr]
        if isinstance(attr, sc.Constant | sc.Symbol | sc.ScalarExpr):
            return self._value(attr)
        return attr

    def _value(self, value: Value) -> object:
        """A handle, or a number for a constant whose dtype is that of its Python type."""
        if value in self._handles:
            return self._handles[value]
        if isinstance(value, sc.Constant):
            if sc.python_dtype(value.value) is value.dtype:
                return value.value
            made: Handle = self._recorder.constant(value.value, value.dtype)
        else:
            assert not isinstance(value, TensorView)
            size = self._size(value)
            made = size if size is not None else self._arithmetic(value)
        self._handles[value] = made
        return made

    def _size(self, scalar: sc.Scalar) -> Handle | None:
        """`size` of a tensor of the segment that has this extent."""
        for value, handle in list(self._handles.items()):
            if isinstance(value, TensorView):
                for dim, extent in enumerate(value.extents):
                    if extent is scalar:
                        call = bind(OPERATIONS["size"], (handle, dim), {}, self._recorder)
                        return self._recorder.append(call)[0]
        return None

    def _arithmetic(self, scalar: sc.Scalar) -> Handle:
        assert isinstance(scalar, sc.ScalarExpr), f"{scalar} is no value of the segment"
        args, operation = [self._value(a) for a in scalar.args], OPERATIONS[scalar.op.name]
        asked = {p.name: scalar.dtype for p in operation.statics if p.kind is Kind.DTYPE}
        return self._recorder.append(bind(operation, args, asked, self._recorder))[0]


def _produced(tv: TensorView) -> Record:
    """A tensor that another segment returns: dense, in its allocation order."""
    sizes = [sc.static_int(extent) for extent in tv.extents]
    shape = [-1 if size is None else size for size in sizes]
    order = [tv.ndim - 1 - tv.domain.allocation.index(axis) for axis in tv.logical]
    return described_tensor(shape, True, tv.dtype, False, order)


def _scalars_of(attr: Attr) -> Iterator[sc.Scalar]:
    if isinstance(attr, tuple):
        for entry in attr:
            yield from _scalars_of(entry)
    elif isinstance(attr, sc.Constant | sc.Symbol | sc.ScalarExpr):
        yield attr

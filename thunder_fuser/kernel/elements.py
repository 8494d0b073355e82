"""Elements to lane statements: one value per demanded (tensor, index), equal expressions once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from math import prod

from thunder_fuser.analysis.access import Demand, Element, Index, Made, Source, demand
from thunder_fuser.analysis.digits import Form, Loaded, loads_in, named
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.analysis.known import ANYWHERE, Known, beside, tests_of
from thunder_fuser.analysis.layout import linear, offset_of
from thunder_fuser.analysis.reductions import terms_type
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.scalar import Constant, Scalar
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.kernel.statements import (
    Accuracy,
    Assign,
    Combine,
    Compute,
    Convert,
    Expression,
    IndexValue,
    LaneStatement,
    Literal,
    Operand,
    Random,
    ReadElement,
    Round,
    Select,
    Variable,
)
from thunder_fuser.kernel.vectors import Accesses
from thunder_fuser.ops import Cost, Family, op
from thunder_fuser.ops.definition import Operand as RuleOperand
from thunder_fuser.segment.segment import Segment


def _nowhere(window: Window) -> bool:
    return False


def _differs(value: Expression) -> bool:
    return False


class ElementWriter:
    """Collects the statements of one scope of a kernel; values are found by (tensor, index).

    `known` holds values of enclosing scopes: the results of reductions, `located` the variables of
    loaded indices there, `lasting` those of expressions that scopes before computed for all behind
    them. One that `speculates` reads what windows leave out, but where its accesses are left out
    with them. Wherever the kernel works, windows that `holds` knows hold, and digits are as
    `always`. What `repeats` knows is the same in all of a row.
    """

    def __init__(
        self,
        segment: Segment,
        tensors: Mapping[TensorView, str],
        scalars: Mapping[Scalar, str],
        accesses: Accesses,
        strict: bool,
        speculates: bool = True,
        holds: Callable[[Window], bool] = _nowhere,
        always: Known = ANYWHERE,
    ) -> None:
        self.segment, self.accesses = segment, accesses
        self.tensors, self.scalars, self.strict = tensors, scalars, strict
        self.speculates, self.holds, self.always = speculates, holds, always
        self.repeats: Callable[[Expression], bool] = _differs
        self.known: dict[Element, Operand] = {}
        self.located: dict[Loaded, str] = {}
        self.copies: dict[str, int] = {}
        self.zeros: dict[Operand, tuple[Window, ...]] = {}  # where one of these fails
        self.lasting: dict[tuple[Expression, DataType], Variable] = {}
        self.used: Mapping[Element, Known] = {}
        self.single: Set[TensorView] = frozenset()  # of which lanes read elements one by one
        self.begin()

    def begin(self) -> None:
        """Open a scope: nothing computed before is visible but what is `known` or `lasting`."""
        self.values: dict[Element, Operand] = dict(self.known)
        self.places: dict[Loaded, str] = dict(self.located)
        self.statements: list[LaneStatement] = []
        self.computed = dict(self.lasting)

    def locate(self, places: Iterable[Loaded]) -> tuple[LaneStatement, ...]:
        """Statements that load and check indices before the vectors that are read there."""
        inner = ElementWriter(
            self.segment,
            self.tensors,
            self.scalars,
            Accesses(self.segment.layouts, None, self.tensors, streams=None),
            self.strict,
            holds=self.holds,
        )
        inner.copies = self.copies
        for place in places:
            needs = demand([(place.tensor, place.index)], self.segment.leaves)
            inner.request(needs)
            inner.evaluate(needs)
            inner.place(place)
        self.located |= inner.places
        self.places |= inner.places
        return tuple(inner.statements)

    def request(self, needs: Demand, made: Iterable[Element] = ()) -> None:
        """Ask for the memory accesses that `evaluate` will use, when what is `made` is known. What
        is read at an index that is loaded lane by lane is no part of a vector."""
        self.used, self.single = needs.leaves if self.accesses.leaves_out else {}, frozenset()
        known = self.known.keys() | set(made)
        wanted = [k for k in needs.leaves if k not in known and self._is_located(k[1])]
        self.single = {tv for tv, index in wanted if self._differ(self._guards(tv, index))}
        for tv, index in wanted:
            self.accesses.request(tv, self._offset(tv, index), self._guards(tv, index))

    def evaluate(self, needs: Demand) -> None:
        """Statements for everything in `needs`; the requests have been grouped by now."""
        for tv, index in needs.leaves:
            if self._is_located(index):
                self._read(tv, index)
        for element in needs.elements.values():
            self.values[element.tensor, element.index] = self._element(element)

    def place(self, place: Loaded) -> None:
        """A variable with the index that `place` holds, checked."""
        if place not in self.places:
            tv, value = place.tensor, self._read(place.tensor, place.index)
            index = self._or_zero(tv, place.index, self.convert(tv, value, DataType.Int))
            if not _is_in_range(place) or isinstance(index, Literal):
                args = (index, Literal(place.extent, DataType.Int))
                check = Compute(op("in_range"), args, DataType.Int, Accuracy.NORMAL)
                index = self._assign(tv, DataType.Int, check)
            self.places[place] = index.name

    def _or_zero(self, tv: TensorView, index: Index, value: Operand) -> Operand:
        """`value`, or 0 where `tv` has no such element, which is in every range."""
        guards = self._guards(tv, index)
        zero = Literal(0, value.dtype)
        return self._assign(tv, value.dtype, Select(guards, value, zero)) if guards else value

    def _read(self, tv: TensorView, index: Index) -> Operand:
        """The value of an element; loaded now if it is one of memory."""
        known = self.values.get((tv, index))
        if known is not None:
            return known
        offset, guards = self._offset(tv, index), self._guards(tv, index)
        if self._is_located(index):
            read = self.accesses.read(tv, offset, guards)
        else:
            read = ReadElement(self.tensors[tv], offset, tv.dtype, guards)
        value = self._assign(tv, tv.dtype.compute_type, read)
        self.zeros[value] = self.accesses.zeros.get((tv, offset), ())
        self.values[tv, index] = value
        return value

    def _is_located(self, index: Index) -> bool:
        return all(place in self.located for place in loads_in(index))

    def _offset(self, tv: TensorView, index: Index) -> Form:
        return self._form(offset_of(self.segment.layouts[tv], index))

    def _form(self, form: Form) -> Form:
        """`form` with the variables of its loaded indices, each of which has its value by now."""
        for place in loads_in((form,)):
            self.place(place)
        return named(form, self.places)

    def _windows(self, windows: Iterable[Window]) -> tuple[Window, ...]:
        return tuple(Window(self._form(w.form), w.extent) for w in windows)

    def _guards(self, tv: TensorView, index: Index) -> tuple[Window, ...]:
        """The tests without which an element is not read: of digits, wherever nobody uses it, of
        those outside of a vector where lanes have it together; and those that keep a speculative
        read inside its tensor."""
        if not self.speculates:
            return ()
        known = self.used.get((tv, index), ANYWHERE)
        outside = {d: ends for d, ends in known.items() if not self.accesses.is_of_lanes(d)}
        guards = self._needed(tv, index, outside)
        if len(outside) == len(known):
            return guards
        offset = self._offset(tv, index)
        if self._differ(guards) or not self.accesses.is_vector(offset, tv in self.single):
            guards = self._needed(tv, index, known)
        return guards

    def _differ(self, guards: Iterable[Window]) -> bool:
        """True for tests that differ from lane to lane."""
        return any(self.accesses.lane in window.form.bases for window in guards)

    def _needed(self, tv: TensorView, index: Index, known: Known) -> tuple[Window, ...]:
        lane = self.accesses.lane  # a sum of which it is a part has a test of its own
        told = {d: ends for d, ends in known.items() if d.base is not lane}
        tests = (*tests_of(known), *beside(index, tv.shape, {**self.always, **told}))
        return self._windows(window for window in tests if not self.holds(window))

    def _element(self, element: Made) -> Operand:
        tv, expr = element.tensor, element.tensor.expr
        match expr.op.family:
            case Family.VIEW:
                return self._source(element.sources[0])
            case Family.PAD:
                return self._pad(element)
            case Family.CAT:
                return self._cat(element)
            case Family.GATHER:
                assert element.place is not None
                self.place(element.place)
                return self._source(element.sources[0])
            case Family.REDUCTION:
                terms = tuple(self._source(s) for s in element.sources)
                return self._reduce(tv, terms)
            case Family.FULL:
                return self._cast(tv, self._scalar(expr.inputs[0]))
            case Family.IOTA:
                return self._iota(element)
            case Family.RANDOM:
                return self._random(element)
            case _:
                return self._pointwise(element)

    def _source(self, source: Source) -> Operand:
        return self._read(source.producer, source.index)

    def _pointwise(self, element: Made) -> Operand:
        tv, expr = element.tensor, element.tensor.expr
        sources = iter(element.sources)
        args, kinds = [], []
        for value in expr.inputs:
            is_tensor = isinstance(value, TensorView)
            args.append(self._source(next(sources)) if is_tensor else self._scalar(value))
            kinds.append(RuleOperand(value.dtype, not is_tensor))
        if expr.op.cost is Cost.FREE:  # copies and casts: nothing but a conversion
            return self._cast(tv, self._stored(tv, args[0]))
        wanted = expr.op.operand_dtypes(kinds)
        ready = [self.convert(tv, a, t.compute_type) for a, t in zip(args, wanted, strict=True)]
        if expr.op.checks:
            ready[0] = self._or_zero(tv, element.index, ready[0])
        compute = Compute(expr.op, tuple(ready), tv.dtype, self._accuracy(tv))
        return self.rounded(tv, self._assign(tv, tv.dtype.compute_type, compute))

    def _accuracy(self, tv: TensorView) -> Accuracy:
        if self.strict or tv in self.segment.exact:
            return Accuracy.STRICT
        return Accuracy.FAST if tv in self.segment.fast else Accuracy.NORMAL

    def _reduce(self, tv: TensorView, terms: Sequence[Operand]) -> Operand:
        row, dtype = tv.expr.op, tv.dtype.compute_type
        taken = dtype if row.is_finished else terms_type(tv)
        ready = tuple(self.convert(tv, t, taken) for t in terms)
        combined = self._assign(tv, dtype, Combine(row, ready, dtype))
        return self.rounded(tv, combined)

    def _pad(self, element: Made) -> Operand:
        tv, expr = element.tensor, element.tensor.expr
        fill = self._cast(tv, self._scalar(expr.inputs[1]))
        if not element.sources:
            return fill
        (source,) = element.sources
        inside = self._cast(tv, self._source(source))
        guards, tests = self.zeros.get(inside, ()), self._windows(source.windows)
        if _is_zero(fill) and all(any(g.is_within(test) for g in guards) for test in tests):
            return inside
        return self._select(tv, source, fill)

    def _cat(self, element: Made) -> Operand:
        tv = element.tensor
        *guarded, last = element.sources
        value = self._cast(tv, self._source(last))
        for source in reversed(guarded):
            value = self._select(tv, source, value)
        return value

    def _select(self, tv: TensorView, source: Source, outside: Operand) -> Operand:
        inside = self._cast(tv, self._source(source))
        if not source.windows or inside == outside:  # one load may do for both
            return inside
        windows = self._windows(source.windows)
        return self._assign(tv, tv.dtype.compute_type, Select(windows, inside, outside))

    def _iota(self, element: Made) -> Operand:
        tv, expr = element.tensor, element.tensor.expr
        position = self._assign(
            tv, DataType.Int, IndexValue(self._form(element.index[0]), tv.shape[0])
        )
        start, step = (self._scalar(v) for v in expr.inputs)
        return self._cast(tv, self._affine(tv, position, start, step))

    def _affine(self, tv: TensorView, position: Operand, start: Operand, step: Operand) -> Operand:
        """`start + step * position`, in the type that start and step ask for."""
        dtype, exact = tv.dtype.compute_type, Accuracy.NORMAL
        ready = [self.convert(tv, v, dtype) for v in (start, step, position)]
        first, factor, value = ready
        if factor != Literal(1, dtype):
            value = self._assign(tv, dtype, Compute(op("mul"), (factor, value), dtype, exact))
        if first != Literal(0, dtype):
            value = self._assign(tv, dtype, Compute(op("add"), (first, value), dtype, exact))
        return value

    def _random(self, element: Made) -> Operand:
        tv, expr = element.tensor, element.tensor.expr
        args = tuple(self._scalar(v) for v in expr.inputs)
        position = self._form(linear(tv.shape, element.index))
        return self._assign(tv, tv.dtype.compute_type, Random(expr.op, args, position, tv.dtype))

    def _scalar(self, value: Value) -> Operand:
        assert not isinstance(value, TensorView)
        if isinstance(value, Constant):
            return Literal(value.value, value.dtype)
        return Variable(self.scalars[value], value.dtype)

    def _cast(self, tv: TensorView, value: Operand) -> Operand:
        """`value` as the type of `tv` in a register, rounded where every rounding is kept."""
        return self.rounded(tv, self.convert(tv, value, tv.dtype.compute_type))

    def _stored(self, tv: TensorView, value: Operand) -> Operand:
        """`value`, of which `tv` is a copy or cast, as memory holds it where a float of 8 bits is
        converted: a register has more, and a store alone would round that."""
        source = tv.expr.inputs[0]
        if not source.dtype.is_float8 or tv.dtype is source.dtype:
            return value
        if isinstance(source, TensorView) and self._is_leaf(source):
            return value
        return self._assign(tv, value.dtype, Round(value, source.dtype))

    def _is_leaf(self, tv: TensorView) -> bool:
        """True for a view or copy of what is read from memory."""
        while tv not in self.segment.leaves and len(tv.expr.tensors) == 1:
            (source,) = tv.expr.tensors
            if source.dtype is not tv.dtype:
                return False
            tv = source
        return tv in self.segment.leaves

    def rounded(self, tv: TensorView, value: Operand) -> Operand:
        """`value` with the precision that the trace gives `tv`, where that rounding is kept."""
        if rounding(tv, self.segment, self.strict) is None:
            return value
        return self._assign(tv, value.dtype, Round(value, tv.dtype))

    def convert(self, tv: TensorView, value: Operand, dtype: DataType) -> Operand:
        """`value` as a register of `dtype`, on behalf of `tv`."""
        if value.dtype is dtype:
            return value
        if isinstance(value, Literal) and (folded := _fold(value, dtype)) is not None:
            return folded
        return self._assign(tv, dtype, Convert(value, dtype))

    def _assign(self, tv: TensorView, dtype: DataType, value: Expression) -> Variable:
        """The variable that holds `value`; equal expressions are computed once."""
        known = self.computed.get((value, dtype))
        if known is not None:
            return known
        base = self.tensors[tv]
        count = self.copies.get(base, 0)
        self.copies[base] = count + 1
        variable = Variable(f"{base}_{count}", dtype, self.repeats(value))
        self.statements.append(Assign(variable, value))
        self.computed[value, dtype] = variable
        return variable


def rounding(tv: TensorView, segment: Segment, strict: bool) -> DataType | None:
    """The precision to which the trace rounds `tv`, where registers have more and that rounding is
    kept: `strict` keeps every one, a segment those of what is `rounded`."""
    is_kept = strict or tv in segment.rounded
    return tv.dtype if is_kept and tv.dtype.is_reduced_precision else None


def _is_zero(value: Operand) -> bool:
    """True for a zero whose bits are."""
    return isinstance(value, Literal) and str(value.value) in ("0", "0.0", "False")


def _is_in_range(place: Loaded) -> bool:
    """True where the op that made the index says so."""
    expr = place.tensor.definition
    return expr is not None and expr.op.is_permutation and prod(place.tensor.shape) <= place.extent


def _fold(literal: Literal, dtype: DataType) -> Literal | None:
    """A literal converted while compiling, where Python's conversion is C++'s."""
    value = literal.value
    if dtype.is_complex:
        return Literal(complex(value), dtype)
    if isinstance(value, complex):
        return None
    if dtype.is_floating:
        return Literal(float(value), dtype)
    if dtype is DataType.Bool:
        return Literal(bool(value), dtype)
    return Literal(int(value), dtype) if isinstance(value, int) else None

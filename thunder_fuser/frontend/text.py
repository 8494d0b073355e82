"""A definition as Python text that defines the same fusion.

    S1 = 8, S2 = 64, V3 = [S1, S2]
    T4 = reshape(T0, V3)              =>    T4 = fd.ops.reshape(T0, new_shape=[8, 64])

Literals that only their call reads are folded back into it, where writing them there takes the
same fids. Running the text gives equal records, so it is a hit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from thunder_fuser.dtypes import DataType
from thunder_fuser.frontend import records as rec
from thunder_fuser.frontend.composites import OPERATIONS
from thunder_fuser.frontend.constants import decode
from thunder_fuser.frontend.records import Arg, Record, Ref, Result, Static, refs
from thunder_fuser.ir.scalar import format_number, python_dtype
from thunder_fuser.ops import Kind

_NAMED = frozenset({Kind.SHAPE, Kind.TENSORS})  # lists read better with their name
INDENT = "    "


def print_definition(
    records: Sequence[Record], results: Sequence[Sequence[Result]], name: str
) -> str:
    """A function `name(fd)` that redefines the fusion."""
    lines = definition_lines(records, results) or [f"{INDENT}pass"]
    return "\n".join([f"def {name}(fd : FusionDefinition) -> None :", *lines])


def definition_lines(records: Sequence[Record], results: Sequence[Sequence[Result]]) -> list[str]:
    """One indented line per record that is not folded into the call that reads it."""
    return [f"{INDENT}{line}" for line in _Printer(records, results).lines()]


class _Printer:
    def __init__(self, records: Sequence[Record], results: Sequence[Sequence[Result]]) -> None:
        self.records = records
        self.made: list[list[Ref]] = []
        self.producer: dict[int, Record] = {}
        for record, kinds in zip(records, results, strict=True):
            first = len(self.producer)
            self.made.append([Ref(r.kind, first + k) for k, r in enumerate(kinds)])
            self.producer.update({ref.fid: record for ref in self.made[-1]})
        self.uses = Counter(ref.fid for record in records for ref in refs(record))
        self.folded: dict[int, str] = {}
        for record, made in zip(records, self.made, strict=True):
            if record.op in OPERATIONS and made:
                self._fold(record, made[0].fid - 1)

    def lines(self) -> list[str]:
        return [
            self._line(record, made)
            for record, made in zip(self.records, self.made, strict=True)
            if not (made and made[0].fid in self.folded)
        ]

    def _fold(self, record: Record, last: int) -> None:
        """Fold the literals of a call, which would have taken the fids up to `last`."""
        for arg in reversed(record.args):
            if not isinstance(arg, Ref) or arg.fid != last or self.uses[last] != 1:
                continue
            source = self.producer[last]
            if source.op == rec.DEFINE_VECTOR:
                last = self._fold_vector(source, last)
            elif (text := self._literal(source)) is not None:
                self.folded[last] = text
                last -= 1

    def _fold_vector(self, vector: Record, fid: int) -> int:
        """Fold a vector and its literal ints; the last fid before them."""
        last, texts = fid - 1, []
        for ref in reversed(refs(vector)):
            text = self._literal(self.producer[last], ints=True) if ref.fid == last else None
            if text is not None and self.uses[last] == 1:
                self.folded[last] = text
                last -= 1
            texts.append(self._name(ref))
        self.folded[fid] = f"[{', '.join(reversed(texts))}]"
        return last

    def _literal(self, record: Record, ints: bool = False) -> str | None:
        """The text of a constant whose dtype is the one its Python type implies."""
        bits = dict(record.attrs).get("value") if record.op == rec.DEFINE_SCALAR else None
        if bits is None:
            return None
        value, dtype = decode(bits)  # type: ignore[arg-type]
        if python_dtype(value) is not dtype or (ints and dtype is not DataType.Int):
            return None
        return format_number(value)

    def _name(self, ref: Ref) -> str:
        return self.folded.get(ref.fid, str(ref))

    def _line(self, record: Record, made: Sequence[Ref]) -> str:
        attrs = dict(record.attrs)
        names = ", ".join(map(str, made))
        match record.op:
            case rec.DEFINE_TENSOR:
                return f"{names} = fd.define_tensor({_keywords(attrs)})"
            case rec.DEFINE_SCALAR:
                return f"{names} = fd.define_scalar({_constant(attrs)})"
            case rec.DEFINE_VECTOR:
                elements = ", ".join(map(str, refs(record)))
                return f"{names} = fd.define_vector([{elements}], dtype={DataType.Int!r})"
            case rec.ADD_OUTPUT:
                return f"fd.add_output({self._output(record)})"
            case rec.DEFINE_MESH:
                given = {name: value for name, value in attrs.items() if value != ()}
                return f"fd.define_mesh({_keywords(given)})"
            case rec.PLACE:
                return f"fd.place({refs(record)[0]}, {_static(attrs['placements'])})"
        left = f"[{names}]" if OPERATIONS[record.op].returns_list else names
        return f"{left} = fd.ops.{record.op}({self._call(record)})"

    def _output(self, record: Record) -> str:
        source, target = record.args
        order = dict(record.attrs)["stride_order"]
        text = str(source)
        text += f", alias_input={target}" if target is not None else ""
        return text if order is None else f"{text}, stride_order={_static(order)}"

    def _call(self, record: Record) -> str:
        """Leading operands by position, the rest by name, what equals its default left out."""
        operation, attrs = OPERATIONS[record.op], dict(record.attrs)
        args = dict(zip((p.name for p in operation.operands), record.args, strict=True))
        parts: list[str] = []
        by_position = True
        for param in operation.params:
            is_operand = param.name in args
            is_named = param.keyword_only or param.kind in _NAMED
            by_position = by_position and is_operand and not is_named
            if is_operand:
                text = None if args[param.name] is None else self._argument(args[param.name])
            else:
                value = attrs[param.name]
                text = None if value == param.default else _static(value)
            if text is None:
                by_position = False
            else:
                parts.append(text if by_position else f"{param.name}={text}")
        return ", ".join(parts)

    def _argument(self, arg: Arg) -> str:
        if isinstance(arg, Ref):
            return self._name(arg)
        assert arg is not None
        return f"[{', '.join(map(str, arg))}]"


def _keywords(attrs: dict[str, Static]) -> str:
    return ", ".join(f"{name}={_static(value)}" for name, value in attrs.items())


def _constant(attrs: dict[str, Static]) -> str:
    bits = attrs["value"]
    value = "None" if bits is None else format_number(decode(bits)[0])  # type: ignore[arg-type]
    return f"{value}, dtype={attrs['dtype']!r}"


def _static(value: Static) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_static, value))}]"
    return repr(value)

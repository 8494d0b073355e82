"""Lane values as C++ expressions."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

from typing_extensions import assert_never

from thunder_fuser.analysis.digits import Form, divmod_form, in_multiples
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.codegen.types import COMPUTE_TYPES, CUDA_TYPES, INT_LIMIT
from thunder_fuser.dtypes import DataType, real_of
from thunder_fuser.ir.scalar import Number
from thunder_fuser.kernel.statements import (
    Accuracy,
    Combine,
    Compute,
    Convert,
    Expression,
    IndexValue,
    Literal,
    Operand,
    Random,
    ReadElement,
    ReadSquare,
    ReadVector,
    Round,
    Select,
    Variable,
)
from thunder_fuser.ops import OpDef
from thunder_fuser.schedule.slabs import SlabTile
from thunder_fuser.schedule.strips import Strip
from thunder_fuser.schedule.tiles import LateTile, Tile

FormText = Callable[[Form], str]
WindowText = Callable[[Sequence[Window]], str]
CHECKS = "checks"  # of the indices of all lanes of a vector


def expression(value: Expression, dtype: DataType, form: FormText, test: WindowText) -> str:
    """The C++ expression of `value` for a variable of `dtype`'s compute type."""
    text = _expression(value, dtype, form, test)
    is_read = isinstance(value, ReadVector | ReadElement | ReadSquare)
    return text if is_read or dtype is not DataType.Int8 else f"tf::in_8_bits({text})"


def _expression(value: Expression, dtype: DataType, form: FormText, test: WindowText) -> str:
    kind = COMPUTE_TYPES[dtype]
    match value:
        case Compute(op, args, stored, accuracy, by_lane):
            template = op.by_lane if by_lane else _template(op, args, kind, accuracy)
            names = {"t": kind, "s": CUDA_TYPES[stored], "checks": CHECKS}
            return template.format(*map(operand, args), **names)
        case Convert(arg):
            return f"tf::convert<{kind}>({operand(arg)})"
        case Round(arg, target):
            return round_text(operand(arg), target)
        case ReadVector(vector, weight, delta, stored):
            return _widen(f"{vector}.v[{lane_index(weight, delta)}]", stored)
        case ReadElement(pointer, offset, stored, windows):
            read = _widen(f"{pointer}[{form(offset)}]", stored)
            return f"{test(windows)} ? {read} : {kind}(0)" if windows else read
        case ReadSquare(square, tile, stored):
            return _widen(in_square(square, tile, form), stored)
        case IndexValue(index, extent):
            return _index(extent, form(index))
        case Random(op, args, place, stored):
            names = {"index": ", ".join(map(form, in_multiples(place, 4))), "s": CUDA_TYPES[stored]}
            return op.cuda.format(*map(operand, args), **names)
        case Select(windows, inside, outside):
            return f"{test(windows)} ? {operand(inside)} : {operand(outside)}"
        case Combine(op, terms):
            return _combine(op, [operand(t) for t in terms], kind)
        case _:
            assert_never(value)


_WRAPPING = frozenset({COMPUTE_TYPES[DataType.Int32], COMPUTE_TYPES[DataType.Int]})


def _template(op: OpDef, args: Sequence[Operand], kind: str, accuracy: Accuracy) -> str:
    if op.wraps and kind in _WRAPPING:
        return op.wraps
    by_number = kind == "float" and _is_moderate(args[-1])
    by_row = kind == "float" and _is_of_row(args[-1]) and not _is_of_row(args[0])
    match accuracy:
        case Accuracy.STRICT:
            found = op.strict
        case Accuracy.FAST:
            known = op.fast_from_one if _is_from_one(args[-1]) else op.fast_by_row
            found = op.fast_by_number if by_number else known if by_row else ""
            found = found or op.fast
        case Accuracy.NORMAL:
            found = op.by_number if by_number else op.by_row if by_row else ""
        case _:
            assert_never(accuracy)
    return found or op.cuda


def _is_of_row(value: Operand) -> bool:
    return isinstance(value, Variable) and value.of_row


def _is_from_one(value: Operand) -> bool:
    return isinstance(value, Variable) and value.is_from_one


def _is_moderate(value: Operand) -> bool:
    """True for a number whose reciprocal has all its digits in f32, and its error has them too."""
    if not isinstance(value, Literal) or isinstance(value.value, complex):
        return False
    return 2.0**-100 <= abs(float(value.value)) <= 2.0**100


def _index(extent: int, text: str) -> str:
    """64 bits wide; of an axis that 32 are enough for the upper ones are zero without an
    instruction, and two of its indices are compared in one."""
    return f"(long long)(unsigned){text}" if extent <= INT_LIMIT else f"(long long){text}"


def _combine(op: OpDef, terms: Sequence[str], kind: str) -> str:
    if not terms or op.step:
        terms = (op.identity.format(t=kind), *terms)
    total = terms[0]
    for term in terms[1:]:
        total = f"({(op.step or op.combine).format(total, term, t=kind)})"
    return op.finish.format(total, t=kind)


def _widen(element: str, stored: DataType) -> str:
    """An element in its compute type."""
    if stored.compute_type is stored:
        return element
    return f"tf::convert<{COMPUTE_TYPES[stored]}>({element})"


def lane_index(weight: int, delta: int) -> str:
    """`weight * lane + delta`."""
    scaled = "lane" if weight == 1 else f"{weight} * lane" if weight else ""
    if not scaled:
        return str(delta)
    return f"{scaled} + {delta}" if delta else scaled


def in_square(square: str, tile: Tile | Strip, form: FormText) -> str:
    """The element of a thread and lane in a square, or in a strip."""
    if isinstance(tile, LateTile):
        return f"{first_in_square(square, tile)}[below]"
    return f"{square}[{_place_in_square(tile, form)}]"


def first_in_square(square: str, tile: Tile) -> str:
    """Where a thread finds the first of its elements of a lane: the others are in the same row."""
    return f"{square}_rows[{'lane' if tile.lanes > 1 else '0'}]"


def _place_in_square(tile: Tile | Strip, form: FormText) -> str:
    if isinstance(tile, Strip):
        lane = lane_index(tile.lane_step if tile.axes.lanes > 1 else 0, 0)
        return f"own_place + {lane} + k * {tile.down}"
    lane = "lane" if tile.lanes > 1 else "0"
    if isinstance(tile, SlabTile):
        vector, sizes = "vector", f"{tile.pitch}, {tile.run}, {tile.down.size}"
        if tile.order is not None:
            vector, lane = map(form, divmod_form(tile.order, tile.run))
        elif tile.parts > 1:
            vector, part = f"vector / {tile.parts}", f"vector % {tile.parts}"
            lane = f"{tile.lanes} * ({part}) + {lane}"
        return f"tf::slab_element<{sizes}>({vector}, {lane}, row)"
    return f"tf::square_element<{tile.side}, {tile.lanes}>(vector, {lane}, row)"


def operand(value: Operand) -> str:
    """A negative literal in parentheses: after a minus it would be a decrement."""
    if not isinstance(value, Literal):
        return value.name
    text = literal(value.value, value.dtype)
    return f"({text})" if text.startswith("-") else text


def round_text(value: str, dtype: DataType) -> str:
    """A value with the precision of a type, in its own."""
    return f"tf::round_to<{CUDA_TYPES[dtype]}>({value})"


def literal(value: Number, dtype: DataType) -> str:
    """A C++ literal of `dtype`'s compute type that has exactly the value of the Python number."""
    kind = COMPUTE_TYPES[dtype]
    if dtype.is_complex:
        parts = complex(value)
        real = real_of(dtype)
        return f"{kind}({literal(parts.real, real)}, {literal(parts.imag, real)})"
    assert not isinstance(value, complex)
    if dtype is DataType.Bool:
        return "true" if value else "false"
    if dtype.is_integral:
        return _integer(int(value), kind)
    return _floating(float(value), kind)


def _integer(value: int, kind: str) -> str:
    if kind != "tf::i64":
        return f"{kind}({value})" if kind != "int" else str(value)
    return f"(-{-(value + 1)}ll - 1)" if value == -(2**63) else f"{value}ll"


def _floating(value: float, kind: str) -> str:
    if kind == "float":
        value = _nearest_float(value)
    if math.isnan(value):
        return f"tf::nan<{kind}>()"
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}tf::infinity<{kind}>()"
    text = repr(value)
    if "e" not in text and "." not in text:
        text += ".0"
    return f"{text}f" if kind == "float" else text


def _nearest_float(value: float) -> float:
    """`value` rounded to f32, so that its decimal text cannot be rounded a second way."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)

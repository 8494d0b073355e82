"""Compare the word that a random number is drawn from, not the number.

    T1: bf16[4096] = uniform(0, 1, [4096], seed, offset)
    T2: bool[4096] = lt(T1, 0.9)

    =>  T2: bool[4096] = drawn_within(first, count, [4096], seed, offset)

as a dropout does. Numbers grow with their words, but those of the last words, which would be 1, are
0: a number is below the bound where its word is one of `count` from `first` on, and then again from
0 on. That is two instructions an element in place of six, eight where numbers have 16 bits.
"""

from __future__ import annotations

import struct
from bisect import bisect_left

from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.scalar import Constant
from thunder_fuser.ir.tensor import Expr, TensorView, Value
from thunder_fuser.ops import OpDef

_WORDS = range(1 << 32)


def compare_words(fusion: Fusion) -> Fusion:
    """`fusion` with such comparisons of words."""
    return rewrite(fusion, _compare)


def _compare(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    match tv.expr.op.name, inputs:
        case "lt", (
            TensorView(
                dtype=DataType.BFloat16 | DataType.Half | DataType.Float,
                definition=Expr(
                    OpDef(name="uniform"),
                    (Constant(value=0), Constant(value=1), seed, offset),
                ) as drawn,
            ) as number,
            Constant(float() | int() as bound),
        ) if bound > 0:
            first, count = _words_below(min(bound, 2.0), number.dtype)  # none is above 1
            if count < len(_WORDS):
                key = (sc.constant(first), sc.constant(count), seed, offset)
                return call("drawn_within", *key, shape=drawn.attr("shape"))
    return None


def _words_below(bound: float, dtype: DataType) -> tuple[int, int]:
    """The first word of which `dtype` has a number below `bound`, above 0, counted from those that
    are 0 in place of 1, and how many follow each other."""
    rounded = _rounded(bound, DataType.Float)
    last = bisect_left(_WORDS, rounded, key=lambda word: _number(word, dtype))
    first = bisect_left(_WORDS, 1.0, key=lambda word: _number(word, dtype))
    return first, len(_WORDS) - first + min(last, first)


def _number(word: int, dtype: DataType) -> float:
    """In (0, 1], as `tf::philox_float` makes it: the sum is exact in f64, so it is rounded once."""
    number = _rounded(_rounded(word, DataType.Float) * 2.0**-32 + 2.0**-33, DataType.Float)
    return _rounded(number, dtype)


def _rounded(number: float, dtype: DataType) -> float:
    """To the nearest, to an even one of two."""
    if dtype is DataType.BFloat16:
        (bits,) = struct.unpack("<I", struct.pack("<f", number))
        bits += 0x7FFF + (bits >> 16 & 1)
        return float(*struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000)))
    form = "<e" if dtype is DataType.Half else "<f"
    return float(*struct.unpack(form, struct.pack(form, number)))

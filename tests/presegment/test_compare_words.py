"""A random number is below a bound where its word is: printed IR, and all words about both ends."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.devices import CPU
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.presegment import tidy
from thunder_fuser.presegment.compare_words import compare_words
from thunder_fuser.runtime import torch_ops
from thunder_fuser.runtime.dtypes import TORCH_DTYPES

BF16, F16, F32, F64 = DataType.BFloat16, DataType.Half, DataType.Float, DataType.Double


def dropout(
    dtype: DataType, bound: float, high: float = 1.0, op: str = "lt", bound_dtype: DataType = F64
) -> Fusion:
    numbers = [sc.constant(0.0), sc.constant(high), sc.constant(5), sc.constant(7)]
    drawn = call("uniform", *numbers, shape=(sc.constant(8),), dtype=dtype)
    return Fusion((), (call(op, drawn, sc.constant(bound, bound_dtype)),))


def test_a_number_is_compared_by_its_word() -> None:
    assert str(compare_words(dropout(F32, 0.5))) == dedent("""\
        fusion() {
          T0: bool[i8] = drawn_within(4294967168, 2147483712, 5, 7, shape=[8])
          return T0
        }""")
    fusion = dropout(BF16, 0.9)
    assert str(tidy(fusion)) == str(compare_words(fusion))


@pytest.mark.parametrize(
    "fusion",
    [
        dropout(F64, 0.5),  # drawn from two words
        dropout(F32, 0.5, high=2.0),
        dropout(F32, 0.0),  # of no word,
        dropout(F32, 1.0),  # or of all of them
        dropout(BF16, 0.999),
        dropout(F32, 0.5, op="gt"),
    ],
)
def test_other_comparisons_stay(fusion: Fusion) -> None:
    assert compare_words(fusion) is fusion


@pytest.mark.parametrize("dtype", [BF16, F16, F32])
@pytest.mark.parametrize("bound", [0.1, 0.5, 0.75, 0.9, 0.9990234375, 1e-9, 1 / 3])
def test_words_about_the_ends_are_those_of_numbers_below(
    dtype: DataType, bound: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = compare_words(dropout(dtype, bound)).outputs
    assert found.definition is not None
    if found.definition.op.name != "drawn_within":
        assert dtype is BF16
        assert bound == 0.9990234375
        return
    first, count = (v.value for v in found.definition.inputs[:2] if isinstance(v, sc.Constant))
    ends = [first, (first + count) % 2**32, 0]
    near = [torch.arange(end - 2000, end + 2000) % 2**32 for end in ends]
    words = torch.cat([*near, torch.randint(2**32, (4000,))])
    drawn = words.reshape(-1, 4).repeat_interleave(4, 0).unbind(1)
    monkeypatch.setattr(torch_ops, "philox", lambda *_: drawn)
    where = words.shape, 5, 7
    numbers = torch_ops.tf_philox_uniform(0.0, 1.0, *where, TORCH_DTYPES[dtype], CPU)
    rounded = torch.tensor(bound, dtype=torch.float32)
    wanted = numbers.float() < rounded
    assert torch.equal(torch_ops.tf_philox_within(int(first), int(count), *where, CPU), wanted)


def test_every_number_is_below_a_bound_that_no_float_is() -> None:
    attrs = {"shape": (sc.constant(64),), "dtype": DataType.Float}
    drawn = call("uniform", *map(sc.constant, (0.0, 1.0, 3, 0)), **attrs)
    whole = Fusion((), (call("lt", drawn, sc.constant(1e300)),))
    assert compare_words(whole) is whole

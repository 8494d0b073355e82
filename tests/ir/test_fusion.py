"""Fusions: order, uses, printed text, parts."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.programs import cat, chain, full, fusion, like, pad, permute, reshape, total
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call, replay, tensor
from thunder_fuser.ir.extract import extract
from thunder_fuser.ir.fusion import Fusion, Write, following
from thunder_fuser.ir.tensor import is_zero


def test_a_value_shows_itself_in_one_line() -> None:
    (a,) = like(torch.empty(4, 6))
    total_of = total(chain(a, "neg", "exp"), 0)
    assert repr(a) == "<f32[4, 6]>"
    assert repr(total_of) == "<f32[6] of sum>"
    assert "inputs=(<f32[4, 6] of exp>,)" in repr(total_of.definition)


def test_a_zero_is_a_number_or_what_is_filled_with_it() -> None:
    (a,) = like(torch.empty(4, 6))
    numbers = [sc.constant(n) for n in (0, 0.0, -0.0, 1, 0.5)]
    values = [*numbers, sc.symbol("n"), full(0.0, 4), full(2.0, 4), a, chain(full(0.0, 4), "exp")]
    assert list(map(is_zero, values)) == [True] * 3 + [False] * 3 + [True] + [False] * 3


def test_text_shows_every_kind_of_line() -> None:
    a, b = tensor(DataType.Float, 2, 3), tensor(DataType.BFloat16, 3, 1)
    n = sc.symbol("n", DataType.Double)
    summed = total(call("mul", a, n), 0)
    joined = cat(pad(summed, [1, 0]), full(2.0, 4), dim=0)
    wide = call("add", a, permute(b, 1, 0))
    program = Fusion((a, b, n), (joined, wide), (Write(chain(a, "neg"), a),))
    assert str(program) == dedent("""\
        fusion(T0: f32[i2, i3], T1: bf16[i3, b1], n: f64) {
          T2: f32[i2, i3] = mul(T0, n)
          T3: f32[r2, i3] = sum(T2, dims=[0])
          T4: f32[i4] = pad(T3, 0.0, pad_widths=[1, 0])
          T5: f32[i4] = full(2.0, shape=[4], dtype=f32)
          T6: f32[i8] = cat(T4, T5, dim=0)
          T7: bf16[b1, i3] = permute(T1, dims=[1, 0])
          T8: f32[i2, i3] = add(T0, T7)
          T9: f32[i2, i3] = neg(T0)
          T0 <- T9
          return T6, T8
        }""")


def test_a_chain_of_thousands_of_ops_is_no_problem() -> None:
    (a,) = like(torch.empty(4))
    program = fusion([a], chain(a, *["neg"] * 5000))
    assert len(program.tensors) == 5001
    assert str(program).endswith("return T5000\n}")


def test_uses_are_the_direct_consumers_in_order() -> None:
    (a,) = like(torch.empty(4))
    b = chain(a, "neg")
    c = call("mul", b, a)
    program = fusion([a], c)
    assert program.uses == {a: (b, c), b: (c,), c: ()}


def test_what_follows_from_a_tensor_is_found_in_one_pass() -> None:
    a, b = like(torch.empty(4), torch.empty(4))
    made, apart = call("neg", a), call("exp", b)
    behind, last = call("add", made, apart), call("mul", a, b)
    program = fusion([a, b], call("sin", behind), last)
    assert following([made, last], program.tensors) == {made, behind, program.outputs[0], last}


def test_a_part_computes_its_outputs_from_its_inputs() -> None:
    (a,) = like(torch.empty(2, 3))
    b = reshape(chain(a, "neg"), 6)
    c = chain(b, "abs")
    assert str(extract([b], [], [c], [(c, b)])) == dedent("""\
        fusion(T0: f32[i6]) {
          T1: f32[i6] = abs(T0)
          T0 <- T1
          return T1
        }""")


def test_replaying_with_other_sizes_checks_them() -> None:
    a, b = like(torch.empty(2, 3), torch.empty(2, 3))
    program = fusion([a, b], call("add", a, b))
    made, new = replay(program, lambda tv: tensor(tv.dtype, 5, 7), lambda s: s)
    assert made.outputs[0].shape == (5, 7)
    assert new[program.outputs[0]] is made.outputs[0]
    sizes = {a: (5, 7), b: (5, 8)}
    with pytest.raises(ValueError, match="7, 8"):
        replay(program, lambda tv: tensor(tv.dtype, *sizes[tv]), lambda s: s)


def test_a_write_of_another_shape_is_refused() -> None:
    a, b = like(torch.empty(2, 3), torch.empty(2, 3))
    program = fusion([a, b], writes=[(chain(a, "neg"), b)])
    sizes = {a: (5, 7), b: (5, 8)}
    with pytest.raises(ValueError, match=r"\[5, 7\] cannot be written into shape \[5, 8\]"):
        replay(program, lambda tv: tensor(tv.dtype, *sizes[tv]), lambda s: s)


def test_an_operand_of_a_foreign_type_is_refused() -> None:
    (a,) = like(torch.empty(4, dtype=torch.float32))
    with pytest.raises(TypeError, match=r"bitwise_and: operand 0 has dtype f32; it takes .*bool"):
        call("bitwise_and", a, a)

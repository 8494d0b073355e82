"""One bottom-up rewrite: what changed is new, what did not is the same object."""

from __future__ import annotations

from textwrap import dedent

from tests.programs import chain
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion, Write
from thunder_fuser.ir.rewrite import lying, rewrite
from thunder_fuser.ir.tensor import TensorView, Value


def negation_twice(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    """neg(neg(x)) => x, seen from the outer one, whose input is rewritten already."""
    match tv.definition, inputs:
        case (outer, (TensorView(definition=inner),)) if outer and inner:
            if outer.op.name == inner.op.name == "neg":
                return inner.tensors[0]
    return None


def test_a_fusion_that_no_rule_touches_is_the_same_fusion() -> None:
    x = tensor(DataType.Float, 4)
    program = Fusion((x,), (chain(x, "neg", "exp"),))
    assert rewrite(program, negation_twice) is program


def test_a_rule_sees_rewritten_inputs() -> None:
    """Of four negations in a row none is left: the third is the first again."""
    x = tensor(DataType.Float, 4)
    program = Fusion((x,), (chain(x, "neg", "neg", "neg", "neg", "exp"),))
    assert str(rewrite(program, negation_twice)) == dedent("""\
        fusion(T0: f32[i4]) {
          T1: f32[i4] = exp(T0)
          return T1
        }""")


def test_what_does_not_depend_on_a_change_is_shared() -> None:
    x = tensor(DataType.Float, 4)
    kept = chain(x, "exp")
    program = Fusion((x,), (kept, chain(x, "neg", "neg", "abs")))
    made = rewrite(program, negation_twice)
    assert made.outputs[0] is kept
    assert made.outputs[1] is not program.outputs[1]


def test_attributes_and_writes_go_along_and_targets_stay() -> None:
    x = tensor(DataType.Float, 4, 6)
    summed = call("sum", chain(x, "neg", "neg"), dims=(1,))
    made = rewrite(
        Fusion((x,), (summed,), (Write(chain(x, "neg", "neg", "exp"), x),)), negation_twice
    )
    assert made.writes[0].target is x
    assert str(made) == dedent("""\
        fusion(T0: f32[i4, i6]) {
          T1: f32[i4, r6] = sum(T0, dims=[1])
          T2: f32[i4, i6] = exp(T0)
          T0 <- T2
          return T1
        }""")


def test_what_is_made_anew_lies_in_memory_as_before() -> None:
    x = tensor(DataType.Float, 4, 6)
    turned = lying(chain(x, "neg", "neg", "abs"), (1, 0))
    (made,) = rewrite(Fusion((x,), (turned,)), negation_twice).outputs
    assert made is not turned
    assert [made.logical.index(a) for a in made.domain.allocation] == [1, 0]

"""Scopes in a form for operands near zero."""

from __future__ import annotations

import pytest

from tests.kernel.test_rows import along, kernel_of
from tests.programs import chain, total
from tests.schedule.segments import floats, halves, segment_of
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.scalar import constant
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.near import FARTHEST, Near, near_of
from thunder_fuser.kernel.scopes import Scope, print_pairs
from thunder_fuser.kernel.statements import Assign, Compute, print_statement

F32 = DataType.Float


def first_scope(x: TensorView, term: TensorView) -> tuple[Scope, Near | None]:
    """Of the kernel that sums terms of x, in no fast form, and where operands are near zero."""
    kernel = kernel_of(segment_of([x], total(term, 1)))
    scope = kernel.phases[0].scope
    return scope, near_of(scope, kernel.kept, kernel.lanes)


def functions(scope: Scope) -> list[str]:
    """The text of all that a scope computes."""
    made = (s.value for s in scope.statements if isinstance(s, Assign))
    return [value.op.cuda for value in made if isinstance(value, Compute)]


def test_an_exact_function_has_a_shorter_form_and_a_test() -> None:
    x = floats(100, 4096)
    scope, found = first_scope(x, chain(x, "neg", "tanh", "neg"))
    assert found is not None
    assert (found.within, found.reach) == (0.6, FARTHEST)
    assert functions(found.scope) == ["-{0}", "tf::near_tanh({0})", "-{0}"]
    assert functions(found.tests) == ["-{0}", "tf::abs({0})"]
    assert functions(scope) == ["-{0}", "tf::tanh({0})", "-{0}"]


def test_the_farthest_element_alone_is_scaled_and_found_in_pairs() -> None:
    x = halves(100, 4096)
    wide = call(
        "div", call("mul", constant(0.5, F32), call("cast", x, dtype=F32)), constant(30.0, F32)
    )
    _, found = first_scope(x, chain(wide, "tanh"))
    assert found is not None
    assert [print_pairs(p) for p in found.pairs] == ["farthest in pairs of sizes of v0[k]"]
    assert found.tests.statements == ()
    assert [print_statement(s, {}) for s in found.scaled] == [
        "farthest_0: f32 = mul(0.5, farthest)",
        "farthest_1: f32 = div(farthest_0, 30.0)",
    ]


@pytest.mark.parametrize("number", [-0.1, 2.0**-30])
def test_what_turns_signs_or_may_be_zero_is_done_for_all_elements(number: float) -> None:
    x = floats(100, 4096)
    _, found = first_scope(x, chain(call("mul", x, constant(number, F32)), "tanh"))
    assert found is not None
    assert functions(found.tests) == ["{0} * {1}", "tf::abs({0})"]


@pytest.mark.parametrize("names", [("exp",), ("tanh", "tanh")])
def test_others_and_several_have_one_form(names: tuple[str, ...]) -> None:
    x = floats(100, 4096)
    assert first_scope(x, chain(x, *names))[1] is None


def test_a_fast_function_has_one_form() -> None:
    """As that of what is stored in 16 bits, where there is nothing else to gain."""
    x = halves(100, 4096)
    made = chain(x, "tanh")
    kernel = kernel_of(segment_of([x], call("sub", made, along(total(made, 1), 4096))))
    assert kernel.final.stores
    assert near_of(kernel.final, kernel.kept, kernel.lanes) is None

"""Scopes in a form for operands near zero."""

from __future__ import annotations

import pytest

from tests.kernel.test_rows import along, kernel_of
from tests.programs import chain, total
from tests.schedule.segments import floats, halves, segment_of
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.near import near_of
from thunder_fuser.kernel.row_ir import Scope
from thunder_fuser.kernel.statements import Assign, Compute


def first_scope(x: TensorView, term: TensorView) -> Scope:
    """Of the kernel that sums terms of x, in no fast form."""
    return kernel_of(segment_of([x], total(term, 1))).phases[0].scope


def functions(scope: Scope) -> list[str]:
    """The text of all that a scope computes."""
    made = (s.value for s in scope.statements if isinstance(s, Assign))
    return [value.op.cuda for value in made if isinstance(value, Compute)]


def test_an_exact_function_has_a_shorter_form_and_a_test() -> None:
    x = floats(100, 4096)
    scope = first_scope(x, chain(x, "neg", "tanh", "neg"))
    found = near_of(scope)
    assert found is not None
    assert found.within == 0.6
    assert functions(found.scope) == ["-{0}", "tf::near_tanh({0})", "-{0}"]
    assert functions(found.tests) == ["-{0}", "tf::abs({0})"]
    assert functions(scope) == ["-{0}", "tf::tanh({0})", "-{0}"]


@pytest.mark.parametrize("names", [("exp",), ("tanh", "tanh")])
def test_others_and_several_have_one_form(names: tuple[str, ...]) -> None:
    x = floats(100, 4096)
    assert near_of(first_scope(x, chain(x, *names))) is None


def test_a_fast_function_has_one_form() -> None:
    """As that of what is stored in 16 bits, where there is nothing else to gain."""
    x = halves(100, 4096)
    made = chain(x, "tanh")
    kernel = kernel_of(segment_of([x], call("sub", made, along(total(made, 1), 4096))))
    assert kernel.final.stores
    assert near_of(kernel.final) is None

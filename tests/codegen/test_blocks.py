"""Blocks of C++ statements, as text."""

from __future__ import annotations

from textwrap import dedent

from thunder_fuser.codegen.blocks import (
    by_first_thread,
    each,
    function,
    otherwise,
    per_element,
    when,
)


def text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def test_directives_stay_at_the_edge_of_nested_blocks() -> None:
    loop = when(["a", "b"], each("k", 4, ["f(k);"]))
    assert text(loop) == dedent("""\
        if (a && b) {
        #pragma unroll
          for (int k = 0; k < 4; ++k) {
            f(k);
          }
        }
        """)


def test_without_a_test_all_is_done_and_nothing_needs_no_test() -> None:
    assert when([], ["f();"]) == ["f();"]
    assert when(["a"], []) == by_first_thread([]) == each("k", 4, []) == []


def test_what_else_is_done_may_have_a_test_too() -> None:
    tested = when(["a"], ["f();"])
    assert text(otherwise(tested, ["g();"])) == "if (a) {\n  f();\n} else {\n  g();\n}\n"
    assert (
        text(otherwise(tested, ["g();"], "b")) == "if (a) {\n  f();\n} else if (b) {\n  g();\n}\n"
    )


def test_elements_of_several_vectors() -> None:
    assert text(per_element("x[k][lane] = 0;", 2, 8)) == dedent("""\
        #pragma unroll
        for (int k = 0; k < 2; ++k)
        #pragma unroll
          for (int lane = 0; lane < 8; ++lane) x[k][lane] = 0;
        """)


def test_a_function_ends_with_a_semicolon() -> None:
    made = function("send", ["const int turn"], ["f(turn);"])
    assert made == ["const auto send = [&](const int turn) {", "  f(turn);", "};"]

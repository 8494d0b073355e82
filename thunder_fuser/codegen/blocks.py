"""C++ statements in braces: behind a test, in a loop, in a function of the kernel."""

from __future__ import annotations

from collections.abc import Sequence


def indent(lines: Sequence[str]) -> list[str]:
    """The lines of a block; directives of the preprocessor stay where they are."""
    return [f"  {line}" if not line.startswith("#") else line for line in lines]


def block(head: str, lines: Sequence[str]) -> list[str]:
    """Statements behind a head, such as that of a loop that is as long as it turns out to be."""
    return [f"{head} {{", *indent(lines), "}"]


def otherwise(tested: Sequence[str], lines: Sequence[str], test: str = "") -> list[str]:
    """What is done where the test of a block does not hold, or where another one does."""
    return [*tested[:-1], *block(f"}} else if ({test})" if test else "} else", lines)]


def enclosed(lines: Sequence[str]) -> list[str]:
    """Statements whose names no others see."""
    return ["{", *indent(lines), "}"]


def when(tests: Sequence[str], lines: Sequence[str]) -> list[str]:
    """What is done where all tests hold: always, if there are none."""
    return block(f"if ({' && '.join(tests)})", lines) if tests and lines else list(lines)


def by_first_thread(lines: Sequence[str]) -> list[str]:
    """What one thread of the block does."""
    return when(["threadIdx.x == 0"], lines)


def unrolled(head: str, lines: Sequence[str], turns: int | None = None) -> list[str]:
    """A loop of which the compiler has all turns in a row, or so many of them."""
    pragma = "#pragma unroll" if turns is None else f"#pragma unroll {turns}"
    return [pragma, *block(head, lines)]


def each(name: str, count: int, lines: Sequence[str]) -> list[str]:
    """The statements for each value of a counter, unrolled; nothing for none."""
    head = f"for (int {name} = 0; {name} < {count}; ++{name})"
    return unrolled(head, lines) if lines else []


def per_lane(statement: str, lanes: int) -> list[str]:
    """A statement for each lane of a vector, unrolled."""
    return ["#pragma unroll", f"for (int lane = 0; lane < {lanes}; ++lane) {statement}"]


def per_element(statement: str, vectors: int, lanes: int) -> list[str]:
    """A statement for each lane of so many vectors of a thread, unrolled."""
    head, (pragma, inner) = f"for (int k = 0; k < {vectors}; ++k)", per_lane(statement, lanes)
    return ["#pragma unroll", head, pragma, f"  {inner}"]


def function(name: str, parameters: Sequence[str], lines: Sequence[str]) -> list[str]:
    """A function inside of the kernel, which has the names of the place where it stands."""
    head, *body = block(f"const auto {name} = [&]({', '.join(parameters)})", lines)
    return [head, *body[:-1], "};"]

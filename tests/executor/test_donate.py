"""Results in the memory of products of matrices that nothing reads again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.executor.jitted import check, jit
from thunder_fuser.executor import donate
from thunder_fuser.executor.explain import regions_of

ROWS, INNER, COLUMNS = 13, 7, 37

pytestmark = pytest.mark.usefixtures("device", "any_size")


@pytest.fixture
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(donate, "LEAST_BYTES", 0)


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape) / 4


def over(jfn: Callable[..., object]) -> int:
    """How many results of the last call were written over an argument."""
    regions = regions_of(jfn)
    return sum(len(fd.leaf.program.fusion.writes) for r in regions for fd in r.definitions)


def cap(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x @ w / 30) * 30


def test_capped_logits_take_the_memory_of_the_logits() -> None:
    jfn = check(cap, draw(ROWS, INNER), draw(INNER, COLUMNS))
    assert over(jfn) == 1


@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (3, 17, 5)])
def test_values_of_other_shapes(shape: tuple[int, ...]) -> None:
    jfn = check(cap, draw(*shape), draw(shape[-1], COLUMNS))
    assert over(jfn) == 1


def test_a_bias_may_be_added() -> None:
    def program(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.sin(torch.nn.functional.linear(x, w) + b)

    assert over(check(program, draw(ROWS, INNER), draw(COLUMNS, INNER), draw(COLUMNS))) == 1


def test_the_smallest_size_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(donate, "LEAST_BYTES", ROWS * COLUMNS * 4 + 1)
    assert over(check(cap, draw(ROWS, INNER), draw(INNER, COLUMNS))) == 0


def test_what_the_backward_reads_stays() -> None:
    x, w = (draw(*s).requires_grad_() for s in ((ROWS, INNER), (INNER, COLUMNS)))
    assert over(check(cap, x, w)) == 0


def test_the_backward_may_run_twice() -> None:
    x, w = (draw(*s).requires_grad_() for s in ((ROWS, INNER), (INNER, COLUMNS)))
    y = jit(cap)(x, w)
    seed = torch.randn_like(y)
    first = torch.autograd.grad(y, (x, w), seed, retain_graph=True)
    second = torch.autograd.grad(y, (x, w), seed)
    assert all(map(torch.equal, first, second))


def test_what_is_returned_stays() -> None:
    def program(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x @ w
        return y, torch.sin(y)

    assert over(check(program, draw(ROWS, INNER), draw(INNER, COLUMNS))) == 0


def test_what_a_view_of_it_reads_later_stays() -> None:
    def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x @ w
        return torch.sin(y) @ y.transpose(0, 1)

    assert over(check(program, draw(ROWS, INNER), draw(INNER, COLUMNS))) == 0


def test_an_argument_stays() -> None:
    x = draw(ROWS, COLUMNS)
    kept = x.clone()
    assert over(check(lambda x: torch.sin(x) + 1, x)) == 0
    assert torch.equal(x, kept)


@pytest.mark.parametrize(
    "read",
    [
        lambda y: torch.softmax(y, -1),
        lambda y: torch.sin(y).transpose(0, 1),
        lambda y: y + y.flip(0),
        lambda y: torch.sin(y).to(torch.bfloat16),
        lambda y: y - y.amax(0),
        lambda y: torch.cat([y[1:], y[:1]]),
    ],
)
def test_what_is_read_at_other_places_stays(
    read: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    jfn = check(lambda x, w: read(x @ w), draw(ROWS, INNER), draw(INNER, COLUMNS))
    assert over(jfn) == 0


def test_every_output_has_storage_of_its_own_where_that_is_asked_for() -> None:
    jfn = check(cap, draw(ROWS, INNER), draw(INNER, COLUMNS), fuser_alias="copy")
    assert over(jfn) == 0


@pytest.mark.parametrize("least", [0, 1 << 30])
def test_kernels_write_over_what_they_read(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(donate, "LEAST_BYTES", least)
    jfn = check(cap, draw(ROWS, INNER), draw(INNER, COLUMNS), fuser_evaluator=False)
    assert over(jfn) == (not least)
    (region,) = regions_of(jfn)
    (plan,) = region.definitions[0].leaf.program.plans
    assert ("= empty" in plan.text) == (least > 0)

"""What the forward keeps for the backward, and what fusions compute again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import pytest
import torch
import torch.nn.functional as F

from tests.executor.jitted import check, jit, regions, saved
from tests.executor.test_norms import rmsnorm
from thunder_fuser.executor.remat_cut import find_cut

ROWS, COLUMNS = 57, 131
WIDE = ROWS * COLUMNS * 4  # bytes of one f32 activation
PER_ROW, PER_COLUMN = ROWS * 4, COLUMNS * 4


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


@pytest.mark.usefixtures("device")
def test_gelu_of_a_biased_tensor_saves_its_inputs_and_not_their_sum() -> None:
    def program(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return F.gelu(x + b, approximate="tanh")

    jfn = check(program, draw(ROWS, COLUMNS), draw(COLUMNS))
    assert saved(jfn) == {"x": WIDE, "b": PER_COLUMN}


@pytest.mark.usefixtures("device")
def test_swiglu_saves_its_inputs() -> None:
    jfn = check(lambda a, b: F.silu(a) * b, draw(ROWS, COLUMNS), draw(ROWS, COLUMNS))
    assert saved(jfn) == {"a": WIDE, "b": WIDE}


@pytest.mark.usefixtures("device")
def test_what_was_not_a_number_is_found_again() -> None:
    """Thunder's clamp passes NaN on by a mask of its own."""
    jfn = check(lambda x: F.hardswish(4 * x), draw(ROWS, COLUMNS))
    assert saved(jfn) == {"x": WIDE}


@pytest.mark.usefixtures("device")
def test_rmsnorm_saves_one_number_per_row_beside_its_inputs() -> None:
    jfn = check(rmsnorm, draw(ROWS, COLUMNS), draw(COLUMNS))
    kept = saved(jfn)
    assert (kept.pop("x"), kept.pop("w")) == (WIDE, PER_COLUMN)
    assert list(kept.values()) == [PER_ROW]


@pytest.mark.usefixtures("device")
def test_layer_norm_saves_two_numbers_per_row_beside_its_inputs() -> None:
    def program(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (COLUMNS,), w, b)

    kept = saved(check(program, draw(ROWS, COLUMNS), draw(COLUMNS), draw(COLUMNS)))
    assert (kept.pop("x"), kept.pop("w")) == (WIDE, PER_COLUMN)
    assert list(kept.values()) == [PER_ROW, PER_ROW]


@pytest.mark.usefixtures("device")
def test_of_a_softmax_and_its_logarithm_a_maximum_and_a_sum_are_saved() -> None:
    """The backward takes the logarithm of the sum again, and computes one share of each."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1).pow(3).sum() + torch.log_softmax(x, -1).pow(3).sum()

    kept = saved(check(program, draw(ROWS, COLUMNS)))
    assert kept.pop("x") == WIDE
    assert list(kept.values()) == [PER_ROW, PER_ROW]


def entropy(x: torch.Tensor) -> torch.Tensor:
    given = torch.log_softmax(x, -1)
    return -(given.exp() * given).sum(-1)


def scaled_by_sums(x: torch.Tensor) -> torch.Tensor:
    """Of the first dim, whose elements no thread has side by side."""
    return x * (x * x).sum(0, keepdim=True)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    ("program", "shape", "names"),
    [
        (entropy, (64, 9), {"x"}),
        (entropy, (64, 20), {"x"}),
        (lambda x: F.layer_norm(x, x.shape[-1:]), (64, 20), {"x"}),
        (
            lambda x: torch.logsumexp(x, -1),
            (64, 20),
            {"x", "the result"},
        ),  # no row is reduced again
        (scaled_by_sums, (20, 64), {"x", "sums"}),
    ],
)
def test_of_short_rows_that_the_backward_reduces_too_no_sum_is_saved(
    program: Callable[[torch.Tensor], torch.Tensor], shape: tuple[int, ...], names: set[str]
) -> None:
    assert len(saved(check(program, draw(*shape)))) == len(names)


@pytest.mark.usefixtures("device")
def test_a_sum_that_is_returned_anyway_is_saved_instead_of_its_terms() -> None:
    def program(
        x: torch.Tensor, r: torch.Tensor, w: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        h = x + r
        return h, rmsnorm(h, w)

    kept = saved(check(program, draw(ROWS, COLUMNS), draw(ROWS, COLUMNS), draw(COLUMNS)))
    assert kept.pop("w") == PER_COLUMN
    assert sorted(kept.values()) == [PER_ROW, WIDE]
    assert kept.keys().isdisjoint({"x", "r"})


@pytest.mark.usefixtures("device")
def test_a_mask_that_was_filled_in_place_before_is_saved_instead_of_what_it_was_added_to() -> None:
    def program(x: torch.Tensor, w: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        mask.masked_fill_(mask > 0, -1e4)
        y = x @ w
        return y * (50 * torch.tanh(y / 50) + mask).softmax(-1)

    jfn = check(program, draw(3, ROWS, 1), draw(1, COLUMNS), torch.randn(ROWS, COLUMNS))
    per_row, mask, y = 3 * PER_ROW, WIDE, 3 * WIDE
    assert sorted(saved(jfn).values())[-4:] == [per_row, per_row, mask, y]


@pytest.mark.usefixtures("device")
def test_what_is_written_after_it_was_handed_over_is_not_computed_again() -> None:
    def program(
        x: torch.Tensor, w: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        scale = torch.exp(state)
        y = (x * scale) @ w
        state.add_(1)
        return (y @ w) * scale, state * 2

    args = (torch.randn(ROWS, 5), torch.randn(5, 5) / 5, torch.randn(5) / 8)
    check(program, *args)


@pytest.mark.usefixtures("device")
def test_a_long_reduction_is_not_computed_again_in_the_backward() -> None:
    def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x * x).sum(-1, keepdim=True) * x * w

    # Small, so that the sums stay near 1 and the order of their terms matters little.
    args = [(torch.randn(ROWS, COLUMNS) / 8).requires_grad_() for _ in range(2)]
    jfn = check(program, *args)
    assert sorted(saved(jfn).values()) == [PER_ROW, WIDE, WIDE]
    assert sum(region.count("sum") for region in regions(jfn).forward) == 1
    assert sum(region.count("sum") for region in regions(jfn).backward) == 1


@pytest.mark.usefixtures("device")
def test_a_value_passes_through_several_fusions_from_the_input() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        wide = x.double() * 2
        first = torch.cumprod(wide.float(), 0)
        second = torch.cumprod((wide + first).float(), 0)
        return (wide - second) * y

    x = torch.exp2(torch.randint(-3, 4, (3, 5)).float())  # products of f32 are exact everywhere
    jfn = check(program, x, torch.randn(3, 5))
    assert [region.count("convert_element_type") > 0 for region in regions(jfn).forward] == [
        True,
        True,
        True,
    ]


@dataclass(frozen=True)
class Value:
    name: str


@dataclass(frozen=True, eq=False)
class Step:
    flat_proxy_args: tuple[Value, ...]
    flat_proxy_outs: tuple[Value, ...]


@pytest.mark.parametrize("seed", range(40))
def test_the_cut_is_the_cheapest_of_all(seed: int) -> None:
    draw_ = random.Random(seed)
    values = [Value(f"x{i}") for i in range(draw_.randint(1, 3))]
    steps = []
    for i in range(draw_.randint(2, 6)):
        operands = tuple(draw_.sample(values, draw_.randint(0, min(2, len(values)))))
        values.append(Value(f"t{i}"))
        steps.append(Step(operands, (values[-1],)))
    made = [step.flat_proxy_outs[0].name for step in steps]
    price = {value.name: draw_.choice([0, 1, 2, 3, 5, 8]) for value in values}
    fixed = {name for name in made if draw_.random() < 0.2}
    needed = draw_.sample(made, draw_.randint(1, 2))

    def can_repeat(step: Step) -> bool:
        return step.flat_proxy_outs[0].name not in fixed

    def is_enough(read: frozenset[str]) -> bool:
        known = set(read)
        for step in steps:
            if can_repeat(step) and known.issuperset(v.name for v in step.flat_proxy_args):
                known.add(step.flat_proxy_outs[0].name)
        return known.issuperset(needed)

    subsets = (frozenset(s) for n in range(len(values) + 1) for s in combinations(price, n))
    best = min(sum(map(price.__getitem__, s)) for s in subsets if is_enough(s))
    cut = find_cut(steps, needed, can_repeat, lambda value: price[value.name])  # type: ignore[arg-type]
    assert is_enough(cut.names)
    assert sum(map(price.__getitem__, cut.names)) == best
    again = {step.flat_proxy_outs[0].name for step in cut.again}
    assert again.isdisjoint(fixed | cut.names)
    assert set(needed) <= again | cut.names


def test_numbers_that_a_fusion_computes_are_computed_again_in_the_next() -> None:
    def program(x: torch.Tensor, n: int) -> torch.Tensor:
        scaled = torch.sin(x * (n * 2.5 + x.shape[0]))
        summed = torch.cumprod(scaled, 0)
        return (summed * scaled).exp() * (n * 2.5)

    jfn = jit(program, cache="symbolic values")
    for rows, n in ((3, 2), (7, 5)):
        x = torch.randn(rows, 5, requires_grad=True)
        found, expected = jfn(x, n), program(x, n)
        torch.testing.assert_close(found, expected)
        cotangent = torch.randn(rows, 5)
        torch.testing.assert_close(
            torch.autograd.grad(found, x, cotangent), torch.autograd.grad(expected, x, cotangent)
        )


def test_what_is_computed_again_beside_symbolic_sizes_stands_before_its_own() -> None:
    """The size of each tensor has the name of the first one that was taken, of the argument."""
    check(lambda x: F.normalize(x * 1, dim=1), torch.randn(5, 7), cache="symbolic values")


def test_sizes_that_arithmetic_gives_are_computed_again_before_what_has_them() -> None:
    """tril counts rows and columns; the backward needs both before any tensor has such sizes."""
    x = torch.randn(5, 7, requires_grad=True)
    check(lambda x: torch.tril(x * 2) + 1, x, cache="symbolic values")

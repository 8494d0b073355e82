"""Where the fast form of an op is good enough, and where it would be found in a result."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.programs import chain, expand, fusion, like, permute, run, total, unsqueeze
from tests.schedule.segments import floats, halves
from thunder_fuser.analysis.precision import compared, fast_enough, told_apart
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call, produce
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops.reductions import MAXIMA
from thunder_fuser.options import Options
from thunder_fuser.presegment.fold_logs import fold_logs
from thunder_fuser.presegment.sum_apart import sum_apart

BF16 = DataType.BFloat16
Build = Callable[[TensorView], TensorView]


def fast_ops(x: TensorView, *outputs: TensorView) -> set[str]:
    return {str(tv.definition.op) for tv in fast_enough(Fusion((x,), outputs)) if tv.definition}


def test_what_ends_in_16_bits_is_fast() -> None:
    x = floats(8)
    assert fast_ops(x, call("cast", chain(x, "exp", "tanh"), dtype=BF16)) == {"exp", "tanh", "cast"}


@pytest.mark.parametrize(
    "program",
    [
        lambda x: chain(x, "exp"),
        lambda x: call("gt", call("cast", chain(x, "exp"), dtype=BF16), sc.constant(1.0)),
        lambda x: call("cast", chain(x, "exp", "floor"), dtype=BF16),
    ],
    ids=["wide result", "comparison", "jump"],
)
def test_what_a_wide_result_or_a_jump_depends_on_is_not(program: Build) -> None:
    x = floats(8)
    assert "exp" not in fast_ops(x, program(x))


def below_max(x: TensorView, guarded: bool = False) -> TensorView:
    top = call("max", x, dims=(1,))
    if guarded:
        is_infinite = call("eq", chain(top, "abs"), sc.constant(float("inf")))
        top = call("where", is_infinite, sc.constant(0.0), top)
    return call("sub", x, expand(unsqueeze(top, 1), *x.shape))


@pytest.mark.parametrize("guarded", [False, True])
def test_terms_of_softmax_s_denominator_are_fast(guarded: bool) -> None:
    x = floats(4, 600)
    terms = chain(below_max(x, guarded), "exp")
    assert fast_ops(x, chain(total(terms, 1), "log")) == {"exp"}


def test_they_are_where_columns_are_reduced_as_rows() -> None:
    """As what is kept of images is."""
    x = floats(4, 600)
    top = unsqueeze(call("max", permute(x, 1, 0), dims=(1,)), 0)
    terms = chain(call("sub", x, expand(top, 4, 600)), "exp")
    assert fast_ops(x, total(permute(terms, 1, 0), 1)) == {"exp", "permute"}


def test_they_are_where_the_denominator_is_handed_to_the_backward_too() -> None:
    """The values that it divides end in 16 bits; a capped score is as good as its sum has to be."""
    x = floats(4, 600)
    terms = chain(below_max(chain(x, "tanh")), "exp")
    summed = total(terms, 1)
    ratio = call("div", terms, expand(unsqueeze(summed, 1), 4, 600))
    found = fast_ops(x, call("cast", ratio, dtype=BF16), summed)
    assert {"exp", "div"} <= found
    assert "tanh" not in found
    assert "exp" not in fast_ops(x, ratio, summed)


def test_terms_that_are_results_too_are_not() -> None:
    x = floats(4, 600)
    terms = chain(below_max(x), "exp")
    assert fast_ops(x, total(terms, 1), terms) == set()
    assert fast_ops(x, total(terms, 1), chain(terms, "neg")) == set()


def test_terms_without_a_bound_are_not() -> None:
    """exp(80) would be off by 80 * 2^-24."""
    x, y = floats(4, 600), floats(4, 600)
    assert fast_ops(x, total(chain(x, "exp"), 1)) == set()
    other = call("sub", y, expand(unsqueeze(call("max", x, dims=(1,)), 1), 4, 600))
    assert {tv for tv in fast_enough(Fusion((x, y), (total(chain(other, "exp"), 1),)))} == set()


def test_doubles_are_never_fast() -> None:
    x = call("cast", halves(4, 600), dtype=DataType.Double)
    assert x.definition is not None
    (half,) = x.definition.tensors
    assert fast_ops(half, total(chain(below_max(x), "exp"), 1)) == set()


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("scale", [1.0, 30.0, 1000.0])
def test_the_sum_of_fast_terms_is_as_exact_as_eager_s(scale: float) -> None:
    """Against fp64, beside torch.logsumexp in f32: rows of one large term, and of many."""
    x = torch.randn(64, 1000) * scale
    (a,) = like(x)
    terms = chain(below_max(a), "exp")
    made = call("add", chain(total(terms, 1), "log"), call("max", a, dims=(1,)))
    (found,) = run(fusion([a], made), x, options=Options())
    exact = torch.logsumexp(x.double(), 1)
    eager = (torch.logsumexp(x, 1) - exact).abs().max()
    ulp = exact.abs().max() * 2**-24
    assert (found.cpu() - exact).abs().max() <= 2 * eager + 4 * ulp


def log_softmax(x: TensorView) -> TensorView:
    below = below_max(x)
    summed = unsqueeze(total(chain(below, "exp"), 1), 1)
    return call("sub", below, expand(chain(summed, "log"), *x.shape))


def entropy(x: TensorView) -> TensorView:
    given = log_softmax(x)
    return chain(total(call("mul", chain(given, "exp"), given), 1), "neg")


def test_an_entropy_s_exponentials_are_fast() -> None:
    x = floats(4, 600)
    made = sum_apart(fold_logs(Fusion((x,), (entropy(x),))))
    exact = set(made.tensors) - fast_enough(made)
    assert not any(tv.definition and tv.definition.op.name == "exp" for tv in exact)


def test_those_of_other_terms_are_not() -> None:
    """A divergence has factors that may be infinite where exp(-d) is next to nothing; terms that
    are stored too are results."""
    x, y = floats(4, 600), floats(4, 600)
    given, wanted = log_softmax(x), below_max(y)
    shares = chain(wanted, "exp")
    divergence = total(call("mul", shares, call("sub", wanted, given)), 1)
    fast = fast_enough(Fusion((x, y), (divergence,)))
    assert shares not in fast
    product = call("mul", shares, wanted)
    assert shares in fast_enough(Fusion((y,), (total(product, 1),)))
    assert shares not in fast_enough(Fusion((y,), (total(product, 1), shares)))
    assert shares not in fast_enough(Fusion((y,), (total(product, 1), chain(product, "neg"))))
    assert fast_ops(x, total(call("mul", chain(x, "exp"), x), 1)) == set()


ROWS = {
    "few large": lambda x: 8 * x,
    "far from 0": lambda x: x + 1e4,
    "alike": lambda x: x[:, :1].expand(x.shape).contiguous(),
    "one dominates": lambda x: torch.cat((x[:, :1] * 0 + 12, x[:, 1:] / 2), 1),
    "one and those far below": lambda x: torch.cat((x[:, :1] * 0, x[:, 1:] * 0 - 12), 1),
    "one alone": lambda x: torch.cat((x[:, :1] + 200, x[:, 1:]), 1),
    "spread down to nothing": lambda x: -110 * x.abs(),
}


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("name", ROWS)
def test_a_fast_entropy_is_as_exact_as_eager_s(name: str) -> None:
    x = ROWS[name](torch.randn(64, 5000, generator=torch.Generator().manual_seed(0)))
    (a,) = like(x)
    (found,) = run(fusion([a], entropy(a)), x, options=Options())

    def of(given: torch.Tensor) -> torch.Tensor:
        return -(given.exp() * given).sum(1)

    exact = of(torch.log_softmax(x.double(), 1))
    eager = (of(torch.log_softmax(x, 1)) - exact).abs().max()
    ulp = exact.abs().max() * 2**-24
    assert (found.cpu() - exact).abs().max() <= 2 * eager + 4 * ulp


@pytest.mark.usefixtures("device")
def test_an_entropy_of_what_is_impossible_is_no_number_as_eager_s_is() -> None:
    x = torch.randn(64, 600)
    x[3, 5] = -torch.inf
    (a,) = like(x)
    (found,) = run(fusion([a], entropy(a)), x, options=Options())
    assert torch.arange(64)[found.cpu().isnan()].tolist() == [3]


def test_what_is_compared_with_its_extremum_is_rounded_as_written() -> None:
    x, y = floats(4, 600), floats(4, 600)
    value = call("sub", call("mul", x, y), x)
    top = call("cast", call("cast", call("max", value, dims=(1,)), dtype=BF16), dtype=x.dtype)
    is_top = call("eq", value, expand(unsqueeze(top, 1), 4, 600))
    beside = call("add", call("mul", x, x), y)
    ops = [
        str(tv.definition.op) for tv in compared(Fusion((x, y), (is_top, beside))) if tv.definition
    ]
    assert sorted(ops) == ["broadcast", "cast", "cast", "expand", "max", "mul", "sub"]


def test_other_comparisons_leave_the_compiler_its_choice() -> None:
    x = floats(4, 600)
    product = call("mul", x, x)
    assert not compared(fusion([x], call("gt", product, x), call("max", product, dims=(1,))))
    assert not compared(fusion([x], call("isinf", call("max", product, dims=(1,)))))


@pytest.mark.parametrize("of_all", [True, False], ids=["of all", "of one"])
def test_terms_of_a_denominator_in_parts_are_fast_below_the_largest_of_all(of_all: bool) -> None:
    x, k = floats(4, 600), floats(4, 600)
    tops = [call("max", tv, dims=(1,)) for tv in (x, k if of_all else x)]
    top = expand(unsqueeze(call("maximum", *tops), 1), 4, 600)
    sums = [total(chain(call("sub", tv, top), "exp"), 1) for tv in (x, k)]
    program = Fusion((x, k), (call("add", *sums),))
    found = {str(tv.definition.op) for tv in fast_enough(program) if tv.definition}
    assert found == ({"exp"} if of_all else set())


@pytest.mark.parametrize(("columns", "is_fast"), [(600, True), (40, False)])
def test_a_factor_of_the_terms_of_a_long_sum_is_fast_where_it_errs_evenly(
    columns: int, is_fast: bool
) -> None:
    """The mean square of what a silu makes, which a norm hands to its backward."""
    x = floats(4, columns)
    made = call("mul", x, chain(x, "sigmoid"))
    mean = chain(total(call("mul", made, made), 1), "rsqrt")
    assert ("sigmoid" in fast_ops(x, mean)) is is_fast
    assert "sigmoid" not in fast_ops(x, mean, made)
    assert "sigmoid" not in fast_ops(x, total(call("sub", made, x), 1))
    assert "tanh" not in fast_ops(x, total(chain(x, "tanh"), 1))


@pytest.mark.parametrize(
    ("dtype", "program", "is_told"),
    [
        (BF16, lambda x: call("gt", x, sc.constant(1.5)), True),
        (BF16, lambda x: call("gt", x, sc.constant(0.0)), False),
        (BF16, lambda x: call("ge", call("sub", x, chain(x, "abs")), sc.constant(0.0)), True),
        (BF16, lambda x: chain(x, "isinf"), False),
        (DataType.Half, lambda x: chain(x, "isinf"), True),
        (DataType.Half, lambda x: chain(call("max", x, dims=(0,)), "isinf"), False),
        (DataType.Half, lambda x: chain(x, "isnan"), False),
    ],
)
def test_what_a_comparison_tells_apart_is_rounded(
    dtype: DataType, program: Build, is_told: bool
) -> None:
    x = floats(8)
    narrow = call("cast", chain(x, "exp"), dtype=dtype)
    assert (narrow in told_apart(Fusion((x,), (program(narrow),)))) is is_told


def test_an_extremum_is_one_whatever_it_is_beside() -> None:
    x = floats(8, 4)
    made = chain(x, "exp")
    first = call("max", made, dims=(0,))
    other = chain(call("max", chain(made, "neg"), dims=(0,)), "neg")
    for most in (call("maximum", first, other), other):
        assert made in compared(Fusion((x,), (call("eq", made, expand(unsqueeze(most, 0), 8, 4)),)))
    counted = produce(MAXIMA, [made], {"dims": (0,)})
    assert made in compared(Fusion((x,), (counted,)))

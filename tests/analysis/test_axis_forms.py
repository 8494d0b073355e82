"""Digit forms of axes against the definition of the transforms, point by point."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from tests.analysis.axis_cases import agree, cases, oracle, random_case, replay, roots_of, table
from thunder_fuser.analysis.axis_forms import AxisForms
from thunder_fuser.analysis.digits import evaluate, format_form
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.domain import Split, axis, merge, resize, split


def _fresh(request: pytest.FixtureRequest) -> random.Random:
    seed = random.randrange(1 << 30)
    print(f"{request.node.name}: seed {seed}")  # shown when the test fails
    return random.Random(seed)


@pytest.mark.parametrize(
    ("kinds", "count", "programs", "least"),
    [
        ("split merge", 1300, 2, 95_000),
        ("split merge resize", 900, 3, 95_000),
        ("split merge resize flip", 300, 3, 20_000),
    ],
)
def test_equal_forms_are_equal_maps(
    kinds: str, count: int, programs: int, least: int, request: pytest.FixtureRequest
) -> None:
    """About 300,000 pairs over the three kinds; none may be called equal that is not."""
    pairs = 0
    for extents, steps, roots, axes in cases(_fresh(request), count, kinds, programs):
        forms, truth = AxisForms(through_resize=True), table(axes, roots)
        keys = {a: forms.key(a) for a in axes}
        for a, b in combinations(axes, 2):
            pairs += 1
            if keys[a] == keys[b]:
                assert a.size == b.size, (extents, steps)
                assert agree(truth[a], truth[b]), (extents, steps)
    assert pairs > least


def test_a_form_evaluates_to_the_index(request: pytest.FixtureRequest) -> None:
    for extents, steps, roots, axes in cases(_fresh(request), 150, "split merge resize flip", 2):
        forms, truth = AxisForms(through_resize=True), table(axes, roots)
        points = table(roots, roots)
        for a in axes:
            for n, index in enumerate(truth[a]):
                at = {r: points[r][n] or 0 for r in roots}
                if index is not None:
                    assert evaluate(forms.form(a), at) == index, (extents, steps)


def test_divisible_chains_miss_no_more_than_the_oracle(request: pytest.FixtureRequest) -> None:
    module = oracle("id_prototype")
    rng = _fresh(request)
    found = theirs = 0
    for _ in range(2500):
        extents, steps = random_case(rng, "split merge")
        roots, known = roots_of(extents), [module.ID(e) for e in extents]
        axes, ids = list(roots), list(known)
        for program in steps:
            axes += replay(roots, program)[1]
            ids += module.replay(known, program)[1]
        if any(isinstance(a.definition, Split) and not _divides(a.definition) for a in axes):
            continue
        forms, truth = AxisForms(), table(axes, roots)
        reference = module.Forms({r: k for k, r in enumerate(known)})
        for (a, i), (b, j) in combinations(zip(axes, ids, strict=True), 2):
            if a.size > 1 and a.size == b.size and truth[a] == truth[b]:
                found += forms.same(a, b)
                theirs += reference.same(i, j)
    assert found >= theirs > 0


def _divides(cut: Split) -> bool:
    return cut.input.size % (sc.static_int(cut.factor) or 1) == 0


def test_indivisible_verdicts_are_never_weaker_on_whole_axes(
    request: pytest.FixtureRequest,
) -> None:
    """Wherever the independent implementation proves two axes equal without a resize, so do we,
    save a handful in which a split crosses a merge boundary."""
    module = oracle("id_prototype")
    rng = _fresh(request)
    both = lost = 0
    for _ in range(800):
        extents, steps = random_case(rng, "split merge")
        roots, known = roots_of(extents), [module.ID(e) for e in extents]
        axes, ids = list(roots), list(known)
        for program in steps:
            axes += replay(roots, program)[1]
            ids += module.replay(known, program)[1]
        forms = AxisForms()
        reference = module.Forms({r: k for k, r in enumerate(known)})
        for (a, i), (b, j) in combinations(zip(axes, ids, strict=True), 2):
            if reference.same(i, j):
                both += 1
                lost += not forms.same(a, b)
    assert lost * 200 <= both


def test_active_modulus_is_not_widened() -> None:
    """An outer split by 4 of i%3 has extent 4 and is still i%3, not i%4."""
    x = axis(6)
    wide, plain = split(split(x, 3)[1], 4, inner=False)[0], split(x, 4)[1]
    forms = AxisForms()
    assert wide.size == plain.size == 4
    assert not forms.same(wide, plain)
    assert format_form(forms.form(wide), {x: "i"}) == "(i%3)"


def test_fused_base_keeps_its_range() -> None:
    """(i/3)%2 and the i/3 of a slice agree only where both are defined: once merged and cut across
    the boundary they must not be exchanged for each other."""
    x, y = axis(12), axis(5)
    full = split(merge(split(split(x, 3)[0], 2)[1], y), 3)
    cut = split(merge(split(resize(x, 0, -6), 3)[0], y), 3)
    forms = AxisForms(through_resize=True)
    assert not forms.same(full[0], cut[0])
    wide = merge(split(full[0], 5, inner=False)[0], full[1])
    three = merge(split(split(x, 3)[0], 3)[1], y)
    truth = table([wide, three], [x, y])
    assert wide.size == three.size
    assert not agree(truth[wide], truth[three])
    assert not forms.same(wide, three)


def test_declared_extent_is_part_of_the_key() -> None:
    x = axis(5)
    (a, a1), (b, b1) = split(x, 100, inner=False), split(x, 1)
    forms = AxisForms()
    assert (a.size, a1.size, b.size, b1.size) == (100, 1, 5, 1)
    assert forms.form(a) == forms.form(b)
    assert not forms.same(a, b)


def test_a_split_across_a_merge_boundary_opens_again() -> None:
    x, y = axis(6), axis(4)
    outer, inner = split(merge(x, y), 3)
    again = merge(outer, inner)
    forms = AxisForms()
    assert format_form(forms.form(outer), {x: "x", y: "y"}) == "((4*x + y)/3)"
    assert forms.same(again, merge(x, y))
    assert forms.same(split(again, 4)[0], x)


def test_symbolic_division_is_never_guessed() -> None:
    """Split by a symbol, or of a symbol by an outer factor: opaque. By a constant: a digit."""
    n = sc.symbol("n")
    x = axis(n)
    forms = AxisForms()
    assert not forms.same(split(x, 4, inner=False)[0], split(x, 4)[0])
    assert forms.same(split(split(x, 2)[0], 3)[0], split(x, 6)[0]) is False  # extents unproven
    assert forms.form(split(split(x, 2)[0], 3)[0]) == forms.form(split(x, 6)[0])
    assert forms.same(split(merge(x, axis(8)), 8)[0], split(x, 1)[0])
    assert not forms.same(split(axis(8), n)[1], split(axis(8), n)[1])


def test_symbolic_equality_holds_for_every_value(request: pytest.FixtureRequest) -> None:
    """Programs over a symbolic root, then the same programs at sizes 1 to 13."""
    rng = _fresh(request)
    for _ in range(60):
        extents, steps = random_case(rng, "split merge")
        roots = [axis(sc.symbol("n")), *roots_of(extents[1:])]
        axes = list(roots)
        for program in steps:
            axes += replay(roots, program)[1]
        forms = AxisForms()
        equal = [(k, m) for (k, a), (m, b) in combinations(enumerate(axes), 2) if forms.same(a, b)]
        for size in range(1, 14):
            concrete = roots_of([size, *extents[1:]])
            bound = list(concrete)
            for program in steps:
                bound += replay(concrete, program)[1]
            truth = table(bound, concrete)
            for k, m in equal:
                assert truth[bound[k]] == truth[bound[m]], (extents, steps, size)

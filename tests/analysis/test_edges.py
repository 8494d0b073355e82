"""Decisions about one edge against the oracle and, over grids, against docs/axes.md."""

from __future__ import annotations

import random

from tests.analysis.axis_cases import oracle
from tests.analysis.sharded_fusions import (
    cat,
    checked,
    cut,
    plan_of,
    reshape,
    tensor,
)
from thunder_fuser.analysis.axis_forms import AxisForms
from thunder_fuser.analysis.edge import axis_edges, forward
from thunder_fuser.analysis.placement import (
    Shard,
    Sharding,
    StridedShard,
    sharded,
)
from thunder_fuser.analysis.sharding import (
    place,
)
from thunder_fuser.ir.domain import axis, split
from thunder_fuser.ir.mesh import DeviceMesh
from thunder_fuser.ir.tensor import TensorView


def test_random_edges_agree_with_the_oracle() -> None:
    """Reshape, slice, cat and both: whatever the independent reference places, we place so too."""
    reference, tests = oracle("id_prototype"), oracle("id_prototype_test")
    placed = 0
    for n, steps, m, d in tests.random_did_edges(seed=random.randrange(1 << 20), count=3000):
        p, r = reference.ID(n), reference.ID(n)
        target, _ = reference.replay([r], steps)
        forms = reference.Forms({p: 0, r: 0})
        theirs = reference.propagate_did(forms, reference.apply_did(p, m, d)[0], target)
        x = tensor(n)
        y = _consumer(x, steps, [t.extent for t in target])
        if y is None:
            continue
        # a cat is one edge among others: ours is the operand that x is
        edge = next(e for e in axis_edges(y) if e.producer is x) if y.definition else None
        if edge is None:
            continue
        (ours,) = forward(edge, Sharding(DeviceMesh((d,)), (sharded(0, m),)))
        if theirs is not None:
            axis, factor, _, _ = theirs
            placed += 1
            assert ours == sharded(axis, factor), (n, steps, m, d)
        elif ours is not None:
            checked(plan_of(y, DeviceMesh((d,)), {x: (sharded(0, m),)}), y)
    assert placed > 300


def _consumer(
    x: TensorView, steps: list[tuple[object, ...]], extents: list[int]
) -> TensorView | None:
    (n,) = x.shape
    if steps and steps[0][0] == "resize":
        _, _, left, right = steps[0]
        assert isinstance(left, int)
        assert isinstance(right, int)
        if len(steps) > 1:
            return None
        if left <= 0 and right <= 0:
            return cut(x, 0, -left, n + right)
        pieces = [tensor(left)] * (left > 0) + [x] + [tensor(right)] * (right > 0)
        return cat(*pieces)
    return reshape(x, *extents)


def test_an_uneven_digit_is_placed_only_where_it_is_outermost() -> None:
    """(i/3)%2 of 10 cannot sit on i%5, although ceil(5/2) is 3."""
    x = axis(10)
    forms = AxisForms()
    device, five = forms.form(split(split(x, 3)[0], 2)[1]), forms.form(split(x, 5)[1])
    assert place(device, [five], [5], 2) is None
    top = forms.form(split(x, 3)[0])
    placed = place(top, [forms.form(x)], [10], 4)
    assert placed is not None
    assert placed.placement == Shard(0)


def test_reshape_edges_match_theorem_a() -> None:
    for a in range(1, 13):
        for k in range(2, 7):
            for d in range(2, 7):
                x = tensor(a * k)
                y = reshape(x, a, k)
                (carried,) = forward(axis_edges(y)[0], Sharding(DeviceMesh((d,)), (Shard(0),)))
                aligned = -(-a * k // d) == -(-a // d) * k
                assert (carried == Shard(0)) == (aligned and a > 1), (a, k, d)
                back = reshape(tensor(a, k), a * k)
                (merged,) = forward(axis_edges(back)[0], Sharding(DeviceMesh((d,)), (Shard(0),)))
                assert (merged == Shard(0)) == (aligned and a > 1), (a, k, d)


def test_inner_reshape_edges_match_theorem_a_prime() -> None:
    for a in range(2, 9):
        for k in range(2, 9):
            for d in range(2, 7):
                if a * k % d:
                    continue
                x = tensor(a * k)
                y = reshape(x, a, k)
                inner = StridedShard(0, a * k // d)
                (carried,) = forward(axis_edges(y)[0], Sharding(DeviceMesh((d,)), (inner,)))
                keeps = carried is not None and carried.axis == 1
                assert keeps == (k % d == 0), (a, k, d)


def test_slice_and_cat_edges_match_theorem_b() -> None:
    for d in (2, 3, 4):
        for c in (1, 2, 3):
            n_full = 4 * c * d
            for s in range(n_full):
                for n in range(c * d, n_full - s + 1, c * d):
                    x = tensor(n_full)
                    y = cut(x, 0, s, s + n)
                    (carried,) = forward(
                        axis_edges(y)[0],
                        Sharding(DeviceMesh((d,)), (StridedShard(0, n_full // (c * d)),)),
                    )
                    want = sharded(0, n // (c * d)) if s % (c * d) == 0 else None
                    assert carried == want, (d, c, s, n)

"""Union-find with congruence closure: what follows, what does not, and how it is explained."""

from __future__ import annotations

from thunder_fuser.analysis.val_graph import Reason, ValGraph
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.domain import (
    ParallelType,
    axis,
    merge,
    parallelize,
    resize,
    split,
)

GIVEN = Reason("given")


def test_equal_transforms_of_equal_inputs_have_equal_outputs() -> None:
    p, r = axis(8), axis(8)
    (a, b), (c, d) = split(p, 2), split(r, 2)
    graph = ValGraph().add(a, b, c, d)
    graph.map(p, r, GIVEN)
    assert graph.are_mapped(a, c)
    assert graph.are_mapped(b, d)
    assert not graph.are_mapped(a, d)


def test_a_transform_added_late_joins_its_class() -> None:
    p, r = axis(8), axis(8)
    a, b = split(p, 2)
    graph = ValGraph().add(a, b)
    graph.map(p, r, GIVEN)
    late = split(r, 2)
    graph.add(*late)
    assert graph.are_mapped(late[0], a)
    assert graph.are_mapped(late[1], b)


def test_inner_and_outer_splits_are_not_congruent() -> None:
    x = axis(5)
    (a, _), (b, _) = split(x, 100, inner=False), split(x, 1)
    assert not ValGraph().add(a, b).are_mapped(a, b)


def test_merge_backward_needs_a_factor() -> None:
    a, b, c, d, e, f = (axis(n) for n in (4, 6, 3, 8, 4, 6))
    x, y, z = merge(a, b), merge(c, d), merge(e, f)
    graph = ValGraph().add(x, y, z)
    graph.map(x, y, GIVEN)
    assert not graph.are_mapped(a, c)
    assert not graph.are_mapped(b, d)
    graph.map(x, z, GIVEN)
    assert graph.are_mapped(a, e)
    assert graph.are_mapped(b, f)


def test_split_backward_needs_equal_extents() -> None:
    """5 and 8 both split into (2, 4)."""
    five, eight = axis(5), axis(8)
    (a, b), (c, d) = split(five, 4), split(eight, 4)
    graph = ValGraph().add(a, b, c, d)
    graph.map(a, c, GIVEN)
    graph.map(b, d, GIVEN)
    assert not graph.are_mapped(five, eight)
    other = axis(5)
    (e, f) = split(other, 4)
    graph.map(a, e, GIVEN)
    graph.map(b, f, GIVEN)
    assert graph.are_mapped(five, other)


def test_indivisible_chain_maps_neither_1_with_8_nor_128_with_256() -> None:
    """NVIDIA/Fuser#4681."""
    v = axis(1000)
    o, b128 = split(v, 128)
    one, d256 = split(b128, 256)
    one2, e256 = split(d256, 256)
    graph = ValGraph().add(o, merge(one, one2), e256)
    graph.map(one, one2, GIVEN)
    graph.map(d256, e256, GIVEN)
    assert not graph.are_mapped(b128, d256)


def test_a_cut_says_nothing_about_what_it_cut() -> None:
    x, y = axis(8), axis(8)
    cut_x, cut_y = resize(x, -2, -2), resize(y, -2, -2)
    graph = ValGraph()
    graph.map(cut_x, cut_y, GIVEN)
    assert not graph.are_mapped(x, y)
    pad_x, pad_y = resize(x, 2, 2), resize(y, 2, 2)
    graph.map(pad_x, pad_y, GIVEN)
    assert graph.are_mapped(x, y)


def test_symbolic_extents_are_equal_only_when_one_scalar() -> None:
    n, m = sc.symbol("n"), sc.symbol("m")
    a, b, c = axis(n), axis(m), axis(n)
    graph = ValGraph()
    graph.map(merge(a, axis(4)), merge(b, axis(sc.symbol("k"))), GIVEN)
    assert not graph.are_mapped(a, b)
    graph.map(merge(a, axis(sc.symbol("p"))), merge(c, axis(sc.symbol("q"))), GIVEN)
    assert graph.are_mapped(a, c)


def test_axes_of_one_domain_stay_apart() -> None:
    a, b, c = axis(4), axis(4), axis(4)
    graph = ValGraph()
    graph.set_unmappable((a, b))
    graph.map(a, c, GIVEN)
    graph.map(c, b, GIVEN)
    assert graph.are_mapped(a, c)
    assert not graph.are_mapped(b, c)
    assert graph.is_unmappable(c, b)


def test_a_parallel_copy_is_the_same_axis() -> None:
    did, local = split(axis(8), 2, inner=False)
    copy = parallelize(did, ParallelType.DIDX)
    graph = ValGraph().add(did, local, copy)
    assert graph.are_mapped(did, copy)


def test_proof_is_a_chain_of_reasons() -> None:
    p, r, s = axis(8), axis(8), axis(8)
    a, c = split(p, 2)[0], split(s, 2)[0]
    graph = ValGraph().add(a, c)
    graph.map(p, r, Reason("edge one"))
    graph.map(r, s, Reason("edge two"))
    chain = graph.proof(p, s)
    assert chain is not None
    assert [reason.text for _, reason in chain] == ["edge one", "edge two"]
    (step,) = graph.proof(a, c) or ()
    assert step[1].text == "equal inner split by 2 of equal inputs"
    assert step[1].premises == ((p, s),)
    assert graph.proof(a, p) is None


def test_a_chain_of_thousands_needs_no_recursion() -> None:
    x = axis(8)
    for _ in range(4000):
        x = merge(x, axis(1))
    assert len(ValGraph().add(x).groups()) == 8001

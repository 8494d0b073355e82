"""The maps of a fusion: what each holds, that none holds a falsehood, and that it says why."""

from __future__ import annotations

import random
from itertools import combinations, pairwise

import pytest

from tests.analysis.axis_cases import agree, cases, table
from thunder_fuser.analysis.id_model import IdModel, close_over_forms
from thunder_fuser.analysis.val_graph import Reason, ValGraph
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.domain import IterDomain, axis, merge, resize, split
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView

FLOAT = DataType.Float


def shape(*extents: int) -> tuple[sc.Scalar, ...]:
    return tuple(sc.constant(e) for e in extents)


def reshape(tv: TensorView, *extents: int) -> TensorView:
    return call("reshape", tv, new_shape=shape(*extents))


def cut(tv: TensorView, starts: tuple[int, ...], ends: tuple[int, ...]) -> TensorView:
    ones = shape(*[1] * len(starts))
    return call("slice", tv, start_indices=shape(*starts), end_indices=shape(*ends), strides=ones)


def model(*tensors: TensorView) -> IdModel:
    found: list[TensorView] = []
    fusion = Fusion((), tensors)
    found = [tv for tv in fusion.tensors if tv.definition is None]
    return IdModel(Fusion(tuple(found), tensors))


@pytest.mark.parametrize(("kinds", "count"), [("split merge", 350), ("split merge resize", 150)])
def test_whatever_the_graph_maps_is_equal(
    kinds: str, count: int, request: pytest.FixtureRequest
) -> None:
    seed = random.randrange(1 << 30)
    print(f"{request.node.name}: seed {seed}")
    for extents, steps, roots, axes in cases(random.Random(seed), count, kinds, 3):
        truth = table(axes, roots)
        graph = close_over_forms(ValGraph().add(*axes))
        for a, b in combinations(axes, 2):
            if graph.are_mapped(a, b):
                assert a.size == b.size, (extents, steps)
                assert agree(truth[a], truth[b]), (extents, steps)


def test_exact_is_within_almost_exact_and_broadcast_within_permissive() -> None:
    x, y = tensor(FLOAT, 4, 6), tensor(FLOAT, 4, 1)
    z = reshape(call("add", reshape(call("mul", x, y), 24), reshape(x, 24)), 2, 12)
    maps = model(z)
    chain = [maps.exact, maps.almost_exact], [maps.exact, maps.broadcast, maps.permissive]
    for graphs in chain:
        for narrow, wide in pairwise(graphs):
            for a, b in combinations([a for g in narrow.groups() for a in narrow.group(g)], 2):
                assert wide.are_mapped(a, b) or not narrow.are_mapped(a, b)


def test_reshape_and_back_is_almost_exact_not_exact() -> None:
    x = tensor(FLOAT, 24)
    back = reshape(reshape(x, 4, 6), 24)
    maps = model(back)
    assert not maps.exact.are_mapped(x.logical[0], back.logical[0])
    assert maps.almost_exact.are_mapped(x.logical[0], back.logical[0])


def test_a_broadcast_axis_maps_to_data_only_in_the_broadcast_map() -> None:
    x, y = tensor(FLOAT, 4, 1), tensor(FLOAT, 4, 6)
    z = call("mul", x, y)
    maps = model(z)
    assert not maps.almost_exact.are_mapped(x.logical[1], z.logical[1])
    assert maps.broadcast.are_mapped(x.logical[1], z.logical[1])


def test_permissive_forwards_through_a_merge_with_a_broadcast() -> None:
    x, y = tensor(FLOAT, 4, 1), tensor(FLOAT, 4, 6)
    z = call("mul", reshape(x, 4), reshape(x, 4))
    maps = model(z, y)
    graph = ValGraph()
    merged = merge(x.logical[0], x.logical[1])
    graph.add(merged)
    assert maps.permissive.are_mapped(x.logical[0], z.logical[0])


def test_a_slice_and_a_cat_map_no_window() -> None:
    """y = cat([x, x]): each edge is a window of y, and the two windows are not one axis."""
    x = tensor(FLOAT, 3)
    y = call("cat", x, x, dim=0)
    z = cut(y, (0,), (3,))
    maps = model(z)
    assert not maps.permissive.are_mapped(x.logical[0], y.logical[0])
    assert not maps.permissive.are_mapped(z.logical[0], x.logical[0])


def test_a_gathered_axis_is_no_axis_of_the_result() -> None:
    """out[i, j] = weight[index[i], j]: rows of both are 6 long, and are not the same rows."""
    weight, index = tensor(FLOAT, 6, 4), tensor(DataType.Int, 6)
    out = call("index_select", weight, index, dim=0)
    maps = model(out)
    assert not maps.permissive.are_mapped(weight.logical[0], out.logical[0])
    assert maps.exact.are_mapped(weight.logical[1], out.logical[1])
    assert maps.exact.are_mapped(index.logical[0], out.logical[0])
    assert "index_select" not in maps.why_not(weight.logical[0], out.logical[0])
    along = call("take_along_axis", weight, tensor(DataType.Int, 6, 4), dim=1)
    maps = model(along)
    assert maps.exact.are_mapped(weight.logical[0], along.logical[0])
    assert not maps.permissive.are_mapped(weight.logical[1], along.logical[1])


def test_closing_a_resize_globally_would_be_false() -> None:
    """docs/axes.md, section 5: each edge is true alone and their closure is not."""
    x, r0, r1 = axis(3), axis(3), axis(3)
    x_did = split(x, 2)[1]
    p0, p1 = resize(r0, 0, 3), resize(r1, 3, 0)
    d0, d1 = split(p0, 2)[1], split(p1, 2)[1]
    graph = ValGraph().add(x, x_did, d0, d1)
    for a, b in ((x, r0), (x, r1), (p0, p1), (x_did, d0)):
        graph.map(a, b, Reason("true on one edge"))
    assert graph.are_mapped(x_did, d1)
    assert [(j + 3) % 2 for j in range(3)] != [j % 2 for j in range(3)]


def test_split_reshape_maps_the_outermost_split_only() -> None:
    p, r = axis(8), axis(8)
    o, i = split(p, 2, inner=False)
    heads, rest = split(r, 4, inner=False)
    o2, i2 = split(heads, 2, inner=False)
    graph = _closed([(p, r)], o, i, o2, i2, rest)
    assert graph.are_mapped(o, o2)
    assert not graph.are_mapped(o, i2)
    assert not graph.are_mapped(i, rest)


def test_unequal_or_indivisible_splits_stay_apart() -> None:
    p, r = axis(12), axis(12)
    o, o2 = split(p, 2, inner=False)[0], split(split(r, 6, inner=False)[0], 3, inner=False)[0]
    assert not _closed([(p, r)], o, o2).are_mapped(o, o2)
    p, r = axis(6), axis(6)
    o, o2 = split(p, 2, inner=False)[0], split(split(r, 4)[0], 2, inner=False)[0]
    assert not _closed([(p, r)], o, o2).are_mapped(o, o2)


def test_merge_reshape_maps_the_outer_split() -> None:
    pa, pk, ra, rk = axis(4), axis(2), axis(4), axis(2)
    o, o2 = split(pa, 2, inner=False)[0], split(merge(ra, rk), 2, inner=False)[0]
    assert _closed([(pa, ra), (pk, rk)], o, o2).are_mapped(o, o2)


def test_three_way_flatten_maps() -> None:
    """The case that single-pass pattern rules miss."""
    b, s, h, e, d = 2, 3, 8, 4, 2
    p, r = [[axis(n) for n in (d * b, s, h * e)] for _ in range(2)]
    o = split(p[0], d, inner=False)[0]
    heads, size = split(r[2], h, inner=False)
    o2 = split(merge(merge(r[0], r[1]), heads), d, inner=False)[0]
    assert _closed(list(zip(p, r, strict=True)), o, o2, size).are_mapped(o, o2)


def test_size_one_is_forwarded() -> None:
    x, one = axis(7), axis(1)
    m, o = merge(x, one), split(x, 1)[0]
    graph = _closed([], m, o)
    assert graph.are_mapped(x, m)
    assert graph.are_mapped(x, o)


def test_reshape_and_back_may_make_the_graph_cyclic() -> None:
    h, a, d = 24, 6, 3
    x, r1 = axis(h), axis(h)
    xo, xi = split(x, d, inner=False)
    heads, rest = split(r1, a, inner=False)
    ho = split(heads, d, inner=False)[0]
    t3 = (axis(a), axis(h // a))
    flat = merge(*t3)
    fo, fi = split(flat, d, inner=False)
    pairs = [(x, r1), (heads, t3[0]), (rest, t3[1])]
    graph = _closed(pairs, xo, xi, ho, fo, fi)
    assert graph.are_mapped(x, flat)
    cyclic = _closed([*pairs, (x, flat)], xo, xi, ho, fo, fi)
    for a_axis, b_axis in ((xo, fo), (xi, fi)):
        assert graph.are_mapped(a_axis, b_axis)
        assert cyclic.are_mapped(a_axis, b_axis)


def test_symbolic_extents_map_only_what_is_provable() -> None:
    n = sc.symbol("n")
    x = tensor(FLOAT, n, 8)
    same = call("add", x, call("neg", x))
    maps = model(same)
    assert maps.exact.are_mapped(x.logical[0], same.logical[0])
    outer, inner = split(x.logical[0], 4, inner=False)[0], split(x.logical[0], 4)[0]
    assert not _closed([], outer, inner).are_mapped(outer, inner)


def test_why_mapped_gives_the_chain() -> None:
    x = tensor(FLOAT, 24)
    back = reshape(reshape(x, 4, 6), 24)
    text = model(back).why_mapped(x.logical[0], back.logical[0])
    assert text == (
        "T0.logical0{24} ~ T2.logical0{24}: equal digit forms and extents (docs/axes.md, theorem F)"
    )
    neg = call("neg", x)
    chained = model(call("neg", neg)).why_mapped(x.logical[0], neg.logical[0])
    assert chained == "T0.logical0{24} ~ T1.logical0{24}: producer and consumer axis of neg"
    twice = call("add", reshape(x, 4, 6), reshape(neg, 4, 6))
    y, z = (tv.logical[1] for tv in twice.definition.tensors) if twice.definition else ()
    lines = model(twice).why_mapped(y, z).splitlines()
    assert lines[0].endswith("equal inner split by 6 of equal inputs")
    assert any(line.endswith("producer and consumer axis of neg") for line in lines[1:])


def test_why_not_shows_a_point_where_they_differ() -> None:
    x = tensor(FLOAT, 24)
    y = reshape(x, 4, 6)
    z = reshape(x, 6, 4)
    text = model(y, z).why_not(y.logical[0], z.logical[1])
    assert text.splitlines() == [
        "T1.logical0{4} and T2.logical1{4} are not mapped: "
        "the index of one is (T0.logical0/6), of the other (T0.logical0%4)",
        "they differ at T0.logical0 = 1: 0 against 1",
    ]
    assert "declared extents 4 and 6" in model(y, z).why_not(y.logical[0], z.logical[0])


def test_why_not_names_the_resize() -> None:
    x = tensor(FLOAT, 24)
    y, z = cut(x, (0,), (12,)), cut(x, (12,), (24,))
    text = model(y, z).why_not(y.logical[0], z.logical[0])
    assert "resize by (-12, 0): equality through a resize is decided per edge" in text


def test_why_not_refuses_a_mapped_pair() -> None:
    x = tensor(FLOAT, 24)
    y = call("neg", x)
    with pytest.raises(ValueError, match="are mapped: ask why_mapped"):
        model(y).why_not(x.logical[0], y.logical[0])
    with pytest.raises(ValueError, match="are not mapped: ask why_not"):
        model(y).why_mapped(x.logical[0], axis(24))


def test_the_model_prints_its_groups() -> None:
    x = tensor(FLOAT, 24)
    assert str(model(reshape(x, 4, 6))) == ("{T0.logical0, T1.root0}: extent 24, index T0.logical0")


def _closed(pairs: list[tuple[IterDomain, IterDomain]], *extra: IterDomain) -> ValGraph:
    graph = ValGraph().add(*extra)
    for a, b in pairs:
        graph.map(a, b, Reason("given"))
    return close_over_forms(graph)

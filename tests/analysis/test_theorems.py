"""docs/axes.md, letter by letter, by evaluating every index over a grid of small parameters.

Nothing here uses the package: these are the statements it rests on.
"""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import pytest

from tests.analysis.axis_cases import oracle

PAGE = Path(__file__).resolve().parents[2] / "docs" / "axes.md"
SMALL = range(1, 8)


def up(n: int, d: int) -> int:
    return -(-n // d)


def test_every_letter_of_the_page_has_a_test() -> None:
    text = PAGE.read_text()
    letters = ("Q1", "Q2", "Q3", "Q4", "Q5", "E", "F", "G", "S", "A", "A\N{PRIME}", "B", "B1", "B2")
    letters += ("B3", "B4", "B\N{MINUS SIGN}", "C", "D", "H", "L", "R", "M", "I")
    tests = {name for name in globals() if name.startswith("test_")}
    for letter in letters:
        assert f"**{letter}" in text, letter
        slug = letter.lower().replace("\N{PRIME}", "_prime").replace("\N{MINUS SIGN}", "_minus")
        owner = "q" if slug.startswith("q") else slug
        assert any(name.startswith(f"test_{owner}_") for name in tests), letter


def test_q_facts_of_division() -> None:
    for i, a, b in product(range(-40, 80), SMALL, SMALL):
        assert (i // a) // b == i // (a * b)
        assert ((i // a) % b) * a + i % a == i % (a * b)
    for i, s, b in product(range(-20, 40), range(-24, 25), SMALL):
        if s % b == 0:
            assert ((i + s) // b, (i + s) % b) == (i // b + s // b, i % b)
    for s, c, d in product(range(-60, 61), SMALL, SMALL):
        if s % c == 0:
            assert ((s // c) % d == 0) == (s % (c * d) == 0)
    for n, a, b in product(range(1, 100), SMALL, SMALL):
        assert up(up(n, a), b) == up(n, a * b)
    assert (1 + 1) // 2 != 1 // 2 + 1 // 2  # Q3 without b | s


def test_f_rewrites_of_a_digit_keep_its_value() -> None:
    for limit, s, e in product(range(1, 40), SMALL, SMALL):
        digit = [(b // s) % e for b in range(limit)]
        reached = up(limit, s)
        if e >= reached:
            assert digit == [(b // s) % reached for b in range(limit)]  # clip
        for f in SMALL:
            high = [(b // (s * e)) % f for b in range(limit)]
            joined = [(b // s) % (e * f) for b in range(limit)]
            assert [e * h + low for h, low in zip(high, digit, strict=True)] == joined
        for c in SMALL:
            if e % c == 0 or s * e >= limit:  # cut
                outer = up(e, c)
                assert [v // c for v in digit] == [(b // (s * c)) % outer for b in range(limit)]
                if e % c == 0 or c <= e:
                    assert [v % c for v in digit] == [(b // s) % c for b in range(limit)]
        assert digit == [(b % (s * e)) // s for b in range(limit)]  # open
    assert (3 % 3) // 2 != (3 // 2) % 2  # cut where c does not divide an active modulus


def test_e_a_form_divides_term_by_term_when_the_rest_stays_in_one_block() -> None:
    rng = random.Random()
    exact = 0
    for _ in range(4000):
        b = rng.randint(2, 8)
        k = rng.randint(-30, 30)
        terms = [(rng.choice([1, 2, 3, 4, 6, 8, -1, -2]), rng.randint(1, 5)) for _ in range(3)]
        rest = [(w, e) for w, e in terms if w % b]
        low = k + sum(min(w * (e - 1), 0) for w, e in rest)
        high = k + sum(max(w * (e - 1), 0) for w, e in rest)
        if high >= (low // b + 1) * b:
            continue
        exact += 1
        for point in product(*(range(e) for _, e in terms)):
            value = k + sum(w * x for (w, _), x in zip(terms, point, strict=True))
            quotient = sum(w // b * x for (w, _), x in zip(terms, point, strict=True) if w % b == 0)
            assert value // b == quotient + low // b
    assert exact > 100


def test_g_what_equal_outputs_determine() -> None:
    for n, f in product(range(1, 30), SMALL):
        pairs = {(i // f, i % f) for i in range(n)}
        assert len(pairs) == n  # a split loses nothing, its extent apart
    assert [(5 + 3) // 4, 4] == [up(5, 4), 4] == [up(8, 4), 4]  # 5 and 8 both give (2, 4)
    for a, b in product(SMALL, SMALL):
        merged = [x * b + y for x, y in product(range(a), range(b))]
        assert [(m // b, m % b) for m in merged] == list(product(range(a), range(b)))
    assert 4 * 6 == 3 * 8
    cut = [i for i in range(8) if i < 4]
    assert cut == [i % 4 for i in range(8) if i < 4]  # equal after the cut,
    assert list(range(8)) != [i % 4 for i in range(8)]  # not before


def test_s_a_limit_is_only_an_upper_bound() -> None:
    """Digits of a symbolic axis by numbers: the rewrites hold for every value of the symbol."""
    for n, a, b in product(range(1, 60), SMALL, SMALL):
        assert [(i // a) // b for i in range(n)] == [i // (a * b) for i in range(n)]
    outer, inner = [[i // c for i in range(6)] for c in (up(6, 4), 2)]
    assert outer == inner  # OuterSplit(4) of 6 or 8 is InnerSplit(2)
    assert [i // up(16, 4) for i in range(16)] != [i // 2 for i in range(16)]


def _aligned(h: int, a: int, d: int) -> bool:
    k = h // a
    return all(i // up(h, d) == (i // k) // up(a, d) for i in range(h))


def test_a_reshape_under_an_outer_split() -> None:
    for a, k, d in product(range(1, 15), SMALL, SMALL):
        h, t = a * k, -a % d
        p, q = up(h, d), up(a, d) * k
        offsets = all(i % p == ((i // k) % up(a, d)) * k + i % k for i in range(h))
        assert _aligned(h, a, d) == offsets == (p == q) == (t * k < d)
        assert p <= q <= h
        if a % d == 0:
            assert p == q == h // d
        if h % d == 0 and h > 1:
            assert (p == q) == (a % d == 0)
    assert not _aligned(6, 3, 2)
    assert _aligned(10, 5, 3)
    assert _aligned(6, 2, 2)
    assert not _aligned(6, 2, 3)


def test_a_prime_reshape_under_an_inner_split() -> None:
    for a, k, d in product(SMALL, range(1, 13), SMALL):
        same = all(i % d == (i % k) % d for i in range(a * k))
        assert same == (a == 1 or k % d == 0)
    assert any(i % 2 != (i % 3) % 2 for i in range(6))
    assert _aligned(6, 2, 2)  # the outer split of the same reshape


def _device(i: int, c: int, d: int) -> int:
    return (i // c) % d


def test_b_windows_of_a_block_cyclic_axis() -> None:
    for d, c, s, n in product(range(1, 6), range(1, 5), range(24), range(1, 13)):
        same = all(_device(j + s, c, d) == _device(j, c, d) for j in range(n))
        assert same == (d == 1 or s % (c * d) == 0 or s % (c * d) + n <= c)
        if s % (c * d) == 0:
            local = [(i // (c * d)) * c + i % c for i in range(s + n)]
            assert all(local[j + s] == local[j] + s // d for j in range(n))


def test_b1_fused_qkv_under_an_inner_split() -> None:
    for d, hq, hk, hv in product(range(1, 6), *[range(1, 9)] * 3):
        starts = (0, hq), (hq, hk), (hq + hk, hv)
        q, k, v = (all((j + s) % d == j % d for j in range(n)) for s, n in starts)
        assert q
        assert k == (hq % d == 0)
        assert v == ((hq + hk) % d == 0)
        for r in range(d):
            cat = [s + j for s, n in starts for j in range(n) if j % d == r]
            if cat != [i for i in range(hq + hk + hv) if i % d == r]:
                assert hq % d or hk % d
                break
        else:
            assert hq % d == 0
            assert hk % d == 0
    assert sum((1, 1, 2)) % 2 == 0
    assert (0 + 1) % 2 != 0  # an even total, and the second piece starts at 1


def test_b2_blocks_are_aligned_for_every_device_count() -> None:
    for h, d, m in product(range(1, 25), SMALL, range(3)):
        c = up(h, d)
        assert all(((j + m * h) % h) // c == j // c for j in range(h))


def test_b3_a_miss_by_whole_blocks_is_a_rotation() -> None:
    for d, c, blocks, n in product(SMALL, range(1, 4), range(9), range(1, 13)):
        s = blocks * c
        for j in range(n):
            assert _device(j + s, c, d) == (_device(j, c, d) + blocks) % d
    moves = {_device(j + 1, 2, 3) - _device(j, 2, 3) for j in range(4)}
    assert moves == {0, 1}  # c does not divide s: no one rotation


def test_b4_aligned_slices_are_not_aligned_attention() -> None:
    for d, c, rep in product(range(1, 6), range(1, 4), range(1, 4)):
        hk = c * d
        hq = rep * hk
        for s, n in ((0, hq), (hq, hk), (hq + hk, hk)):
            assert all(_device(j + s, c, d) == _device(j, c, d) for j in range(n))
        together = all(_device(q, c, d) == _device(q // rep, c, d) for q in range(hq))
        assert together == (d == 1 or rep == 1)


def test_b_minus_outer_splits_on_both_sides_of_a_slice_rarely_agree() -> None:
    agree = total = 0
    for n_full in range(2, 21):
        for s, n, d in product(range(n_full), range(1, n_full), range(2, 7)):
            if s + n <= n_full:
                total += 1
                agree += all((j + s) // up(n_full, d) == j // up(n, d) for j in range(n))
    assert 0 < agree < total / 10
    assert all((j + 1) // 3 == j // 2 for j in range(4))  # N=6 s=1 n=4 d=2


def test_c_outer_and_inner_split() -> None:
    for n, d in product(range(1, 50), range(1, 50)):
        c = up(n, d)
        used = {i // c for i in range(n)}
        assert (up(n, c) == d) == ((d - 1) * c < n) == (len(used) == d)
    assert (100, up(5, 100)) != (up(5, 1), 1)
    assert len({i // up(4, 3) for i in range(4)}) == 2  # d <= N, and a device is empty


def test_d_resize_commutes_with_a_block_cyclic_split() -> None:
    for d, c, q, n in product(range(1, 5), range(1, 4), range(-3, 4), range(1, 20)):
        left = q * c * d
        for i in range(n):
            o = i + left
            if o >= 0:
                assert (_device(o, c, d), o % c) == (_device(i, c, d), i % c)
                assert o // (c * d) == i // (c * d) + q
    assert _device(0 + 1, 1, 2) != _device(0, 1, 2)


def test_h_outermost_results() -> None:
    for n, f, g in product(range(1, 49), SMALL, SMALL):
        if n % f == 0 and (n // f) % g == 0:
            e = n // f // g
            assert [i // f // g for i in range(n)] == [i // (n // e) for i in range(n)]
    for a, b, f in product(range(1, 13), SMALL, SMALL):
        same = [(x * b + y) // up(a * b, f) for x in range(a) for y in range(b)]
        outer = [x // up(a, f) for x in range(a) for _ in range(b)]
        if a % f == 0:
            assert same == outer
    assert [i // 3 for i in range(6)] != [(i // 2) // 2 for i in range(6)]  # A=3 B=2 f=2
    for a, d in product(range(2, 8), range(2, 8)):
        assert ((1 // d) % a, 1 % d) != (1 % a, (1 // a) % d)


def test_l_local_buffers_list_elements_in_global_order() -> None:
    for m, d, c, rows in product(range(1, 4), range(1, 4), range(1, 4), range(1, 3)):
        n = m * d * c
        for r in range(d):
            held = [(x, i) for x, i in product(range(rows), range(n)) if _device(i, c, d) == r]
            local = [(x, (i // (c * d)) * c + i % c) for x, i in held]
            assert local == sorted(local)
            assert [x * n + i for x, i in held] == sorted(x * n + i for x, i in held)


def test_r_strided_shards_are_digits_where_the_runs_are_equal() -> None:
    for n, m, d in product(range(1, 40), SMALL, range(2, 7)):
        block = up(n, m)
        c = up(block, d)
        runs = [range(b, min(b + block, n)) for b in range(0, n, block)]
        theirs = {i: (i - run[0]) // up(len(run), d) for run in runs for i in run}
        last = len(runs[-1])
        alike = up(last, d) == c or last <= up(last, d)
        same = all(theirs[i] == (i % block) // c for i in range(n))
        assert same == (n % m == 0 or c == 1 or alike)


def test_m_steps_on_two_mesh_dims_commute() -> None:
    """Elements with coordinates (x/4, x%4) go to (x%2, (x/2)%4): either order ends the same."""
    start = {x: (x // 4, x % 4) for x in range(8)}
    first = {x: ((x % 2), k) for x, (_, k) in start.items()}
    second = {x: (j, (x // 2) % 4) for x, (j, _) in start.items()}
    both = {x: (first[x][0], second[x][1]) for x in start}
    assert {x: (j, (x // 2) % 4) for x, (j, _) in first.items()} == both
    assert {x: (x % 2, k) for x, (_, k) in second.items()} == both
    shards = [4, 4, 2]  # N = 10 over 3 devices: no common second cut in 2
    assert len({up(n, 2) for n in shards}) > 1


def test_i_views_of_a_strided_input_are_strides() -> None:
    """Chains of permute, broadcast and squeeze: `axes` has x's axis, or None, per axis of y."""
    rng = random.Random()
    for _ in range(300):
        shape = [rng.randrange(1, 5) for _ in range(rng.randrange(1, 4))]
        strides = [rng.randrange(0, 9) for _ in shape]
        axes: list[int | None] = list(range(len(shape)))
        sizes, maps = list(shape), []
        for _ in range(rng.randrange(1, 6)):
            units = [k for k, n in enumerate(sizes) if n == 1]
            match rng.randrange(3):
                case 0:
                    order = rng.sample(range(len(sizes)), len(sizes))
                    maps.append(lambda j, order=order: [j[order.index(k)] for k in range(len(j))])
                    axes, sizes = [axes[k] for k in order], [sizes[k] for k in order]
                case 1:
                    at, wide = rng.randrange(len(sizes) + 1), rng.randrange(1, 4)
                    maps.append(lambda j, at=at: j[:at] + j[at + 1 :])
                    axes, sizes = [*axes[:at], None, *axes[at:]], [*sizes[:at], wide, *sizes[at:]]
                case 2 if units:
                    at = rng.choice(units)
                    maps.append(lambda j, at=at: [*j[:at], 0, *j[at:]])
                    del axes[at], sizes[at]
        for point in product(*map(range, sizes)):
            index = list(point)
            for step in reversed(maps):
                index = step(index)
            offset = sum(s * i for s, i in zip(strides, index, strict=True))
            moved = [0 if k is None else strides[k] for k in axes]
            assert offset == sum(s * i for s, i in zip(moved, point, strict=True))


def test_section_5_equality_on_an_edge_is_not_transitive() -> None:
    first, second = ([(j + s) % 2 == j % 2 for j in range(3)] for s in (0, 3))
    assert all(first)
    assert not all(second)


def test_the_independent_checks_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert oracle("id_theorems").main() == 0
    assert "FAIL" not in capsys.readouterr().out

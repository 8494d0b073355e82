"""Families: which literals of which member become parameters."""

from dataclasses import replace

from thunder_fuser.dtypes import DataType
from thunder_fuser.kernel.source import Parameter, Source
from thunder_fuser.runtime.family import Family, family_key
from thunder_fuser.target import HOST, cuda

SOURCE = Source("k", ("void k() { f(", "); }"), (3,), (), blocks=4, threads=32)


def test_first_members_are_static_and_stay_so() -> None:
    family = Family((64, 8))
    assert family.lifting((64, 8), 2) == ()
    assert family.lifting((128, 8), 2) == ()
    assert family.lifting((256, 8), 2) == ((0, 0),)
    assert family.lifting((128, 8), 2) == ()
    assert family.is_lifted


def test_a_position_that_ever_changed_stays_lifted() -> None:
    family = Family((64, 8, 1))
    seen = [(64, 8, 1), (64, 9, 1), (65, 8, 1), (64, 8, 2), (64, 10, 1)]
    lifted = [tuple(p for p, _ in family.lifting(literals, 1)) for literals in seen]
    assert lifted == [(), (1,), (0, 1), (0, 1, 2), (0, 1, 2)]


def test_static_members_add_to_what_changes() -> None:
    family = Family((64, 8))
    seen = ((64, 8), (64, 9), (70, 8))
    assert [family.lifting(x, 2) for x in seen] == [(), (), ((0, 0), (1, 1))]


def test_literals_that_change_alike_share_a_parameter() -> None:
    family = Family((64, 72, 128, 64))
    seen = [(64, 72, 128, 64), (96, 104, 192, 96), (128, 136, 256, 128)]
    liftings = [family.lifting(literals, 1) for literals in seen]
    assert liftings[1:] == [((0, 0), (1, 0), (2, 2), (3, 0))] * 2


def test_a_member_in_which_they_differ_parts_literals_for_good() -> None:
    family = Family((64, 64))
    seen = [(64, 64), (65, 65), (66, 70), (67, 67)]
    liftings = [family.lifting(literals, 1) for literals in seen]
    assert liftings[1:] == [((0, 0), (1, 0)), ((0, 0), (1, 1)), ((0, 0), (1, 1))]


def test_literals_of_two_widths_or_kinds_share_nothing() -> None:
    family = Family((2**31 - 4, 2**31 + 4))
    family.lifting((2**31 - 4, 2**31 + 4), 1)
    assert family.lifting((2**31 - 3, 2**31 + 5), 1) == ((0, 0), (1, 1))
    family = Family((64, 64, 0, 0), hints=frozenset({2, 3}), counts=frozenset({1}))
    family.lifting((64, 64, 0, 0), 1)
    assert family.lifting((65, 65, 1, 1), 1) == ((0, 0), (1, 1), (2, 2), (3, 2))


def test_counts_share_nothing_though_they_change_alike() -> None:
    family = Family((64, 3, 3, 1), counts=frozenset({1, 2, 3}))
    family.lifting((64, 3, 3, 1), 1)
    assert family.lifting((65, 4, 4, 1), 1) == ((0, 0), (1, 1), (2, 2), (3, 3))


def test_hints_and_counts_are_lifted_before_they_change() -> None:
    family = Family((64, 8, 0, 1), hints=frozenset({2}), counts=frozenset({3}))
    seen = [(64, 8, 0, 1), (128, 8, 0, 1), (256, 8, 0, 1), (512, 8, 1, 2)]
    lifted = ((0, 0), (2, 2), (3, 3))
    assert [family.lifting(n, 2) for n in seen] == [(), (), lifted, lifted]


def test_members_that_differ_in_hints_alone_count_once() -> None:
    family = Family((64, 8, 0), hints=frozenset({2}))
    seen = [(64, 8, 0), (64, 8, 1), (128, 8, 0), (128, 8, 1), (256, 8, 0)]
    lifted = ((0, 0), (2, 2))
    assert [family.lifting(literals, 2) for literals in seen] == [(), (), (), (), lifted]


def test_family_is_one_whatever_literals_and_grid() -> None:
    same = replace(SOURCE, literals=(5,), blocks=9)
    assert family_key(same, HOST, ()) == family_key(SOURCE, HOST, ())


def test_family_differs_by_text_parameters_threads_target_and_flags() -> None:
    pointer = Parameter("x", DataType.Float, is_pointer=True)
    others = [
        family_key(replace(SOURCE, fragments=("void k() { g(", "); }")), HOST, ()),
        family_key(replace(SOURCE, parameters=(pointer,)), HOST, ()),
        family_key(replace(SOURCE, threads=64), HOST, ()),
        family_key(SOURCE, cuda("sm_90a", 132), ()),
        family_key(SOURCE, HOST, ("-g",)),
    ]
    assert len({*others, family_key(SOURCE, HOST, ())}) == 6

"""Families: which literals of which member become parameters."""

from dataclasses import replace

from thunder_fuser.dtypes import DataType
from thunder_fuser.kernel.source import Parameter, Source
from thunder_fuser.runtime.family import Family, family_key
from thunder_fuser.target import HOST, cuda

SOURCE = Source("k", ("void k() { f(", "); }"), (3,), (), blocks=4, threads=32)


def test_first_members_are_static_and_stay_so() -> None:
    family = Family((64, 8))
    assert family.positions((64, 8), 2) == ()
    assert family.positions((128, 8), 2) == ()
    assert family.positions((256, 8), 2) == (0,)
    assert family.positions((128, 8), 2) == ()
    assert family.is_lifted


def test_a_position_that_ever_changed_stays_lifted() -> None:
    family = Family((64, 8, 1))
    seen = [(64, 8, 1), (64, 9, 1), (65, 8, 1), (64, 8, 2), (64, 10, 1)]
    positions = [family.positions(literals, 1) for literals in seen]
    assert positions == [(), (1,), (0, 1), (0, 1, 2), (0, 1, 2)]


def test_static_members_add_to_what_changes() -> None:
    family = Family((64, 8))
    assert [family.positions(x, 2) for x in ((64, 8), (64, 9), (70, 8))] == [(), (), (0, 1)]


def test_hints_and_counts_are_lifted_before_they_change() -> None:
    family = Family((64, 8, 0, 1), hints=frozenset({2}), counts=frozenset({3}))
    seen = [(64, 8, 0, 1), (128, 8, 0, 1), (256, 8, 0, 1), (512, 8, 1, 2)]
    assert [family.positions(n, 2) for n in seen] == [(), (), (0, 2, 3), (0, 2, 3)]


def test_members_that_differ_in_hints_alone_count_once() -> None:
    family = Family((64, 8, 0), hints=frozenset({2}))
    seen = [(64, 8, 0), (64, 8, 1), (128, 8, 0), (128, 8, 1), (256, 8, 0)]
    assert [family.positions(literals, 2) for literals in seen] == [(), (), (), (), (0, 2)]


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

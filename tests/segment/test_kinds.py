"""Kinds of values, which are filled while a fusion is walked."""

from __future__ import annotations

from tests.schedule.segments import floats
from thunder_fuser.segment.kinds import Kind


def test_kinds_with_the_same_rules_have_members_of_their_own() -> None:
    def rules() -> Kind:
        return Kind(lambda tv: True, lambda a, b: True, lambda a, b: False, "none")

    first, second = rules(), rules()
    first.members.add(floats(3))
    assert not second.members

"""The bounded mapping."""

from thunder_fuser.runtime.recent import Recent


def test_what_was_not_used_for_longest_goes_first() -> None:
    recent: Recent[str, int] = Recent(2)
    recent.keep("a", 1)
    recent.keep("b", 2)
    assert recent.get("a") == 1
    recent.keep("c", 3)
    assert [recent.get(key) for key in "abc"] == [1, None, 3]
    assert recent.values() == (1, 3)


def test_the_first_value_of_a_key_is_kept() -> None:
    recent: Recent[str, int] = Recent(2)
    assert [recent.keep("a", 1), recent.keep("a", 2)] == [1, 1]

"""Observers see what passes by and change nothing."""

from thunder_fuser.passes import Watch


class Notes:
    def __init__(self) -> None:
        self.seen: list[tuple[str, object, int | None]] = []

    def see(self, stage: str, value: object, segment: int | None) -> None:
        self.seen.append((stage, value, segment))


def test_every_observer_sees_the_value_that_is_handed_on() -> None:
    first, second, value = Notes(), Notes(), object()
    watch = Watch((first, second))
    assert watch("fusion", value) is value
    assert watch("kernel", None, 3) is None
    assert first.seen == second.seen == [("fusion", value, None), ("kernel", None, 3)]

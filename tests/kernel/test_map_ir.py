"""Bodies and their ranges of blocks: those of a group take turns, groups follow one another."""

from __future__ import annotations

from thunder_fuser.ir.domain import axis
from thunder_fuser.kernel.map_ir import Body, Kernel


def body(threads: int) -> Body:
    """That many threads, each with one element and nothing to do."""
    return Body((axis(threads),), None, 1, (), (), ())


def kernel(*groups: tuple[Body, ...]) -> Kernel:
    return Kernel((), (), groups, threads=32)


def test_a_body_has_a_thread_for_each_point_of_its_axes() -> None:
    assert Body((axis(3), axis(22)), None, 1, (), (), ()).threads == 66
    assert body(66).blocks(32) == 3


def test_bodies_of_a_group_take_turns_as_often_as_the_smaller_one_has_blocks() -> None:
    (found,) = kernel((body(64), body(192))).ranges
    assert (found.rounds, found.counts, found.start, found.end) == (2, (1, 3), 0, 8)


def test_a_round_has_room_for_blocks_that_the_rounds_do_not_divide() -> None:
    (found,) = kernel((body(96), body(160))).ranges
    assert (found.rounds, found.counts, found.end) == (3, (1, 2), 9)


def test_a_single_block_does_not_make_the_others_wait_for_each_other() -> None:
    """Three elements behind whole vectors, of a column whose lines others write parts of."""
    (found,) = kernel((body(192), body(64), body(3))).ranges
    assert (found.rounds, found.counts, found.end) == (2, (3, 1, 1), 10)
    (found,) = kernel((body(192), body(3))).ranges
    assert (found.rounds, found.counts) == (1, (6, 1))


def test_groups_follow_one_another() -> None:
    found = kernel((body(64),), (body(96), body(96)))
    assert [(r.start, r.end) for r in found.ranges] == [(0, 2), (2, 8)]
    assert found.blocks == 8


def test_a_kernel_without_bodies_has_no_blocks() -> None:
    assert kernel().blocks == 0
    assert kernel().shared_bytes == 0

"""Slots, threads and blocks for images that pass through shared memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.programs import H200
from thunder_fuser.analysis.image_slots import ImagePlanes, ImageSlots, pitch
from thunder_fuser.target import MAX_THREADS


def alone(rows: int, vectors: int, *itemsizes: int, lanes: int = 1) -> ImagePlanes:
    return ImagePlanes(rows, vectors, lanes, itemsizes, along=8, beside=0, of_place=0)


def walking(rows: int, vectors: int, *itemsizes: int, lanes: int = 1) -> ImagePlanes:
    return ImagePlanes(rows, vectors, lanes, itemsizes, along=12, beside=8)


def turned(rows: int, vectors: int, size: int, lanes: int = 1) -> ImagePlanes:
    """One plane as it lies, and one that is turned."""
    return replace(walking(rows, vectors, size, lanes=lanes), turned=(size,))


@pytest.mark.parametrize(
    ("planes", "slots"),
    [
        (alone(512, 49, 2), ImageSlots(1, 490, 4)),
        (alone(768, 49, 2), ImageSlots(1, 490, 2)),
        (alone(1024, 49, 2), ImageSlots(1, 490, 2)),
        (alone(512, 49, 2, 2), ImageSlots(1, 980, 2)),  # as many threads for each plane
        (alone(192, 49, 2, 2), ImageSlots(1, 490, 4)),  # of small images in several blocks
        (walking(512, 49, 2, 2), ImageSlots(2, 512, 1)),
        (walking(768, 49, 2, 2), ImageSlots(1, 768, 1)),  # no room for the next images
        (walking(256, 49, 2, 2), ImageSlots(2, 512, 2)),
        (walking(128, 49, 2, 2, lanes=4), ImageSlots(2, 384, 1)),
        (turned(512, 49, 2), ImageSlots(2, 512, 1)),
        (turned(1024, 49, 2), ImageSlots(1, 1024, 1)),
        (turned(128, 196, 2), ImageSlots(2, 800, 1)),  # four threads of each place
        (turned(192, 196, 2), ImageSlots(1, 800, 1)),
        (replace(alone(512, 49, 2), turns_out=True), ImageSlots(1, 512, 4)),  # a thread a row
        (replace(alone(768, 49, 2), turns_out=True), ImageSlots(1, 768, 2)),
    ],
    ids=str,
)
def test_as_many_as_shared_memory_holds(planes: ImagePlanes, slots: ImageSlots) -> None:
    assert planes.slots(H200) == slots


@pytest.mark.parametrize(
    "planes",
    [
        alone(511, 49, 2),  # no whole accesses
        alone(2000, 49, 2),  # too large for two blocks
        alone(128, 49, 2),  # small
        alone(512, 49, 2, lanes=2),  # vectors, of which registers hold many
        walking(1200, 49, 2, 2),  # too large for one
        walking(128, 49, 4, 4, lanes=4),
        walking(2, 49, 8, 8),  # no two rows for each of two threads
        turned(250, 49, 2),  # rows are no whole accesses
        turned(128, 49, 2, lanes=4),
        turned(128, 144, 2),  # eight of a place's rows are in a bank
        turned(8, 196, 2),  # one access of each place, for one thread
        replace(alone(512, 144, 2), turns_out=True),
    ],
    ids=str,
)
def test_other_images_stay_in_registers(planes: ImagePlanes) -> None:
    assert planes.slots(H200) is None


@pytest.mark.parametrize("rows", [16, 48, 80, 96, 200, 264, 512, 776, 1032])
@pytest.mark.parametrize("itemsize", [2, 4])
def test_what_is_asked_for_fits(rows: int, itemsize: int) -> None:
    for planes in (walking(rows, 49, itemsize), walking(rows, 20, itemsize, itemsize)):
        found = planes.slots(H200)
        assert found is not None
        assert found.threads <= MAX_THREADS
        assert found.threads % 32 == 0
        held = found.slots * planes.elements * sum(planes.itemsizes)
        assert found.blocks * held <= H200.shared_bytes
        assert planes.slots(replace(H200, shared_bytes=held // 4)) is None


def test_arrays_of_rows_and_places_leave_room_for_fewer_blocks() -> None:
    planes = replace(alone(512, 49, 2), of_row=8)
    assert planes.slots(H200) == ImageSlots(1, 490, 3)
    planes = replace(walking(128, 49, 2, 2, lanes=4), of_place=128)
    assert planes.slots(H200) == ImageSlots(1, 384, 1)
    for many in (replace(alone(512, 49, 2), of_row=96), replace(planes, of_place=256)):
        assert many.slots(H200) is None  # more than blocks have without asking


def test_a_smaller_gpu_has_fewer_blocks() -> None:
    small = replace(H200, threads_per_multiprocessor=1536)
    assert alone(512, 49, 2).slots(small) == ImageSlots(1, 490, 3)


@pytest.mark.parametrize("rows", [8, 56, 64, 120, 512])
@pytest.mark.parametrize("itemsize", [2, 4, 8])
def test_places_of_turned_planes_are_in_other_banks(rows: int, itemsize: int) -> None:
    """Of eight threads, each of which loads an access at a time."""
    step = pitch(rows, itemsize) * itemsize
    assert step >= rows * itemsize
    assert step % 16 == 0
    assert len({place * step % 128 for place in range(8)}) == 8

"""Targets: how they print, compare and refuse."""

import pytest

from thunder_fuser.target import (
    HOST,
    architecture,
    blocks_among,
    clusters_at_once,
    cuda,
    registers_among,
)


def test_targets_print_as_they_are_written() -> None:
    assert str(cuda("sm_90a", 132)) == "cuda:sm_90a"
    assert str(HOST) == "host"


def test_equal_machines_are_equal_keys() -> None:
    assert len({cuda("sm_90a", 132), cuda("sm_90a", 132), cuda("sm_90", 132), HOST}) == 3


@pytest.mark.parametrize(
    ("capability", "name"), [((8, 0), "sm_80"), ((9, 0), "sm_90a"), ((12, 1), "sm_121a")]
)
def test_a_capability_names_the_chip_specific_architecture(
    capability: tuple[int, int], name: str
) -> None:
    assert architecture(*capability) == name


@pytest.mark.parametrize("arch", ["90", "sm90", "sm_", "compute_90", "sm_90 "])
def test_a_word_that_is_no_architecture_is_refused_by_name(arch: str) -> None:
    with pytest.raises(ValueError, match=f"'{arch}' is no CUDA architecture.*sm_90a"):
        cuda(arch, 132)


@pytest.mark.parametrize(
    ("arch", "blocks"),
    [("sm_80", 1), ("sm_89", 1), ("sm_90a", 16), ("sm_100a", 16), ("sm_121a", 1)],
)
def test_gpus_of_data_centres_run_clusters_from_hopper_on(arch: str, blocks: int) -> None:
    assert cuda(arch, 132).max_cluster == blocks


@pytest.mark.parametrize(("multiprocessors", "blocks"), [(16, 8), (112, 8), (113, 16), (144, 16)])
def test_a_gpu_has_large_clusters_where_one_of_its_districts_must_hold_them(
    multiprocessors: int, blocks: int
) -> None:
    assert cuda("sm_90a", multiprocessors).max_cluster == blocks


@pytest.mark.parametrize(("cluster", "count"), [(1, 132), (2, 62), (4, 31), (8, 15), (16, 7)])
def test_clusters_leave_some_multiprocessors_idle(cluster: int, count: int) -> None:
    assert clusters_at_once(cluster, 132) == count


def test_a_machine_has_a_cluster_at_a_time_however_small_it_is() -> None:
    assert clusters_at_once(8, 1) == 1


@pytest.mark.parametrize(("threads", "most"), [(512, 128), (576, 96), (640, 96), (1024, 64)])
def test_warps_take_registers_of_their_partition(threads: int, most: int) -> None:
    assert registers_among(threads) == most


@pytest.mark.parametrize(
    ("registers", "threads", "blocks"), [(109, 32, 16), (86.4, 64, 10), (128, 512, 1), (24, 32, 32)]
)
def test_so_do_the_warps_of_several_blocks(registers: float, threads: int, blocks: int) -> None:
    assert blocks_among(registers, threads) == blocks


def test_the_host_has_the_clusters_of_a_gpu() -> None:
    assert HOST.max_cluster == cuda("sm_90a", 132).max_cluster


def test_a_gpu_without_multiprocessors_is_refused() -> None:
    with pytest.raises(ValueError, match="multiprocessors=0"):
        cuda("sm_90a", 0)

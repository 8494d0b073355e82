"""What is measured can be named; wrong names get the nearest."""

from __future__ import annotations

import re

import pytest
import torch

from benchmarks.executors import EXECUTORS, Absent
from benchmarks.selection import executors_for, select, table
from benchmarks.suites import SUITES

CPU = torch.device("cpu")


def test_a_workload_is_taken_from_the_suites_named() -> None:
    (suite,) = select(SUITES, "sweep", "softmax", {})
    assert suite.name == "sweep"
    assert [w.name for w in suite.workloads] == ["softmax"]
    assert [s.name for s in select(SUITES, None, "softmax", {})] == ["kernels", "sweep", "host"]


def test_a_size_is_replaced_where_there_is_one() -> None:
    rope, kernels = select(SUITES, "rope,kernels", "hf_llama2_7b,rmsnorm", {"length": "3,5"})
    for sizes in (rope.workloads[0].sizes, rope.workloads[0].quick):
        assert [one["length"] for one in sizes] == [3, 5]
    assert [one["columns"] for one in kernels.workloads[0].sizes] == [4096, 16384]


def test_the_list_names_workloads_and_sizes() -> None:
    text = table(select(SUITES, "kernels", "softmax", {}), is_quick=False)
    assert text.splitlines() == [
        "kernels: memory-bound patterns",
        "  softmax                  rows=16384 columns=4096",
        "  softmax                  rows=2048 columns=65536",
    ]


@pytest.mark.parametrize(
    ("suites", "works", "sizes", "message"),
    [
        ("kernel", None, {}, "no suite 'kernel': did you mean kernels?"),
        (None, "sofmax", {}, "no workload 'sofmax': did you mean softmax?"),
        ("rope", "softmax", {}, "no workload 'softmax': there are hf_llama2_7b, "),
        (None, None, {"length": "1k"}, "length '1k': give whole numbers from 1"),
        (None, None, {"layers": "0"}, "layers '0': give whole numbers from 1"),
        ("sweep", None, {"layers": "2"}, "layers '2': no workload that was chosen has that size"),
    ],
)
def test_what_is_unknown_gets_the_nearest(
    suites: str | None, works: str | None, sizes: dict[str, str | None], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        select(SUITES, suites, works, sizes)


@pytest.mark.parametrize("name", ["inductor", "torchcompile_cat"])
def test_slow_peers_must_be_named_on_the_host_target(name: str) -> None:
    by_name = {executor.name: executor for executor in executors_for(None, EXECUTORS, CPU)}
    assert list(by_name) == [executor.name for executor in EXECUTORS]
    with pytest.raises(Absent, match=f"--exec {name} runs it"):
        by_name[name].load(CPU)
    (named,) = executors_for(name, EXECUTORS, CPU)
    named.load(CPU)


def test_lengths_are_those_of_what_comes_in_several_before_others() -> None:
    """So that one call measures all suites, with some lengths of RoPE alone."""
    found = select(SUITES, None, None, {"length": "3,5", "layers": "2,8"})
    sizes = {(s.name, w.name): w.sizes for s in found for w in s.workloads}
    assert [each["length"] for each in sizes["rope", "hf_qwen2_7b"]] == [3, 5]
    assert [each["length"] for each in sizes["models", "pythia_1_4b"]] == [2048, 2048]
    assert [each["layers"] for each in sizes["models", "pythia_1_4b"]] == [2, 8]
    assert [each["length"] for each in sizes["kernels", "rope_llama3_8b"]] == [8192]
    assert sizes["compile", "identical_layers"][0]["depth"] == 32
    (models,) = select(SUITES, "models", "pythia_1_4b", {"length": "512"})
    assert models.workloads[0].sizes == ({"batch": 1, "length": 512, "layers": 2},)

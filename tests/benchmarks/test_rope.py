"""Rotary embeddings: what they compute, and whose sizes they have."""

from __future__ import annotations

import pytest
import torch

from benchmarks import kernels, rope
from benchmarks.rope import Model

CPU = torch.device("cpu")


def turned(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Element n and n + half of a head are one complex number, times cos + i sin."""
    half = cos.size(-1) // 2
    turn = torch.complex(cos[..., :half], sin[..., :half])
    pairs = torch.complex(heads[..., :half], heads[..., half : 2 * half]) * turn
    return torch.cat((pairs.real, pairs.imag, heads[..., 2 * half :]), dim=-1)


def doubled(table: torch.Tensor) -> torch.Tensor:
    """As models make cos and sin: both halves of a row are equal."""
    half = table.size(-1) // 2
    return torch.cat((table[..., :half], table[..., :half]), dim=-1)


def test_litgpt_turns_pairs_of_elements_of_a_part_of_each_head() -> None:
    workload = next(w for w in kernels.WORKLOADS if w.name == "rope_partial")
    sizes = workload.quick[0]
    case = workload.case(CPU, sizes)
    qkv, cos, sin = (t.detach().double() for t in case.inputs)
    cos, sin = doubled(cos), doubled(sin)
    q, k, v = case.function(qkv, cos, sin)
    heads = qkv.view(1, sizes["length"], sizes["groups"], 3, sizes["head_size"]).transpose(1, 2)
    torch.testing.assert_close(q, turned(heads[..., 0, :], cos, sin))
    torch.testing.assert_close(k, turned(heads[..., 1, :], cos, sin))
    torch.testing.assert_close(v, heads[..., 2, :])


@pytest.mark.parametrize("name", ["hf_llama3_8b", "hf_llama2_7b", "hf_phi3_mini"])
def test_hugging_face_turns_heads_and_repeats_those_of_a_group(name: str) -> None:
    workload = next(w for w in rope.WORKLOADS if w.name == name)
    sizes = workload.quick[0]
    case = workload.case(CPU, sizes)
    *qkv, cos, sin = (t.detach().double() for t in case.inputs)
    cos, sin = doubled(cos), doubled(sin)
    found = case.function(*qkv, cos, sin)
    heads = torch.cat(qkv, dim=-1).view(1, sizes["length"], -1, sizes["head_size"]).transpose(1, 2)
    counts = (sizes["heads"], sizes["groups"], sizes["groups"])
    q, k, v = heads.split(counts, dim=1)
    repeats = sizes["heads"] // sizes["groups"]
    expected = (turned(q, cos, sin), turned(k, cos, sin), v)
    for one, other in zip(found, expected, strict=True):
        times = 1 if one.shape == other.shape else repeats
        torch.testing.assert_close(one, other.repeat_interleave(times, dim=1))
    assert [t.size(1) for t in found] == 3 * [sizes["heads"]]


@pytest.mark.parametrize("model", rope.MODELS, ids=lambda model: model.name)
def test_sizes_are_those_of_the_model(model: Model) -> None:
    config = pytest.importorskip("litgpt.config")
    if model.config is None:
        pytest.skip("LitGPT does not know this model")
    known = config.Config.from_name(model.config)
    assert (known.n_head, known.n_query_groups) == (model.heads, model.groups)
    assert known.head_size == known.rope_n_elem == model.head_size


def test_every_model_is_measured_from_1k_to_32k() -> None:
    for workload in rope.WORKLOADS:
        assert [sizes["length"] for sizes in workload.sizes] == [2**k for k in range(10, 16)]

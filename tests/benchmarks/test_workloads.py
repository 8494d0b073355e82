"""Workloads: what their functions return, and the bytes they cannot do without."""

from __future__ import annotations

import pytest
import torch

from benchmarks.workloads import WORKLOADS, Workload

CPU = torch.device("cpu")
BY_NAME = {workload.name: workload for workload in WORKLOADS}


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_two_builds_are_the_same_numbers(workload: Workload) -> None:
    one, other = (workload.case(CPU, is_quick=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one.inputs, other.inputs, strict=True))


@pytest.mark.parametrize(
    ("name", "forward", "backward"),
    [
        # bf16, 33 x 200: 13,200 bytes; a row of it 400
        ("softmax", 2 * 13_200, 3 * 13_200),
        ("rmsnorm", 2 * 13_200 + 400, 3 * 13_200 + 800),
        ("column_sum", 13_200 + 400, 13_200 + 400),
        ("cross_entropy", 13_200 + 33 * 8 + 2, 2 * 13_200 + 33 * 8 + 2),
        # 9 tokens of 16: a head is 288 bytes, as are cos and sin; 4 + 4 of 12 heads turn
        ("rope_llama2_7b", 2 * 288 + 288 * 16, 2 * 288 + 288 * 24),
        # 4 + 2 + 2 heads are read, 12 are written
        ("rope_llama3_8b", 2 * 288 + 288 * 20, 2 * 288 + 288 * 20),
    ],
)
def test_minimal_bytes(name: str, forward: int, backward: int) -> None:
    case = BY_NAME[name].case(CPU, is_quick=True)
    assert (case.forward_bytes, case.backward_bytes) == (forward, backward)


def test_rope_turns_pairs_of_elements() -> None:
    """Against the complex product: element n and n + half of a head are one number."""
    sizes = BY_NAME["rope_partial"].quick
    case = BY_NAME["rope_partial"].case(CPU, is_quick=True)
    qkv, cos, sin = (t.detach().double() for t in case.inputs)
    half = sizes["rotated"] // 2
    cos[:, half:], sin[:, half:] = cos[:, :half].clone(), sin[:, :half].clone()
    q, k, v = case.function(qkv, cos, sin)
    heads = qkv.view(1, sizes["length"], sizes["groups"], 3, sizes["head_size"]).transpose(1, 2)
    turn = torch.complex(cos[:, :half], sin[:, :half])
    for found, source in ((q, heads[..., 0, :]), (k, heads[..., 1, :])):
        turned = torch.complex(source[..., :half], source[..., half : 2 * half]) * turn
        torch.testing.assert_close(found[..., :half], turned.real)
        torch.testing.assert_close(found[..., half : 2 * half], turned.imag)
        torch.testing.assert_close(found[..., 2 * half :], source[..., 2 * half :])
    torch.testing.assert_close(v, heads[..., 2, :])

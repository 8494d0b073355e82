"""Rotary embeddings, as the attention of nine models applies them, over sequence lengths.

Two layouts: Hugging Face's, where q, k and v come from projections of their own (Phi-3: from one,
cut in three), and LitGPT's, where one projection holds the heads of a group side by side. Head
counts and sizes are the models' published ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from benchmarks import liger
from benchmarks.cases import FROZEN, Case, Make, Sizes, Tensors, Workload, nbytes

Turn = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], Tensors]

LENGTHS = (1024, 2048, 4096, 8192, 16384, 32768)
BATCH = 1
QUICK_LENGTH = 7
_NOT_LIGERS = "Liger's rotation takes q and k as Hugging Face's models hold them, not LitGPT's"
_QUICK_PER_GROUP, _QUICK_GROUPS, _QUICK_HEAD_SIZE = 2, 2, 16


def litgpt(
    make: Make,
    *,
    batch: int,
    length: int,
    heads: int,
    groups: int,
    head_size: int,
    rotated: int,
) -> Case:
    """LitGPT's attention front end: qkv (batch, length, (heads + 2 groups) head_size) and cos, sin
    (length, rotated) -> rotated q and k, and v, each (batch, heads, length, head_size)."""
    is_replicated = groups not in (1, heads)

    def function(qkv: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Tensors:
        per_group = heads // groups
        grouped = qkv.view(batch, length, groups, per_group + 2, head_size).permute(0, 2, 3, 1, 4)
        q, k, v = grouped.split((per_group, 1, 1), dim=2)
        if is_replicated:
            k, v = (t.expand(batch, groups, per_group, length, head_size) for t in (k, v))
        q, k, v = (t.reshape(batch, -1, length, head_size) for t in (q, k, v))
        return _turned(q, cos, sin), _turned(k, cos, sin), v

    qkv = make.random(batch, length, (heads + 2 * groups) * head_size)
    cos, sin = (make.random(length, rotated, gradient=FROZEN) for _ in range(2))
    tables = nbytes(cos, sin)
    forward, backward = _bytes(nbytes(qkv), tables, heads, groups, is_replicated)
    return Case(function, (qkv, cos, sin), forward, backward, liger=_NOT_LIGERS)


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """`x` with the first elements of each head rotated, as many as `cos` has."""
    rotated = cos.size(-1)
    part = x[..., :rotated]
    low, high = part[..., : rotated // 2], part[..., rotated // 2 :]
    turned = part * cos + torch.cat((-high, low), dim=-1) * sin
    return torch.cat((turned.to(x.dtype), x[..., rotated:]), dim=-1)


def hugging_face(
    make: Make, *, batch: int, length: int, heads: int, groups: int, head_size: int
) -> Case:
    """Hugging Face's: q (batch, length, heads head_size), k and v of `groups` heads, and cos, sin
    (1, length, head_size), whose halves are equal as those of models are -> rotated q and k, and v,
    each (batch, heads, length, head_size)."""

    def apply(turn: Turn, *inputs: torch.Tensor) -> Tensors:
        return _attention_inputs(turn, inputs[:3], inputs[3:], head_size)

    qkv = [make.random(batch, length, count * head_size) for count in (heads, groups, groups)]
    return _hugging_face(make, apply, qkv, heads, groups, head_size)


def phi3(make: Make, *, batch: int, length: int, heads: int, groups: int, head_size: int) -> Case:
    """As `hugging_face`, from one projection (batch, length, (heads + 2 groups) head_size) that
    holds all of q, then all of k, then all of v."""

    def apply(turn: Turn, *inputs: torch.Tensor) -> Tensors:
        sizes = [count * head_size for count in (heads, groups, groups)]
        return _attention_inputs(turn, inputs[0].split(sizes, dim=-1), inputs[1:], head_size)

    qkv = make.random(batch, length, (heads + 2 * groups) * head_size)
    return _hugging_face(make, apply, [qkv], heads, groups, head_size)


def _attention_inputs(
    turn: Turn, qkv: Sequence[torch.Tensor], tables: Sequence[torch.Tensor], head_size: int
) -> Tensors:
    q, k, v = (t.view(*t.shape[:2], -1, head_size).transpose(1, 2) for t in qkv)
    repeats = q.size(1) // k.size(1)
    q, k = turn(q, k, *tables)
    return q, _repeated(k, repeats), _repeated(v, repeats)


def _repeated(x: torch.Tensor, repeats: int) -> torch.Tensor:
    """Each head `repeats` times."""
    if repeats == 1:
        return x
    batch, heads, length, size = x.shape
    return (
        x[:, :, None]
        .expand(batch, heads, repeats, length, size)
        .reshape(batch, heads * repeats, length, size)
    )


def _turn(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Tensors:
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + _half_turned(q) * sin, k * cos + _half_turned(k) * sin


def _half_turned(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def _hugging_face(
    make: Make,
    apply: Callable[..., Tensors],
    qkv: Sequence[torch.Tensor],
    heads: int,
    groups: int,
    head_size: int,
) -> Case:
    length = qkv[0].size(1)
    cos, sin = (
        torch.cat(2 * (make.random(1, length, head_size // 2, gradient=FROZEN),), dim=-1)
        for _ in range(2)
    )
    forward, backward = _bytes(nbytes(*qkv), nbytes(cos, sin), heads, groups, groups != heads)
    return Case(
        lambda *inputs: apply(_turn, *inputs),
        (*qkv, cos, sin),
        forward,
        backward,
        liger=liger.rope(apply),
    )


def _bytes(qkv: int, tables: int, heads: int, groups: int, is_replicated: bool) -> tuple[int, int]:
    """Forward and backward, of `qkv` bytes for all heads and `tables` for cos and sin."""
    one_head = qkv // (heads + 2 * groups)
    wide = heads if is_replicated else groups
    # Without replication v is a view of the input.
    values = groups + wide if is_replicated else 0
    forward = tables + one_head * (heads + groups + heads + wide + values)
    return forward, tables + one_head * (heads + 2 * wide) + qkv


@dataclass(frozen=True)
class Model:
    """A model's attention, all of each head rotated. `config` is LitGPT's name of the model,
    where it has one."""

    name: str
    build: Callable[..., Case]
    heads: int
    groups: int
    head_size: int
    config: str | None

    def sizes(self, batch: int, length: int) -> Sizes:
        found = {"batch": batch, "length": length, "heads": self.heads, "groups": self.groups}
        return self._complete(found | {"head_size": self.head_size})

    @property
    def quick(self) -> Sizes:
        """Few heads, as many per group as would make the same thing of replication."""
        groups = _QUICK_GROUPS
        heads = groups if self.heads == self.groups else groups * _QUICK_PER_GROUP
        found = {"batch": 1, "length": QUICK_LENGTH, "heads": heads, "groups": groups}
        return self._complete(found | {"head_size": _QUICK_HEAD_SIZE})

    def _complete(self, sizes: Sizes) -> Sizes:
        return {**sizes, "rotated": sizes["head_size"]} if self.build is litgpt else sizes


MODELS = (
    Model("hf_llama2_7b", hugging_face, 32, 32, 128, "Llama-2-7b-hf"),
    Model("hf_llama3_8b", hugging_face, 32, 8, 128, "Llama-3-8B"),
    Model("hf_qwen2_7b", hugging_face, 28, 4, 128, "Qwen2.5-7B"),  # as Qwen2's
    Model("hf_phi3_mini", phi3, 32, 32, 96, "Phi-3-mini-4k-instruct"),
    Model("hf_mistral_nemo", hugging_face, 32, 8, 128, None),
    Model("litgpt_gemma2_9b", litgpt, 16, 8, 256, "Gemma-2-9b"),
    Model("litgpt_mistral_7b", litgpt, 32, 8, 128, "Mistral-7B-v0.1"),
    Model("litgpt_llama3_8b", litgpt, 32, 8, 128, "Llama-3-8B"),
    Model("litgpt_phi35_mini", litgpt, 32, 32, 96, "Phi-3.5-mini-instruct"),
)

WORKLOADS: Sequence[Workload] = tuple(
    Workload(
        model.name,
        model.build,
        tuple(model.sizes(BATCH, length) for length in LENGTHS),
        (model.quick,),
    )
    for model in MODELS
)


def _anchor(
    name: str, batch: int, length: int, heads: int, groups: int, rotated: int = 128
) -> Workload:
    full = {"batch": batch, "length": length, "heads": heads, "groups": groups}
    full |= {"head_size": 128, "rotated": rotated}
    quick = {"batch": 1, "length": QUICK_LENGTH, "heads": 4, "groups": 4 if groups == heads else 2}
    quick |= {"head_size": 16, "rotated": 16 * rotated // 128}
    return Workload(name, litgpt, (full,), (quick,))


# The rows that figures of earlier runs exist for; they stand among the kernels.
ANCHORS: Sequence[Workload] = (
    _anchor("rope_llama2_7b", 2, 4096, 32, 32),
    _anchor("rope_llama3_8b", 2, 8192, 32, 8),
    _anchor("rope_mistral_7b", 1, 4096, 32, 8),
    _anchor("rope_partial", 2, 4096, 32, 32, rotated=32),
)

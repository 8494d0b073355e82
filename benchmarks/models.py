"""LitGPT's blocks and whole models: a training step and inference.

A step is the forward, the loss and the backward; the loss of a model is computed by eager torch,
outside of what is compiled, as training loops do. LitGPT is an extra: nothing of it is imported
before a case is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.cases import INFERENCE, STEP, Case, Make, Workload

BATCH, LENGTH, LAYERS = 1, 4096, 2
_QUICK_BLOCK = {"batch": 1, "length": 12, "width": 64}
_QUICK_MODEL = {"batch": 1, "length": 12, "layers": 1, "width": 64}
_QUICK_HEADS, _QUICK_VOCABULARY = 8, 320
_ROTARY_BASE = 10000.0


@dataclass(frozen=True)
class Model:
    """`config` is LitGPT's name, `length` the longest sequence that the model takes."""

    name: str
    config: str
    length: int


MODELS = (
    Model("llama3_8b", "Llama-3-8B", 8192),
    Model("pythia_1_4b", "pythia-1.4b", 2048),
    Model("gemma2_2b", "Gemma-2-2b", 8192),
)


def model(
    make: Make, *, config: str, batch: int, length: int, layers: int, width: int | None = None
) -> Case:
    """Token indices (batch, length) -> logits. With `width` everything but the kind of the layers
    is scaled down to that embedding size."""
    from litgpt.model import GPT

    found = _config(config, layers, width, length)
    with make.device:
        function = GPT(found).to(make.dtype)
    function.max_seq_length = length
    indices, targets = (make.indices(found.vocab_size, batch, length) for _ in range(2))

    def loss(logits: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    return Case(function, (indices,), loss=loss)


def block(make: Make, *, config: str, batch: int, length: int, width: int | None = None) -> Case:
    """x (batch, length, embedding size), and cos and sin (1, length, rotated) -> x."""
    from litgpt.model import Block

    found = _config(config, 1, width, length)
    with make.device:
        function = Block(found, 0).to(make.dtype)
    positions = torch.arange(length, device=make.device)
    steps = torch.arange(0, found.rope_n_elem, 2, device=make.device) / found.rope_n_elem
    angles = torch.outer(positions, _ROTARY_BASE**-steps).repeat(1, 2)[None]
    tables = (angles.cos().to(make.dtype), angles.sin().to(make.dtype))
    return Case(function, (make.random(batch, length, found.n_embd), *tables))


def _config(name: str, layers: int, width: int | None, length: int) -> Any:
    from litgpt.config import Config

    published = Config.from_name(name)
    changed: dict[str, object] = {"n_layer": layers}
    if published.sliding_window_size is not None and published.sliding_window_size >= length:
        # Nothing is as far away as the window is wide. LitGPT would still write its mask row by
        # row, in a loop that compilers unroll: thousands of assignments, minutes of tracing.
        changed["sliding_window_size"] = None
    if width is not None:
        changed |= _small(published, width)
    return Config.from_name(name, **changed)


def _small(published: Any, width: int) -> dict[str, object]:
    return {
        "n_embd": width,
        "n_head": _QUICK_HEADS,
        "n_query_groups": _QUICK_HEADS * published.n_query_groups // published.n_head,
        "head_size": width // _QUICK_HEADS,
        "intermediate_size": 2 * width,
        "vocab_size": _QUICK_VOCABULARY,
        "padded_vocab_size": _QUICK_VOCABULARY,
    }


def _block_workload(found: Model) -> Workload:
    sizes = {"batch": BATCH, "length": min(LENGTH, found.length)}
    # Thunder traces a block for seconds, and the quick models hold the others.
    quick = (_QUICK_BLOCK,) if found is MODELS[0] else ()
    build = partial(block, config=found.config)
    return Workload(f"{found.name}_block", build, (sizes,), quick, phases=(STEP, INFERENCE))


def _model_workload(found: Model) -> Workload:
    sizes = {"batch": BATCH, "length": min(LENGTH, found.length), "layers": LAYERS}
    build = partial(model, config=found.config)
    return Workload(found.name, build, (sizes,), (_QUICK_MODEL,), phases=(STEP, INFERENCE))


WORKLOADS: Sequence[Workload] = (
    *map(_block_workload, MODELS),
    *map(_model_workload, MODELS),
)

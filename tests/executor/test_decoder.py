"""A decoder through `thunder.jit`: a training step, and tokens one by one with a KV cache."""

from __future__ import annotations

from copy import deepcopy

import pytest
import thunder
import torch
from torch.nn import functional as F

from tests.executor.decoder import Decoder, Shape
from thunder_fuser import fuser
from thunder_fuser.executor.explain import regions_of

GROUPED = Shape()
PARTLY_TURNED = Shape(groups=6, rotated=4)
ONE_GROUP = Shape(groups=1, size=12, rotated=12)


def step(model: torch.nn.Module, weights: Decoder, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
    """The loss and every gradient of one training step, as f64 on the CPU."""
    at = torch.arange(tokens.shape[1] - 1, device=tokens.device)
    logits = model(tokens[:, :-1], at)
    loss = F.cross_entropy(logits.flatten(0, 1).to(weights.cos.dtype), tokens[:, 1:].flatten())
    loss.backward()
    found = {"loss": loss, **{name: p.grad for name, p in weights.named_parameters()}}
    return {name: value.detach().double().cpu() for name, value in found.items()}


@pytest.mark.parametrize("shape", [GROUPED, PARTLY_TURNED, ONE_GROUP])
def test_a_training_step_is_as_exact_as_eagers(shape: Shape, device: torch.device) -> None:
    tokens = torch.randint(shape.vocabulary, (3, 12))
    eager = Decoder(shape)
    exact = deepcopy(eager).double()
    ours = deepcopy(eager).to(device)
    jitted = thunder.jit(ours, executors=[fuser])
    wanted = step(exact, exact, tokens)
    theirs = step(eager, eager, tokens)
    found = step(jitted, ours, tokens.to(device))
    assert regions_of(jitted)
    for name, value in wanted.items():
        rounding = torch.finfo(torch.float32).eps * value.abs().max()
        allowed = 4 * (theirs[name] - value).abs().max() + 16 * rounding
        assert (found[name] - value).abs().max() <= allowed, name


def test_a_cache_filled_token_by_token_gives_eagers_logits(device: torch.device) -> None:
    tokens = torch.randint(GROUPED.vocabulary, (2, 12))
    eager = Decoder(GROUPED).bfloat16().eval()
    exact, ours = deepcopy(eager).double(), deepcopy(eager).to(device)
    jitted = thunder.jit(ours, executors=[fuser])
    for model in (exact, eager, ours):
        model.cache(batch=2)
    with torch.no_grad():
        for start, end in ((0, 5), (5, 6), (6, 7), (7, 12)):
            at, part = torch.arange(start, end), tokens[:, start:end]
            wanted, theirs = exact(part, at), eager(part, at)
            found = jitted(part.to(device), at.to(device)).cpu()
            rounding = torch.finfo(torch.bfloat16).eps * wanted.abs().max()
            allowed = 4 * (theirs - wanted).abs().max() + 4 * rounding
            assert (found - wanted).abs().max() <= allowed
    for block, other in zip(exact.blocks, ours.blocks, strict=True):
        keys, cached = block.attention.keys, other.attention.keys.cpu()
        assert (keys - cached).abs().max() <= 8 * torch.finfo(torch.bfloat16).eps * keys.abs().max()

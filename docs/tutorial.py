"""The program that docs/tutorial.md goes through. `python docs/tutorial.py` prints its outputs."""

from typing import Any

import thunder
import torch
from litgpt.config import Config
from litgpt.model import Block, build_rope_cache

from thunder_fuser import explain, fuser, profile

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOKENS, DOCUMENTS = 32, 4


def make_block() -> tuple[Block, tuple[torch.Tensor, ...]]:
    """One block of Llama 3, made small, and its input: x, cos and sin."""
    torch.manual_seed(0)
    small = {"n_embd": 64, "n_head": 4, "n_query_groups": 2, "head_size": 16}
    config = Config.from_name("Llama-3-8B", **small, intermediate_size=96, block_size=TOKENS)
    block = Block(config, 0).to(DEVICE, torch.bfloat16)
    x = torch.randn(2, TOKENS, config.n_embd, device=DEVICE, dtype=torch.bfloat16)
    cos, sin = (t[None].to(x) for t in build_rope_cache(TOKENS, config.rope_n_elem))
    return block, (x.requires_grad_(), cos, sin)


def accelerate() -> tuple[Any, tuple[torch.Tensor, ...]]:
    """The compiled block after a forward and a backward, and its input."""
    block, inputs = make_block()
    jblock = thunder.jit(block, executors=[fuser])
    jblock(*inputs).sum().backward()
    return jblock, inputs


class Packed(torch.nn.Module):
    """Several documents in one row: a token sees what is before it in its own document."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        self.block = block

    def forward(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, starts: torch.Tensor
    ) -> torch.Tensor:
        return self.attend(x, cos, sin, torch.sort(starts, dim=1)[0])

    def attend(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, starts: torch.Tensor
    ) -> torch.Tensor:
        tokens = torch.arange(TOKENS, device=x.device)
        document = (starts[:, None, :] <= tokens[:, None]).sum(-1)
        same = document[:, None, :, None] == document[:, None, None, :]
        return self.block(x, cos, sin, same & (tokens[:, None] >= tokens))


class Counted(Packed):
    """The same, with documents counted in the order in which they are given."""

    def forward(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, starts: torch.Tensor
    ) -> torch.Tensor:
        return self.attend(x, cos, sin, starts)


def pack() -> tuple[Any, Any]:
    """Both, compiled and called. Their results are equal."""
    block, inputs = make_block()
    starts = torch.randint(TOKENS, (2, DOCUMENTS), device=DEVICE)
    packed = thunder.jit(Packed(block), executors=[fuser])
    counted = thunder.jit(Counted(block), executors=[fuser])
    assert torch.equal(packed(*inputs, starts), counted(*inputs, starts))
    return packed, counted


if __name__ == "__main__":
    jblock, inputs = accelerate()
    print(explain(jblock))
    print(profile(jblock, *inputs))
    packed, counted = pack()
    print(explain(packed))
    print(explain(counted))

"""The program whose fusion docs/life-of-a-fusion.md follows: half of a rotary embedding."""

import torch


def rotate(x: torch.Tensor, cos: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x (2, 6, 16) and cos (6, 16) => the turned x times cos, and a half of x as it is."""
    low, high = x[..., :8], x[..., 8:]
    turned = torch.cat((-high, low), dim=-1)
    return turned * cos, low


def arguments() -> tuple[torch.Tensor, torch.Tensor]:
    """Random x and cos, in bfloat16 on the CPU."""
    return torch.randn(2, 6, 16).bfloat16(), torch.randn(6, 16).bfloat16()

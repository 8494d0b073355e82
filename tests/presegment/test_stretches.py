"""Stretches of what is computed."""

from __future__ import annotations

import pytest
import torch

from tests.programs import cat, chain, expand, fusion, like, permute, piece, total, unsqueeze, whole
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.stretches import Stretch, Stretches, cut_by
from thunder_fuser.runtime.evaluate import evaluate

x0 = whole(6, 5, 40)
(x,) = like(x0)

MADE: dict[str, TensorView] = {
    "a sum": total(x, 1),
    "what repeats": expand(unsqueeze(total(x, 2), 2), 6, 5, 3),
    "a factor that repeats": call("mul", x, piece(x, 0, 0, 1)),
    "joined": chain(cat(piece(x, 0, 3, 6), piece(x, 0, 0, 3), dim=0), "neg"),
    "turned": permute(x, 0, 2, 1),
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("stretch", [Stretch(0, 1, 3), Stretch(0, 1, 6, 2), Stretch(0, 0, 6)])
def test_stretches_are_slices(name: str, stretch: Stretch) -> None:
    made = MADE[name]
    found, every = evaluate(fusion([x], Stretches().of(made, stretch), made), [x0])
    torch.testing.assert_close(found, every[stretch.start : stretch.end : stretch.step])


def test_each_is_made_once() -> None:
    made, parts = chain(total(x, 1), "neg"), Stretches()
    assert parts.of(made, Stretch(0, 1, 3)) is parts.of(made, Stretch(0, 1, 3))


def test_what_a_slice_takes_is_of_one_dim() -> None:
    assert cut_by(piece(x, 1, 1, 5, 2)) == Stretch(1, 1, 5, 2)
    assert cut_by(piece(piece(x, 1, 1, 5), 2, 0, 40)) is None

"""What traces return before they are split."""

from __future__ import annotations

from thunder_fuser.executor.joint import GRADIENTS, INPUTS, RESULTS, is_joint


def test_a_forward_alone_is_not_joint() -> None:
    alone = {GRADIENTS: (), INPUTS: ()}
    assert not is_joint(alone)
    assert not is_joint(None)
    assert is_joint({**alone, RESULTS: ()})

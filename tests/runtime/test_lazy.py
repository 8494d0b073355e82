"""Tensors whose memory is not what torch reads: what stands in for them, and what comes back."""

from __future__ import annotations

import torch

from thunder_fuser.runtime.lazy import is_lazy, resolved, returned


def test_what_stands_in_holds_what_torch_reads_and_lies_alike() -> None:
    x = torch.randn(3, 1, 8, dtype=torch.complex64)[..., ::2].transpose(0, 2).expand(4, 5, 3)
    for lazy in (x.conj(), x.conj().imag):
        plain = torch.randn(2)
        found, same = resolved([lazy, plain])
        assert (is_lazy(lazy), is_lazy(found)) == (True, False)
        assert same is plain
        assert found.stride() == lazy.stride()
        assert torch.equal(found, lazy)


def test_the_argument_takes_what_was_written_and_is_returned() -> None:
    x = torch.randn(5, dtype=torch.complex64)
    lazy, expected = x.conj(), x.conj() * 2
    given = resolved([lazy])
    given[0].mul_(2)
    other = torch.zeros(1)
    assert returned([given[0], other], [lazy], given, True)[0] is lazy
    assert torch.equal(lazy, expected)


def test_memory_that_nothing_writes_is_left_alone() -> None:
    x = torch.randn(5, dtype=torch.complex64)
    version = x._version
    given = resolved([x.conj()])
    returned([], [x.conj()], given, False)
    assert x._version == version

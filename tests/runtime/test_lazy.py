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
    assert returned([given[0], other], [lazy], given, [0])[0] is lazy
    assert torch.equal(lazy, expected)


def test_memory_that_nothing_writes_is_left_alone() -> None:
    x = torch.randn(5, dtype=torch.complex64)
    lazy, version = x.conj(), x._version
    given = resolved([lazy, lazy])
    returned([], [lazy, lazy], given, [])
    assert x._version == version


def test_what_is_only_read_does_not_undo_a_write() -> None:
    x = torch.randn(5, dtype=torch.complex64)
    expected, arguments = x * x.conj(), [x, x.conj()]
    given = resolved(arguments)
    given[0].mul_(given[1])
    returned([], arguments, given, [0])
    assert torch.equal(x, expected)


def test_what_has_no_elements_is_no_view_of_another_that_has_none() -> None:
    lazy, other = torch.empty(0, dtype=torch.complex64).conj(), torch.empty(0, 3)
    assert returned([other], [lazy], resolved([lazy]), [])[0] is other


def test_a_view_of_what_stands_in_is_one_of_the_argument() -> None:
    x = torch.randn(12, dtype=torch.complex64)[2:].view(5, 2)
    lazy = x.conj()
    given = resolved([lazy])
    (view,) = returned([given[0][1:, 1]], [lazy], given, [])
    assert torch.equal(view, lazy[1:, 1])
    x.zero_()
    assert not view.any()

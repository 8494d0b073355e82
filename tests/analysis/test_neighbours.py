"""How far from its own place an element of a tensor reads others."""

from __future__ import annotations

from tests.programs import expand, pad, permute, piece, reshape
from tests.schedule.segments import floats
from thunder_fuser.analysis.neighbours import Reads, reads_of
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView


def steps(x: TensorView) -> TensorView:
    """From each row to the next one."""
    rows = x.shape[0]
    return call("sub", piece(x, 0, 1, rows), piece(x, 0, 0, rows - 1))


def test_differences_read_two_rows() -> None:
    x = floats(9, 7)
    (read,) = reads_of(steps(x)) or ()
    assert read == Reads(x, (9, 7), frozenset({(0, 0), (1, 0)}))
    assert read.along(0) == (0, 1)


def test_what_repeats_has_no_size_along_that_dim() -> None:
    x, scale = floats(9, 7), floats(7)
    reads = reads_of(call("mul", steps(x), expand(reshape(scale, 1, 7), 8, 7))) or ()
    assert Reads(scale, (None, 7), frozenset({(0, 0)})) in reads


def test_dims_are_those_of_the_element() -> None:
    x = floats(9, 7)
    (read,) = reads_of(permute(steps(x), 1, 0)) or ()
    assert read == Reads(x, (7, 9), frozenset({(0, 0), (0, 1)}))


def test_a_pad_reads_before_an_element() -> None:
    x = floats(9, 7)
    (read,) = reads_of(call("add", x, pad(piece(x, 0, 0, 8), [0, 0, 1, 0]))) or ()
    assert read.along(0) == (-1, 0)


def test_what_is_numbered_anew_lies_at_no_fixed_distance() -> None:
    assert reads_of(reshape(floats(9, 7), 7, 9)) is None

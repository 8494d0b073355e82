"""The parts of complex numbers: views where they are written or returned, computed otherwise."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.devices import here
from tests.executor.jitted import check, jit, region
from thunder_fuser import explain

pytestmark = pytest.mark.usefixtures("device")
PARTS = pytest.mark.parametrize("part", [torch.real, torch.imag])
Part = Callable[[torch.Tensor], torch.Tensor]


@PARTS
def test_a_returned_part_is_a_view(part: Part) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return part(x), part(y), y

    x = torch.randn(5, 7, dtype=torch.complex64)
    check(program, x)
    x = x.to(here())
    jfn = jit(program)
    of_x, of_y, y = jfn(x)
    for view, whole in ((of_x, x), (of_y, y)):
        assert view.data_ptr() == part(whole).data_ptr()
        assert view.stride() == part(whole).stride()
    assert "outside: its result may be written" in explain(jfn)


@PARTS
def test_a_write_into_a_part_reaches_the_tensor(part: Part) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        part(x).add_(1)
        return x * 2

    check(program, torch.randn(5, 7, dtype=torch.complex64))


@PARTS
def test_a_part_that_is_only_read_stays_in_its_region(part: Part) -> None:
    jfn = check(lambda x: part(x * 2) + 1, torch.randn(5, 7, dtype=torch.complex64))
    assert part.__name__ in str(region(jfn))

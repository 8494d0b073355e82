"""Statements as C++ text, in kernels that are run."""

from __future__ import annotations

import pytest
import torch

from tests.devices import here
from thunder_fuser import DataType, FusionDefinition

pytestmark = [pytest.mark.usefixtures("device"), pytest.mark.sanitizer]


@pytest.mark.parametrize("size", [32, 33])
def test_a_scalar_of_the_call_is_itself_where_lanes_cross_rows(size: int) -> None:
    """Lanes count from where two rows of the argument begin."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1, -1], contiguity=False)
        fd.add_output(fd.ops.mul(x, fd.define_scalar(dtype=DataType.Double)))
    given = torch.randn(30000, device=here()).as_strided((size, 33, 17), (660, 20, 1))
    (found,) = fd.execute([given, 0.5])
    assert torch.equal(found, given * 0.5)

"""Which arguments share a plan."""

from __future__ import annotations

import torch

from tests.programs import chain, fusion, like, unsqueeze
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.runtime.argument_class import key_function, layout_of, shape_symbols


def test_sizes_strides_and_alignment_tell_classes_apart() -> None:
    (a,) = like(torch.empty(4, 4))
    key = key_function(fusion([a], chain(a, "neg")))
    base = torch.empty(64)
    same = [torch.empty(4, 4), torch.empty(4, 4), base[16:32].view(4, 4)]
    assert len({key(t) for t in same}) == 1
    others = [torch.empty(4, 4).t(), torch.empty(4, 8)[:, ::2], base[1:17].view(4, 4)]
    assert len({key(t) for t in (*same, *others)}) == 1 + len(others)


def test_a_number_is_part_of_the_class_only_if_it_makes_shapes() -> None:
    x = tensor(DataType.Float, 4)
    n, factor = (sc.symbol(name, DataType.Int) for name in ("n", "factor"))
    wide = call("expand", unsqueeze(x, 0), shape=(n, sc.constant(4)))
    program = Fusion((x, n, factor), (call("mul", wide, factor),))
    assert shape_symbols(program) == {n}
    key, given = key_function(program), torch.empty(4)
    assert key(given, 3, 5) == key(given, 3, 6) != key(given, 4, 5)


def test_a_layout_is_read_off_the_tensor() -> None:
    given = torch.empty(6, 8)[1:, ::2]
    layout = layout_of(given)
    assert (layout.shape, layout.strides) == ((5, 4), (8, 2))
    assert given.data_ptr() % layout.alignment == 0

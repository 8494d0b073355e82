"""Order kernels: where each result goes."""

from __future__ import annotations

from textwrap import dedent

from tests.programs import H200, ordered
from tests.schedule.segments import integers, segment_of
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.ordering import OrderKernel, lower_order
from thunder_fuser.schedule import ordering


def lowered(index: TensorView, *stores: TensorView) -> OrderKernel:
    return lower_order(ordering.schedule(segment_of([index], *stores), H200), strict=False)


def test_each_result_has_a_pointer() -> None:
    index = integers(16384)
    assert str(lowered(index, *ordered(index, 32000))) == dedent("""\
        order kernel(T0: i64*, T1: i64*, T2: i64*, T3: i64*) 125 blocks of 256 groups, 1024 threads
          16384 places in 32000 groups: group_order T1, group_keys T2, group_ends T3
          index of place
            T0_0: i64 = T0[place]""")


def test_what_is_not_stored_has_none() -> None:
    index = integers(60)
    kernel = lowered(index, ordered(index, 9)[2])
    assert list(kernel.results) == ["group_ends"]
    assert [p.name for p in kernel.pointers if p.is_written] == list(kernel.results.values())

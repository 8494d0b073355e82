"""Which values that follow from reductions are stored."""

from __future__ import annotations

from textwrap import dedent

from tests.programs import chain, expand, total, unsqueeze
from tests.schedule.segments import floats
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.presegment.store_first import store_first

ROWS, COLUMNS = 64, 5


def doubled(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    """A sum as the sum of twice the terms."""
    if tv.definition is None or tv.definition.op.name != "sum":
        return None
    (terms,) = inputs
    return call("sum", call("add", terms, terms), dims=(0,))


def stored(program: Fusion) -> list[str]:
    """The ops whose results are."""
    made = store_first(program, doubled).tensors
    found = (tv.definition for tv in made if tv.definition)
    read = [d.tensors[0].definition for d in found if d.op.name == "segment_set"]
    return [definition.op.name for definition in read if definition]


def test_what_follows_from_a_sum_is_stored_where_something_larger_reads_it() -> None:
    x = floats(ROWS, COLUMNS)
    scale = chain(total(x, 0), "rsqrt")
    program = Fusion((x,), (call("mul", x, expand(unsqueeze(scale, 0), ROWS, COLUMNS)),))
    assert str(store_first(program, doubled)) == dedent("""\
        fusion(T0: f32[i64, i5]) {
          T1: f32[i64, i5] = add(T0, T0)
          T2: f32[r64, i5] = sum(T1, dims=[0])
          T3: f32[i5] = rsqrt(T2)
          T4: f32[b1, i5] = broadcast(T3, is_broadcast_dim=[True, False])
          T5: f32[b1, i5] = segment_set(T4)
          T6: f32[b64, i5] = expand(T5, shape=[64, 5])
          T7: f32[i64, i5] = mul(T0, T6)
          return T7
        }""")


def test_a_value_that_two_larger_ones_read_is_stored_once() -> None:
    x = floats(ROWS, COLUMNS)
    scale = chain(total(x, 0), "rsqrt")
    both = tuple(call(name, x, scale) for name in ("mul", "sub"))
    assert stored(Fusion((x,), both)) == ["rsqrt"]


def test_results_of_the_size_of_a_sum_are_not() -> None:
    x = floats(ROWS, COLUMNS)
    assert stored(Fusion((x,), (chain(total(x, 0), "rsqrt"),))) == []


def test_where_nothing_is_reduced_the_fusion_stays() -> None:
    x = floats(ROWS, COLUMNS)
    program = Fusion((x,), (chain(x, "exp"),))
    assert store_first(program, doubled) is program

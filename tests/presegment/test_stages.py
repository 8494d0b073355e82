"""Tensors in other shapes, from which reductions in stages are made."""

from __future__ import annotations

from textwrap import dedent

from tests.programs import fusion, total
from tests.schedule.segments import floats, halves
from thunder_fuser.presegment.stages import expanded, padded, part, reduced, reshaped, widened


def test_what_has_the_sizes_is_the_same_tensor() -> None:
    x = floats(4, 6)
    assert reshaped(x, [4, 6]) is expanded(x, [4, 6]) is widened(total(x, 0), x) is x


def test_padded_rows_change_no_sum_of_columns() -> None:
    x = halves(5, 3)
    tv = total(x, 0)
    pieces = reshaped(padded(tv, widened(tv, x), 1), [2, 3, 3])
    assert str(fusion([x], reduced(tv, pieces, (1,), (0,)))) == dedent("""\
        fusion(T0: bf16[i5, i3]) {
          T1: f32[i5, i3] = cast(T0, dtype=f32)
          T2: f32[i6, i3] = pad(T1, 0, pad_widths=[0, 0, 0, 1])
          T3: f32[i2, i3, i3] = reshape(T2, new_shape=[2, 3, 3])
          T4: f32[i2, r3, i3] = sum(T3, dims=[1])
          T5: f32[r2, i3] = sum(T4, dims=[0])
          T6: bf16[i3] = cast(T5, dtype=bf16)
          return T6
        }""")


def test_a_part_has_all_of_the_other_dims() -> None:
    assert part(floats(4, 6), 1, 2, 5).shape == (4, 3)

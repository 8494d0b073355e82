"""The text of a row schedule: where rows are, what is reduced of them, what is stored."""

from __future__ import annotations

from textwrap import dedent

from tests.programs import H200, chain, total
from tests.schedule.segments import floats, halves, segment_of
from tests.schedule.test_rows import centred, softmax
from thunder_fuser.ir.build import call
from thunder_fuser.schedule import rows


def test_the_text_says_how_many_blocks_share_a_row() -> None:
    v, w = halves(400, 40008), halves(400, 40008)
    made = call("mul", centred(v), w)
    assert str(rows.schedule(segment_of([v, w], made), H200)) == dedent("""\
    rows over group{400}, turn{1}, vector{5001}, lane{8}, T4 in registers and T0 in shared memory
      2 blocks of 320 threads a row
      phase 0: T1[group] of T0[group, 8*vector + lane]
      store whole rows: T5[group, 8*vector + lane]""")


def test_the_text_has_every_level_of_reductions_and_every_kind_of_store() -> None:
    x = floats(512, 4096)
    made = softmax(x), total(total(x, 1), 0)
    assert str(rows.schedule(segment_of([x], *made), H200)) == dedent("""\
    rows over group{512}, turn{1}, vector{1024}, lane{4}, T0 in registers
      128 threads a row, 1 rows a block
      phase 0: T1[group], T8[group] of T0[group, 4*vector + lane], T0[group, 4*vector + lane]
      phase 1: T5[group] of T4[group, 4*vector + lane]
      over all rows: T9[] of T8[group]
      store whole rows: T7[group, 4*vector + lane]
      store once: T9[]""")


def test_where_blocks_share_a_row_the_loop_that_sums_stores_too() -> None:
    x = floats(4, 1 << 16)
    shared = rows.schedule(segment_of([x], total(x, 1), chain(x, "neg")), H200)
    assert (shared.splits, len(shared.stored_as_summed), shared.stored_behind) == (8, 1, ())
    y = floats(8, 64)
    kept = rows.schedule(segment_of([y], centred(y)), H200)
    assert (kept.splits, kept.stored_as_summed, len(kept.stored_behind)) == (1, (), 1)

"""A plan counts when its last stage is done."""

from __future__ import annotations

from thunder_fuser.runtime.planning import PLANNING, Timer


def test_a_plan_is_counted_at_its_last_stage_only() -> None:
    before = PLANNING.statistics()
    timer = Timer()
    for stage in ("fusion", "segmented", "source"):
        timer.see(stage, None, None)
    assert PLANNING.statistics() == before
    timer.see("plan", None, None)
    after = PLANNING.statistics()
    assert after.plans == before.plans + 1
    assert after.seconds > before.seconds

"""What is a regression: planted ones are named, noise is not."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from reports.__main__ import main
from tests.reports.made_up import host_target_run, small_run
from tests.reports.recorded import Row, host_run, of_ours, run, scaled, write

Capture = pytest.CaptureFixture[str]
ROW = "| softmax | forward |"


def compared(tmp_path: Path, capsys: Capture, old: list[Row], new: list[Row]) -> tuple[int, str]:
    """The exit status, and what was printed, without the blanks that align columns."""
    paths = [write(tmp_path / name, rows) for name, rows in (("old", old), ("new", new))]
    status = main(["compare", *map(str, paths)])
    printed = capsys.readouterr()
    lines = (" ".join(line.split()) for line in (printed.out + printed.err).splitlines())
    return status, "\n".join(lines)


def tampered(change: Row) -> list[Row]:
    rows = run()
    position = of_ours(rows)
    rows[position] = rows[position] | change
    return rows


@pytest.mark.parametrize("recorded", [run, host_run])
def test_a_planted_slowdown_of_a_tenth_is_caught(
    tmp_path: Path, capsys: Capture, recorded: Callable[[], list[Row]]
) -> None:
    new = recorded()
    new[of_ours(new)] = scaled(new[of_ours(new)], 1.10)
    status, text = compared(tmp_path, capsys, recorded(), new)
    assert status == 1
    assert "4 rows of ours compared, 1 regressed." in text
    assert f"{ROW} +10.0% | slower |" in text


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("recorded", [small_run, host_target_run])
def test_of_a_whole_run_just_the_slowed_rows_are_named(
    tmp_path: Path, capsys: Capture, recorded: Callable[[int], list[Row]], seed: int
) -> None:
    """Every time moves by up to 2 %, three rows of ours by a tenth."""
    draw, old = random.Random(seed), recorded(seed)
    new = [scaled(row, draw.uniform(0.98, 1.02)) for row in old]
    timed = [k for k, row in enumerate(old) if row["executor"] == "ours" and row["trial_us"]]
    slowed = sorted(draw.sample(timed, 3))
    for k in slowed:
        new[k] = scaled(old[k], 1.10)
    status, text = compared(tmp_path, capsys, old, new)
    assert status == 1
    assert "3 regressed." in text
    table = text.partition("**regressions of ours**")[2].strip().partition("\n\n")[0]
    named = [line.split(" | ")[0].split()[1] for line in table.splitlines()[2:]]
    assert named == [old[k]["workload"] for k in slowed]


@pytest.mark.parametrize("seed", range(6))
def test_noise_of_two_percent_is_none(tmp_path: Path, capsys: Capture, seed: int) -> None:
    draw = random.Random(seed)
    new = [scaled(row, draw.uniform(0.98, 1.02)) for row in run()]
    status, text = compared(tmp_path, capsys, run(), new)
    assert status == 0
    assert "4 rows of ours compared, 0 regressed." in text


def test_a_noisy_row_needs_more_than_its_noise(tmp_path: Path, capsys: Capture) -> None:
    old = tampered({"kernel_us_p20": 62.0, "kernel_us_p80": 71.3})  # 7 % either side of 66.7
    new = run()
    new[of_ours(new)] = scaled(new[of_ours(new)], 1.15)
    assert compared(tmp_path, capsys, old, new)[0] == 0
    new[of_ours(new)] = scaled(new[of_ours(new)], 1.15)
    assert compared(tmp_path, capsys, old, new)[0] == 1


def test_the_noisier_of_the_two_runs_sets_the_bound(tmp_path: Path, capsys: Capture) -> None:
    new = tampered({"kernel_us_p20": 66.0, "kernel_us_p50": 70.0, "kernel_us_p80": 74.0})
    new[of_ours(new)]["trial_us"] = [70.0, 70.0, 70.0]
    status, text = compared(tmp_path, capsys, run(), new)
    assert status == 0  # +5.0 % of 66.657, against three times 4 / 70
    assert f"{ROW} +5.0% | same | 66.7 | 70.0 | 5.7% | 17.1% | kernel |" in text


def test_one_bad_trial_of_three_is_no_verdict(tmp_path: Path, capsys: Capture) -> None:
    slow = {"kernel_us_p50": 73.0, "kernel_us_p20": 72.9, "kernel_us_p80": 73.1}
    one, two = (tampered(slow | {"trial_us": t}) for t in ([66, 66, 99], [66, 73, 99]))
    assert compared(tmp_path, capsys, run(), one)[0] == 0
    assert compared(tmp_path, capsys, run(), two)[0] == 1


def test_a_row_without_trials_or_noise_is_judged_by_its_median(
    tmp_path: Path, capsys: Capture
) -> None:
    unknown = {"trial_us": None, "kernel_us_p20": None, "kernel_us_p80": None}
    status, text = compared(
        tmp_path, capsys, tampered(unknown), tampered(unknown | {"kernel_us_p50": 70.0})
    )
    assert status == 1
    assert "Of 1 rows the noise is not known: they were judged by 3 % alone." in text
    assert f"{ROW} +5.0% | slower | 66.7 | 70.0 | - | 3.0% |" in text


def first_calls(cold: list[float], warm: list[float]) -> list[Row]:
    """Rows of which one of ours is of the compile suite."""
    untimed = {f"{clock}_us_p{q}": None for clock in ("kernel", "wall") for q in (20, 50, 80)}
    samples = {"cold_samples_s": cold, "warm_samples_s": warm}
    found = {
        f"first_call_s_{kind}": sorted(one)[1] for kind, one in (("cold", cold), ("warm", warm))
    }
    of_suite = {"suite": "compile", "trial_us": None} | untimed | samples | found
    return tampered(of_suite)


COLD, WARM = [1.00, 0.98, 1.03], [0.200, 0.205, 0.199]


@pytest.mark.parametrize(
    ("cold", "warm", "said"),
    [
        ([1.08, 1.06, 1.09], [0.21, 0.21, 0.20], ""),  # 8 %
        ([1.20, 1.18, 1.22], WARM, "+20.0% | slower | 1,000,000 | 1,200,000 | 1.5% | 10.0% |"),
        (COLD, [0.25, 0.26, 0.24], "+25.0% | slower | 200,000 | 250,000 | 2.4% | 10.0% |"),
        ([1.05, 1.05, 9.00], WARM, ""),  # one process that was held up
        ([1.20, 0.90, 1.25], WARM, ""),  # two, but the noise is as wide
        ([0.70, 0.71, 0.72], [0.25, 0.25, 0.25], "+25.0% | slower | 200,000"),
    ],
)
def test_first_calls_are_judged_by_their_samples(
    tmp_path: Path, capsys: Capture, cold: list[float], warm: list[float], said: str
) -> None:
    status, text = compared(tmp_path, capsys, first_calls(COLD, WARM), first_calls(cold, warm))
    assert status == bool(said)
    assert said in text


def test_a_single_first_call_is_listed_and_not_judged(tmp_path: Path, capsys: Capture) -> None:
    one = {"cold_samples_s": None, "warm_samples_s": None}
    old, new = first_calls(COLD, WARM), first_calls([2.0, 2.0, 2.0], WARM)
    status, text = compared(
        tmp_path, capsys, [row | one for row in old], [row | one for row in new]
    )
    assert status == 0
    assert "| softmax | forward | first_call_s_cold | 1.00 | 2.00 |" in text


@pytest.mark.parametrize(
    ("suite", "clock"), [("models", "wall_us"), ("host", "host_us"), ("kernels", "kernel_us")]
)
def test_each_suite_is_judged_by_what_its_user_waits_for(
    tmp_path: Path, capsys: Capture, suite: str, clock: str
) -> None:
    old = [row | {"suite": suite} for row in run() if row["status"] == "ok"]
    old = [row | {"trial_us": 3 * [row[f"{clock}_p50"]]} for row in old]
    new = [dict(row) for row in old]
    slowed = scaled(old[of_ours(old)], 1.1)
    new[of_ours(new)] |= {name: slowed[name] for name in slowed if name.startswith(clock)}
    new[of_ours(new)]["trial_us"] = slowed["trial_us"]
    status, text = compared(tmp_path, capsys, old, new)
    assert status == 1
    assert f"{ROW} +10.0% | slower |" in text
    other = {"models": "host", "host": "wall", "kernels": "wall"}[suite]
    new = [dict(row) for row in old]
    new[of_ours(new)] |= {name: slowed[name] for name in slowed if name.startswith(other)}
    assert compared(tmp_path, capsys, old, new)[0] == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"err_vs_fp64": 1e-2}, "wrong"),
        ({"err_vs_fp64": float("inf")}, "wrong"),
        ({"err_vs_fp64": None}, "became one that is not known"),
        ({"status": "error", "error_msg": "launch failed"}, "launch failed"),
        ({"status": "oom", "error_msg": "out of memory"}, "failed"),
        ({"status": "skipped", "error_msg": "not today"}, "skipped: not today"),
        ({"sizes": "rows=3"}, "the new run does not have it; softmax is new there"),
        ({"workload": "softmax_2"}, "the new run does not have it; softmax_2 is new there"),
        ({f"kernel_us_p{q}": None for q in (20, 50, 80)}, "its kernel_us was not measured"),
    ],
)
def test_wrong_failed_and_missing_rows_are_caught(
    tmp_path: Path, capsys: Capture, change: Row, said: str
) -> None:
    status, text = compared(tmp_path, capsys, run(), tampered(change))
    assert status == 1
    found = text.partition("**regressions of ours**")[2].partition("\n\n**")[0]
    assert "| forward |" in found
    assert said in found


@pytest.mark.parametrize("seed", range(3))
def test_a_planted_error_is_caught_and_its_noise_is_not(
    tmp_path: Path, capsys: Capture, seed: int
) -> None:
    """Kernels may add in another order: errors move by up to a half, one grows fivefold."""
    draw, old = random.Random(seed), small_run(seed)
    new = [dict(row) for row in old]
    for row in new:
        if row.get("err_vs_fp64"):
            row["err_vs_fp64"] *= draw.uniform(0.7, 1.5)
    assert compared(tmp_path, capsys, old, new)[0] == 0
    ours = [k for k, row in enumerate(old) if row["executor"] == "ours" and row.get("err_vs_fp64")]
    planted = draw.choice(ours)
    new[planted]["err_vs_fp64"] = 5 * old[planted]["err_vs_fp64"]
    status, text = compared(tmp_path, capsys, old, new)
    assert status == 1
    assert "1 regressed." in text
    assert f"error {old[planted]['err_vs_fp64']:.1e} became" in text


def test_an_error_that_is_as_good_as_eagers_is_none(tmp_path: Path, capsys: Capture) -> None:
    assert compared(tmp_path, capsys, run(), tampered({"err_vs_fp64": 2.4e-3}))[0] == 0


def test_a_throttled_row_is_marked_and_not_dropped(tmp_path: Path, capsys: Capture) -> None:
    slow = scaled(run()[of_ours(run())], 1.3)
    status, text = compared(tmp_path, capsys, run(), tampered(slow | {"throttled": True}))
    assert status == 1
    assert f"{ROW} +30.0% | slower |" in text
    assert "| kernel | new | - |" in text
    assert "1 rows of ours were measured while the GPU was throttled: they are marked" in text


def test_a_faster_row_asks_for_a_new_baseline(tmp_path: Path, capsys: Capture) -> None:
    new = run()
    new[of_ours(new)] = scaled(new[of_ours(new)], 0.9)
    status, text = compared(tmp_path, capsys, run(), new)
    assert status == 0
    assert "faster rows ask for a new baseline" in text
    assert f"{ROW} -10.0% | faster |" in text


def test_a_row_that_fails_in_both_runs_is_named_and_no_regression(
    tmp_path: Path, capsys: Capture
) -> None:
    bad = tampered({"status": "error", "error_msg": "no template"})
    status, text = compared(tmp_path, capsys, bad, bad)
    assert status == 0
    assert f"{ROW} - | failing |" in text


def test_a_slower_peer_is_no_regression_of_ours(tmp_path: Path, capsys: Capture) -> None:
    new = [scaled(row, 1.2 if row["executor"] == "inductor" else 1.0) for row in run()]
    status, text = compared(tmp_path, capsys, run(), new)
    assert status == 0
    assert "The peers' median change is +20.0% in 4 rows." in text


def test_more_kernels_bytes_and_memory_are_told_and_not_judged(
    tmp_path: Path, capsys: Capture
) -> None:
    change = {"n_kernels": 3, "peak_alloc_mib": 192.0, "host_us_p50": 142.5}
    status, text = compared(tmp_path, capsys, run(), tampered(change))
    assert status == 0
    also = text.partition("## Also changed")[2]
    assert f"{ROW} n_kernels | 1.00 | 3.00 |" in also
    assert f"{ROW} peak_alloc_mib | 128 | 192 |" in also
    assert "host_us" not in also  # by a hundredth of a percent


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (host_run(), "are not comparable"),
        ([r | {"gpu_name": "NVIDIA H100"} for r in run()], "and of NVIDIA H100"),
        ([r | {"sizes": "rows=3"} for r in run()], "no row in common: sizes is 'rows=16384"),
        (
            [r | {"suite": "rope"} for r in run()],
            "suite is 'kernels' in one and 'rope' in the other",
        ),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(
    tmp_path: Path, capsys: Capture, new: list[Row], message: str
) -> None:
    status, text = compared(tmp_path, capsys, run(), new)
    assert status == 2
    assert message in text


def test_json_says_the_same_to_a_program(tmp_path: Path, capsys: Capture) -> None:
    new = run()
    new[of_ours(new)] = scaled(new[of_ours(new)], 1.2) | {"n_kernels": 2, "throttled": True}
    paths = [write(tmp_path / name, rows) for name, rows in (("old", run()), ("new", new))]
    assert main(["compare", "--json", *map(str, paths)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["is_regression"] is True
    (row,) = found["regressions"]
    assert (row["label"], row["phase"], row["executor"]) == ("softmax", "forward", "ours")
    assert row["kind"] == "slower"
    assert row["throttled"] == "new"
    assert row["change"] == pytest.approx(0.2)
    assert row["bound"] == pytest.approx(0.03)
    assert found["rule"]["least_change"] == 0.03
    (also,) = found["also_changed"]
    assert (also["column"], also["old"], also["new"]) == ("n_kernels", 1, 2)
    assert len(found["verdicts"]) == len(run())
    assert main(["compare", "--json", str(paths[0]), str(paths[0])]) == 0
    assert json.loads(capsys.readouterr().out)["is_regression"] is False


def test_a_report_with_a_baseline_has_the_verdict_first(tmp_path: Path, capsys: Capture) -> None:
    new = run()
    new[of_ours(new)] = scaled(new[of_ours(new)], 1.10)
    old, path = write(tmp_path / "old", run()), write(tmp_path / "new", new)
    assert main([str(path), "--baseline", str(old)]) == 1
    text = capsys.readouterr().out
    assert text.index("1 regressed.") < text.index("## Times faster than each peer")
    assert main([str(path), "--baseline", str(old), "--work", "rope_llama2_7b"]) == 0

"""What follows from the columns of a row. It is computed at every reading and never stored."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from reports.columns import HOST
from reports.rows import judged

_SWEEP = ["suite", "workload", "phase", "dtype"]
_LENGTHS = ("length", "seq", "seq_len")  # names that a size may have which seq_len holds too


def derive(frame: pd.DataFrame) -> pd.DataFrame:
    """With the columns

    label            the workload, and the sizes in which its rows differ
    time_us          median of the clock that the row is judged by
    part_of_copy     minimal bytes / kernel time, as a part of the device copy
    part_of_moved    minimal bytes as a part of those that the segments move
    error_ratio      error against fp64, as a multiple of eager's
    idle_us          the part of a call in which no kernel runs
    exposed_host_us  of that, what the host needs longer than the kernels
    gap_us           the rest of it
    is_swept         whether the pass ran at several sequence lengths
    """
    kernel, wall, host = (frame[f"{clock}_us_p50"] for clock in ("kernel", "wall", "host"))
    idle = (wall - kernel).clip(lower=0)
    exposed = (host - kernel).clip(lower=0)
    return frame.assign(
        label=_labels(frame),
        time_us=_times(frame),
        part_of_copy=frame["io_bytes_min"] / kernel / 1e3 / frame["copy_gbps"],
        part_of_moved=frame["io_bytes_min"] / frame["io_bytes_moved"],
        error_ratio=frame["err_vs_fp64"] / frame["err_eager_vs_fp64"].replace(0.0, np.nan),
        idle_us=idle,
        exposed_host_us=np.minimum(exposed, idle),
        gap_us=idle - np.minimum(exposed, idle),
        is_swept=frame.groupby(_SWEEP)["seq_len"].transform("nunique") > 1,
    )


def _times(frame: pd.DataFrame) -> pd.Series:
    columns = [
        f"{judged(suite, target != HOST)}_p50"
        for suite, target in zip(frame["suite"], frame["target"], strict=True)
    ]
    values = [frame.at[index, name] for index, name in zip(frame.index, columns, strict=True)]
    return pd.Series(values, index=frame.index, dtype="float64")


def _labels(frame: pd.DataFrame) -> pd.Series:
    """A size that varies within a workload is part of its label."""
    labels = pd.Series(index=frame.index, dtype="object")
    for (_, workload), rows in frame.groupby(["suite", "workload"], sort=False):
        sizes = [_sizes(row) for _, row in rows.iterrows()]
        names = list(dict.fromkeys(name for found in sizes for name in found))
        varying = [name for name in names if len({found.get(name) for found in sizes}) > 1]
        texts = [_short(found, varying) for found in sizes]
        whole = [" ".join(found.values()) for found in sizes]
        if len(set(texts)) < len(set(whole)):  # 33x200 is rows and columns here, heads there
            texts = whole
        for index, text in zip(rows.index, texts, strict=True):
            labels[index] = f"{workload} {text}".strip()
    return labels


def _short(sizes: dict[str, str], varying: Sequence[str]) -> str:
    """One size with its name, several as 33x200."""
    texts = [sizes[name] for name in varying if name in sizes]
    return "".join(texts) if len(texts) < 2 else "x".join(t.rpartition("=")[2] for t in texts)


def _sizes(row: pd.Series) -> dict[str, str]:
    """Texts of the sizes of a row, by their names: sizes are written as `rows=33 columns=200`."""
    texts = {text.partition("=")[0]: text for text in str(row["sizes"]).split()}
    if not pd.isna(row["seq_len"]):
        others = {name: text for name, text in texts.items() if name not in _LENGTHS}
        texts = {"length": f"length={row['seq_len']:.0f}"} | others
    return texts | {"dtype": str(row["dtype"])}

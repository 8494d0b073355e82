"""How schedules print."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import torch

from thunder_fuser.dtypes import DataType
from thunder_fuser.frontend.definition import FusionDefinition
from thunder_fuser.options import Options


def printed(fd: FusionDefinition, directory: Path, *arguments: torch.Tensor) -> str:
    """The dumped schedule of the only segment."""
    fd.execute(arguments, options=Options(dump=str(directory)), device="cpu")
    (path,) = directory.glob("*/5_schedule_0.txt")
    return path.read_text()


def test_a_map_prints_its_classes_and_what_a_thread_owns(tmp_path: Path) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([2, 6, 16], contiguity=True, dtype=DataType.Float)
        low = fd.ops.slice(x, [0, 0, 0], [2, 6, 8])
        high = fd.ops.slice(x, [0, 0, 8], [2, 6, 16])
        fd.add_output(fd.ops.cat([fd.ops.neg(high), low], 2))
    assert printed(fd, tmp_path, torch.randn(2, 6, 16)) == dedent("""\
        map, blocks of 128
          class over i0{12}, i1{2} and lane{4}, streaming
            T4[(i0/6), (i0%6), 8*u0 + 4*i1 + lane], u0{2} in one thread
        """)


def test_rows_print_their_phases(tmp_path: Path) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([33, 700], contiguity=True, dtype=DataType.Float)
        mean = fd.ops.broadcast_in_dim(fd.ops.sum(x, [1]), [33, 700], [0])
        fd.add_output(fd.ops.sub(x, mean))
    assert printed(fd, tmp_path, torch.randn(33, 700)) == dedent("""\
        rows over group{33}, turn{1}, vector{175}, lane{4}, T0 in registers
          32 threads a row, 4 rows a block
          phase 0: T1[group] of T0[group, 4*vector + lane]
          store whole rows: T3[group, 4*vector + lane]
        """)


def test_columns_print_the_threads_that_share_one(tmp_path: Path) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([40, 64], contiguity=True, dtype=DataType.Float)
        fd.add_output(fd.ops.sum(x, [0]))
    assert printed(fd, tmp_path, torch.randn(40, 64)) == dedent("""\
        columns over row{40}, vector{16}, lane{4}
          8 threads across, 32 down, 2 at a time
          reduce T1[4*vector + lane] of T0[row, 4*vector + lane]
          store T1[4*vector + lane]
        """)

"""What threads at rows of images do, as text."""

from __future__ import annotations

import re

import torch

from tests.codegen.test_beside_text import kernel_of, text
from tests.codegen.test_image_text import in_order, walking
from tests.programs import H200, expand, fusion, like, total, unsqueeze
from tests.test_kept_kernels import spread
from thunder_fuser import pipeline
from thunder_fuser.codegen.kept_text import kept_lines
from thunder_fuser.ir.build import call
from thunder_fuser.kernel.kept_columns import lower_kept_columns
from thunder_fuser.kernel.kept_ir import KeptKernel
from thunder_fuser.presegment.walk_columns import walk_columns
from thunder_fuser.runtime.bind import bind
from thunder_fuser.schedule import kept_columns


def _weighted() -> KeptKernel:
    """Rows with a factor each, and sums of them over all places."""
    x, w = torch.empty((2674, 512, 49), dtype=torch.bfloat16), torch.empty(512)
    a, b = like(x, w)
    scaled = call("mul", a, expand(unsqueeze(unsqueeze(b, 0), 2), *a.shape))
    left = call("cast", call("sub", scaled, spread(total(scaled, 1), a)), dtype=a.dtype)
    bound = bind(fusion([a, b], left, total(scaled, 0, 2)), (x, w))
    dealt = walk_columns(bound.fusion, bound.layouts, H200)
    first, *_ = pipeline.cut_region(dealt, bound.layouts, H200, strict=False).segments
    return lower_kept_columns(kept_columns.schedule_turned(first, H200), strict=False)


def test_threads_at_rows_have_pairs_of_places() -> None:
    """A pair begins at a whole word: in every other row at the second place."""
    found = walking((2674, 512, 49))
    assert in_order(
        found,
        "const int own = 2 * (threadIdx.x % 256) + threadIdx.x % 512 / 256;",
        "for (int pair = share; pair < 24; pair += 1) {",
        "const int first = 2 * pair + (row & 1);",
        "tf::load<tf::bf16, 2, 4>(",
        "(49 * row + first));",
        "for (int half = 0; half < 2; ++half) {",
        "const int place = first + half;",
        "_pair.v[half]}};",
        "w0_pair.v[half] = w0.v[0];",
        "tf::store<4>(",
        "const int place = row & 1 ? 0 : 48;",
    )
    even = text(kept_lines(kernel_of((2670, 128, 196), torch.bfloat16, is_turned=True)))
    assert "const int first = 2 * pair;" in even
    assert "row & 1" not in even
    assert "_pair" not in walking((2670, 128, 196))  # vectors of four places


def test_what_there_is_of_rows_is_loaded_once_for_all_places() -> None:
    found = text(kept_lines(_weighted()))
    rows = found[found.index("const int row = k * ") :]
    assert in_order(rows, "_rows0 + (row));", "for (int pair = share;")
    assert "_rows0" not in rows[rows.index("for (int pair") : rows.index("tf::show_stretches")]


def test_threads_that_share_rows_meet() -> None:
    found = walking((2670, 128, 196))
    total = re.findall(r"__shared__ float (T\d+)_met\[3\]\[128\];", found)[0]
    assert in_order(
        found,
        f"{total}_met[share][own] = {total}_sum[k];",
        "__syncthreads();",
        "if (share == 0) {",
        f"{total}_all_met = {total}_met[0][own];",
    )
    assert "_met" not in walking((2674, 512, 49))  # a thread a row

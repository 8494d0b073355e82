"""Which columns a thread has whose vectors lag behind them, as text."""

from __future__ import annotations

import pytest

from tests.programs import H200
from tests.schedule.segments import segment_of
from tests.schedule.test_kept_columns import centred
from thunder_fuser.codegen.kept_text import kept_lines
from thunder_fuser.codegen.odd_text import odd_places
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import tensor
from thunder_fuser.kernel.kept_columns import lower_kept_columns
from thunder_fuser.kernel.kept_ir import KeptKernel
from thunder_fuser.schedule import kept_columns


def lagging(*shape: int) -> KeptKernel:
    v = tensor(DataType.BFloat16, *shape)
    planned = kept_columns.schedule(segment_of([v], centred(v)), H200)
    return lower_kept_columns(planned, strict=False)


def plain(lines: list[str]) -> str:
    return "\n".join(lines).translate({1: None, 2: None})


@pytest.mark.parametrize(
    ("shape", "row"),
    [
        ((921, 48, 1517), "part"),
        ((920, 43, 1517), "image * 43 + part"),
        ((57, 768, 1517), "rank * 192 + part"),
    ],
    ids=["in the block", "of all images", "of the cluster"],
)
def test_a_vector_lags_by_where_the_rows_of_its_thread_begin(
    shape: tuple[int, ...], row: str
) -> None:
    kernel = lagging(*shape)
    assert kernel.odd is not None
    text = plain(odd_places(kernel, kernel.odd))
    assert f"const int lag = ({row}) * 1517 % 4;" in text


def test_whole_vectors_are_loaded_and_what_the_row_has_of_them_is_stored() -> None:
    text = plain(kept_lines(lagging(921, 48, 1517)))
    place = "T0 + (72816 * image + 1517 * row + first)"
    assert f"v0[k] = tf::load<tf::bf16, 4, 8>({place});" in text
    assert "tf::store_within<8>(" in text
    assert "(first), 1517, tf::No{});" in text
    assert "if (is_own) {" in text


def test_lanes_are_met_at_their_columns() -> None:
    text = plain(kept_lines(lagging(921, 48, 1517)))
    assert "T1_parts[part][tf::lagging<4, 32>(lane, lag, place)] = T1_part[lane];" in text
    assert "T1_row[lane] = T1_parts[0][tf::lagging<4, 32>(lane, lag, place)];" in text

"""Images that leave their only slot in pieces, as text."""

from __future__ import annotations

import re

import torch

from tests.codegen.test_beside_text import kernel_of, text
from tests.codegen.test_image_text import in_order, walking
from thunder_fuser.codegen.kept_text import kept_lines
from thunder_fuser.kernel.image_ir import DealtRows, pieces_of


def test_the_next_image_comes_behind_pieces_of_the_one_before() -> None:
    found = walking((1783, 768, 49))
    (own,) = re.findall(r"tf::store_stretch\(T\d+ \+ image \* 37632 \+ k \* 18816, (\w+) \+", found)
    assert in_order(
        found,
        "const auto send = [&](const int turn, const int piece) {",
        "if (piece == 0) tf::expect_mail(arrived[0], 37632 * 4);",
        "+ piece * 18816, 18816, arrived[0]);",
        "for (int piece = 0; piece < 2; ++piece) {",
        "send(0, piece);",
        "for (int turn = 0; turn < turns; ++turn) {",
        "tf::await_mail(arrived[0], turn % 2);",
        "for (int k = 0; k < 2; ++k) {",
        "const int row = k * 384 + own;",
        "tf::show_stretches();",
        "__syncthreads();",
        "tf::store_stretch(",
        f"{own} + k * 18816, 18816);",
        "if (turn + 1 < turns) {",
        "if (k > 0) {",
        "tf::await_stores<1>();",
        "send(turn + 1, k - 1);",
        "tf::await_stores();",
        "send(turn + 1, 1);",
    )
    assert len(re.findall(r"tf::copy_stretch\(", found)) == 2


def test_threads_copy_a_piece_of_what_is_turned() -> None:
    found = text(kept_lines(kernel_of((1337, 1024, 49), torch.bfloat16, is_turned=True)))
    assert in_order(
        found,
        "const auto copy = [&](const int turn, const int piece) {",
        "at < 25088; at += 8192) {",
        "const int row = piece * 512 + at % 512;",
        "+ image * 50176 + at / 512 * 1024 + row;",
        "+ at / 512 * 1032 + row), 0, from);",
        "copy(0, piece);",
        "tf::await_copies<0>();",
        "__syncthreads();",
        "tf::await_mail(",
        "copy(turn + 1, k);",
    )


def test_threads_that_share_the_rows_of_a_piece_meet_one_piece_after_another() -> None:
    found = walking((1780, 192, 196))
    (total, sharers) = re.findall(r"__shared__ float (T\d+)_met\[(\d+)\]\[96\];", found)[0]
    assert in_order(
        found,
        f"{total}_met[share][own] = {total}_sum[k];",
        "__syncthreads();",
        "share == 0) {",
        f"other < {sharers}; ++other",
        "__syncthreads();",
    )


def test_pieces_are_whole_accesses_of_rows() -> None:
    assert [pieces_of(rows, 768) for rows in (768, 32, 48, 776)] == [2, 2, 1, 1]
    assert [pieces_of(2560, threads) for threads in (1280, 1024)] == [2, 1]  # a thread a row
    assert DealtRows.of(768, 768, 49, pieces=2) == DealtRows(384, 2, 2)
    assert DealtRows.of(192, 576, 49, pieces=2) == DealtRows(96, 6, 2)


def test_images_of_other_rows_leave_as_a_whole() -> None:
    assert "piece" not in walking((1783, 776, 49))
    assert "piece" not in walking((2674, 512, 49))  # of two slots

"""Images that pass through shared memory, as text."""

from __future__ import annotations

import re

import torch

from tests.codegen.test_beside_text import kernel_of, text
from tests.kernel import test_kept_columns
from tests.schedule.segments import segment_of
from tests.schedule.test_kept_columns import centred
from thunder_fuser.codegen.emit import emit
from thunder_fuser.codegen.kept_text import kept_lines
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import tensor


def walking(shape: tuple[int, ...]) -> str:
    return text(kept_lines(kernel_of(shape, torch.bfloat16)))


def in_order(found: str, *parts: str) -> bool:
    """True where each of the parts stands, and behind the one before."""
    start = 0
    for part in parts:
        start = found.find(part, start) + len(part)
        if start < len(part):
            return False
    return True


def test_a_block_has_an_image() -> None:
    x = tensor(DataType.BFloat16, 2674, 512, 49)
    kernel = test_kept_columns.kernel_of(segment_of([x], centred(x)))
    found = text(kept_lines(kernel))
    assert in_order(
        found,
        "tf::open_mail(",
        "const int image = blockIdx.x;",
        "tf::copy_stretch(T0_image, T0 + image * 25088, 25088, mail);",
        "__syncthreads();",
        "tf::await_mail(arrived[0]);",
        "for (int row = part; row < 512; row += 10) {",
        "tf::show_stretches();",
        "__syncthreads();",
        "tf::store_stretch(T4 + image * 25088, T0_image, 25088);",
        "tf::await_stores();",
    )
    assert "turn <" not in found
    assert emit(kernel).shared_bytes == 2 * 25088


def test_the_next_images_come_while_a_block_works() -> None:
    found = walking((2674, 512, 49))
    assert in_order(
        found,
        "turn < 1 && turn < turns; ++turn) send(turn);",
        "__syncthreads();",
        "for (int turn = 0; turn < turns; ++turn) {",
        "if (turn + 1 < turns) send(turn + 1);",
        "tf::await_mail(arrived[turn % 2], turn / 2 % 2);",
        "tf::store_stretch(",
        "}",
        "if (threadIdx.x == 0) tf::await_stores();",
        "__syncthreads();",
    )


def test_what_is_stored_leaves_its_slot_before_the_next_image_comes() -> None:
    found = walking((1783, 776, 49))
    sent = found[found.index("const auto send") : found.index("};")]
    other, own = re.findall(r"tf::copy_stretch\((\w+),", sent)
    assert in_order(sent, f"copy_stretch({other}", "tf::await_stores();", f"copy_stretch({own}")
    assert re.search(rf"tf::store_stretch\(T\d+ \+ image \* 38024, {own}, 38024\);", found)
    assert in_order(found, "++turn) {", "send(turn);", "tf::await_mail(arrived[turn % 1]")


def test_threads_are_at_places_and_then_at_rows() -> None:
    found = walking((2670, 128, 196))  # 384 threads, of which seven times 49 are at places
    assert in_order(
        found,
        "if (part < 7) {",
        "for (int row = part; row < 128; row += 7) {",
        "if (part == 0) {",
        "f32_known_at[lane * 49 + place].v[0] = ",
        "__syncthreads();",
        "for (int place = share; place < 49; place += 3) {",
        "f32_known[lane] = f32_known_at[lane * 49 + place];",
    )


def test_threads_copy_what_is_turned_and_have_vectors_of_its_rows() -> None:
    found = text(kept_lines(kernel_of((2674, 512, 49), torch.bfloat16, is_turned=True)))
    (name,) = re.findall(
        r"tf::copy_async<16>\(reinterpret_cast<[^>]*>\*>\((\w+_image_turned) ", found
    )
    assert in_order(
        found,
        "TF_SHARED_LINES(unsigned char, shared);",
        "for (int at = threadIdx.x * 8; at < 25088; at += 4096) {",
        f"{name} + at / 512 * 520 + row), 0, from);",
        "tf::commit_copies();",
        "turn < 1 && turn < turns; ++turn) send(turn);",
        "turn < 1 && turn < turns; ++turn) copy(turn);",
        "if (turn + 1 < turns) copy(turn + 1);",
        "else tf::commit_copies();",
        "tf::await_copies<1>();",
        "__syncthreads();",
        "if (turn + 1 < turns) send(turn + 1);",
        "for (int first = part * 8; first < 512; first += 80) {",
        f"_rows = tf::load<tf::bf16, 8, 16>({name} + (520 * place + first));",
        "for (int k = 0; k < 8; ++k) {",
        "const int row = first + k;",
        "_rows.v[k]}};",
        "for (int pair = share; pair < 24; pair += 1) {",
        f"({name} + (520 * place + row));",
    )


def test_the_only_slot_is_filled_by_copies_and_stretches_at_a_time() -> None:
    found = text(kept_lines(kernel_of((1337, 1016, 49), torch.bfloat16, is_turned=True)))
    assert in_order(
        found,
        "turn < turns; ++turn) {",
        "copy(turn);",
        "send(turn);",
        "tf::await_copies<0>();",
        "__syncthreads();",
        "tf::await_mail(arrived[turn % 1]",
    )

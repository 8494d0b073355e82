"""Images in the only slot of a block, as C++ text: they leave in pieces, behind which those of the
next image come while the block works on others.

rows of piece k           worked on by all threads; then it is on its way to memory, and
behind piece k + 1        shared memory was read for piece k, and that of the next image is sent for
"""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.codegen.blocks import block, by_first_thread, function, unrolled, when
from thunder_fuser.codegen.statements import number
from thunder_fuser.codegen.types import CUDA_TYPES, index_type
from thunder_fuser.kernel.image_ir import Images
from thunder_fuser.kernel.kept_ir import KeptKernel


def over_turns_in_pieces(
    kernel: KeptKernel,
    images: Images,
    places: Sequence[str],
    once: Sequence[str],
    early: Sequence[str],
    work: Sequence[str],
) -> list[str]:
    """A loop over the turns of a block. `places` says where an image lies, `once` is what the block
    does before all turns and `early` what it does in each, while an image comes; `work` is done
    with it."""
    kind, copies = index_type(kernel.reach), copied(kernel, images)
    arrived = ["tf::await_copies<0>();", "__syncthreads();"] if copies else []
    arrived.append("tf::await_mail(arrived[0], turn % 2);")
    last = ["if (threadIdx.x == 0) tf::await_stores();", f"send(turn + 1, {images.pieces - 1});"]
    first = [*(["copy(0, piece);"] if copies else []), "send(0, piece);"]
    turn = [*places, *early, *arrived, *work, *when(["turn + 1 < turns"], last)]
    moved = [f"const {kind} turn", "const int piece"]
    return [
        *function("send", moved, [*places, *_sent(images)]),
        *(function("copy", moved, [*places, *copies]) if copies else []),
        *unrolled(f"for (int piece = 0; piece < {images.pieces}; ++piece)", first, 1),
        *once,
        *unrolled(f"for ({kind} turn = 0; turn < turns; ++turn)", turn, 1),
        "if (threadIdx.x == 0) tf::await_stores();",
        "__syncthreads();",
    ]


def behind_rows(images: Images) -> list[str]:
    """What all threads do behind the rows of piece `k`."""
    size = number(images.piece_rows * images.places)
    of_image = f"image * {number(images.elements)}"
    stores = [
        f"tf::store_stretch({to} + {of_image} + k * {size}, {plane.name} + k * {size}, {size});"
        for plane in images.planes
        for to in plane.stored
    ]
    copies = any(plane.pitch is not None for plane in images.planes)
    before = [
        "if (threadIdx.x == 0) tf::await_stores<1>();",
        "send(turn + 1, k - 1);",
    ]
    following = ["copy(turn + 1, k);"] if copies else []
    following += when(["k > 0"], before)
    return [
        "tf::show_stretches();",
        "__syncthreads();",
        *by_first_thread(stores),
        *when(["turn + 1 < turns"], following),
    ]


def _sent(images: Images) -> list[str]:
    """A piece of what comes in stretches; the first one says how much all are."""
    size = number(images.piece_rows * images.places)
    straight = [plane for plane in images.planes if plane.pitch is None]
    total = sum(plane.dtype.itemsize for plane in straight)
    whole = number(images.elements)
    expected = f"if (piece == 0) tf::expect_mail(arrived[0], {whole} * {total});"
    copies = [
        f"tf::copy_stretch({p.name} + piece * {size}, {p.pointer} + image * {whole} + "
        f"piece * {size}, {size}, arrived[0]);"
        for p in straight
    ]
    return by_first_thread([expected, *copies])


def copied(kernel: KeptKernel, images: Images) -> list[str]:
    """What is turned of an image, or of a `piece` of its rows, on its way by all threads: the rows
    of a place are whole vectors."""
    lines, rows = list[str](), number(images.piece_rows)
    size, image = number(images.piece_rows * images.places), number(images.elements)
    is_whole = images.pieces == 1
    first = "" if is_whole else f"piece * {rows} + "
    there = "at" if is_whole else f"at / {rows} * {number(images.row_count)} + row"
    for plane in images.planes:
        if plane.pitch is not None:
            vector = MAX_ALIGNMENT // plane.dtype.itemsize
            kind = f"tf::Vec<{CUDA_TYPES[plane.dtype]}, {vector}>"
            here = f"{plane.name} + at / {rows} * {number(plane.pitch)} + row"
            copy = f"tf::copy_async<{MAX_ALIGNMENT}>(reinterpret_cast<{kind}*>({here}), 0, from);"
            step = kernel.threads * vector
            place = [
                f"const int row = {first}at % {rows};",
                f"const auto* const from = {plane.pointer} + image * {image} + {there};",
            ]
            head = f"for (int at = threadIdx.x * {vector}; at < {size}; at += {step})"
            lines += block(head, [*place, copy])
    return [*lines, "tf::commit_copies();"] if lines else []

"""Vectors that are aligned to their elements only, moved together by threads side by side.

    axes i0{16384}, i1{512}  lanes 8        rows of 4097 bf16, of which 4096 are walked
    store w0 -> T1[4097*i0 + 8*i1], 2 bytes at a time
                                        =>  store w0 -> T1[4097*i0 + 8*i1], in aligned words

Where the threads of a warp have vectors one behind another, these are whole aligned words but for
what the first and the last of them share with nobody: eight accesses of a thread are one, and four
exchanges with its neighbours. Of memory that begins aligned and elements of 16 bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from thunder_fuser.analysis.digits import Form, add, atom, scale, substitute
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.kernel.map_ir import Body
from thunder_fuser.kernel.statements import VectorAccess
from thunder_fuser.target import WARP

ITEM_BYTES = 2  # of an element
LOADED, STORED = (8, 16), (8,)  # elements of a vector, which are whole words


def in_words(body: Body, alignments: Mapping[str, int]) -> Body:
    """The body with such accesses, of tensors that begin at addresses of those `alignments`."""
    if body.turning is not None or body.inside is not None or not body.axes:
        return body
    across = body.axes[-1]
    if across.size < WARP:
        return body

    def moved(access: VectorAccess, lengths: Sequence[int]) -> VectorAccess:
        is_aligned = alignments.get(access.pointer, 0) >= MAX_ALIGNMENT
        can_be = is_aligned and access.length in lengths and _lies_beside(access, across)
        return replace(access, is_in_words=True) if can_be else access

    loads = tuple(moved(access, LOADED) for access in body.loads)
    stores = tuple(moved(access, STORED) for access in body.stores)
    return replace(body, loads=loads, stores=stores)


def _lies_beside(access: VectorAccess, across: IterDomain) -> bool:
    """True for elements of 16 bits that are moved one by one, and begin behind those of the thread
    before."""
    is_single = access.access_bytes == access.dtype.itemsize == ITEM_BYTES
    is_plain = access.lane is None and access.window is None and access.carried is None
    if not (is_single and is_plain) or access.guards or access.others:
        return False
    start = substitute(access.offset, {across: Form()})
    return add(access.offset, scale(start, -1)) == scale(atom(across), access.length)

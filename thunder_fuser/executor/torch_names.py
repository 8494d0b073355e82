"""What a prim is called once Thunder's torch executor has taken it.

t1 = prims.pad(x, 0.0, widths)    =>    t1 = torch_pad_prim_impl(x, 0.0, widths)
"""

from __future__ import annotations

from dataclasses import replace

from thunder.core.prims import PrimIDs
from thunder.core.symbol import BoundSymbol
from thunder.executors import torchex

_SYMBOLS = {
    prim: found.symbol
    for prim, found in torchex.ex.implmap.items()
    if isinstance(prim, PrimIDs) and found.symbol is not None
}
_PRIMS = {symbol.id: prim for prim, symbol in _SYMBOLS.items()}


def name_outside(bsym: BoundSymbol) -> str:
    """The name of the symbol in a final trace, where no region holds it."""
    symbol = _SYMBOLS.get(bsym.sym.id)
    name: str = bsym.sym.name if symbol is None else symbol.name
    return name


def as_prim(bsym: BoundSymbol) -> BoundSymbol | None:
    """The prim that torch's operator was taken for; None for what is none of those."""
    prim = _PRIMS.get(bsym.sym.id)
    if prim is None or bsym.sym.executor is not torchex.ex:
        return None
    return bsym.from_bsym(sym=replace(bsym.sym, id=prim, executor=None, is_prim=True))

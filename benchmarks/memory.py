"""Memory of a call: its peak, and what its backward keeps alive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from benchmarks.measure import Prepare

MIB = 2**20
_SAVED = "_saved_"  # how autograd's own nodes name what they keep


def peak_mib(prepare: Prepare, device: torch.device) -> float | None:
    """What a call needs at its peak beyond what was allocated before it; None on the host
    target."""
    if device.type != "cuda":
        return None
    call = prepare()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    results = call()
    torch.cuda.synchronize()
    peak = int(torch.cuda.max_memory_allocated(device))
    del results
    return (peak - int(before)) / MIB


def saved_mib(outputs: Sequence[torch.Tensor], given: Sequence[torch.Tensor]) -> float | None:
    """What the graph behind `outputs` keeps alive, each storage once; that of `given`, inputs and
    parameters, is there anyway and left out. Outputs that the backward reads count. None where
    autograd does not show a saved tensor because it was written since."""
    seen = {_storage(t) for t in given}
    total = 0
    try:
        saved = list(_saved(outputs))
    except RuntimeError:
        return None
    for tensor in saved:
        if _storage(tensor) not in seen:
            seen.add(_storage(tensor))
            total += tensor.untyped_storage().nbytes()
    return total / MIB


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _saved(outputs: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
    nodes = [t.grad_fn for t in outputs if t.grad_fn is not None]
    seen = set(nodes)
    while nodes:
        node = nodes.pop()
        kept = [getattr(node, name) for name in dir(node) if name.startswith(_SAVED)]
        kept += getattr(node, "saved_tensors", ())
        for value in kept:
            several = value if isinstance(value, tuple | list) else (value,)
            yield from (t for t in several if isinstance(t, torch.Tensor))
        for before, _ in node.next_functions:
            if before is not None and before not in seen:
                seen.add(before)
                nodes.append(before)

"""Are two axes of a definition the same, and why: the IdModel's answer in the user's names."""

from __future__ import annotations

from thunder_fuser.analysis.id_model import IdModel
from thunder_fuser.frontend.handles import Tensor
from thunder_fuser.frontend.layout import wrap
from thunder_fuser.frontend.leaf import Leaf
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.ir.tensor import TensorView

MAPS = ("exact", "almost_exact", "broadcast", "permissive")


def explain_axes(leaf: Leaf, a: tuple[Tensor, int], b: tuple[Tensor, int], map: str) -> str:
    """The chain of reasons for which two logical axes are mapped, or why they are not.

    Raises ValueError for an unknown map, a dim out of range, or a tensor that no output needs.
    """
    if map not in MAPS:
        raise ValueError(f"map is {map!r}; legal: {', '.join(MAPS)}")
    model = IdModel(leaf.fusion)
    graph = getattr(model, map)
    first, second = _axis(leaf, *a), _axis(leaf, *b)
    if graph.are_mapped(first, second):
        return model.why_mapped(first, second, graph)
    return model.why_not(first, second, graph)


def _axis(leaf: Leaf, tensor: Tensor, dim: int) -> IterDomain:
    value = leaf.fids.values[tensor.fid]
    if not isinstance(value, TensorView) or value not in leaf.fusion.tensors:
        raise ValueError(f"{tensor!r} is no tensor that an output of the fusion needs")
    return value.logical[wrap(dim, value.ndim, f"dim of {tensor!r}")]

"""FusionDefinition: fusions as records, fids and a trie that remembers them."""

from thunder_fuser.dtypes import DataType
from thunder_fuser.frontend.cache import CacheStats, FusionCache
from thunder_fuser.frontend.definition import FusionDefinition
from thunder_fuser.frontend.handles import Scalar, Tensor, Vector
from thunder_fuser.frontend.layout import compute_tensor_descriptor

__all__ = [
    "CacheStats",
    "DataType",
    "FusionCache",
    "FusionDefinition",
    "Scalar",
    "Tensor",
    "Vector",
    "compute_tensor_descriptor",
]

"""A Lightning Thunder executor that fuses regions of PyTorch programs into CUDA kernels.

    import thunder
    from thunder_fuser import fuser

    jfn = thunder.jit(fn, executors=[fuser])      # or executors=["thunder_fuser"] after the import

Importing the package registers the executor. Neither a GPU nor a driver is needed for that.
"""

from thunder.extend import register_executor

from thunder_fuser.dtypes import DataType
from thunder_fuser.executor.draw import draw
from thunder_fuser.executor.executor import FuserExecutor
from thunder_fuser.executor.explain import explain
from thunder_fuser.executor.profile import profile
from thunder_fuser.frontend.cache import FusionCache
from thunder_fuser.frontend.definition import FusionDefinition
from thunder_fuser.options import Options, options

__version__ = "0.1.0"

fuser = FuserExecutor(__version__)
register_executor(fuser)

__all__ = [
    "DataType",
    "FuserExecutor",
    "FusionCache",
    "FusionDefinition",
    "Options",
    "draw",
    "explain",
    "fuser",
    "options",
    "profile",
]

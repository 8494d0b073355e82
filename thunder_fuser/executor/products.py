"""Products of matrices whose gradients Thunder takes by running them again.

    y = addmm(b, x, w)    =>    db = sum(g);  dx = matmul(g, w.mT);  dw = matmul(x.mT, g)

Thunder 0.2.6 registers each as an opaque torch op, whose gradient runs the product once more under
torch's autograd before it makes those: the projections of Hugging Face's GPT-2 are `addmm`. What is
another name of a product that Thunder knows is that. The others stay torch's calls, with the sum
in the kernel of the product, and have rules, registered once beside Thunder's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import thunder.core.dtypes as dtypes
import thunder.torch as ltorch
import torch
from thunder.core.transforms import get_grad, put_grad, sum_to

from thunder_fuser.executor.operands import is_whole
from thunder_fuser.executor.stand_ins import Compose


def _addmm(a: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * a + alpha * matmul(mat1, mat2)"""
    result = ltorch.addmm(a, mat1, mat2, beta=beta, alpha=alpha)
    g = get_grad(result)
    scaled = _times(g, alpha)
    put_grad(a, sum_to(_times(g, beta), a.shape))
    put_grad(mat1, ltorch.matmul(scaled, _adjoint(mat2)))
    put_grad(mat2, ltorch.matmul(_adjoint(mat1), scaled))
    return result


def _addmv(a: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * a + alpha * matmul(mat, vec)"""
    result = ltorch.addmv(a, mat, vec, beta=beta, alpha=alpha)
    g = get_grad(result)
    scaled = _times(g, alpha)
    put_grad(a, sum_to(_times(g, beta), a.shape))
    put_grad(mat, ltorch.outer(scaled, _conjugate(vec)))
    put_grad(vec, ltorch.matmul(_adjoint(mat), scaled))
    return result


def _times(g: Any, factor: Any) -> Any:
    return g if isinstance(factor, int | float) and factor == 1 else ltorch.mul(g, factor)


def _adjoint(matrix: Any) -> Any:
    return ltorch.transpose(_conjugate(matrix), 0, 1)


def _conjugate(a: Any) -> Any:
    return ltorch.conj(a) if dtypes.is_complex_dtype(a.dtype) else a


GRADIENTS: dict[str, Callable[..., Any]] = {"torch.addmm": _addmm, "torch.addmv": _addmv}


def _of_dims(product: Compose, *dims: int) -> Compose:
    def compose(a: Any, b: Any) -> Any:
        return product(a, b) if _dims(a, b) == dims else NotImplemented

    return compose


def _dims(*tensors: Any) -> tuple[int, ...] | None:
    """Of tensors that have elements and are of one real type."""
    is_plain = is_whole(*tensors) and len({a.dtype for a in tensors}) == 1
    is_real = is_plain and not dtypes.is_complex_dtype(tensors[0].dtype)
    return tuple(a.ndim for a in tensors) if is_real else None


PRODUCTS: dict[Any, Compose] = {
    torch.dot: _of_dims(ltorch.matmul, 1, 1),
    torch.ger: _of_dims(ltorch.outer, 1, 1),
    torch.mv: _of_dims(ltorch.matmul, 2, 1),
}

"""`fd.ops`: what the rows give without being mentioned again, and the composites."""

from __future__ import annotations

import inspect
import operator
from typing import Any

import pytest
import torch

from tests.frontend.fusions import check, defined, example, new_cache, redefined
from thunder_fuser.frontend import DataType, FusionDefinition
from thunder_fuser.frontend.composites import OPERATIONS
from thunder_fuser.ops import OPS, Family, Kind

ELEMENTWISE = [
    name
    for name, row in OPS.items()
    if row.family is Family.POINTWISE and all(p.kind is not Kind.DTYPE for p in row.params)
]


def dtype_of(name: str) -> DataType:
    """A dtype that the op takes."""
    preferred = (DataType.Float, DataType.Int, DataType.Bool, DataType.ComplexFloat)
    return next(d for d in preferred if d in OPS[name].dtypes)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_every_elementwise_row_is_an_op_that_prints_and_hits(name: str) -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([4, -1], contiguity=True, dtype=dtype_of(name))
        numbers = [p.kind is Kind.SCALAR for p in OPS[name].params]
        fd.add_output(getattr(fd.ops, name)(*(2 if number else x for number in numbers)))

    cache = new_cache()
    fd = defined(define, cache)
    assert redefined(str(fd), cache).leaf is fd.leaf
    assert f"fd.ops.{name}(T0" in str(fd)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("name", ["add", "mul", "neg", "lt", "truediv"])
def test_ops_on_scalars_give_a_scalar_computed_on_the_host(name: str) -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], contiguity=True)
        operands = [fd.define_scalar(None), fd.define_scalar(3)][: len(OPS[name].params)]
        s = getattr(fd.ops, name)(*operands)
        fd.add_output(fd.ops.mul(x, fd.ops.cast(s, DataType.Double)))

    reference = getattr(operator, name)
    x = torch.randn(5)

    def eager(x: torch.Tensor, s: float) -> list[torch.Tensor]:
        arguments = [s, 3][: len(inspect.signature(reference).parameters)]
        return [x * float(reference(*arguments))]

    check(define, [x, 2.5], eager)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    "write",
    [
        lambda a, b: a + b - 2 * a,
        lambda a, b: a / b / 2,
        lambda a, b: 1 / (abs(a) + 1) ** 2,
        lambda a, b: (a < b) & (b >= 0) | (a == b),
        lambda a, b: -a * (a != b),
        lambda a, b: 1.5 - a,
    ],
)
def test_operators_mean_what_they_mean_in_torch(write: Any) -> None:
    x, y = torch.randn(4, 5), torch.randn(4, 5)

    def define(fd: FusionDefinition) -> None:
        fd.add_output(write(*example(fd, x, y)))

    check(define, [x, y], lambda a, b: [write(a, b)], exact=False)


@pytest.mark.usefixtures("device")
def test_a_slash_divides_and_div_truncates_ints() -> None:
    x, y = torch.randint(-9, 9, (20,)), torch.randint(1, 4, (20,))

    def define(fd: FusionDefinition) -> None:
        a, b = example(fd, x, y)
        fd.add_output(a / b)
        fd.add_output(fd.ops.div(a, b))
        fd.add_output(a << 2)
        fd.add_output(a % b)

    check(
        define,
        [x, y],
        lambda a, b: [a / b, torch.div(a, b, rounding_mode="trunc"), a << 2, torch.fmod(a, b)],
    )


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dims", [None, [0], [-1, 1], 2])
def test_reductions_take_dims_keepdim_and_dtype(dims: Any, keepdim: bool) -> None:
    x = torch.randn(3, 4, 5)

    def define(fd: FusionDefinition) -> None:
        (a,) = example(fd, x)
        fd.add_output(fd.ops.sum(a, dims, keepdim, DataType.Double))
        fd.add_output(fd.ops.max(a, dims=dims, keepdim=keepdim))

    def eager(a: torch.Tensor) -> list[torch.Tensor]:
        every = list(range(3)) if dims is None else dims
        return [a.sum(every, keepdim, dtype=torch.float64), a.amax(every, keepdim)]

    check(define, [x], eager, exact=False)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("correction", [0, 1, 2])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dims", [None, [1], [0, 2]])
def test_variance_and_mean(dims: Any, keepdim: bool, correction: int) -> None:
    x = torch.randn(3, 4, 5) + 3

    def define(fd: FusionDefinition) -> None:
        (a,) = example(fd, x)
        variance, mean = fd.ops.var_mean(a, dims, correction, keepdim)
        fd.add_output(variance)
        fd.add_output(mean)
        fd.add_output(fd.ops.var(a, dims, correction=correction, keepdim=keepdim))

    def eager(a: torch.Tensor) -> list[torch.Tensor]:
        variance, mean = torch.var_mean(a, dims, correction=correction, keepdim=keepdim)
        return [variance, mean, variance]

    check(define, [x], eager, exact=False)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("diagonal", [-2, 0, 1, 7])
def test_triu(diagonal: int) -> None:
    x = torch.randn(2, 5, 6)

    def define(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.triu(example(fd, x)[0], diagonal))

    check(define, [x], lambda x: [x.triu(diagonal)])


@pytest.mark.usefixtures("device")
def test_shape_size_at_and_tensor_sizes_name_the_extents() -> None:
    x = torch.randn(3, 4)

    def define(fd: FusionDefinition) -> None:
        (a,) = example(fd, x)
        first, second = fd.ops.tensor_sizes(a)
        assert len(fd.ops.shape(a)) == 2
        numbers = [a.size(-1), fd.ops.size(a, 0), fd.ops.at(a.shape(), -1), first, second]
        for number in numbers:
            fd.add_output(fd.ops.mul(a, number))

    check(define, [x], lambda a: [a * 4, a * 3, a * 4, a * 3, a * 4])
    with FusionDefinition(cache=new_cache()) as fd:
        a = fd.define_tensor([4], contiguity=True)
        assert [repr(s) for s in fd.ops.tensor_sizes(a)] == ["S1"]
        assert fd.ops.tensor_sizes(fd.define_tensor([], contiguity=[])) == []
        fd.add_output(a)


@pytest.mark.usefixtures("device")
def test_a_reshape_to_rank_twelve_from_a_vector_of_inputs() -> None:
    x = torch.randn(4, 6, 8)
    shape = [2, 2, 1, 3, 2, 1, 1, 2, 2, 2]

    def define(fd: FusionDefinition) -> None:
        a = fd.define_tensor([-1, -1, -1], contiguity=True)
        one = fd.define_scalar(1)
        vector = fd.define_vector(10)
        sizes = [vector[k] for k in range(10)]
        fd.add_output(fd.ops.neg(fd.ops.reshape(a, [one, *sizes, 1])))

    check(define, [x, shape], lambda a, shape: [-a.reshape(1, *shape, 1)])


@pytest.mark.usefixtures("device")
def test_a_reshape_from_scalar_arithmetic() -> None:
    x = torch.randn(48)

    def define(fd: FusionDefinition) -> None:
        a = fd.define_tensor([-1], contiguity=True)
        n = fd.define_scalar(None, DataType.Int)
        fd.add_output(fd.ops.neg(fd.ops.reshape(a, [n * 2, n + 1, 1 * n - 1])))

    check(define, [x, 3], lambda a, n: [-a.reshape(n * 2, n + 1, n - 1)])


@pytest.mark.usefixtures("device")
def test_slice_bounds_as_literals_vectors_and_inputs_agree() -> None:
    x = torch.randn(8, 10)

    def define(fd: FusionDefinition) -> None:
        a = fd.define_tensor([-1, -1], contiguity=True)
        start, end = fd.define_scalar(None, DataType.Int), fd.define_vector(2)
        fd.add_output(fd.ops.neg(fd.ops.slice(a, [1, 2], [5, 7])))
        fd.add_output(fd.ops.neg(fd.ops.slice(a, fd.define_vector([1, 2]), end)))
        fd.add_output(fd.ops.neg(fd.ops.slice(a, [start, 2], end, [1, 1])))

    check(define, [x, 1, [5, 7]], lambda a, s, e: [-a[1:5, 2:7]] * 3)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("shape", [(0, 4), (3, 0, 2), ()])
def test_empty_and_scalar_tensors(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)

    def define(fd: FusionDefinition) -> None:
        (a,) = example(fd, x)
        fd.add_output(fd.ops.neg(a))
        fd.add_output(fd.ops.sum(a))
        fd.add_output(fd.ops.reshape(a, [x.numel(), 1]))

    check(
        define, [x], lambda a: [-a, a.sum(), a.reshape(-1, 1) if a.numel() else a.new_empty(0, 1)]
    )


@pytest.mark.usefixtures("device")
def test_pad_cat_and_where_with_promotion() -> None:
    x, y = torch.randn(3, 4), torch.randn(2, 4).half()

    def define(fd: FusionDefinition) -> None:
        a, b = example(fd, x, y)
        joined = fd.ops.cat([a, b], 0)
        fd.add_output(fd.ops.pad(joined, [1, 2, -1, 0], 7.0))
        fd.add_output(fd.ops.where(b > 0, b, 1))
        fd.add_output(fd.ops.where(b > 0, 0.5, fd.ops.cast(b, torch.int32)))

    def eager(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        padded = torch.nn.functional.pad(torch.cat([a, b]), (1, 2, -1, 0), value=7.0)
        return [padded, torch.where(b > 0, b, 1), torch.where(b > 0, 0.5, b.int())]

    check(define, [x, y], eager)


GATHERS = {
    "index_select": ((9, 4), (5,), lambda x, i: x.index_select(0, i)),
    "take_along_axis": ((9, 4), (5, 4), lambda x, i: x.gather(0, i)),
    "gather": ((9, 4), (5, 3), lambda x, i: x.gather(0, i)),
}


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("name", GATHERS)
@pytest.mark.parametrize("static", [True, False])
def test_gathers(name: str, static: bool) -> None:
    shape, chosen, eager = GATHERS[name]
    x, index = torch.randn(shape), torch.randint(shape[0], chosen)

    def define(fd: FusionDefinition) -> None:
        if static:
            a, i = example(fd, x, index)
        else:
            a = fd.define_tensor([-1, -1], contiguity=True)
            i = fd.define_tensor([-1] * index.ndim, contiguity=True, dtype=DataType.Int)
        fd.add_output(getattr(fd.ops, name)(a, i, 0))

    check(define, [x, index], lambda x, i: [eager(x, i)])


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("shape", [(3, 5), (), (7,), (0, 2)])
def test_embedding(shape: tuple[int, ...]) -> None:
    weight, index = torch.randn(9, 4), torch.randint(9, shape)

    def define(fd: FusionDefinition) -> None:
        i, w = example(fd, index, weight)
        fd.add_output(fd.ops.embedding(i, w))

    check(define, [index, weight], lambda i, w: [torch.nn.functional.embedding(i, w)])


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("static", [True, False])
def test_index_sum(static: bool, dim: int) -> None:
    x, index = torch.randint(-3, 4, (40, 40)).float(), torch.randint(9, (40,))

    def define(fd: FusionDefinition) -> None:
        if static:
            a, i = example(fd, x, index)
        else:
            a = fd.define_tensor([-1, -1], contiguity=True)
            i = fd.define_tensor([-1], contiguity=True, dtype=DataType.Int)
        fd.add_output(fd.ops.index_sum(a, i, 9, dim))
        fd.add_output(fd.ops.index_sum(a, i, fd.ops.size(a, 0), dim, skip=3))

    def eager(x: torch.Tensor, i: torch.Tensor) -> list[torch.Tensor]:
        few, many = torch.zeros(9, 40), torch.zeros(40, 40)
        if dim:
            few = few.t()
        kept = many.index_add(dim, i, x).index_fill(dim, torch.tensor(3), 0)
        return [few.index_add(dim, i, x), kept]

    check(define, [x, index], eager)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("shape", [(3, 5), (), (7,), (0, 2)])
def test_the_gradient_of_an_embedding(shape: tuple[int, ...]) -> None:
    grad, index = torch.randint(-3, 4, (*shape, 4)).float(), torch.randint(9, shape)

    def define(fd: FusionDefinition) -> None:
        g, i = example(fd, grad, index)
        fd.add_output(fd.ops.embedding_backward(g, i, 9))
        fd.add_output(fd.ops.embedding_backward(g, i, 9, padding_idx=2))

    def eager(g: torch.Tensor, i: torch.Tensor) -> list[torch.Tensor]:
        backward = torch.ops.aten.embedding_dense_backward
        return [backward(g, i, 9, padding, False) for padding in (-1, 2)]

    check(define, [grad, index], eager)


def test_a_gradient_of_another_rank_is_refused() -> None:
    with FusionDefinition(cache=new_cache()) as fd:
        g, i = example(fd, torch.randn(5, 4), torch.zeros(5, 4, dtype=torch.int64))
        with pytest.raises(ValueError, match="the gradient has rank 2, the index has rank 2"):
            fd.ops.embedding_backward(g, i, 9)
        fd.add_output(g)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("reverse", [False, True])
def test_cumsum(reverse: bool) -> None:
    x = torch.randint(-3, 4, (5, 40)).float()

    def define(fd: FusionDefinition) -> None:
        (a,) = example(fd, x)
        fd.add_output(fd.ops.cumsum(a, -1, reverse) if reverse else fd.ops.cumsum(a, -1))

    turned = (lambda t: t.flip(1)) if reverse else (lambda t: t)
    check(define, [x], lambda x: [turned(turned(x).cumsum(1))])


def test_rand_like_has_the_shape_and_dtype_of_its_argument() -> None:
    x = torch.randn(6, 50).double()

    def define(fd: FusionDefinition) -> None:
        (a,) = example(fd, x)
        fd.add_output(fd.ops.rand_like(a))
        fd.add_output(fd.ops.rand_like(a, rng_seed=3, rng_offset=5))

    fd = defined(define)
    free, fixed = fd.execute([x])
    assert (free.shape, free.dtype) == (x.shape, x.dtype)
    assert ((free >= 0) & (free < 1)).all()
    again = fd.execute([x])
    assert torch.equal(fixed, again[1])
    assert not torch.equal(free, again[0])


@pytest.mark.usefixtures("device")
def test_layer_norm_written_two_ways_agrees() -> None:
    x, w = torch.randn(5, 33), torch.randn(33)

    def define(fd: FusionDefinition) -> None:
        a, weight = example(fd, x, w)
        variance, mean = fd.ops.var_mean(a, [1], correction=0, keepdim=True)
        fd.add_output((a - mean) * fd.ops.rsqrt(variance + 1e-5) * weight)
        n = a.size(1)
        mean = fd.ops.broadcast_in_dim(fd.ops.sum(a, [1]) / n, [5, 1], [0])
        distance = fd.ops.sub(a, fd.ops.broadcast_in_dim(mean, a.shape(), [0, 1]))
        second = fd.ops.sum(distance * distance, [1], keepdim=True) / n
        fd.add_output(distance * fd.ops.rsqrt(second + 1e-5) * weight)

    def eager(a: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
        return [torch.nn.functional.layer_norm(a, (33,), weight)] * 2

    check(define, [x, w], eager, exact=False)


def test_unknown_names_are_no_attributes_and_known_ones_are_listed() -> None:
    with FusionDefinition(cache=new_cache()) as fd:
        assert sorted(OPERATIONS) == dir(fd.ops)
        assert not hasattr(fd.ops, "no_such_op")
        fd.add_output(fd.define_tensor([4], contiguity=True))

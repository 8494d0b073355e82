"""Bad definitions fail where they are written, and say what, where and what is legal."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy
import pytest
import torch

from tests.frontend.fusions import defined, new_cache
from thunder_fuser.frontend import DataType, FusionDefinition

F = Callable[[FusionDefinition, Any], Any]


def raises(body: F, *words: str, error: type[Exception] = ValueError) -> str:
    """The text of the error that `body(fd, x)` raises for x of shape [4, 6], holding all words."""
    with FusionDefinition(cache=new_cache()) as fd:
        x = fd.define_tensor([4, 6], contiguity=True)
        with pytest.raises(error) as caught:
            body(fd, x)
        fd.add_output(x)
    text = str(caught.value)
    for word in words:
        assert word in text, text
    return text


def test_an_error_names_the_call_its_operands_and_the_line_of_the_user() -> None:
    text = raises(lambda fd, x: fd.ops.reshape(x, [5, 7]), "24 elements", "35")
    first, *rest = text.splitlines()
    assert first.startswith("fd.ops.reshape(T0, [5, 7]): ")
    assert rest[0] == "  T0: f32[i4, i6]"
    assert "test_definition_errors.py" in rest[1]
    assert "fd.ops.reshape(x, [5, 7])" in rest[1]


def test_a_call_that_failed_has_no_effect_on_the_definition() -> None:
    with FusionDefinition(cache=new_cache()) as fd:
        x = fd.define_tensor([4, 6], contiguity=True)
        with pytest.raises(ValueError, match="not a permutation"):
            fd.ops.permute(x, [0])
        y = fd.ops.neg(x)
        fd.add_output(y)
    assert y.fid == 1
    given = torch.randn(4, 6)
    assert torch.equal(fd.execute([given])[0], -given)


@pytest.mark.parametrize("dtype", [DataType.Int, DataType.Bool, DataType.ComplexFloat])
def test_random_numbers_are_real_floats(dtype: DataType) -> None:
    def draw(fd: FusionDefinition, x: Any) -> Any:
        return fd.ops.uniform(0.0, 1.0, [4], rng_seed=1, rng_offset=0, dtype=dtype)

    raises(
        draw, f"uniform: a result of dtype {dtype}; it gives bf16, f16, f32, f64", error=TypeError
    )


@pytest.mark.parametrize("dtype", [DataType.Bool, DataType.ComplexFloat])
def test_an_index_is_a_real_number(dtype: DataType) -> None:
    def count(fd: FusionDefinition, x: Any) -> Any:
        return fd.ops.iota(4, dtype=dtype)

    raises(count, f"iota: a result of dtype {dtype}; it gives", "i64", error=TypeError)


def test_length_limits() -> None:
    with pytest.raises(ValueError, match="max_length is 0"):
        FusionDefinition(max_length=0, cache=new_cache())
    fd = FusionDefinition(max_length=3, cache=new_cache())
    with fd:
        x = fd.define_tensor([4], contiguity=True)
        fd.add_output(fd.ops.neg(x))
        with pytest.raises(RuntimeError, match=r"reached 3 records.*max_length is 3; raise it"):
            fd.ops.neg(x)


def test_definitions_outside_their_time() -> None:
    cache = new_cache()
    fd = FusionDefinition(cache=cache)
    calls: list[Callable[[], Any]] = [
        lambda: fd.define_tensor([4], contiguity=True),
        lambda: fd.define_scalar(1.0),
        lambda: fd.define_vector([1]),
        lambda: fd.ops.neg(None),
        lambda: fd.add_output(None),  # type: ignore[arg-type]
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match=r"open it with `with` or definition\(\)"):
            call()
    with fd:
        fd.add_output(fd.define_tensor([4], contiguity=True))
    for call in calls:
        with pytest.raises(RuntimeError, match="the definition is complete"):
            call()
    for complete in (fd, FusionDefinition(0, cache=cache)):
        with pytest.raises(RuntimeError, match="is complete, its fusion has id 0"), complete:
            pass


def test_an_exception_in_the_body_registers_nothing_and_the_object_can_start_again() -> None:
    cache = new_cache()
    fd = FusionDefinition(cache=cache)
    with pytest.raises(ZeroDivisionError), fd:
        fd.add_output(fd.define_tensor([4 // 0], contiguity=True))
    assert cache.num_fusions() == 0
    assert not cache.walk().children
    with fd:
        fd.add_output(fd.define_tensor([4], contiguity=True))
    assert fd.id == 0


def test_an_unknown_id_names_the_live_ones() -> None:
    with pytest.raises(RuntimeError, match="no fusion has id 5: live ids are none"):
        FusionDefinition(5, cache=new_cache())


def test_a_definition_without_output_is_refused() -> None:
    with pytest.raises(ValueError, match="no output: call"):
        defined(lambda fd: fd.define_tensor([4], contiguity=True))


def test_a_handle_of_another_definition_is_refused() -> None:
    other: Any = []
    defined(lambda fd: (other.append(fd.define_tensor([4])), fd.add_output(other[0])))
    for body in (
        lambda fd, x: fd.ops.add(x, other[0]),
        lambda fd, x: fd.ops.cat([x, other[0]]),
        lambda fd, x: fd.add_output(other[0]),
        lambda fd, x: fd.add_output(x, alias_input=other[0]),
    ):
        raises(body, "T0 of FusionDefinition at 0x", "not of this FusionDefinition at 0x")


def test_a_handle_of_an_attempt_that_failed_is_refused() -> None:
    fd = FusionDefinition(cache=new_cache())
    with suppress(KeyError), fd:
        x = fd.define_tensor([-1, -1], contiguity=True)
        stale = fd.ops.exp(x)
        raise KeyError
    with fd:
        y = fd.ops.neg(fd.define_tensor([-1], contiguity=True))
        for body in (
            lambda: fd.add_output(stale),
            lambda: fd.ops.add(y, stale),
            lambda: fd.ops.reshape(y, [stale.size(0)]),
        ):
            with pytest.raises(ValueError, match="T1 of an earlier `with` of this definition"):
                body()
        fd.add_output(y)
    given = torch.randn(3)
    assert torch.equal(fd.execute([given])[0], -given)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"shape": [-2]}, ("shape[0] is -2", "-1 (symbolic)")),
        ({"shape": [2.5]}, ("shape[0] is 2.5",)),
        ({"sizes": [2.5], "strides": [1]}, ("sizes[0] is 2.5; legal: an int",)),
        ({"sizes": [-2], "strides": [1]}, ("sizes[0] is -2; legal: 0 and above",)),
        ({"sizes": [2], "strides": [1.5]}, ("strides[0] is 1.5; legal: an int",)),
        ({"shape": [4], "stride_order": [0.0]}, ("stride_order[0] is 0.0; legal: an int",)),
        ({"shape": [4], "contiguity": numpy.array([True])}, ("a bool or a list, not array",)),
        ({"shape": [4, 4], "contiguity": [True]}, ("has 1 entries, rank is 2",)),
        ({"shape": [4, 1], "contiguity": [True, True]}, ("contiguity[1]", "dim 1 of size 1")),
        ({"shape": [4, 4], "contiguity": [True, "yes"]}, ("contiguity[1] is 'yes'",)),
        ({"shape": [4, 4], "contiguity": True, "stride_order": [0]}, ("1 entries, rank is 2",)),
        ({"shape": [4, 4], "contiguity": True, "stride_order": [0, 0]}, ("has 0 twice",)),
        ({"shape": [4, 4], "contiguity": True, "stride_order": [0, 2]}, ("stride_order[1] is 2",)),
        ({"shape": [4, 4], "contiguity": [4]}, ("2 sizes", "1 strides")),
        ({"sizes": [4, 4], "strides": [-4, 1]}, ("dim 0 has the negative stride -4",)),
        ({"shape": [4], "contiguity": True, "dtype": torch.uint16}, ("unsupported", "Half")),
        ({"shape": [4], "contiguity": True, "is_cpu": True}, ("rank 1", "only 0-dim CPU")),
        ({"shape": [2**63]}, ("does not fit int64",)),
        ({}, ("shape and contiguity, or sizes and strides",)),
    ],
)
def test_bad_tensor_inputs(arguments: dict[str, Any], words: tuple[str, ...]) -> None:
    def body(fd: FusionDefinition, x: Any) -> None:
        fd.define_tensor(**arguments)

    with pytest.raises((ValueError, TypeError)) as caught:
        defined(lambda fd: body(fd, None))
    text = str(caught.value)
    assert text.startswith("fd.define_tensor(")
    for word in words:
        assert word in text, text


@pytest.mark.parametrize("tensor", [torch.randn(2, 3), torch.randn(2, device="meta")])
def test_from_pytorch_takes_cuda_tensors_and_cpu_scalars(tensor: torch.Tensor) -> None:
    def body(fd: FusionDefinition, x: Any) -> None:
        fd.from_pytorch(tensor)

    raises(body, str(list(tensor.shape)), str(tensor.device), "inputs are CUDA tensors")
    fd = defined(lambda fd: fd.add_output(fd.from_pytorch(torch.tensor(2.0))))
    assert "is_cpu=True" in str(fd)


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        (lambda fd, x: fd.define_scalar("a"), TypeError, ("not str 'a'",)),
        (lambda fd, x: fd.define_scalar(torch.ones(2)), TypeError, ("not Tensor",)),
        (lambda fd, x: fd.define_scalar(2**63), ValueError, ("does not fit int64",)),
        (lambda fd, x: fd.define_scalar(300, DataType.Int8), ValueError, ("int8 [-128, 127]",)),
        (lambda fd, x: fd.define_scalar(-1, DataType.UInt8), ValueError, ("uint8 [0, 255]",)),
        (lambda fd, x: fd.define_scalar(1j, DataType.Float), TypeError, ("real dtype f32",)),
        (lambda fd, x: fd.define_scalar(1.5, DataType.Int), ValueError, ("not an integer",)),
        (lambda fd, x: fd.define_scalar(1.0, torch.float8_e5m2), TypeError, ("of dtype f8e5m2",)),
        (lambda fd, x: fd.ops.cast(1.0, torch.float8_e5m2), TypeError, ("of dtype f8e5m2",)),
        (lambda fd, x: fd.ops.full([2], 1, torch.float8_e5m2), TypeError, ("dtype f8e5m2",)),
        (lambda fd, x: fd.ops.neg(fd.ops.cast(x, torch.float8_e5m2)), TypeError, ("f8e5m2",)),
        (lambda fd, x: fd.define_vector([1, 2.5]), TypeError, ("element 1 is 2.5",)),
        (lambda fd, x: fd.define_vector([1, -2]), ValueError, ("element 1 is -2",)),
        (lambda fd, x: fd.define_vector(-1), ValueError, ("size -1 is negative",)),
        (lambda fd, x: fd.define_vector([1], DataType.Int32), TypeError, ("holds int64",)),
        (lambda fd, x: fd.add_output(x.size(0)), TypeError, ("S1; only tensors",)),
        (lambda fd, x: fd.add_output(x.shape()), TypeError, ("V1; only tensors",)),
        (lambda fd, x: fd.ops.sum(x.size(0)), TypeError, ("'x' wants a Tensor, not Scalar S1",)),
        (lambda fd, x: fd.ops.cat(x), TypeError, ("'tensors' wants a list of Tensors",)),
        (lambda fd, x: fd.ops.cat([x, 1]), TypeError, ("tensors[1] wants", "int 1")),
        (lambda fd, x: fd.ops.cat([]), ValueError, ("'tensors' is empty",)),
        (lambda fd, x: fd.from_pytorch([1]), TypeError, ("wants a torch.Tensor, not list",)),
        (lambda fd, x: fd.ops.reshape(x, [24.0]), TypeError, ("new_shape[0]", "float 24.0")),
        (
            lambda fd, x: fd.ops.reshape(x, [fd.define_scalar()]),
            TypeError,
            ("S1 has dtype f64; an extent is an integer",),
        ),
        (
            lambda fd, x: fd.define_vector([fd.define_scalar(2.5)]),
            TypeError,
            ("is an integer: 2.5",),
        ),
        (
            lambda fd, x: fd.ops.full([fd.define_scalar(True)], 1.0, DataType.Float),
            TypeError,
            ("dtype bool; an extent is an integer",),
        ),
        (
            lambda fd, x: fd.ops.iota(3.5, 0, 1, DataType.Int),
            TypeError,
            ("an extent is an integer: 3.5",),
        ),
        (
            lambda fd, x: fd.ops.expand(x, [-1, -1, -1]),
            ValueError,
            ("dim 0 (-1), but", "a new one"),
        ),
        (lambda fd, x: fd.ops.triu(x, 0.5), TypeError, ("the diagonal has dtype f64",)),
        (lambda fd, x: fd.ops.mod(5, 0), ValueError, ("fd.ops.mod(5, 0): ", "has no value")),
        (lambda fd, x: fd.ops.sum(x, [2]), ValueError, ("dims[0] is 2", "rank 2: [-2, 1]")),
        (lambda fd, x: fd.ops.sum(x, [1, -1]), ValueError, ("names dim 1 twice",)),
        (lambda fd, x: fd.ops.sum(x, [0], keepdim=1), TypeError, ("'keepdim' wants True",)),
        (lambda fd, x: fd.ops.add(x), TypeError, ("'b' (tensor or scalar) is missing",)),
        (lambda fd, x: fd.ops.add(x, x, x), TypeError, ("2 positional arguments, 3 given",)),
        (lambda fd, x: fd.ops.add(x, y=x), TypeError, ("unknown argument 'y'", "a, b")),
        (lambda fd, x: fd.ops.add(x, x, a=x), TypeError, ("'a' is given twice",)),
        (lambda fd, x: fd.ops.cast(x, "f32"), TypeError, ("unsupported dtype 'f32'",)),
        (lambda fd, x: fd.ops.cast(x, None), TypeError, ("unsupported dtype None",)),
        (lambda fd, x: fd.ops.full([3], 2j, DataType.Float), TypeError, ("is complex",)),
        (lambda fd, x: fd.ops.index_sum(x, fd.ops.iota(4), -3), ValueError, ("groups is -3",)),
        (lambda fd, x: fd.ops.pad(x, [1, 0], 2j), TypeError, ("is complex", "dtype f32")),
        (lambda fd, x: fd.ops.broadcast_in_dim(x, [6], [0, 0]), ValueError, ("names dim 0 twice",)),
        (lambda fd, x: fd.ops.broadcast_in_dim(x, [6], [0]), ValueError, ("1 entries", "rank 2")),
        (lambda fd, x: fd.ops.cat([x, fd.ops.sum(x, [0])]), ValueError, ("ranks [2, 1]",)),
        (lambda fd, x: fd.ops.pad(x, [1] * 6), ValueError, ("6 pad widths", "rank 2")),
        (lambda fd, x: fd.ops.bitwise_not(x.size(0) * 0.5), TypeError, ("f64",)),
        (
            lambda fd, x: fd.ops.uniform(0.0, 1.0, [4], rng_seed=1),
            ValueError,
            ("rng_seed is given without rng_offset",),
        ),
    ],
)
def test_bad_arguments(body: F, error: type[Exception], words: tuple[str, ...]) -> None:
    assert "\n  at " in raises(body, *words, error=error)


@pytest.mark.parametrize(
    ("start", "end", "strides", "words"),
    [
        ([-1, 0], [2, 2], None, ("dim 0", "start -1 is negative")),
        ([3, 0], [2, 2], None, ("dim 0", "end 2 lies before start 3")),
        ([0, 0], [2, 2], [1, 0], ("dim 1", "stride 0")),
        ([0], [2, 2], None, ("1 starts, 2 ends",)),
        ([0, 0], [2], None, ("2 starts, 1 ends",)),
        ([0, 0], [2, 2], [1], ("1 strides",)),
        ([0, 0, 0], [2, 2, 2], [1, 1, 1], ("rank 2", "3 starts")),
    ],
)
def test_seven_slices_that_make_no_sense(start: Any, end: Any, strides: Any, words: Any) -> None:
    raises(lambda fd, x: fd.ops.slice(x, start, end, strides), *words)


def test_a_slice_that_starts_beyond_the_size_is_empty() -> None:
    fd = defined(lambda fd: fd.add_output(fd.ops.slice(fd.define_tensor([4], [True]), [9], [12])))
    assert fd.execute([torch.randn(4)])[0].shape == (0,)


def test_an_unknown_op_suggests_near_names() -> None:
    raises(
        lambda fd, x: fd.ops.premute(x),
        "no fd.ops.premute; did you mean permute",
        error=AttributeError,
    )


def test_a_handle_has_no_truth_value() -> None:
    raises(lambda fd, x: bool(x > 0), "T2 has no truth value", "where", error=TypeError)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (lambda fd, x: fd.add_output(x, alias_input=fd.ops.neg(x)), ("only an input", "T1")),
        (lambda fd, x: fd.add_output(fd.ops.sum(x, [0]), alias_input=x), ("shapes differ",)),
        (
            lambda fd, x: fd.add_output(fd.ops.cast(x, DataType.Half), alias_input=x),
            ("T1: f16[i4, i6]", "T0: f32[i4, i6]", "dtypes differ"),
        ),
        (
            lambda fd, x: fd.add_output(fd.ops.neg(x), alias_input=x, stride_order=[0, 1]),
            ("drop stride_order",),
        ),
        (
            lambda fd, x: [fd.add_output(fd.ops.neg(x), alias_input=x) for _ in range(2)],
            ("T0 already takes T1",),
        ),
        (
            lambda fd, x: fd.add_output(
                fd.ops.neg(x), alias_input=fd.define_tensor([4, 6], contiguity=[None, True])
            ),
            ("T2 is expanded",),
        ),
        (
            lambda fd, x: fd.add_output(
                fd.ops.sum(x), alias_input=fd.define_tensor([], [], is_cpu=True)
            ),
            ("CPU scalar",),
        ),
        (lambda fd, x: fd.add_output(x, stride_order=[0]), ("1 entries, rank is 2",)),
    ],
)
def test_outputs_that_cannot_be(body: F, words: tuple[str, ...]) -> None:
    raises(body, *words)

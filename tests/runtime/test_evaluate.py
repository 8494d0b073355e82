"""The torch evaluator: views, writes, symbols, wide references, errors."""

from __future__ import annotations

import pytest
import torch

from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion, Write
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import OPS
from thunder_fuser.ops.reductions import EQUALS, EXPONENTIALS, SQUARED_DEVIATION
from thunder_fuser.runtime.evaluate import evaluate
from thunder_fuser.runtime.torch_ops import HELPERS, tf_logical_right_shift, tf_philox_uniform

F32, BF16, I64, I32 = DataType.Float, DataType.BFloat16, DataType.Int, DataType.Int32


def ints(*values: int) -> tuple[sc.Scalar, ...]:
    return tuple(sc.constant(v) for v in values)


def run(
    output: TensorView, inputs: tuple[TensorView, ...], *arguments: torch.Tensor
) -> torch.Tensor:
    (found,) = evaluate(Fusion(inputs, (output,)), arguments)
    return found


def test_a_chain_rounds_at_every_op_as_eager_does() -> None:
    x, y = tensor(BF16, 7, 5), tensor(BF16, 5)
    a, b = torch.randn(7, 5).bfloat16(), torch.randn(5).bfloat16()
    found = run(call("add", call("mul", x, y), x), (x, y), a, b)
    assert torch.equal(found, a * b + a)


def test_a_number_beside_bf16_is_not_rounded_to_bf16() -> None:
    x = tensor(BF16, 101)
    a = torch.randn(101).bfloat16()
    found = run(call("mul", x, sc.constant(0.1)), (x,), a)
    assert torch.equal(found, (a.float() * 0.1).bfloat16())


def test_a_number_beside_f64_keeps_its_53_bits() -> None:
    x = tensor(DataType.Double, 11)
    a = torch.rand(11, dtype=torch.float64)
    assert torch.equal(run(call("sub", x, sc.constant(0.1)), (x,), a), a - 0.1)


def test_mixed_types_promote_as_torchs() -> None:
    x, y = tensor(I32, 9), tensor(BF16, 9)
    a, b = torch.randint(-9, 9, (9,), dtype=torch.int32), torch.randn(9).bfloat16()
    found = run(call("add", x, y), (x, y), a, b)
    assert found.dtype is torch.bfloat16
    assert torch.equal(found, a + b)


def test_a_tensor_of_rank_0_promotes_like_any_tensor() -> None:
    x, y = tensor(BF16, 9), tensor(F32)
    a, b = torch.randn(9).bfloat16(), torch.randn(())
    found = run(call("add", x, y), (x, y), a, b)
    assert found.dtype is torch.float32
    assert torch.equal(found, a.float() + b)


def test_shape_ops_move_elements_as_torch_does() -> None:
    a = torch.randn(3, 1, 6)
    x = tensor(F32, 3, 1, 6)
    cases = {
        call("permute", x, dims=(2, 0, 1)): a.permute(2, 0, 1),
        call("reshape", x, new_shape=ints(9, 2)): a.reshape(9, 2),
        call("squeeze", x, dims=(1,), squeeze_expanded=False): a.squeeze(1),
        call("expand", x, shape=ints(2, 3, 4, 6)): a.expand(2, 3, 4, 6),
        call("flip", x, dims=(0, 2)): a.flip(0, 2),
        call("broadcast", x, is_broadcast_dim=(False, True, False, False)): a.unsqueeze(1),
        call("broadcast_in_dim", x, shape=ints(3, 4, 5, 6), broadcast_dims=(0, 2, 3)): a.reshape(
            3, 1, 1, 6
        ).expand(3, 4, 5, 6),
        call(
            "slice",
            x,
            start_indices=ints(1, 0, 1),
            end_indices=ints(3, 1, 6),
            strides=ints(1, 1, 2),
        ): a[1:3, :, 1:6:2],
        call("pad", x, sc.constant(-1.5), pad_widths=ints(2, -1, 0, 3)): torch.nn.functional.pad(
            a, (2, -1, 0, 3), value=-1.5
        ),
        call("cat", x, x, dim=1): torch.cat([a, a], 1),
        call("cat", x, dim=0): a,
        call("sum", x, dims=(0, 2)): a.sum((0, 2)),
        call("max", x, dims=(2,)): a.amax(2),
        call("prod", x, dims=(0, 2)): a.prod(2).prod(0),
    }
    found = evaluate(Fusion((x,), tuple(cases)), [a])
    for tv, value, wanted in zip(cases, found, cases.values(), strict=True):
        torch.testing.assert_close(value, wanted, msg=lambda m, tv=tv: f"{tv.definition}: {m}")


def test_stride_order_lays_the_result_out() -> None:
    x = tensor(F32, 2, 3, 4)
    a = torch.randn(2, 3, 4)
    found = run(call("stride_order", x, stride_order=(0, 2, 1)), (x,), a)
    assert torch.equal(found, a)
    assert found.stride() == (1, 8, 2)


def test_sources_need_no_tensor() -> None:
    full = call("full", sc.constant(2.5), shape=ints(3, 2), dtype=BF16)
    iota = call("iota", sc.constant(-3), sc.constant(4), length=ints(5), dtype=I32)
    key = (sc.constant(0.0), sc.constant(1.0), sc.constant(11), sc.constant(2))
    uniform = call("uniform", *key, shape=ints(4, 3), dtype=F32)
    found = evaluate(Fusion((), (full, iota, uniform)), [])
    assert torch.equal(found[0], torch.full((3, 2), 2.5, dtype=torch.bfloat16))
    assert torch.equal(found[1], torch.arange(-3, 17, 4, dtype=torch.int32))
    wanted = tf_philox_uniform(0.0, 1.0, (4, 3), 11, 2, torch.float32, torch.device("cpu"))
    assert torch.equal(found[2], wanted)


def test_symbolic_extents_come_from_the_arguments() -> None:
    n, m, s = sc.symbol("i0"), sc.symbol("i1"), sc.symbol("S0", DataType.Double)
    x = tensor(F32, n, m)
    flat = call("reshape", x, new_shape=(sc.mul(n, m),))
    scaled = call("mul", call("expand", flat, shape=(sc.constant(2), sc.mul(n, m))), s)
    fusion = Fusion((x, s), (scaled,))
    for shape in [(3, 5), (1, 7)]:
        a = torch.randn(shape)
        (found,) = evaluate(fusion, [a, 0.5])
        assert torch.equal(found, (a.reshape(-1) * 0.5).expand(2, -1))


def test_an_input_may_be_what_the_host_computed_of_other_numbers() -> None:
    """As the numbers of a segment that torch runs are."""
    x, s = tensor(F32, 5), sc.symbol("s", DataType.Double)
    half = sc.scalar_expr(OPS["truediv"], (s, sc.constant(2)), DataType.Double)
    a = torch.randn(5)
    (found,) = evaluate(Fusion((x, half), (call("mul", x, half),)), [a, 0.75])
    assert torch.equal(found, a * 0.75)


def test_writes_happen_last_and_old_views_keep_their_values() -> None:
    x = tensor(F32, 4)
    doubled = call("mul", x, sc.constant(2.0))
    old = call("reshape", x, new_shape=ints(2, 2))
    fusion = Fusion((x,), (doubled, old), (Write(doubled, x),))
    a = torch.randn(4)
    before = a.clone()
    written, view = evaluate(fusion, [a])
    assert written is a or written.data_ptr() == a.data_ptr()
    assert torch.equal(a, before * 2)
    assert torch.equal(view, before.reshape(2, 2))


def test_two_writes_that_swap_read_the_old_values() -> None:
    x, y = tensor(F32, 3), tensor(F32, 3)
    fusion = Fusion((x, y), (), (Write(call("set", y), x), Write(call("flip", x, dims=(0,)), y)))
    a, b = torch.randn(3), torch.randn(3)
    old_a, old_b = a.clone(), b.clone()
    assert evaluate(fusion, [a, b]) == []
    assert torch.equal(a, old_b)
    assert torch.equal(b, old_a.flip(0))


def test_the_wide_reference_leaves_arguments_alone() -> None:
    x = tensor(DataType.Double, 6)
    fusion = Fusion((x,), (), (Write(call("exp", x), x),))
    a = torch.randn(6, dtype=torch.float64)
    before = a.clone()
    evaluate(fusion, [a], dtype=torch.float64)
    assert torch.equal(a, before)


def test_the_wide_reference_rounds_nowhere() -> None:
    x = tensor(BF16, 33)
    narrow = call("cast", call("exp", call("cast", x, dtype=F32)), dtype=BF16)
    a = torch.randn(33).bfloat16()
    (found,) = evaluate(Fusion((x,), (narrow,)), [a], dtype=torch.float64)
    assert found.dtype is torch.float64
    assert torch.equal(found, a.double().exp())


def test_the_wide_reference_draws_the_same_random_numbers_and_integers() -> None:
    key = (sc.constant(-1.0), sc.constant(1.0), sc.constant(3), sc.constant(0))
    uniform = call("uniform", *key, shape=ints(17), dtype=BF16)
    truncated = call("cast", call("mul", uniform, sc.constant(9.0)), dtype=I32)
    fusion = Fusion((), (uniform, truncated))
    narrow, wide = evaluate(fusion, []), evaluate(fusion, [], dtype=torch.float64)
    assert torch.equal(narrow[0].double(), wide[0])
    assert wide[1].dtype is torch.int32


def test_complex_numbers_widen_with_the_floats() -> None:
    x = tensor(DataType.ComplexFloat, 5)
    a = torch.randn(5, dtype=torch.complex64)
    (found,) = evaluate(Fusion((x,), (call("abs", x),)), [a], dtype=torch.float64)
    assert found.dtype is torch.float64
    assert torch.equal(found, a.to(torch.complex128).abs())


def test_a_deep_chain_is_no_problem() -> None:
    x = tensor(F32, 2)
    y = x
    for _ in range(3000):
        y = call("neg", y)
    a = torch.randn(2)
    assert torch.equal(run(y, (x,), a), a)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([torch.zeros(3, 4)], "takes 2 arguments, 1 given"),
        ([1.0, torch.zeros(4)], "argument 0: expected a tensor"),
        ([torch.zeros(3), torch.zeros(4)], "argument 0: expected rank 2"),
        ([torch.zeros(3, 5), torch.zeros(4)], "argument 0: dim 1 of shape .* is 5, expected 4"),
        ([torch.zeros(3, 4), torch.zeros(2)], "argument 1: dim 0 of shape .* is 2, expected 3"),
    ],
)
def test_arguments_that_do_not_fit_are_named(arguments: list[object], message: str) -> None:
    n = sc.symbol("i0")
    x, y = tensor(F32, n, 4), tensor(F32, n)
    with pytest.raises(ValueError, match=message):
        evaluate(Fusion((x, y), (call("neg", x),)), arguments)  # type: ignore[arg-type]


def test_every_helper_named_in_a_row_exists_and_is_used() -> None:
    named = " ".join(row.torch for row in (*OPS.values(), SQUARED_DEVIATION, EXPONENTIALS, *EQUALS))
    missing = [n for n in HELPERS if n not in named]
    assert missing == []
    words = {w for w in named.replace("(", " ").replace(",", " ").split() if w.startswith("tf_")}
    assert words <= set(HELPERS)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_logical_right_shift_brings_in_zeros(dtype: torch.dtype) -> None:
    limits = torch.iinfo(dtype)
    width = limits.bits
    values = [limits.min, limits.max, 0, 1, 77] + ([-1, -77] if limits.min else [])
    for distance in range(width):
        a = torch.tensor(values, dtype=dtype)
        found = tf_logical_right_shift(a, torch.full_like(a, distance)).tolist()
        wanted = [(v & ((1 << width) - 1)) >> distance for v in values]
        signed = [w - (1 << width) if limits.min and w >> (width - 1) else w for w in wanted]
        assert found == signed, distance

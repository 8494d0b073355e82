"""Running definitions: outputs, aliases, the check of arguments, and what a run leaves."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.frontend.fusions import TorchProgram, check, defined, example, new_cache
from thunder_fuser.frontend import DataType, FusionCache, FusionDefinition
from thunder_fuser.runtime.dtypes import TORCH_DTYPES


def added(fd: FusionDefinition) -> None:
    x = fd.define_tensor([-1, 4], contiguity=[False, True])
    s = fd.define_scalar(None)
    fd.add_output(fd.ops.mul(x, s))


def refused(fd: FusionDefinition, inputs: list[Any], *words: str, **keywords: Any) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        fd.execute(inputs, **keywords)
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_a_hidden_alias_is_written_and_not_returned() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], contiguity=True)
        y = fd.ops.add(x, 1.0)
        fd.add_output(y, alias_input=x)
        fd.add_output(fd.ops.neg(y))

    fd = defined(define)
    x = torch.randn(5)
    before = x.clone()
    (out,) = fd.execute([x])
    assert torch.equal(x, before + 1)
    assert torch.equal(out, -(before + 1))
    assert (fd.outputs(), dict(fd.fids.aliases)) == ([3], {2: 0})


def test_four_outputs_with_one_alias_among_them_are_three_tensors_and_all_the_input() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], contiguity=True)
        y = fd.ops.add(x, 1.0)
        fd.add_output(y)
        fd.add_output(y, alias_input=x)
        fd.add_output(y)
        fd.add_output(y)

    fd = defined(define)
    x = torch.randn(5)
    before = x.clone()
    results = fd.execute([x])
    assert [r.data_ptr() for r in results] == [x.data_ptr()] * 3
    assert torch.equal(x, before + 1)


def test_an_input_written_into_another_is_copied() -> None:
    def define(fd: FusionDefinition) -> None:
        x, y = (fd.define_tensor([-1], contiguity=True) for _ in range(2))
        fd.add_output(x, alias_input=y)

    fd = defined(define)
    assert "T2: f32[i{i0}] = set(T0)" in fd.fusion_ir()
    x, y = torch.randn(4), torch.randn(4)
    assert fd.execute([x, y]) == []
    assert torch.equal(x, y)


def test_crossed_updates_take_the_old_values() -> None:
    x, y = torch.randn(3, 4), torch.randn(3, 4)

    def define(fd: FusionDefinition) -> None:
        a, b = example(fd, x, y)
        fd.add_output(fd.ops.mul(b, 2.0), alias_input=a)
        fd.add_output(fd.ops.mul(a, 3.0), alias_input=b)

    def eager(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        new_a, new_b = b * 2, a * 3
        a.copy_(new_a)
        b.copy_(new_b)
        return []

    check(define, [x, y], eager)


def test_a_strided_input_keeps_its_layout_and_is_returned() -> None:
    x = torch.randn(6, 8).t()[:, ::2]

    def define(fd: FusionDefinition) -> None:
        (a,) = example(fd, x)
        b = fd.ops.exp(a)
        fd.add_output(b, alias_input=a)
        fd.add_output(b)

    (out,) = defined(define).execute([x])
    assert out is x or out.data_ptr() == x.data_ptr()
    assert out.stride() == x.stride()


def test_what_torch_conjugates_lazily_is_read_conjugated_and_written() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], contiguity=True, dtype=DataType.ComplexFloat)
        fd.add_output(fd.ops.exp(x))
        fd.add_output(fd.ops.mul(x, 2.0), alias_input=x)

    x = torch.randn(7, dtype=torch.complex64)
    given, before = x.conj(), x.conj().clone()
    (found,) = defined(define).execute([given])
    torch.testing.assert_close(found, torch.exp(before))
    assert torch.equal(given, before * 2)


def test_a_wrong_count_says_what_is_expected() -> None:
    fd = defined(added)
    refused(fd, [], "0 arguments given, 2 expected", "T0 (f32, shape [-1, 4])", "S1 (f64)")


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ([2.0, 1.0], ("argument 0 for T0", "expected a tensor, got float 2.0")),
        ([torch.randn(3, 4), torch.tensor(1.0)], ("argument 1 for S1", "expected a number")),
        ([torch.randn(3, 4).double(), 1.0], ("expected dtype f32, got torch.float64",)),
        ([torch.randn(3, 4), 1j], ("expected f64, got complex 1j",)),
        ([torch.randn(4), 1.0], ("expected rank 2, got shape [4]",)),
        ([torch.randn(3, 5), 1.0], ("dim 1 is size 4", "got size 5")),
        ([torch.randn(3, 8)[:, ::2], 1.0], ("dim 1 is contiguous", "got strides [8, 2]")),
    ],
)
def test_arguments_that_do_not_fit(inputs: list[Any], words: tuple[str, ...]) -> None:
    refused(defined(added), inputs, *words)


def test_a_tensor_without_strides_or_sizes_is_refused() -> None:
    fd, x = defined(added), torch.randn(3, 4)
    refused(fd, [x.to_sparse_csr(), 1.0], "argument 0 for T0", "do not have strides")
    ragged = torch.nested.nested_tensor([x, x[:2]])
    refused(fd, [ragged, 1.0], "argument 0 for T0")


def test_a_tensor_without_memory_is_refused() -> None:
    fd, freed = defined(added), torch.randn(3, 4)
    freed.untyped_storage().resize_(0)
    with FakeTensorMode():
        fake = torch.empty(3, 4)
    refused(fd, [freed, 1.0], "argument 0 for T0", "the Tensor on cpu has no memory")
    refused(fd, [fake, 1.0], "argument 0 for T0", "the FakeTensor on cpu has no memory")
    (found,) = fd.execute([torch.randn(0, 4), 1.0])
    assert found.shape == (0, 4)


def test_a_number_that_its_dtype_does_not_hold_is_refused() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], contiguity=True, dtype=DataType.Int8)
        fd.add_output(fd.ops.add(x, fd.define_scalar(None, DataType.Int8)))

    fd, x = defined(define), torch.zeros(3, dtype=torch.int8)
    refused(fd, [x, 300], "argument 1 for S1 (i8): 300 does not fit int8 [-128, 127]")


def test_meta_tensors_are_checked_alike() -> None:
    refused(defined(added), [torch.empty(3, 4, device="meta", dtype=torch.half), 1.0], "dtype f32")


def test_layouts_that_do_not_fit() -> None:
    def define(fd: FusionDefinition) -> None:
        a = fd.define_tensor([-1, -1], contiguity=[False, False])
        b = fd.define_tensor([-1, -1], contiguity=[None, True])
        c = fd.define_tensor([-1, 1], contiguity=True)
        fd.add_output(fd.ops.add(fd.ops.add(a, b), c))

    fd = defined(define)
    x, row, column = torch.randn(3, 5), torch.randn(5).expand(3, 5), torch.randn(3, 1)
    assert torch.equal(fd.execute([x, row, column])[0], x + row + column)
    assert torch.equal(
        fd.execute([x[:, ::2], row[:, :3], column])[0], x[:, ::2] + row[:, :3] + column
    )
    refused(fd, [torch.randn(5, 3).t(), row, column], "do not fall in", "stride order [1, 0]")
    refused(fd, [x, x, column], "dim 0 is expanded (stride 0)", "got stride 5")
    refused(fd, [x, row, x], "dim 1 is a broadcast dim", "got size 5")


def test_extents_that_disagree_at_run_time_are_refused() -> None:
    def define(fd: FusionDefinition) -> None:
        a, b = (fd.define_tensor([-1], contiguity=True) for _ in range(2))
        fd.add_output(fd.ops.add(a, b))

    fd = defined(define, FusionCache.get())
    refused(
        fd,
        [torch.randn(3), torch.randn(4)],
        "T2 = fd.ops.add(T0, T1): shapes (3), (4) do not broadcast",
        "  T0: f32[i3]\n  T1: f32[i4]\n  at ",
        "test_execute.py",
        "fd.add_output(fd.ops.add(a, b))",
    )


def test_a_scalar_input_that_makes_no_shape_is_refused_with_its_line() -> None:
    def define(fd: FusionDefinition) -> None:
        a = fd.define_tensor([-1], contiguity=True)
        n = fd.define_scalar(None, DataType.Int)
        fd.add_output(fd.ops.neg(fd.ops.reshape(a, [n, 5])))

    fd = defined(define, FusionCache.get())
    assert fd.execute([torch.randn(15), 3])[0].shape == (3, 5)
    refused(fd, [torch.randn(15), 4], "T4 = fd.ops.reshape(T0, new_shape=[S1, 5])", "20", "at ")


def test_bad_devices_and_options_are_refused() -> None:
    fd = defined(added)
    x = torch.randn(3, 4)
    refused(fd, [x, 1.0], "fusions run on CUDA devices", device="meta")
    refused(
        fd,
        [x, 1.0],
        "unknown option 'stricter'",
        "valid names: evaluator, fallback",
        _enable_options=["stricter"],
    )
    assert torch.equal(fd.execute([x, 1.0], _enable_options=["strict"])[0], x)


def test_a_computed_output_of_cpu_scalars_alone_needs_a_device() -> None:
    def define(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.neg(fd.define_tensor([], contiguity=[], is_cpu=True)))

    fd = defined(define)
    refused(fd, [torch.tensor(2.0)], "T0 on cpu; pass device=")
    assert fd.execute([torch.tensor(2.0)], device="cpu")[0].item() == -2.0
    forward = defined(lambda fd: fd.add_output(fd.from_pytorch(torch.tensor(2.0))))
    assert forward.execute([torch.tensor(3.0)])[0].item() == 3.0


def test_what_a_run_leaves_is_there_only_when_asked_for() -> None:
    fd = defined(added)
    inputs = [torch.randn(3, 4), 1.0]
    for getter in (fd.last_cuda_code, fd.profile, fd.last_repro_script):
        with pytest.raises(RuntimeError, match=r"needs a run before it: call execute\(inputs"):
            getter()
    fd.execute(inputs)
    assert fd.last_cuda_code() == "__global__ void k() {}"
    assert fd.debug_output() is None
    with pytest.raises(RuntimeError, match="profile=True"):
        fd.profile()
    with pytest.raises(RuntimeError, match="save_repro_inputs=True"):
        fd.last_repro_script()
    fd.execute(inputs, profile=True, capture_debug_output=True, save_repro_inputs=True)
    assert fd.profile().kernels == 1
    assert fd.debug_output() == "the plan"
    assert "fd.execute(inputs)" in fd.last_repro_script()
    assert "the plan" in fd.explain()


def test_a_repro_script_draws_indices_that_its_axes_have() -> None:
    weight, index = torch.randn(3, 4), torch.randint(3, (50,))

    def define(fd: FusionDefinition) -> None:
        w = fd.define_tensor(shape=[3, 4], contiguity=True)
        i = fd.define_tensor([-1], contiguity=True, dtype=DataType.Int)
        fd.add_output(fd.ops.index_select(w, i, 0))

    fd = defined(define)
    fd.execute([weight, index], save_repro_inputs=True)
    script = fd.last_repro_script()
    assert "torch.randint(0, 3, (50,)" in script
    exec(script, {})


def test_a_repro_script_runs_and_repeats_layout_and_alignment() -> None:
    storage = torch.randn(64)
    x = storage[1:].as_strided((3, 4), (8, 1))

    def define(fd: FusionDefinition) -> None:
        (a,) = example(fd, x)
        m = fd.define_tensor([-1], contiguity=True, dtype=torch.bool)
        fd.add_output(fd.ops.mul(a, fd.define_scalar(None)))
        fd.add_output(m)

    fd = defined(define, FusionCache.get())
    script = fd.repro_script_for([x, torch.tensor([True, False]), float("inf")])
    namespace: dict[str, Any] = {}
    exec(script, namespace)
    made, mask, number = namespace["inputs"]
    assert (made.shape, made.stride(), made.dtype) == (x.shape, x.stride(), x.dtype)
    assert made.data_ptr() % 16 == x.data_ptr() % 16
    assert (mask.dtype, number) == (torch.bool, float("inf"))
    assert namespace["fd"].id == fd.id


def test_out_of_memory_stays_torchs_own_error() -> None:
    class Failing(TorchProgram):
        def run(self, *arguments: Any) -> list[torch.Tensor]:
            raise torch.OutOfMemoryError("no memory")

    fd = defined(added, FusionCache(Failing))
    with pytest.raises(torch.OutOfMemoryError, match=r"^no memory$"):
        fd.execute([torch.randn(3, 4), 1.0])


def test_random_numbers_follow_the_seed_and_differ_between_runs() -> None:
    def define(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.uniform(0.0, 1.0, [100]))
        fd.add_output(fd.ops.uniform(2.0, 3.0, [100]))

    fd = defined(define)
    torch.manual_seed(3)
    first, second = fd.execute([]), fd.execute([])
    torch.manual_seed(3)
    again = fd.execute([])
    assert torch.equal(first[0], again[0])
    assert not torch.equal(first[0], second[0])
    assert not torch.equal(first[0] + 2, first[1])
    assert ((first[1] >= 2) & (first[1] < 3)).all()


def test_random_numbers_are_the_same_under_another_default_device() -> None:
    fd = defined(lambda fd: fd.add_output(fd.ops.rand_like(fd.define_tensor([4]))))
    x = torch.ones(4)
    torch.manual_seed(3)
    expected = fd.execute([x])
    torch.manual_seed(3)
    with torch.device("meta"):
        found = fd.execute([x])
    assert torch.equal(found[0], expected[0])


def test_random_numbers_of_a_given_seed_and_offset_repeat() -> None:
    def define(fd: FusionDefinition) -> None:
        seed, offset = (fd.define_scalar(None, DataType.Int) for _ in range(2))
        fd.add_output(fd.ops.uniform(0.0, 1.0, [50], rng_seed=seed, rng_offset=offset))

    fd = defined(define)
    assert torch.equal(fd.execute([1, 2])[0], fd.execute([1, 2])[0])
    assert not torch.equal(fd.execute([1, 2])[0], fd.execute([1, 3])[0])


def test_validate_accepts_what_is_right_and_locates_what_is_wrong() -> None:
    class Wrong(TorchProgram):
        def run(
            self, arguments: Any, options: Any, device: Any, origin: Any = None
        ) -> list[torch.Tensor]:
            results = super().run(arguments, options, device)
            results[0][1, 2] += 0.5
            return results

    x = torch.randn(3, 4)
    defined(added).validate([x, 2.0])
    with pytest.raises(AssertionError, match=r"output 0: 1 of 12 .* = 0.5 at \(1, 2\)"):
        defined(added, FusionCache(Wrong)).validate([x, 2.0])
    with pytest.raises(AssertionError, match="1 outputs, 0 reference outputs"):
        defined(added).validate([x, 2.0], [])


@pytest.mark.parametrize("dtype", [DataType.Half, DataType.Float8E4M3, DataType.Float8E5M2])
def test_validate_expects_of_large_numbers_what_they_are_rounded_to(dtype: DataType) -> None:
    def define(fd: FusionDefinition) -> None:
        fd.add_output(fd.ops.cast(fd.define_tensor([-1], contiguity=True), dtype))

    largest = torch.finfo(TORCH_DTYPES[dtype]).max
    x = largest * torch.tensor([1.0, 1.00005, 1.01, 1.2, 2.0, -1.00005, -3.0])
    (found,) = defined(define).validate([x])
    assert found[1].item() == largest


def test_validate_sees_a_visible_alias_with_the_old_inputs() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], contiguity=True)
        y = fd.ops.add(x, 1.0)
        fd.add_output(y, alias_input=x)
        fd.add_output(y)

    x = torch.randn(6)
    before = x.clone()
    (out,) = defined(define).validate([x])
    assert torch.equal(out, before + 1)


def test_validate_looks_at_what_is_written_in_place() -> None:
    class Forgetful(TorchProgram):
        def run(
            self, arguments: Any, options: Any, device: Any, origin: Any = None
        ) -> list[torch.Tensor]:
            return super().run([a.clone() for a in arguments], options, device)

    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1], contiguity=True)
        fd.add_output(fd.ops.add(x, 1.0), alias_input=x)

    x = torch.randn(6)
    defined(define).validate([x])
    with pytest.raises(AssertionError, match="T0, written in place,: 6 of 6 elements differ"):
        defined(define, FusionCache(Forgetful)).validate([x])


def test_two_caches_hold_two_programs_of_one_definition() -> None:
    one, two = defined(added, new_cache()), defined(added, new_cache())
    assert one.leaf is not two.leaf
    assert one.leaf.records == two.leaf.records

"""Repro scripts: a definition, inputs like the ones it saw, and the call, as one runnable file."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import metadata

import torch

from thunder_fuser.frontend.arguments import flatten
from thunder_fuser.frontend.leaf import Leaf
from thunder_fuser.frontend.text import print_definition
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.scalar import format_number, static_int
from thunder_fuser.ops import Family
from thunder_fuser.options import Options, non_defaults

# Options that do not decide what is compiled, or would keep a script from showing the error.
_UNIMPORTANT = frozenset({"cache_dir", "dump", "fallback", "fuel", "log", "progress", "ranges"})
_ALIGNMENT = 16  # bytes; the widest access a kernel makes


@dataclass(frozen=True)
class TensorLike:
    """A tensor without its elements. `misalignment` is the address modulo 16 bytes, in elements;
    integers are drawn below `limit`."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: str
    misalignment: int
    limit: int = 10

    def __str__(self) -> str:
        """An expression that makes such a tensor, of random elements."""
        last = sum((n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True))
        elements = (last + 1 if 0 not in self.sizes else 0) + self.misalignment
        storage = f"{self._draw(elements)}, device={self.device!r})"
        return (
            f"{storage}.to({self.dtype}).as_strided({self.sizes}, {self.strides}, "
            f"{self.misalignment})"
        )

    def make(self) -> torch.Tensor:
        """The tensor of that expression."""
        made: torch.Tensor = eval(str(self), {"torch": torch})
        return made

    def _draw(self, elements: int) -> str:
        if self.dtype == "torch.bool":
            return f"torch.randint(0, 2, ({elements},)"
        if "int" in self.dtype:
            return f"torch.randint(0, {self.limit}, ({elements},)"
        return f"torch.randn({elements}"


def describe_inputs(inputs: Sequence[object]) -> tuple[object, ...]:
    """The flat inputs with every tensor replaced by its description."""
    return tuple(_describe(value) for value in flatten(inputs))


def repro_script(
    leaf: Leaf,
    inputs: Sequence[object] | None,
    name: str | None = None,
    options: Options | None = None,
) -> str:
    """A script that redefines the fusion and, given inputs or their descriptions, executes it.

    `name` is that of its function. With `options` it runs under those that decide what is compiled.
    """
    name = name or f"fuser_fusion_id{leaf.id}"
    chosen = _chosen(options) if options is not None else ""
    lines = [
        *(f"# {line}" for line in environment()),
        "import torch",
        "from thunder_fuser.dtypes import DataType",
        "from thunder_fuser.frontend import FusionDefinition",
        *(["from thunder_fuser.options import Options"] if chosen else []),
        "",
        "",
        print_definition(leaf.records, leaf.definition.results, name),
        "",
        "",
        "with FusionDefinition() as fd:",
        f"    {name}(fd)",
    ]
    if inputs is not None:
        lines += ["", "inputs = ["]
        limit = _least_gathered(leaf.fusion)
        lines += [f"    {_text(value, limit)}," for value in describe_inputs(inputs)]
        lines += ["]", f"fd.execute(inputs{chosen})"]
    return "\n".join(lines) + "\n"


def _chosen(options: Options) -> str:
    """The argument that asks `execute` for these options, "" for the defaults."""
    given = {k: v for k, v in non_defaults(options).items() if k not in _UNIMPORTANT}
    text = ", ".join(f"{name}={value!r}" for name, value in given.items())
    return f", options=Options({text})" if text else ""


def environment() -> list[str]:
    """What the script was written under: versions and devices."""
    lines = [
        f"python {platform.python_version()}, torch {torch.__version__}, CUDA {torch.version.cuda}"
    ]
    for package in ("thunder-fuser", "lightning-thunder", "cuda-core", "cuda-bindings"):
        try:
            lines.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            lines.append(f"{package} not installed")
    names = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
    return [*lines, f"devices: {', '.join(names) or 'no CUDA device'}"]


def _describe(value: object) -> object:
    if not hasattr(value, "stride"):
        return value
    tensor: torch.Tensor = value
    address = 0 if tensor.device.type == "meta" else tensor.data_ptr()
    return TensorLike(
        tuple(tensor.shape),
        tensor.stride(),
        str(tensor.dtype),
        str(tensor.device),
        address % _ALIGNMENT // tensor.element_size(),
    )


def _least_gathered(fusion: Fusion) -> int:
    """A limit below which every integer is an index of all the axes that are gathered from."""
    gathers = (e for e in fusion.exprs if e.op.family is Family.GATHER)
    extents = [e.tensors[0].extents[e.dim] for e in gathers]
    known = [size for extent in extents if (size := static_int(extent)) is not None]
    return max(min([TensorLike.limit, *known]), 1)


def _text(value: object, limit: int) -> str:
    if isinstance(value, TensorLike):
        return str(replace(value, limit=limit))
    if isinstance(value, bool | int | float | complex):
        return format_number(value)
    return str(value)

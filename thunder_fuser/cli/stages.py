"""The text of every stage of every region, as files that two runs can compare with `diff -r`.

    explain.txt                 every bound symbol: claimed, or why not
    TF0/0/1_definition.py       the records: Python that defines the same fusion
    TF0/0/2_fusion.txt          the IR
    TF0/0/3_segments_0.txt      where it was cut and why, views, bytes between segments
    TF0/0/4_kernel_0_0.cu       the CUDA C++ text
    TF0/0/5_plan_0.py           the launch plan

`TF0` is a region, `TF0/0` its first definition, the last digit but one of a file the plan (one per
class of arguments), that of a kernel its segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from thunder_fuser.executor.explain import explain, regions_of
from thunder_fuser.frontend.definition import FusionDefinition
from thunder_fuser.runtime.plan import Plan


def write_stages(jfn: Callable[..., Any], directory: Path) -> Path:
    """Write the stages of a function that thunder.jit compiled and that was called.

    Returns the directory, absolute. Raises ValueError for any other function, OSError.
    """
    texts = {"explain.txt": explain(jfn) + "\n"}
    for region in regions_of(jfn):
        for number, definition in enumerate(region.definitions):
            for name, text in _stages(definition):
                texts[f"{region.name}/{number}/{name}"] = text
    for name, text in texts.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory.resolve()


def _stages(definition: FusionDefinition) -> Iterator[tuple[str, str]]:
    yield "1_definition.py", f"{definition}\n"
    yield "2_fusion.txt", f"{definition.fusion_ir()}\n"
    for number, plan in enumerate(definition.leaf.program.plans):
        assert isinstance(plan, Plan)
        yield f"3_segments_{number}.txt", f"{plan.segmented}\n"
        for kernel, source in enumerate(plan.sources):
            yield f"4_kernel_{number}_{kernel}.cu", source
        yield f"5_plan_{number}.py", plan.text

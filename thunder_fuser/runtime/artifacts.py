"""Artifacts of torch's structured trace: with TORCH_TRACE=DIR set, `tlparse` shows them in a page.

    thunder_fuser_TF0_segments   thunder_fuser_TF0_kernel_0.cu   thunder_fuser_TF0_plan.py

Such a trace holds the model's code. The functions are private to torch: where a release has them
no more, nothing is written.
"""

from __future__ import annotations

from dataclasses import dataclass

from thunder_fuser.kernel.source import Source
from thunder_fuser.runtime.plan import Plan
from thunder_fuser.segment.segmented import SegmentedFusion

try:
    from torch._logging._internal import trace_log, trace_structured_artifact
except ImportError:
    trace_log = trace_structured_artifact = None


@dataclass(frozen=True)
class Artifacts:
    """An observer that adds segments, kernels and plans of the region `name` to torch's trace."""

    name: str

    def see(self, stage: str, value: object, segment: int | None) -> None:
        """Write the text of a stage that is worth a page."""
        match value:
            case SegmentedFusion():
                self._write("segments", str(value))
            case Source():
                self._write(f"kernel_{segment}.cu", value.text)
            case Plan():
                self._write("plan.py", value.text)

    def _write(self, what: str, text: str) -> None:
        trace_structured_artifact(f"thunder_fuser_{self.name}_{what}", "string", lambda: text)


def is_traced() -> bool:
    """Whether torch's trace goes to a directory. Without one it has a handler too, until the first
    record."""
    handlers = trace_log.handlers if trace_log is not None else ()
    return any(getattr(handler, "root_dir", None) is not None for handler in handlers)

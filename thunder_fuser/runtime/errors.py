"""What can go wrong between kernel text and a launch. Out of memory stays torch's own error."""

from __future__ import annotations

from pathlib import Path


class FuserError(RuntimeError):
    """The root of the errors this package raises at run time."""


class CompileError(FuserError):
    """A compiler refused generated text.

    `log` is the compiler's message, `path` the file that holds the text it refused.
    """

    def __init__(self, message: str, log: str, path: Path) -> None:
        super().__init__(message)
        self.log = log
        self.path = path


class CaptureError(FuserError):
    """A kernel would have had to be compiled or loaded while a CUDA graph is being captured."""


class LaunchError(FuserError):
    """A kernel did not start, or did not come to its end."""

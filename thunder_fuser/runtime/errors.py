"""What can go wrong between kernel text and a launch. Out of memory stays torch's own error."""

from __future__ import annotations

from pathlib import Path


class FuserError(RuntimeError):
    """The root of the errors this package raises at run time.

    `repro` is a script that repeats the call, where one could be written.
    """

    repro: Path | None = None

    def retold(self, text: str, repro: Path | None) -> FuserError:
        """The same kind of error with the same attributes, but another text and script."""
        made = type(self).__new__(type(self), text)
        vars(made).update(vars(self), repro=repro)
        return made


class GenerateError(FuserError):
    """No kernel could be generated for a segment: a fault of this package."""


class CompileError(FuserError):
    """A compiler refused generated text.

    `log` is the compiler's message, `path` the file that holds the text it refused, `line` the
    faulty line of it, where the message has one.
    """

    def __init__(self, message: str, log: str, path: Path, line: str | None = None) -> None:
        super().__init__(message)
        self.log = log
        self.path = path
        self.line = line


class CaptureError(FuserError):
    """A kernel would have had to be compiled or loaded while a CUDA graph is being captured."""


class LaunchError(FuserError):
    """A kernel did not start, or did not come to its end."""


class IndexRangeError(LaunchError, IndexError):
    """A tensor of indices holds one beyond its axis. On a GPU the launch fails with CUDA's own
    error, as it does in torch."""


class CheckError(FuserError):
    """A debug check (the option `check`) found a wrong value or an access out of bounds."""

"""Recording: from the calls inside `with fd:` to records, walking the trie along the way.

As long as every record is known to the trie, no IR is built: the node says what the record made.
From the first unknown record on, each one is built at once, so that a bad call fails where it is
written, with the user's line.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from thunder_fuser.dtypes import DataType
from thunder_fuser.frontend.bind import bind
from thunder_fuser.frontend.build import Builder
from thunder_fuser.frontend.cache import FusionCache, Node
from thunder_fuser.frontend.composites import OPERATIONS
from thunder_fuser.frontend.constants import decode, encode
from thunder_fuser.frontend.handles import Handle, Scalar, Tensor, Vector, handle
from thunder_fuser.frontend.leaf import Leaf
from thunder_fuser.frontend.operations import Operation
from thunder_fuser.frontend.records import DEFINE_SCALAR, DEFINE_VECTOR, Record, Result
from thunder_fuser.frontend.source_line import Place, user_line
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ir.text import print_type


class Recorder:
    """The records of one definition and the handles of its values. One thread owns it."""

    def __init__(self, owner: Any, cache: FusionCache, max_length: int) -> None:
        self.records: list[Record] = []
        self.places: list[Place] = []
        self.place: Place | None = None  # the line of all records to come; None is the caller's
        self.results: list[tuple[Result, ...]] = []
        self.kinds: list[str] = []
        self._owner = owner
        self._recording = object()
        self._cache = cache
        self._max_length = max_length
        self._node: Node | None = cache.walk()
        self._builder: Builder | None = None

    def append(self, record: Record) -> list[Tensor | Scalar | Vector]:
        """Record one step; the handles of its results.

        Raises RuntimeError when the definition is full, TypeError or ValueError for a bad record.
        """
        if len(self.records) >= self._max_length:
            raise RuntimeError(
                f"the definition has reached {len(self.records)} records, its limit max_length is "
                f"{self._max_length}; raise it: FusionDefinition(max_length=...)"
            )
        following = self._node.children.get(record) if self._node is not None else None
        results = following.results if following is not None else self._build(record)
        self._node = following
        self.records.append(record)
        self.places.append(self.place or user_line())
        self.results.append(results)
        handles = []
        for result in results:
            fid, recording = len(self.kinds), self._recording
            handles.append(handle(result.kind, fid, result.size, self._owner, recording))
            self.kinds.append(result.kind)
        return handles

    def finish(self) -> Leaf:
        """The leaf of these records: found, or built."""
        return self._cache.define(
            tuple(self.records), self._node, lambda: self._ready_builder().finish()
        )

    def constant(self, value: object, dtype: DataType | None = None) -> Scalar:
        """Record a constant."""
        bits = encode(value, dtype)
        record = Record(DEFINE_SCALAR, (("value", bits), ("dtype", decode(bits)[1])))
        (scalar,) = self.append(record)
        assert isinstance(scalar, Scalar)
        return scalar

    def vector(self, elements: Sequence[Scalar]) -> Vector:
        """Record a vector of scalars."""
        refs = tuple(element.ref for element in elements)
        (vector,) = self.append(Record(DEFINE_VECTOR, (), (refs,)))
        assert isinstance(vector, Vector)
        return vector

    def check_owner(self, handle: Handle, name: str) -> None:
        """Raises ValueError for a handle of another definition, or of an attempt at this one that
        failed."""
        if handle.definition is not self._owner:
            raise ValueError(
                f"argument {name!r} is {handle!r} of {_title(handle.definition)}, "
                f"not of this {_title(self._owner)}"
            )
        if handle.recording is not self._recording:
            raise ValueError(
                f"argument {name!r} is {handle!r} of an earlier `with` of this definition, which "
                "failed; define it again"
            )

    def describe(self, handle: Handle) -> str:
        """`T0: f32[i8]`: a handle with its type, as errors show it."""
        if handle.recording is not self._recording:
            return repr(handle)
        value = self._ready_builder().states[handle.fid]
        if isinstance(value, TensorView):
            return f"{handle!r}: {print_type(value)}"
        return f"{handle!r}: {value}" if isinstance(value, tuple) else f"{handle!r}: {value.dtype}"

    def call(
        self, name: str, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> Located:
        """Errors raised inside say which call it was, on which values, and on which line."""
        return Located(self, name, args, kwargs or {})

    def _build(self, record: Record) -> tuple[Result, ...]:
        try:
            return self._ready_builder().step(record)
        except (TypeError, ValueError) as error:
            raise self._cache.failed((*self.records, record), error) from error

    def _ready_builder(self) -> Builder:
        """A builder that has seen every record so far."""
        if self._builder is None or self._builder.length < len(self.records):
            self._builder = Builder.replay(self.records)
        return self._builder


class Located:
    """A context in which TypeError and ValueError gain the call, its values and the user's line."""

    def __init__(
        self, recorder: Recorder, name: str, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> None:
        self._recorder, self._name, self._args, self._kwargs = recorder, name, args, kwargs

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if kind not in (TypeError, ValueError) or getattr(error, "is_located", False):
            return
        located = kind(self._text(error))
        located.is_located = True  # type: ignore[union-attr]
        raise located from error

    def _text(self, error: BaseException | None) -> str:
        written = [*map(repr, self._args), *(f"{k}={v!r}" for k, v in self._kwargs.items())]
        handles = {h.fid: h for h in _handles((*self._args, *self._kwargs.values()))}
        lines = [f"{self._name}({', '.join(written)}): {error}"]
        lines += [f"  {self._recorder.describe(handles[fid])}" for fid in sorted(handles)]
        return "\n".join([*lines, f"  at {self._recorder.place or user_line()}"])


class Verbatim(str):
    """A text that stands for an argument in an error."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Operations:
    """`fd.ops`: one callable per operation of the package, derived from its row."""

    def __init__(self, recorder: Callable[[str], Recorder]) -> None:
        self._recorder = recorder

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operation = OPERATIONS.get(name)
        if operation is None:
            near = difflib.get_close_matches(name, OPERATIONS, n=3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise AttributeError(f"there is no fd.ops.{name}{hint}")
        return _Call(operation, self._recorder)

    def __dir__(self) -> list[str]:
        return sorted(OPERATIONS)


class _Call:
    """One operation, ready to be recorded."""

    def __init__(self, operation: Operation, recorder: Callable[[str], Recorder]) -> None:
        self._operation = operation
        self._recorder = recorder

    def __call__(self, *args: object, **kwargs: object) -> Any:
        name = f"fd.ops.{self._operation.name}"
        recorder = self._recorder(name)
        with recorder.call(name, args, kwargs):
            handles = recorder.append(bind(self._operation, args, kwargs, recorder))
        if self._operation.returns_list:
            return handles
        return handles[0] if len(handles) == 1 else tuple(handles)


def _handles(values: Sequence[object]) -> Iterator[Handle]:
    for value in values:
        if isinstance(value, Handle):
            yield value
        elif isinstance(value, list | tuple):
            yield from _handles(value)


def _title(definition: Any) -> str:
    """`FusionDefinition 0x7f...`: enough to tell two definitions apart."""
    return f"{type(definition).__name__} at {id(definition):#x}"

"""Definitions on disk: records as JSON lines, one checksum per line, replayed when loaded.

    {"format": 1, "package": "thunder_fuser", "fusions": 2}
    {"sha256": "...", "records": "[[\\"define_tensor\\", ...], ...]"}

Nothing in the file is executed, and no IR is stored: a loaded entry is built anew by this version
of the package, so an old file never brings an old meaning. Kernels have their own cache, by source.
"""

from __future__ import annotations

import hashlib
import os
import struct
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from thunder_fuser.dtypes import DataType
from thunder_fuser.frontend.build import define
from thunder_fuser.frontend.leaf import Definition
from thunder_fuser.frontend.records import DEFINE_TENSOR, Arg, Record, Ref, Static
from thunder_fuser.frontend.tensors import described_tensor

FORMAT = 1
_HEADER = {"format": FORMAT, "package": "thunder_fuser"}
_DAMAGED = (
    *(msgspec.DecodeError, ValueError, TypeError, KeyError, IndexError, AssertionError),
    *(AttributeError, struct.error, RecursionError),
)


def write(path: Path, definitions: Sequence[Sequence[Record]]) -> None:
    """Write all or nothing: a temporary file beside `path`, then a rename. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lines = [msgspec.json.encode({**_HEADER, "fusions": len(definitions)})]
    for records in definitions:
        payload = msgspec.json.encode([_plain(record) for record in records])
        entry = {"sha256": hashlib.sha256(payload).hexdigest(), "records": payload.decode()}
        lines.append(msgspec.json.encode(entry))
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(b"\n".join(lines) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def read(path: Path) -> Iterator[tuple[tuple[Record, ...], Definition]]:
    """The definitions of a file, rebuilt. A damaged entry is skipped with a warning.

    Raises OSError if the file cannot be read, ValueError if its header is not of this format.
    """
    header, *lines = path.read_bytes().splitlines() or [b""]
    _check_header(path, header)
    for number, line in enumerate(lines, start=2):
        try:
            records = _records(line)
            yield records, define(records)
        except _DAMAGED as error:
            warnings.warn(f"{path}:{number}: skipped a bad entry: {error!r}", stacklevel=3)


def _check_header(path: Path, line: bytes) -> None:
    try:
        header = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path} is no file of saved fusions: {error}") from error
    expected = {**_HEADER, "fusions": header.get("fusions") if isinstance(header, dict) else None}
    if header != expected:
        raise ValueError(f"{path} has header {header}; this version reads {_HEADER}")


def _records(line: bytes) -> tuple[Record, ...]:
    entry = msgspec.json.decode(line)
    payload = entry["records"].encode()
    if hashlib.sha256(payload).hexdigest() != entry["sha256"]:
        raise ValueError("the checksum does not match")
    return tuple(_record(plain) for plain in msgspec.json.decode(payload))


def _plain(record: Record) -> list[object]:
    attrs = [[name, _plain_static(value)] for name, value in record.attrs]
    return [record.op, attrs, [_plain_arg(arg) for arg in record.args]]


def _plain_static(value: Static) -> object:
    if isinstance(value, DataType):
        return {"dtype": value.value}
    return [_plain_static(v) for v in value] if isinstance(value, tuple) else value


def _plain_arg(arg: Arg) -> object:
    if arg is None or isinstance(arg, Ref):
        return str(arg) if arg is not None else None
    return [str(ref) for ref in arg]


def _record(plain: list[object]) -> Record:
    op, attrs, args = plain
    assert isinstance(op, str)
    assert isinstance(attrs, list)
    assert isinstance(args, list)
    record = Record(op, tuple((n, _static(v)) for n, v in attrs), tuple(map(_arg, args)))
    return described_tensor(**dict(record.attrs)) if op == DEFINE_TENSOR else record  # type: ignore[arg-type]


def _static(plain: object) -> Static:
    if isinstance(plain, dict):
        return DataType(plain["dtype"])
    if isinstance(plain, list):
        return tuple(map(_static, plain))
    assert plain is None or isinstance(plain, bool | int | str)
    return plain


def _arg(plain: object) -> Arg:
    if plain is None:
        return None
    if isinstance(plain, list):
        return tuple(map(_ref, plain))
    return _ref(plain)


def _ref(plain: object) -> Ref:
    assert isinstance(plain, str)
    return Ref(plain[0], int(plain[1:]))

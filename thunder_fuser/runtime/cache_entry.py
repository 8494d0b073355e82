"""One file of the kernel cache.

    magic 8 | metadata length u32 | payload length u64 | metadata JSON | payload | SHA-256 of all

The checksum finds accidents, not attacks: a cubin is code, so who may write the directory is what
decides about trust (`cache_directory`). Nothing here unpickles or runs what was read.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from functools import cache
from importlib import metadata

import msgspec

FORMAT = 1

_MAGIC = b"TFUSER" + struct.pack("<H", FORMAT)
_HEAD = struct.Struct("<8sIQ")
_DIGEST_BYTES = hashlib.sha256().digest_size


class CorruptEntry(Exception):
    """What was read is not the entry that was asked for; the text says how it differs."""


class Metadata(msgspec.Struct, frozen=True):
    """What an entry says about its payload. `key` repeats the file's name."""

    key: str
    name: str
    arch: str
    compiler: str
    flags: tuple[str, ...]
    package: str
    registers: int | None = None
    spill_bytes: int | None = None


class Entry(msgspec.Struct, frozen=True):
    """A compiled object (a cubin, or a shared object of the host compiler) and its description."""

    metadata: Metadata
    payload: bytes


@cache
def package_version() -> str:
    """The version of this package; a plain checkout that was never installed has none."""
    try:
        return metadata.version("thunder-fuser")
    except metadata.PackageNotFoundError:
        return "checkout"


def cache_key(text: str, flags: Sequence[str], arch: str, compiler: str) -> str:
    """SHA-256 of all that decides what a compiler makes of a kernel; 64 hexadecimal digits.

    `text` is the whole translation unit, so it stands for the generator that wrote it. Parts are
    length-prefixed: no two lists of parts run together into the same bytes.
    """
    digest = hashlib.sha256()
    for part in (str(FORMAT), package_version(), arch, compiler, str(len(flags)), *flags, text):
        raw = part.encode()
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.hexdigest()


def encode(entry: Entry) -> bytes:
    """The bytes of an entry's file."""
    described = msgspec.json.encode(entry.metadata)
    head = _HEAD.pack(_MAGIC, len(described), len(entry.payload))
    body = head + described + entry.payload
    return body + hashlib.sha256(body).digest()


def decode(data: bytes, key: str) -> Entry:
    """The entry for `key` held by `data`. Raises CorruptEntry for anything else."""
    if len(data) < _HEAD.size + _DIGEST_BYTES:
        raise CorruptEntry(f"truncated to {len(data)} bytes")
    magic, described, payload = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise CorruptEntry("of another format")
    body = _HEAD.size + described + payload
    if len(data) != body + _DIGEST_BYTES:
        raise CorruptEntry(f"{len(data)} bytes long instead of {body + _DIGEST_BYTES}")
    if hashlib.sha256(data[:body]).digest() != data[body:]:
        raise CorruptEntry("damaged: its checksum differs")
    start = _HEAD.size + described
    try:
        found = msgspec.json.decode(data[_HEAD.size : start], type=Metadata)
    except msgspec.MsgspecError as error:
        raise CorruptEntry(f"described in a way that does not parse: {error}") from None
    if found.key != key:
        raise CorruptEntry(f"the entry of another key, {found.key}")
    return Entry(found, data[start:body])

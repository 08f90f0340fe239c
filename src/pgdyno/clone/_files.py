"""Reading and writing of capture files."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from pgdyno.clone._altered import altered
from pgdyno.clone.capture_file import FORMAT, VERSION, Capture
from pgdyno.errors import UsageError
from pgdyno.files import read_at_most, write_whole

_BYTES_MAX = 64 << 20


class _Head(Struct):
    format: str = ""
    version: int = 0


def write_capture(capture: Capture, path: Path) -> None:
    """Write a capture file, with a line for each table, statement and transaction. Raises
    OSError."""
    parts = (
        f'"{each.name}":'.encode() + _lines(getattr(capture, each.name)) for each in fields(Capture)
    )
    write_whole(path, b"{\n" + b",\n".join(parts) + b"\n}\n")


def _lines(value: object) -> bytes:
    if not isinstance(value, tuple):
        return msgspec.json.encode(value)
    return b"[\n" + b",\n".join(map(msgspec.json.encode, value)) + b"\n]"


def read_capture(path: Path) -> Capture:
    """Return a capture file. Raises UsageError for one that cannot be read, is of another version,
    or is not complete."""
    try:
        content = read_at_most(path.expanduser(), _BYTES_MAX)
    except OSError as problem:
        raise UsageError(
            f"{path} cannot be read: {problem.strerror}", code="capture-unreadable"
        ) from None
    if len(content) > _BYTES_MAX:
        raise UsageError(
            f"{path} is longer than {_BYTES_MAX >> 20} MB, and is not read",
            code="capture-malformed",
        )
    try:
        head = msgspec.json.decode(content, type=_Head)
        if head.format == FORMAT and head.version != VERSION:
            raise UsageError(
                f"{path} is a capture of version {head.version}, and this pgdyno reads {VERSION}",
                code="capture-version",
                hint="read it with the pgdyno that wrote it, or a newer one",
            )
        found = msgspec.json.decode(content, type=Capture)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise UsageError(
            f"{path} is not a capture of pgdyno, or not all of one: {problem}",
            code="capture-malformed",
            hint="pgdyno capture writes such files",
        ) from None
    if wrong := altered(found):
        raise UsageError(
            f"{path} has {wrong}",
            code="capture-malformed",
            hint="it was altered: capture it again",
        )
    return found

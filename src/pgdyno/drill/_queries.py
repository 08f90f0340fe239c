"""Reads this room's .sql files, where all of its SQL lives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def query(name: str, **names: str) -> bytes:
    """The text of ``sql/NAME.sql``, with each of ``names`` in place of its keyword."""
    text = Path(__file__).with_name("sql").joinpath(f"{name}.sql").read_text()
    for keyword, replacement in names.items():
        text = text.replace(f"<{keyword}>", replacement)
    return text.encode()


def statements(name: str) -> Iterator[bytes]:
    """The statements of ``sql/NAME.sql``, for some of them cannot be sent together."""
    lines = query(name).split(b"\n")
    text = b"\n".join(line for line in lines if not line.startswith(b"--"))
    yield from (part for part in text.split(b";\n") if part.strip())

"""Access to the .sql files of drills."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def query(name: str, **replacements: str) -> bytes:
    """Return the text of ``sql/NAME.sql``, with each ``<KEYWORD>`` replaced."""
    text = Path(__file__).with_name("sql").joinpath(f"{name}.sql").read_text()
    for keyword, replacement in replacements.items():
        text = text.replace(f"<{keyword}>", replacement)
    return text.encode()


def statements(name: str) -> Iterator[bytes]:
    """Yield the statements of ``sql/NAME.sql``; some of them must be sent separately."""
    lines = query(name).split(b"\n")
    text = b"\n".join(line for line in lines if not line.startswith(b"--"))
    yield from (part for part in text.split(b";\n") if part.strip())

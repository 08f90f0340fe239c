"""Access to the .sql files of drills."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.server import sql_files


def query(name: str, **replacements: str) -> bytes:
    """Return the text of ``sql/NAME.sql``, with each ``<KEYWORD>`` replaced."""
    text = sql_files.query("drill", name)
    for keyword, replacement in replacements.items():
        text = text.replace(f"<{keyword}>".encode(), replacement.encode())
    return text


def statements(name: str) -> Iterator[bytes]:
    """Yield the statements of ``sql/NAME.sql``; some of them must be sent separately."""
    lines = query(name).split(b"\n")
    text = b"\n".join(line for line in lines if not line.startswith(b"--"))
    yield from (part for part in text.split(b";\n") if part.strip())

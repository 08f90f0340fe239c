"""Imports in tests: files that are read, and what may happen to any."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from pgdyno.errors import PgdynoError
from pgdyno.imports import Choices, Imported, fields_with_texts, read_foreign
from pgdyno.spec import spec_from_fields

WORDS = st.sampled_from(
    [
        "${",
        "${x}",
        "${__Random(1,",
        "${__P(a,${__P(b)})}",
        "}",
        "\\",
        ",",
        ":txn",
        "a",
        " ",
        "/",
        "http://",
        "é",
        "\n",
        "'",
        '"',
        "%",
        "1",
        "-1",
        "$..",
        "(?=",
        "[",
        "{",
    ]
)
TEXTS = st.lists(WORDS, max_size=6).map("".join)


def lines_of(found: Imported) -> list[str]:
    (text,) = found.scripts.values()
    return [line for line in text.splitlines() if line and not line.startswith("-- ")]


def survives(content: bytes, kind: str, directory: Path) -> None:
    """Read any file: the end is a spec whose scripts are right, or one error."""
    path = directory / f"any{kind}"
    path.write_bytes(content)
    for partial in (False, True):
        try:
            found = read_foreign(path, Choices(partial=partial, origin=None))
            spec_from_fields(fields_with_texts(found))
        except PgdynoError as problem:
            assert problem.message
            assert problem.exit_status == 1

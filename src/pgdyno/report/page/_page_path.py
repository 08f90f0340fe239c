"""Check of the path of a page: only a page of pgdyno may be overwritten."""

from __future__ import annotations

from pathlib import Path

from pgdyno.errors import PgdynoError, SetupError, UsageError
from pgdyno.files import check_writable, is_special

MARK = b'<meta name="generator" content="pgdyno '
"""Text near the beginning of every page."""
_MARK_WITHIN_BYTES = 4096


def check_page_path(path: Path) -> None:
    """Raise UsageError if another file has this path, SetupError if it cannot be written."""
    try:
        if path.is_file() and not is_page(path):
            raise UsageError(
                f"{path}: a file with this name exists, and it is not a report of pgdyno",
                code="report-exists",
                hint="only reports are overwritten; choose another name or move it",
            )
        check_writable(path)
    except OSError as problem:
        raise unwritable(path, problem) from None


def is_page(path: Path) -> bool:
    """Return whether the file is a page of pgdyno or empty."""
    with path.open("rb") as file:
        head = file.read(_MARK_WITHIN_BYTES)
    return MARK in head or not (head or is_special(path))


def unwritable(path: Path, problem: OSError) -> PgdynoError:
    """Return the error for a page that cannot be written."""
    return SetupError(
        f"cannot write the report {path}: {problem.strerror or problem}",
        code="report-unwritable",
        hint="choose another path or free some space",
    )

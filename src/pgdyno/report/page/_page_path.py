"""Where a page may be written: in no file's place but that of another page of ours."""

from __future__ import annotations

from pathlib import Path

from pgdyno.errors import PgdynoError, SetupError, UsageError
from pgdyno.files import check_writable, is_special

MARK = b'<meta name="generator" content="pgdyno '
"""What every page has near its beginning."""
_MARK_WITHIN_BYTES = 4096


def check_page_place(path: Path) -> None:
    """UsageError if another file is there, SetupError if nothing can be written there."""
    try:
        if path.is_file() and not is_page(path):
            raise UsageError(
                f"{path}: there is a file of this name, and it is no report of pgdyno",
                code="report-exists",
                hint="only reports are overwritten; name another file, or move this one away",
            )
        check_writable(path)
    except OSError as problem:
        raise unwritable(path, problem) from None


def is_page(path: Path) -> bool:
    """Whether a page of ours is in the file, or nothing at all."""
    with path.open("rb") as file:
        head = file.read(_MARK_WITHIN_BYTES)
    return MARK in head or not (head or is_special(path))


def unwritable(path: Path, problem: OSError) -> PgdynoError:
    return SetupError(
        f"cannot write the report {path}: {problem.strerror or problem}",
        code="report-unwritable",
        hint="name another place, or free some space there; a run file that was recorded is kept",
    )

"""Where run files and reports go, and what of an earlier run stands in the way."""

from __future__ import annotations

import time
from pathlib import Path

from pgdyno.errors import SetupError, UsageError

RUNS_DIR = Path("pgdyno-runs")
STDOUT = "-"
"""In place of a file's name."""


def run_path(output: str | None, name: str) -> Path:
    """The path of a new run file: the one asked for, or one named after spec and time."""
    if output is None:
        stamp = time.strftime("%Y%m%d-%H%M%S")
        path = RUNS_DIR / f"{name}-{stamp}.db"
        _make_dir(path.parent)
        return _unused(path)
    if output == STDOUT:
        raise UsageError(
            "-o -: a run file is a database, which cannot go to stdout",
            code="output-stdout",
            hint="name a file; --format json or csv prints the result",
        )
    path = Path(output)
    if path.exists():
        kind = "folder" if path.is_dir() else "file"
        raise UsageError(
            f"{path}: there is a {kind} of this name",
            code="output-exists",
            hint="runs are never overwritten; choose another name or move it away",
        )
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent}: no such folder", code="output-folder")
    _try_to_write(path)
    return path


def page_path(output: str | None, run_file: Path) -> Path:
    """Where the page of ``run_file`` goes: as asked, or beside it. Refused now if it cannot."""
    from pgdyno.report import check_page_place

    if output == STDOUT:
        raise UsageError(
            "--report -: stdout is for the result",
            code="output-stdout",
            hint="pgdyno report RUN -o - writes the page to stdout",
        )
    path = Path(output) if output else run_file.with_suffix(".html")
    check_page_place(path)
    return path


def _try_to_write(path: Path) -> None:
    """Find out now, and not when a server has been started and filled."""
    try:
        path.touch(exist_ok=False)
        path.unlink()
    except OSError as problem:
        raise SetupError(
            f"cannot write the run file {path}: {problem.strerror}",
            code="run-file-unwritable",
            hint="name a place that you may write to with -o",
        ) from None


def _make_dir(path: Path) -> None:
    try:
        path.mkdir(exist_ok=True)
    except OSError as problem:
        raise UsageError(
            f"{path}: {problem.strerror}", code="output-folder", hint="name a run file with -o"
        ) from None


def _unused(path: Path) -> Path:
    """``path``, or with a number when two runs begin within a second."""
    candidate, number = path, 2
    while candidate.exists():
        candidate = path.with_stem(f"{path.stem}-{number}")
        number += 1
    return candidate

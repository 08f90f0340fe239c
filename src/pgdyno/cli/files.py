"""Paths of run files and reports, checked before a run begins."""

from __future__ import annotations

import re
import time
from pathlib import Path

import click

from pgdyno.errors import SetupError, UsageError

RUNS_DIR = Path("pgdyno-runs")
STDOUT = "-"
"""Used instead of a file name."""


def run_path(output: str | None, name: str) -> Path:
    """Return the path of a new run file: ``output``, or a name made of spec and time."""
    if output is None:
        stamp = time.strftime("%Y%m%d-%H%M%S")
        path = RUNS_DIR / f"{name}-{stamp}.db"
        _make_dir(path.parent)
        return _reserved_path(path)
    if output == STDOUT:
        raise UsageError(
            "-o -: a run file is a database and cannot be written to stdout",
            code="output-stdout",
            hint="name a file; use --format json or csv to print the result",
        )
    path = Path(output)
    if path.exists():
        kind = "directory" if path.is_dir() else "file"
        raise UsageError(
            f"{path}: a {kind} with this name already exists",
            code="output-exists",
            hint="run files are never overwritten; choose another name or move it",
        )
    _make_dir(path.parent)
    _try_to_write(path)
    return path


def chapter_path(base: Path, number: int) -> Path:
    """Return the path of the run file of a story's chapter: ``story-2.db``."""
    return base.with_stem(f"{base.stem}-{number}")


def story_path(chapter: Path) -> Path:
    """Return the path that :func:`chapter_path` made the path of a chapter from."""
    return chapter.with_stem(re.sub(r"-\d+$", "", chapter.stem))


def page_path(output: str | None, run_file: Path) -> Path:
    """Return the path of the page of ``run_file``, by default beside it. Raises now if it cannot be
    written."""
    return _checked_page(output or str(run_file.with_suffix(".html")))


def wanted_page(report: str | None) -> Path | None:
    """Return the path of the page that --report asks for. Raises now if it cannot be written."""
    return _checked_page(report) if report else None


def _checked_page(output: str) -> Path:
    from pgdyno.report import check_page_path

    if output == STDOUT:
        raise UsageError(
            "--report -: stdout is used for the result",
            code="output-stdout",
            hint="pgdyno report RUN -o - writes the page to stdout",
        )
    path = Path(output)
    check_page_path(path)
    return path


def _try_to_write(path: Path) -> None:
    """Check that ``path`` can be written, before a server is started and filled."""
    try:
        path.touch(exist_ok=False)
        path.unlink()
    except OSError as problem:
        raise _unwritable(path, problem) from None


def _unwritable(path: Path, problem: OSError) -> SetupError:
    return SetupError(
        f"cannot write the run file {path}: {problem.strerror}",
        code="run-file-unwritable",
        hint="choose a writable directory with -o",
    )


def _make_dir(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UsageError(
            f"{path}: {problem.strerror}", code="output-directory", hint="name a run file with -o"
        ) from None


def _reserved_path(path: Path) -> Path:
    """Reserve ``path``, or the next free number after it: two runs may begin in one second."""
    from pgdyno.record.reserving import release, reserve

    if (context := click.get_current_context(silent=True)) is not None:
        context.call_on_close(release)
    stem, number = path.stem, 1
    while True:
        try:
            reserve(path)
            return path
        except FileExistsError:
            number += 1
            path = path.with_stem(f"{stem}-{number}")
        except OSError as problem:
            raise _unwritable(path, problem) from None

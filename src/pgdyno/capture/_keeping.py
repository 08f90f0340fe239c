"""Writing a capture that took minutes: where its file cannot be written any more, another one has
it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pgdyno.clone import Capture, write_capture
from pgdyno.errors import RunError, SetupError


def write_or_keep(capture: Capture, path: Path) -> None:
    """Write a capture to a file. Raises RunError where only another place has it, and SetupError
    where none has."""
    try:
        write_capture(capture, path)
    except OSError as problem:
        why = f"{path} cannot be written any more: {problem.strerror}"
        kept = _elsewhere(capture, path.name)
    else:
        return
    if kept is None:
        raise SetupError(why, code="capture-unwritable", hint="capture again to another file (-o)")
    raise RunError(why, code="capture-elsewhere", hint=f"{kept} has the capture")


def _elsewhere(capture: Capture, name: str) -> Path | None:
    """Write a capture to the first place that has room for it."""
    for place in _places():
        try:
            directory = Path(tempfile.mkdtemp(prefix="pgdyno-capture-", dir=place))
        except OSError:
            continue
        try:
            write_capture(capture, directory / name)
        except OSError:
            directory.rmdir()
        else:
            return directory / name
    return None


def _places() -> Iterator[Path]:
    yield Path(tempfile.gettempdir())
    yield Path("/var/tmp")
    with suppress(RuntimeError):  # A user without a home.
        yield Path.home()

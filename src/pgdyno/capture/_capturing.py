"""A capture from start to end: the server as it is, its load over a period, the Capture that both
make, and a search for values in that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from msgspec import Struct

from pgdyno.capture._keeping import write_or_keep
from pgdyno.capture._logs import check_logs
from pgdyno.capture._making import capture_of
from pgdyno.capture._period import observed_load, watched
from pgdyno.capture._renaming import renamed
from pgdyno.capture._scanning import check_values
from pgdyno.capture._server import SourceServer
from pgdyno.check import Where, answering, reach, session
from pgdyno.clone import Capture
from pgdyno.conduct.watch import Watcher
from pgdyno.errors import Interrupted, SetupError
from pgdyno.files import check_writable


class CaptureRequest(Struct, frozen=True):
    """A server to capture, and the time for it."""

    where: Where
    seconds: float
    path: Path
    logs: tuple[Path, ...] = ()
    """Files of the server's log, or directories of them."""
    rename: bool = False
    """Replace names of tables, columns and all else that SQL names."""


def capture(request: CaptureRequest, watcher: Watcher) -> Capture:
    """Capture the load of a server, and write it to the file. The server is only read.

    Raises SetupError for a server that does not answer, or does not count statements, Interrupted,
    with the load until then in the file, if the user stops it, and RunError if another file has it.
    """
    check_logs(request.logs)
    _check_writable(request.path)
    found, stopped = _taken(request.where, request.seconds, watcher, request.logs)
    if request.rename:
        watcher.phase("replacing names")
        found = renamed(found)
    write_or_keep(found, request.path)
    if stopped is not None:
        stopped.hint = f"{request.path} has the load of {found.source.seconds:.0f} s"
        raise stopped
    return found


def _check_writable(path: Path) -> None:
    try:
        check_writable(path)
    except OSError as problem:
        raise SetupError(
            f"{path} cannot be written: {problem.strerror}",
            code="capture-unwritable",
            hint="name another file with -o",
        ) from None


def captured(
    where: Where,
    seconds: float,
    watcher: Watcher,
    period: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Capture:
    """Return the capture of a server's load, which has no value that its statistics have.
    ``period`` is entered for the time that is watched. Raises SetupError and Interrupted as
    :func:`capture` does."""
    found, stopped = _taken(where, seconds, watcher, period=period)
    if stopped is not None:
        raise stopped
    return found


def _taken(
    where: Where,
    seconds: float,
    watcher: Watcher,
    logs: Sequence[Path] = (),
    period: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> tuple[Capture, Interrupted | None]:
    """Return a capture, and why it was stopped before its end."""
    watcher.phase("connecting")
    reached = reach(where, watcher.note)
    with answering(reached.conninfo), session(reached.conninfo) as connection:
        watcher.phase("reading the catalogue")
        server = SourceServer(connection)
        watcher.phase(f"watching the load for {seconds:g} s", seconds)
        load = observed_load(
            reached,
            watcher,
            period,
            lambda: watched(connection, server.catalogue, seconds, logs),
        )
    watcher.phase("finding the columns of parameters")
    found = capture_of(server, load)
    watcher.phase("looking for values")
    check_values(found, server.values)
    return found, load.stopped

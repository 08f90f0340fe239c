"""The run file of a check: its recorder, the looks recorded in it, and its place if it is not kept.

A run file that is not to be kept is in a directory of its own. A check that is killed cannot remove
it, so the next one does. A lock shows whether the check that made a directory is still at work.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pgdyno.check._reach import Reached, answering, session
from pgdyno.check._window import data_dir_of
from pgdyno.errors import PgdynoError
from pgdyno.looks.look import ServerMachine
from pgdyno.looks.looking import take_looks
from pgdyno.probe import host_facts
from pgdyno.record import Recorder
from pgdyno.server.locks import try_lock

NAME = "check"
_PREFIX = "pgdyno-check-"
_LOCK = "lock"
_YOUNG_S = 60.0
"""A younger directory may not have its lock yet."""


def new_recorder(path: Path, reached: Reached) -> Recorder:
    """Return the recorder of a new run file with the facts of server and host."""
    facts = reached.facts
    host = host_facts(data_dir_of(reached), pid=facts.get("postmaster_pid"))
    return Recorder.create(
        path,
        name=NAME,
        command=NAME,
        server=facts,
        host={**host, "same_host_as_server": bool(facts.get("is_local"))},
    )


def take_all_looks(reached: Reached, recorder: Recorder, *, again: bool = False) -> None:
    """Take all looks and record them; ``again`` only those whose rows must last. Raises SetupError
    if the server stops answering."""
    local = bool(reached.facts.get("is_local"))
    machine = ServerMachine(data_dir_of(reached), reached.facts.get("postmaster_pid"))
    with answering(reached.conninfo), session(reached.conninfo) as connection:
        take_looks(connection, recorder, machine if local else None, again=again)
    recorder.flush()


@contextlib.contextmanager
def temporary_run_file() -> Iterator[Path]:
    """Yield a path for a run file."""
    _sweep()
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as name:
        lock = try_lock(Path(name, _LOCK))
        try:
            yield Path(name, "check.db")
        finally:
            if lock is not None:
                os.close(lock)


def _sweep() -> None:
    """Remove the directories that killed checks of this user left."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError, PgdynoError):
            status = left.lstat()
            ours = status.st_uid == os.geteuid() and left.is_dir() and not left.is_symlink()
            if not ours or time.time() - status.st_mtime < _YOUNG_S:
                continue
            if (lock := try_lock(left / _LOCK)) is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(lock)

"""Parameters of the kernel that killed runs have left changed."""

from __future__ import annotations

import os

from pgdyno.errors import PgdynoError
from pgdyno.kernel import _record
from pgdyno.server.locks import try_lock


def restore_left_parameters() -> list[str]:
    """Restore what a killed run left changed, unless its guardian still does; return a sentence
    for each parameter. Raises nothing: a failure here must not stop another run."""
    try:
        if not _record.path().exists():
            return []
        lock = try_lock(_record.lock_path())
        if lock is None:
            return []
        try:
            return restore_left()
        finally:
            os.close(lock)
    except (PgdynoError, OSError) as problem:
        return [str(problem)]


def restore_left() -> list[str]:
    """Restore what the record has; the caller holds the lock. Raises SetupError."""
    record = _record.read()
    if record is None:
        return []
    if record.boot_id != _record.boot_id():
        _record.path().unlink(missing_ok=True)  # The machine has restarted since.
        return []
    return [f"left by a killed run: {each}" for each in record.restore()]

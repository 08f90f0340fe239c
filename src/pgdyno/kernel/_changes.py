"""Changes of the kernel's parameters by one run, and their undo at its end, or by the next run if
this one is killed.
"""

from __future__ import annotations

import os

from pgdyno.errors import PgdynoError, SetupError
from pgdyno.kernel import _record
from pgdyno.kernel._parameters import Parameter, check_changeable, not_changeable
from pgdyno.server.locks import try_lock
from pgdyno.watchdogs import READY, Guardian


class KernelChanges:
    """Parameters that a run changes. Nothing is written, and no process started, before the first
    change."""

    def __init__(self) -> None:
        self._record: _record.KernelUndoRecord | None = None
        self._lock: int | None = None
        self._guardian: Guardian | None = None

    def set(self, parameter: Parameter, value: str, key: str) -> None:
        """Set a parameter; ``key`` names it in messages. Raises SetupError."""
        check_changeable(parameter, key)
        record = self._begun()
        try:
            present = parameter.read()
            changed = record.of(parameter)
            if changed is None:
                if present == value:
                    return
                changed = _record.Changed(parameter, present)
                record.changed.append(changed)
            changed.ours.add(value)
            record.write()
            parameter.write(value)
            taken = parameter.read()
        except OSError as problem:
            raise not_changeable(parameter, key, problem) from None
        if taken != value:
            changed.ours.add(taken)
            record.write()
            raise SetupError(
                f"{key}: the kernel has made {parameter.name} {taken}, not {value}",
                code="kernel-value",
                hint="of huge pages it reserves as many as it finds in memory that is not in use:"
                " ask for fewer, or reserve them just after the machine has started",
            )

    def reset(self, parameter: Parameter, key: str) -> None:
        """Set a parameter to the value that it had before the run. Raises SetupError."""
        changed = self._record.of(parameter) if self._record else None
        if changed is not None:
            try:
                _record.restored(changed)
            except OSError as problem:
                raise not_changeable(parameter, key, problem) from None

    def restore_all(self) -> list[str]:
        """Restore everything; return a sentence for each parameter that was still changed or is
        left. May be called twice."""
        if self._record is None:
            return []
        said = self._record.restore()
        complete = not self._record.changed
        self._record = None
        self._dismiss(complete=complete)
        return said

    def _begun(self) -> _record.KernelUndoRecord:
        """The first time: take the lock, restore what a killed run left, and start the guardian."""
        if self._record is None:
            self._lock = try_lock(_record.lock_path())
            if self._lock is None:
                raise SetupError(
                    "another pgdyno changes the kernel's parameters of this machine",
                    code="kernel-in-use",
                    hint="wait for its end; after a kill -9, its guardian restores them first",
                )
            try:
                restore_left()
                self._guardian = _guardian(self._lock)
            except BaseException:
                os.close(self._lock)
                self._lock = None
                raise
            self._record = _record.KernelUndoRecord.new()
        return self._record

    def _dismiss(self, *, complete: bool) -> None:
        """End the guardian, or leave to it the changes that could not be restored."""
        guardian, self._guardian = self._guardian, None
        if guardian is not None:
            guardian.detach()
            if complete:
                guardian.wait()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _guardian(lock: int) -> Guardian:
    """Start the guardian and wait until it is ready. Raises SetupError."""
    guardian = Guardian("pgdyno.kernel.guardian", keeps=(lock,))
    if guardian.answer() != READY:
        guardian.kill()
        raise SetupError(
            "the process that restores the kernel's parameters if pgdyno is killed has ended",
            code="kernel-guardian",
            hint="no parameter is changed without it",
        )
    return guardian


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
    """Restore the changes in the record; the caller holds the lock. Raises SetupError."""
    record = _record.read()
    if record is None:
        return []
    if record.boot_id != _record.boot_id():
        _record.path().unlink(missing_ok=True)  # The machine has restarted since.
        return []
    return [f"left by a killed run: {each}" for each in record.restore()]

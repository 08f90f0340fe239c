"""The one error tree: a stable code, one message, an optional hint and an exit status.

Whatever a user can cause is raised as one of these and printed by the command line as

    error: MESSAGE

    hint: HINT

Messages name what is wrong and where, without a final period; hints name what to do next.

    PgdynoError
    ├── UsageError      1    what was typed or written in a spec or script cannot be used
    ├── SetupError      1    a server, disk, table or permission that the run needs is not there
    ├── RunError        2    the run began and failed; what was recorded is kept
    ├── ThresholdError  3    a threshold or regression check failed
    └── TrustError      4    the measurement cannot be trusted

    Interrupted       130    the user stopped it; beside the tree, so that nobody takes it for a
                             failure and goes on. 143 by SIGTERM, 129 by SIGHUP
"""

from __future__ import annotations

import signal
from typing import Self


class PgdynoError(Exception):
    """Base of every error that pgdyno raises on purpose."""

    exit_status = 2

    def __init__(self, message: str, *, code: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint


class UsageError(PgdynoError):
    """What the user typed, or wrote in a spec or script, cannot be used."""

    exit_status = 1


class SetupError(PgdynoError):
    """Something that the run needs is missing or refuses: a server, a table, a permission."""

    exit_status = 1


class RunError(PgdynoError):
    """The run began and then failed; what was recorded until then is kept."""

    exit_status = 2


class ThresholdError(PgdynoError):
    """A threshold or a regression check failed."""

    exit_status = 3


class TrustError(PgdynoError):
    """The measurement was made but cannot be trusted, so no verdict rests on it."""

    exit_status = 4


class Interrupted(BaseException):
    """The user stopped the run."""

    def __init__(self, message: str, *, exit_status: int = 130, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.exit_status = exit_status
        self.hint = hint

    @classmethod
    def by(cls, number: int, *, hint: str | None = None) -> Self:
        """By a signal, with the status that a shell gives to it."""
        name = signal.Signals(number).name
        return cls(f"interrupted by {name}", exit_status=128 + number, hint=hint)

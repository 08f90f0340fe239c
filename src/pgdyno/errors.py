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
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

INTERNAL = "internal-error"
REPORT = "this is a bug in pgdyno; PGDYNO_TRACEBACK=1 shows where, for a report"


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


@dataclass(frozen=True)
class Ending:
    """How a command ends that comes to no result: the same on stderr, in JSON and in run files."""

    exit_status: int
    code: str
    message: str
    hint: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As ``docs/reference/result-unfinished.schema.json`` describes it."""
        return asdict(self)


def ending_of(problem: BaseException) -> Ending:
    """What is told of whatever ended a command; of what is not in the tree, that it is a fault."""
    if isinstance(problem, PgdynoError):
        return Ending(problem.exit_status, problem.code, problem.message, problem.hint)
    if isinstance(problem, Interrupted):
        return Ending(problem.exit_status, "interrupted", problem.message, problem.hint)
    told = f"internal error: {type(problem).__name__}: {problem}"
    return Ending(RunError.exit_status, INTERNAL, told, REPORT)


@dataclass
class Left:
    """What a command leaves that was ended by a problem."""

    run_file: Path | None = None
    """The run that was under way."""
    so_far: Mapping[str, Any] | None = None
    """The result as far as it had come, where it is in no run file."""


def left_by(problem: BaseException) -> Left:
    """What ``problem`` is known to leave; may be added to while it passes."""
    left: Left = vars(problem).setdefault("left", Left())
    return left

"""The one error tree: a stable code, one message, an optional hint and an exit status.

Every error that a user can cause is raised as one of these and printed by the command line as

    error: MESSAGE

    hint: HINT

Messages name what is wrong and where, without a final period; hints name what to do next.

    PgdynoError
    ├── UsageError      1    an argument, a spec or a script cannot be used
    ├── SetupError      1    a server, disk, table or permission that the run needs is missing
    ├── RunError        2    the run began and failed; what was recorded is kept
    ├── ThresholdError  3    a threshold or regression check failed
    └── TrustError      4    the measurement cannot be trusted

    Interrupted       130    the user stopped the run; outside the tree, so that no handler of
                             failures catches it. 143 by SIGTERM, 129 by SIGHUP
"""

from __future__ import annotations

import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from pgdyno.json_types import Json

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals by which a user stops a command."""
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
    """An argument, a spec or a script cannot be used."""

    exit_status = 1


class SetupError(PgdynoError):
    """Something that the run needs is missing or not usable: a server, a table, a permission."""

    exit_status = 1

    def __init__(
        self, message: str, *, code: str, hint: str | None = None, place: Path | None = None
    ) -> None:
        """``place`` is the file or directory that the error is about, if the hint is to move it
        with PGDYNO_HOME."""
        super().__init__(message, code=code, hint=hint)
        self.place = place


class RunError(PgdynoError):
    """The run began and then failed; what was recorded until then is kept."""

    exit_status = 2


class ThresholdError(PgdynoError):
    """A threshold or a regression check failed."""

    exit_status = 3


class TrustError(PgdynoError):
    """The measurement was made but cannot be trusted, so it supports no verdict."""

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
        """Return the error for signal ``number``, with the exit status that a shell gives it."""
        name = signal.Signals(number).name
        return cls(f"interrupted by {name}", exit_status=128 + number, hint=hint)


@dataclass(frozen=True)
class Ending:
    """The end of a command without a result: the same on stderr, in JSON and in run files."""

    exit_status: int
    code: str
    message: str
    hint: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return the fields that ``docs/reference/result-unfinished.schema.json`` describes."""
        return asdict(self)


def ending_of(problem: BaseException) -> Ending:
    """Return the ending for a problem; one outside the tree is reported as a bug of pgdyno."""
    if isinstance(problem, PgdynoError):
        return Ending(problem.exit_status, problem.code, problem.message, problem.hint)
    if isinstance(problem, Interrupted):
        return Ending(problem.exit_status, "interrupted", problem.message, problem.hint)
    message = f"internal error: {type(problem).__name__}: {problem}"
    return Ending(RunError.exit_status, INTERNAL, message, REPORT)


@dataclass
class PartialResults:
    """Results of a command that a problem ended."""

    run_file: Path | None = None
    """The run file of the unfinished run."""
    so_far: Json | None = None
    """The partial result, where it is in no run file."""


def partial_results(problem: BaseException) -> PartialResults:
    """Return the results attached to ``problem``; handlers may add to them."""
    results: PartialResults = vars(problem).setdefault("partial_results", PartialResults())
    return results

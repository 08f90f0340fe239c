"""What a command prints that came to no result."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict

from pgdyno.results.common import (
    ChangeJson,
    ErrorCount,
    Failures,
    Incidents,
    Interval95,
    LedgerColumns,
    Part,
    SetBy,
)

_OF_A_RUN = ("incidents", "failures", "errors", "ledger", "slices", "trials", "drills", "so_far")


class Error(Part):
    exit_status: int | None
    """null: pgdyno itself was killed"""
    code: str
    """As docs/reference/errors.md lists them; usage: words and options of the command line;
    internal-error: a fault of pgdyno; interrupted"""
    message: str
    hint: str | None


class Slice(Part):
    kind: str
    """run, ramp, baseline, noise or trial"""
    trial: int | None
    """id of the trial that it belongs to"""
    pair: int | None
    side: Literal["a", "b"] | None
    """a: baseline; b: changed"""
    ended: bool
    """false: it ended with the run"""
    void: str | None
    """Why it decides nothing; null: it counts"""
    seconds: float
    done: int
    failed: int
    throughput_tps: float


class Trial(Part):
    id: int
    kind: str
    """noise, compare, remedy, recheck or price"""
    title: str
    change: ChangeJson
    set_by: SetBy
    pairs: int
    """Measured so far; pairs with a void slice do not count"""
    throughput_ratio: float | None
    """null: the trial did not end"""
    ci95: Interval95 | None
    compared: str | None
    outcome: str | None
    """The decision made before the run ended; null: none"""
    sentence: str


class Cut(Part):
    number: int
    variant: str
    outcome: str
    acked: int | None
    lost: int | None
    recovery_s: float | None


class Drill(Part):
    """A drill with the cuts made until the run ended"""

    fault: str
    title: str
    cuts: tuple[Cut, ...]


class Unfinished(Part):
    """What run, compare, investigate, price, drill and story print instead of their result, and
    what show --format json prints of a run file that ended so; all commands print the first six
    members for an error before a run was begun. The exit status is that of the error."""

    model_config = ConfigDict(
        title="pgdyno COMMAND --format json, where there is no result",
        json_schema_extra={
            "if": {"properties": {"run_file": {"type": "string"}}},
            "then": {"required": [*_OF_A_RUN]},
        },
    )

    schema_version: Literal[2]
    command: str | None
    """null: the command line names none"""
    run_file: str | None
    """null: no run was begun"""
    status: Literal["failed", "interrupted", "broken", "running", "done"]
    """Of the run; done: the run ended, and the command failed after it"""
    verdict: None
    """There is none"""
    error: Error | None
    """What ended it, in the words of stderr; null: the run goes on"""
    incidents: Incidents = ()
    failures: Failures | None = None
    errors: tuple[ErrorCount, ...] = ()
    ledger: LedgerColumns | None = None
    """Of the whole run"""
    slices: tuple[Slice, ...] = ()
    """In the order in which they began"""
    trials: tuple[Trial, ...] = ()
    """In the order in which they began"""
    drills: tuple[Drill, ...] = ()
    so_far: dict[str, Any] | None = None
    """The command's own result as far as it had come, without a verdict: the price list of price,
    the chapters that story has told, the figures of a run of which nothing succeeded. null: none"""

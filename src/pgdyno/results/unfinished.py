"""The output of a command without a result."""

from typing import Literal

from pydantic import ConfigDict

from pgdyno.json_types import Json
from pgdyno.record.cut import Cut
from pgdyno.record.part import Part
from pgdyno.results.common import ErrorCount, Failures, Incidents, Interval95, LedgerColumns, SetBy

_OF_A_RUN = ("incidents", "failures", "errors", "ledger", "slices", "trials", "drills", "so_far")


class Error(Part):
    exit_status: int | None
    """null: pgdyno itself was killed"""
    code: str
    """A code of docs/reference/errors.md; usage: an error on the command line; internal-error: a
    bug in pgdyno; interrupted"""
    message: str
    hint: str | None


class Slice(Part):
    kind: str
    """run, ramp, baseline, noise or trial; point or hold, of a search"""
    trial: int | None
    """id of its trial"""
    pair: int | None
    side: Literal["a", "b"] | None
    """a: baseline; b: changed"""
    ended: bool
    """false: the run ended before it"""
    void: str | None
    """The reason why it decides nothing; null: it is valid"""
    seconds: float
    done: int
    failed: int
    throughput_tps: float


class Trial(Part):
    id: int
    kind: str
    """noise, compare, line, shortest, remedy, recheck or price"""
    title: str
    change: Json
    set_by: SetBy
    pairs: int
    """Pairs measured so far, except pairs with a void slice"""
    throughput_ratio: float | None
    """null: the trial did not end"""
    ci95: Interval95 | None
    compared: str | None
    outcome: str | None
    """The decision before the run ended; null: none"""
    sentence: str


class Drill(Part):
    """A drill with its cuts before the run ended"""

    fault: str
    title: str
    cuts: tuple[Cut, ...]


class Unfinished(Part):
    """The output of run, compare, investigate, price, drill, knee, pool, storm, age, branch and
    story, instead of their result, and of show --format json for such a run file; all commands
    print the first six members after an error before the run began. The exit status is that of the
    error."""

    model_config = ConfigDict(
        title="pgdyno COMMAND --format json, where there is no result",
        json_schema_extra={
            "if": {"properties": {"run_file": {"type": "string"}}},
            "then": {"required": [*_OF_A_RUN]},
        },
    )

    schema_version: Literal[2]
    command: str | None
    """null: the command line has none"""
    run_file: str | None
    """null: no run began"""
    status: Literal["failed", "interrupted", "broken", "running", "done"]
    """Status of the run; done: the command failed after the end of the run"""
    verdict: None
    """Always null"""
    error: Error | None
    """The error that ended it, as on stderr; null: the run is not over"""
    incidents: Incidents = ()
    failures: Failures | None = None
    errors: tuple[ErrorCount, ...] = ()
    ledger: LedgerColumns | None = None
    """Of the whole run"""
    slices: tuple[Slice, ...] = ()
    """In the order of their start"""
    trials: tuple[Trial, ...] = ()
    """In the order of their start"""
    drills: tuple[Drill, ...] = ()
    so_far: Json | None = None
    """The command's own partial result, without a verdict: the price list of price, the finished
    chapters of story, the figures of a run without a successful transaction. null: none"""

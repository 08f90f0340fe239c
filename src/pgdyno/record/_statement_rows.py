"""Rows of the statements of scripts and of looks at their plans: one class for each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from pgdyno.record._kinds import Suspicion, WhyUnusable

if TYPE_CHECKING:
    from pgdyno._engine import Histogram

Place: TypeAlias = tuple[str, str, int]
"""A statement of a script: client group, script, and position in it."""


class _OfStatement(Struct, frozen=True):
    """A row of a statement of a script."""

    client_group: str
    script: str
    position: int

    @property
    def place(self) -> Place:
        """The statement."""
        return self.client_group, self.script, self.position


class StatementTotal(_OfStatement, frozen=True):
    """Totals of one statement of a script, over some slices."""

    statement: str
    done: int
    failed: int
    service: Histogram
    first_byte: Histogram | None = None
    """Of a request by HTTP."""
    untouched: int = 0
    """Those done that were to change or delete rows, and there were none."""

    @property
    def spent_ns(self) -> float:
        """Time of all its executions."""
        return self.service.count * self.service.mean


class StatementPlan(_OfStatement, frozen=True):
    """The plan of a statement of a script, as a session like the load's has it."""

    is_generic: bool | None
    """True if a prepared statement has had a plan for any values; None if it is not prepared."""
    is_analyzed: bool
    """True if the statement was executed, and undone."""
    plan: str | None
    """The answer of EXPLAIN (FORMAT JSON) to it, for ``plans.read_plan``; None: it has none."""
    lack: str
    """Reason why it has none, or why it was not executed where others were."""


class PlanOverTime(_OfStatement, frozen=True):
    """The plan of a statement for the same values at two times, as ``plans.forms`` has it."""

    first: str
    """Its form when the load began."""
    last: str
    """Its form when it had ended."""
    is_changed: bool
    """True if they differ."""


class StatementTrial(_OfStatement, frozen=True):
    """The mean times of a statement, executed and undone in turn without and with a change."""

    change: str
    """JSON of the change."""
    runs: int
    """Executions on the side with fewer."""
    ms: float
    changed_ms: float
    log_error: float
    """Half the width of the 95 % interval of the log ratio of the two."""
    is_replanned: bool
    """True if it has another plan with the change."""


class SupposedIndex(_OfStatement, frozen=True):
    """The cost that the planner expects of a statement without and with indexes that are not there,
    as HypoPG supposes them."""

    change: str
    """JSON of the change that would create them."""
    cost: float
    supposed_cost: float


class CountedStatement(_OfStatement, frozen=True):
    """The mean time of a statement, executed and undone while the server counted its functions."""

    ms: float


class CalledFunction(_OfStatement, frozen=True):
    """A function that a statement calls, itself or by a trigger or another function."""

    function: str
    """schema.name(types)."""
    is_trigger: bool
    """True if it returns a trigger."""
    calls: float
    ms: float
    """Of all calls, with the functions and statements that they call."""
    self_ms: float
    """Of all calls, without the functions that they call."""
    own_ms: float | None = None
    """Of all calls, at most, without the statements that they execute either; None: not known."""


class FunctionStatement(_OfStatement, frozen=True):
    """A statement that functions execute which a statement of the load calls."""

    statement: str
    executions: float
    """For each execution of the load's statement."""
    ms: float
    """Of all these executions, with what they call, while the server timed each part of them."""


class TableTrigger(Struct, frozen=True):
    """A trigger of a table that a statement of the load writes; not of a constraint."""

    relation: str
    """schema.name of its table."""
    trigger_name: str
    function: str
    """schema.name(types)."""


class UnusableIndex(_OfStatement, frozen=True):
    """An index that the plan of a statement cannot use, where it reads the whole table."""

    relation: str
    index_name: str
    """schema.name, as that of the table."""
    compared: str
    """The column, or the expression, that the condition compares, as SQL has it."""
    reason: WhyUnusable
    detail: str
    """The part of the index, or of the condition, that is the reason; '' if there is none."""
    make: str
    """SQL with which one could be used, to be tried; '' if pgdyno knows none."""


class Suspect(Struct, frozen=True):
    """A table that statements read or write, or an index of it, that may cost more than it need."""

    relation: str
    index_name: str
    """schema.name, as that of the table; '' for the table itself."""
    size_bytes: int
    """Of the table or the index."""
    suspicion: Suspicion
    make: str
    """SQL that is tried against it, alone or with others of the table."""


class TablePartition(Struct, frozen=True):
    """A partition that the plan of a statement reads."""

    relation: str
    root: str
    """schema.name of the partitioned table, as that of the partition."""
    key: str
    """As SQL has it: RANGE (at)."""
    partitions: int
    """Number of partitions that the table has."""


class TableStatistics(Struct, frozen=True):
    """The planner's statistics of a table that the plan of a statement reads."""

    relation: str
    has_statistics: bool
    """True if ANALYZE has made some."""
    repairs: str
    """Statements that undo what keeps ANALYZE from making good ones, as "…; …"; '' if none."""

    @property
    def statements(self) -> list[str]:
        """These statements."""
        return [each for each in self.repairs.split("; ") if each]


class UnusualSetting(Struct, frozen=True):
    """A setting of a session like the load's that is not at its built-in value."""

    name: str
    value: str
    """As PostgreSQL shows it, with its unit."""
    reset: str
    """The built-in value."""
    may_set: bool
    """True if a trial in a session shows what it costs: the role may set it there, and it acts on
    the time of statements themselves."""
    source: str = ""
    """The place of the value, as in pg_settings: configuration file, database, user, …"""
    needs_restart: bool = False
    """True if it is read at the server's start alone."""
    relied_on: bool = False
    """True if replication, archiving or the results of statements depend on it, so that no trial
    resets it."""

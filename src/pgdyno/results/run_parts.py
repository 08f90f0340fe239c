"""Parts of a result that only some runs have: entity-resolution, tpcc-like, the governor, the
server's own counts of statements (pg_stat_statements), vacuum, and the database behind a web
server."""

from typing import Literal

from pgdyno.record.part import Part
from pgdyno.results.common import Interval95, Latency
from pgdyno.results.marks import GovernMarks, Of


class EntityResolution(Part):
    """Records that went through entity resolution, and what its tables were like afterwards"""

    records: int
    """Records finished in the measured slices"""
    records_per_s: float
    statements_per_record: float | None
    """Statements executed in the measured slices, for each record; null: no record was finished"""
    records_in_tables: int
    """Also those of earlier runs"""
    unfinished: int
    """Of these, records whose load was cut off between two statements"""
    entities: int
    consistent: bool
    """true: every finished record is in exactly one entity, and all counts agree"""
    broken: dict[str, int]
    """By rule: rows for which it does not hold"""


class TpccLike(Part):
    """The figures of tpcc-like in the terms of HammerDB, and the state of its tables afterwards.
    They are not comparable with audited results of TPC-C."""

    new_orders: int
    """New-Orders that committed in the measured slices"""
    new_orders_per_min: float
    """NOPM"""
    transactions_per_min: float
    """tpm, of all five transactions, New-Orders that were rolled back included"""
    mix: dict[str, float]
    """By script: its share of the transactions that began"""
    consistent: bool
    """true: conditions 1 to 4 of clause 3.3.2 of TPC-C hold"""
    broken: dict[str, int]
    """By rule: rows for which it does not hold"""


class RunGovernor(Part):
    """The governor of a run, and what came of it"""

    on: bool
    """false: it looked at the ages, and the clients did not keep to it"""
    marks: GovernMarks
    interval_s: float
    looks: int
    of: Of
    """The measure that was nearest to its end"""
    age_max: int
    """Highest age that was seen"""
    beyond_high: int
    """Distance of that from the high mark; 0: it was not reached"""
    slow_s: float
    """Time for which clients were slowed down"""
    pauses: int
    paused_s: float
    unknown_s: float
    """Part of paused_s in which the server could not be asked"""
    vacuumed: int | None
    """Tables vacuumed during pauses; null: it does not vacuum"""
    refused: int
    """Transactions that the server refused an ID"""
    sentence: str


class CostliestStatement(Part):
    """The statement with the largest share of the time"""

    statement: str | None
    """null, as are the next six: no statement was timed, counted or seen"""
    share: float | None
    measure: Literal["clients", "server", "samples"] | None
    """Whole of the share: the times of the statements as the clients measure them; the time that
    pg_stat_statements counts; sessions seen at work"""
    rows_read: float | None
    """By sequential scans, in one execution; null: not known"""
    rows_returned: float | None
    """Or changed, by one execution; null: not counted (pg_stat_statements)"""
    plan_part: str | None = None
    """Node of its plan, or trigger, that takes most of the time of one execution; null: it was not
    executed to be explained, or no part takes much of it"""
    plan_part_share: float | None = None
    """Of the time of that execution"""
    sentence: str


class StatementFigures(Part):
    """Sums of statements that are told apart by their text"""

    text: str
    """Of a shape: without values; of a group: its beginning"""
    calls: int
    exec_ms: float
    share: float
    """Of the time of all statements"""
    plan_ms: float | None
    """null: not counted (pg_stat_statements.track_planning)"""
    rows: int
    wal_records: int | None
    wal_fpi: int | None
    wal_bytes: int
    wal_buffers_full: int | None
    """null: before PostgreSQL 18"""
    blocks_read: int
    blocks_dirtied: int | None
    blocks_written: int | None
    local_blocks_dirtied: int | None
    temp_blocks: int
    """Read and written"""
    read_ms: float | None
    """Part of exec_ms; null: not counted (track_io_timing)"""
    write_ms: float | None
    jit_ms: float | None
    """Part of exec_ms and plan_ms; null: before PostgreSQL 15"""


class StatementGroup(StatementFigures):
    """Statements that begin alike, up to their second parameter"""

    shapes: int
    """Different shapes in it"""


class ServerStatements(Part):
    """Statements of the database under load, as the server counted them in the measured slices"""

    absent: str | None
    """The reason why there are none, and what would allow them"""
    exec_ms: float
    """Of all statements"""
    evictions: int
    """Times that statements were evicted because the view was full; their counts are lost"""
    groups: tuple[StatementGroup, ...]
    """Those first that took the most time"""
    shapes: tuple[StatementFigures, ...]


class VacuumEffect(Part):
    """Throughput and response times while a vacuum ran, over those of the seconds without one"""

    seconds_during: int
    seconds_without: int
    seconds_held: int
    """Left out: a queue for a lock held the load"""
    throughput_ratio: float | None
    """null: fewer than four seconds on a side, or an interval whose ends differ tenfold"""
    throughput_ci95: Interval95 | None
    latency_p99_ratio: float | None
    """Of the 99th percentile of a second"""
    latency_p99_ci95: Interval95 | None


class VacuumPhase(Part):
    phase: str
    seconds: int
    """Seconds in which it was seen"""


class TableVacuum(Part):
    """Vacuums of a table that lasted long enough to be seen, by kind"""

    relation: str
    automatic: bool
    to_prevent_wraparound: bool
    failsafe: bool
    """true: the table was older than the age of the failsafe"""
    count: int
    phases: tuple[VacuumPhase, ...]
    scanned_share: float | None
    """Of the last one, when it was last seen; null: an empty table"""
    index_passes: int
    """Times that the last one vacuumed its indexes; more than one if its memory was full"""
    memory_share: float | None
    """Largest used part of the memory for dead rows"""
    asleep_share: float | None
    """Part of the time in the cost delay; null: before version 18, or without
    track_cost_delay_timing"""
    pages_per_s: float | None
    """Pages scanned per second; null: seen once"""
    left_s: float | None
    """Time that the scan would have taken further at the end of the run; null: it had ended"""
    effect: VacuumEffect


class TableState(Part):
    """A table at the end of the run"""

    relation: str
    live: int
    dead: int
    size_bytes: int | None
    """With indexes and TOAST"""
    dead_bytes: int | None
    """Estimate: the size times the dead rows' share of all rows"""
    growth: float | None
    """Size per live row at the end over that at the beginning; null: no rows then"""
    xid_age: int | None
    mxid_age: int | None
    toast_xid_age: int | None
    """null: it has no TOAST table"""
    toast_mxid_age: int | None
    vacuums: int
    """Vacuums during the run, by count"""
    autovacuums: int


class Vacuums(Part):
    """Vacuum during the run"""

    tables: tuple[TableState, ...]
    """The oldest first"""
    vacuums: tuple[TableVacuum, ...]
    """Those seen for the longest time first"""
    effect: VacuumEffect
    """Of all of them together"""
    xid_age: int | None
    """Age of the oldest transaction ID of all databases"""
    mxid_age: int | None
    members: int | None
    """Members of multixacts: before version 19 as many as its files have room for; null: not
    readable for this role"""
    members_share: float | None
    """Used part of the room for them; null: not readable for this role, or without a limit, as from
    version 19 on"""


class DatabaseBehind(Part):
    """Work of the database for the requests"""

    transactions_s: float | None
    """Committed per second, all of the database's; null: not recorded"""
    ms_per_request: float | None
    """Time with the database by the web application's own clock; null: not of a front end that
    pgdyno started"""
    statements_per_request: float | None
    sessions_at_work: float | None
    """Client sessions in a transaction, on average; null: not recorded"""


class FrontBehind(Part):
    """Work of a front end that pgdyno started, by its own counts"""

    pool: str
    pool_max: int
    pool_active: float
    """Connections lent, on average"""
    pool_waiting: float
    """Requests that wait for a connection, on average"""
    pool_ms: float
    """Wait of a request for a connection"""
    application_ms: float
    threads_busy: float
    threads_max: int
    jvm_cores: float
    collecting: float
    """Part of the time in which the garbage collector stopped the application"""


class WebSide(Part):
    """Requests and what is behind them, over some slices"""

    requests_s: float
    latency_ms: Latency
    """Response time of the clients' transactions, from the intended time"""
    front: FrontBehind | None
    """null: pgdyno started no front end, or its counts were not recorded"""
    database: DatabaseBehind | None
    """null: the database is not known"""


class Web(Part):
    """The load by HTTP at the start and at the end"""

    before: WebSide
    after: WebSide | None
    """With everything kept; null: nothing was kept, or not measured together"""

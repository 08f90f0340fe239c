"""The procedure of ``pgdyno age``: a spec with that age, load before and at it, the recovery, and a
check; and its answer in a sentence.

The load runs on while the server recovers, so that it meets the vacuums, and writes as soon as it
may.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from msgspec import Struct

from pgdyno.conduct import Session, check_age_kept, rows_of
from pgdyno.errors import RunError, UsageError
from pgdyno.numbers import counted, figure
from pgdyno.record import Distribution, RunFile, SliceKind, throughput_tps
from pgdyno.record.failures import is_out_of_ids
from pgdyno.results import store
from pgdyno.results.age import AgeCheck, AgePeriod, AgeRecovery, AgeResult
from pgdyno.scenario._age_rows import reads, tables_of, writes
from pgdyno.server import Cluster
from pgdyno.server.local.aging import read_ages, unpin
from pgdyno.server.local.amcheck import amcheck
from pgdyno.spec import Spec
from pgdyno.spec.age import AGE_MAX, FREEZE_SETTINGS, ID_NOUNS, PIN_SETTINGS, STOP_AGE, Ids
from pgdyno.trial.result import head

CHUNK_BYTES = 1 << 20
LOG_SETTINGS = {"log_autovacuum_min_duration": "0", "log_min_messages": "warning"}
"""Settings under which the server's log has these messages."""
_VACUUM = re.compile(rb"LOG: +automatic (?:aggressive )?vacuum to prevent wraparound of table ")
_FAILSAFE = re.compile(rb'bypassing nonessential maintenance of table "([^"]+)" as a failsafe')
_WARNING = re.compile(rb"WARNING: +database .{1,80} must be vacuumed (?:within|before) ")


@dataclass
class Counts:
    """Messages of a part of the log."""

    vacuums: int = 0
    failsafe: int = 0
    warnings: int = 0
    failsafe_tables: tuple[str, ...] = ()
    """Names of the tables of the failsafe, with their database and schema."""


def counts_of(log: Path, begin: int, end: int) -> Counts:
    """Return the messages in the bytes from ``begin`` to ``end`` of a log."""
    counts = Counts()
    tables: dict[str, None] = {}
    for line in _lines(log, begin, end):
        if _VACUUM.search(line):
            counts.vacuums += 1
        elif found := _FAILSAFE.search(line):
            counts.failsafe += 1
            tables[found[1].decode(errors="replace")] = None
        elif _WARNING.search(line):
            counts.warnings += 1
    counts.failsafe_tables = tuple(tables)
    return counts


def _lines(log: Path, begin: int, end: int) -> Iterator[bytes]:
    """Yield the lines, however long the log is: each refused transaction writes some."""
    with log.open("rb") as file:
        file.seek(begin)
        rest, left = b"", end - begin
        while left > 0 and (chunk := file.read(min(CHUNK_BYTES, left))):
            left -= len(chunk)
            *whole, rest = (rest + chunk).split(b"\n")
            yield from whole
        yield rest


SECONDS_DEFAULT = 10.0
"""Time under load at that age."""
SETTINGS = {**LOG_SETTINGS, "autovacuum_naptime": "5s"}
"""Settings of the server: by default autovacuum looks at a database once a minute, and the load
would be over before it does."""
_EXAMPLE = "for example --to 1.7e9"


class AgeRequest(Struct, frozen=True):
    """The question."""

    ids: Ids
    age: int
    before_s: float
    """Time under load before the age is raised."""
    seconds: float
    """Time under load at that age."""
    recovery_s_max: float


def parse_age(text: str, option: str = "--to") -> int:
    """Return an age as it is given, such as 1.9e9. Raises UsageError."""
    try:
        age = float(text.replace(",", ""))
    except ValueError:
        age = 0.0
    if not 1 <= age <= AGE_MAX:  # not for NaN either
        raise UsageError(
            f"{option} {text}: an age is a number from 1 to {AGE_MAX:,}",
            code="age-range",
            hint=f"for example {option} 1.7e9; at 2^31, 2,147,483,648, the oldest rows would be"
            " in the future",
        )
    return int(age)


def age_of(spec: Spec, to: str | None, *, multixact: bool) -> tuple[Ids, int]:
    """Return the age that was asked for, by option or by the spec. Raises UsageError."""
    if to is not None:
        return "mxid" if multixact else "xid", parse_age(to)
    if spec.server.age is None or multixact:
        raise UsageError("the age is missing", code="age-missing", hint=_EXAMPLE)
    return spec.server.age


def prepared_spec(spec: Spec, ids: Ids) -> Spec:
    """Return the spec of a server whose age can be raised later. Raises UsageError for a server of
    the user's, and for what excludes it."""
    if spec.server.kind == "existing":
        raise UsageError(
            "pgdyno age works only on servers that pgdyno starts: it stops the server and changes"
            " its control file",
            code="age-own-server",
            hint="leave the connection out; --pg-bindir chooses the version",
        )
    if spec.standby.receivers:
        raise UsageError(
            "pgdyno age works without standbys, none of which follows a server whose WAL was reset",
            code="age-standby",
            hint="leave standby out",
        )
    check_age_kept(spec, ids)
    settings = {**SETTINGS, **PIN_SETTINGS[ids], **spec.server.settings}
    server = {"settings": settings, "xid_age": None, "mxid_age": None}
    return spec.model_copy(update={"server": spec.server.model_copy(update=server)})


def request_of(
    spec: Spec, asked: tuple[Ids, int], *, before_ms: int, recovery_ms: int
) -> AgeRequest:
    """Return the ages and times."""
    given = "hold_ms" in spec.load.model_fields_set
    seconds = spec.load.hold_ms / 1000 if given else SECONDS_DEFAULT
    return AgeRequest(*asked, before_ms / 1000, seconds, recovery_ms / 1000)


NAPTIME = {"autovacuum_naptime": "1s"}
"""Time between looks of autovacuum at a database during the recovery."""
LOOK_EVERY_S = 0.1
SETTLE_S = 1.0
"""Time that the load goes on once the server has recovered."""
CHECK_SECONDS_MAX = 600.0


@dataclass
class _AgePart:
    """A period of the load, and its part of the server's log."""

    slice_id: int
    log_begin: int
    log_end: int = 0


def live_at_age(session: Session, request: AgeRequest) -> AgeResult:
    """Load the server, make it old, load it again, let it recover, check it; record and return the
    result."""
    began_s = time.monotonic()
    cluster = session.target.cluster
    assert cluster is not None, "the server is not pgdyno's"
    rows = rows_of(session.target.conninfo)
    before = _young(session, cluster, request)
    aged = session.grow_old(request.ids, request.age)
    session.start_load()
    session.watcher.phase(f"load at an age of {aged.jump.after:,}", request.seconds)
    with _part(session, cluster, SliceKind.AGE, log_begin=aged.log_bytes) as under_age:
        session.wait(request.seconds)
    with session.connect() as conn:
        recovered = _recover(session, cluster, conn, request, log_begin=under_age.log_end)
    session.stop_load()
    session.watcher.phase("checking tables and indexes")
    check = _amcheck(session, cluster)
    after = rows_of(session.target.conninfo)
    run = session.reader()
    fields = {
        "of": aged.jump.ids,
        "requested": request.age,
        "age_before": aged.jump.before,
        "age": aged.jump.after,
        "seconds": round(aged.jump.seconds, 3),
        "before": _period(run, cluster, before),
        "under_age": _period(run, cluster, under_age),
        "recovery": recovered.result(run, cluster) if recovered else None,
        "tables": tuple(tables_of(run, rows, after)),
        "checks": (check,),
        "elapsed_s": round(time.monotonic() - began_s, 1),
    }
    common = dict(head(run, []))
    result = AgeResult(**common, **fields, sentence="")
    result = AgeResult(**common, **fields, sentence=sentence_of(result))
    store(session.recorder, result)
    return result


def _young(session: Session, cluster: Cluster, request: AgeRequest) -> _AgePart:
    """Load the server before its age is raised."""
    session.watcher.phase("load before the age is raised", request.before_s)
    session.start_load()
    session.wait_connected()
    with _part(session, cluster, SliceKind.YOUNG) as part:
        session.wait(request.before_s)
    session.stop_load()
    return part


def check_kept(result: AgeResult) -> None:
    """Raise RunError if rows are missing or a check failed."""
    lost = [each.table for each in result.tables if each.complete is False]
    if lost:
        raise RunError(f"rows of {', '.join(lost)} do not add up", code="age-rows-after")
    for each in result.checks:
        if each.passed is False:
            raise RunError(f"{each.name} failed: {each.detail}", code="age-check")


@contextmanager
def _part(
    session: Session, cluster: Cluster, kind: SliceKind, *, log_begin: int | None = None
) -> Iterator[_AgePart]:
    """Measure a period of the running load."""
    begin = cluster.log_path.stat().st_size if log_begin is None else log_begin
    with session.measured(kind) as slice_id:
        part = _AgePart(slice_id, begin)
        yield part
    part.log_end = cluster.log_path.stat().st_size


@dataclass
class _Recovery:
    """The recovery as it was seen."""

    below: int
    age: int
    seconds: float | None
    writes_seconds: float | None
    part: _AgePart

    def result(self, run: RunFile, cluster: Cluster) -> AgeRecovery:
        """Return it as a part of the result."""
        return AgeRecovery(
            below=self.below,
            age=self.age,
            seconds=_rounded(self.seconds),
            writes_seconds=_rounded(self.writes_seconds),
            period=_period(run, cluster, self.part),
        )


def _recover(
    session: Session,
    cluster: Cluster,
    conn: psycopg.Connection,
    request: AgeRequest,
    *,
    log_begin: int,
) -> _Recovery | None:
    """Remove the pin and wait until autovacuum has lowered the age; None if nothing forces it."""
    ids, seconds_max = request.ids, request.recovery_s_max
    below = _freeze_age(conn, ids)
    if read_ages(conn).age(ids) <= below:
        return None
    session.watcher.phase("waiting for autovacuum to lower the age", seconds_max)
    with _part(session, cluster, SliceKind.RECOVERY, log_begin=log_begin) as part:
        stopped = read_ages(conn).age(ids) >= STOP_AGE
        began_s = time.monotonic()
        unpin(conn, ids)
        session.recorder.add_event("unpin", "pin of the age removed by pgdyno")
        cluster.configure({**NAPTIME, **_given(session, NAPTIME)})
        seconds = writes_seconds = None
        while (passed_s := time.monotonic() - began_s) < seconds_max:
            age = read_ages(conn).age(ids)
            if stopped and writes_seconds is None and age < STOP_AGE:
                writes_seconds = passed_s
            if age <= below:
                seconds = passed_s
                break
            session.wait(LOOK_EVERY_S)
        session.wait(SETTLE_S)
    return _Recovery(below, read_ages(conn).age(ids), seconds, writes_seconds, part)


def _given(session: Session, names: dict[str, str]) -> dict[str, str]:
    """Return the user's own values of some settings, which have precedence."""
    return {name: value for name, value in session.spec.server.settings.items() if name in names}


def _freeze_age(conn: psycopg.Connection, ids: Ids) -> int:
    """Return the age at which autovacuum must freeze."""
    row = conn.execute("select current_setting(%s)", [FREEZE_SETTINGS[ids]]).fetchone()
    assert row is not None
    return int(row[0])


def _period(run: RunFile, cluster: Cluster, part: _AgePart) -> AgePeriod:
    """Return the figures of a period: of the clients, and of the server's log."""
    ids = [part.slice_id]
    each = run.slice(part.slice_id)
    statements = run.statements(ids)
    failures = [error for error in run.errors(ids) if not (error.expected or error.retried)]
    refused = sum(error.count for error in failures if is_out_of_ids(error))
    p99_ns = Distribution.of(run.histogram("response", ids)).percentiles_ns[99.0]
    counts = counts_of(cluster.log_path, part.log_begin, part.log_end)
    database = f"{cluster.conninfo.database}."
    return AgePeriod(
        seconds=round(((each.ended_ms or each.started_ms) - each.started_ms) / 1000, 2),
        throughput_tps=round(throughput_tps(run, ids), 2),
        latency_ms_p99=None if p99_ns is None else round(p99_ns / 1e6, 3),
        reads_done=sum(row.done for row in statements if reads(row.statement)),
        writes_done=sum(row.done for row in statements if writes(row.statement)),
        refused=refused,
        failed=sum(error.count for error in failures) - refused,
        vacuums=counts.vacuums,
        failsafe=counts.failsafe,
        failsafe_tables=tuple(
            name.removeprefix(database)
            for name in counts.failsafe_tables
            if name.startswith(database)
            and ".pg_" not in name
            and ".information_schema" not in name
        ),
        warnings=counts.warnings,
    )


def _amcheck(session: Session, cluster: Cluster) -> AgeCheck:
    """Check the load's database."""
    with session.connect() as conn:
        row = conn.execute("select from pg_available_extensions where name = 'amcheck'").fetchone()
    if row is None:
        return AgeCheck(name="pg_amcheck", passed=None,
                        detail="this build of PostgreSQL has no amcheck")  # fmt: skip
    info = session.target.conninfo
    more = ["--install-missing"]
    passed, detail = amcheck(cluster.installation, info, seconds_max=CHECK_SECONDS_MAX, more=more)
    return AgeCheck(name="pg_amcheck", passed=passed, detail=detail)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 2)


def sentence_of(result: AgeResult) -> str:
    """Return the answer."""
    return "; ".join(_clauses(result))


def _clauses(result: AgeResult) -> Iterator[str]:
    yield (
        f"the oldest {ID_NOUNS[result.of]} was {result.age_before:,} old and,"
        f" {result.seconds:.1f} s later, {result.age:,}"
    )
    yield _load(result.under_age, result.before)
    yield _recovery(result.recovery)
    yield _kept(result)


def _load(period: AgePeriod, before: AgePeriod) -> str:
    """Return the clause about throughput and refused writes at that age."""
    reads = f", and {period.reads_done:,} reads were done" if period.reads_done else ""
    if not period.refused:
        tps, tps_before = figure(period.throughput_tps), figure(before.throughput_tps)
        head = f"{tps} tps at that age, {tps_before} before"
    elif period.writes_done:
        head = f"of the writes, {counted(period.refused, 'was', 'were')} refused{reads}"
    else:
        head = f"all writes were refused{reads}"
    if not period.vacuums:
        return f"{head}; no vacuum to prevent wraparound ended"
    # The failsafe is logged before the end of its vacuum.
    of_them = "all" if period.failsafe >= period.vacuums else f"{period.failsafe:,}"
    failsafe = f", {of_them} of them under the failsafe" if period.failsafe else ""
    vacuums = counted(period.vacuums, "vacuum of a table", "vacuums of tables")
    return f"{head}; {vacuums} to prevent wraparound ended{failsafe}"


def _recovery(recovery: AgeRecovery | None) -> str:
    if recovery is None:
        return "no vacuum is forced at this age, so there was nothing to recover from"
    if recovery.seconds is None:
        return (
            f"not recovered: {recovery.period.seconds:.0f} s after the pin was removed the age is"
            f" {recovery.age:,}"
        )
    writes = (
        f"writes were accepted again after {recovery.writes_seconds:.1f} s, and "
        if recovery.writes_seconds is not None
        else ""
    )
    return (
        f"once the pin was removed, {writes}autovacuum lowered the age to {recovery.age:,} within"
        f" {recovery.seconds:.1f} s"
    )


def _kept(result: AgeResult) -> str:
    """Return whether all rows are there."""
    known = [each for each in result.tables if each.complete is not None]
    lost = [each.table for each in known if each.complete is False]
    failed = [each.name for each in result.checks if each.passed is False]
    if lost or failed:
        return f"damaged: {', '.join([*lost, *failed])}"
    rows = sum(each.after for each in known)
    checks = "".join(f", and {each.name} found nothing" for each in result.checks if each.passed)
    unknown = len(result.tables) - len(known)
    if not known:
        return f"its statements do not tell how many rows there should be{checks}"
    rest = f" ({counted(unknown, 'table is', 'tables are')} not known)" if unknown else ""
    return f"all {rows:,} rows are there{rest}{checks}"

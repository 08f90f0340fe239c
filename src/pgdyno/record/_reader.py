"""Reader of run files, read-only, also while they grow.

Each method reads the file as it is at that moment. Damage is raised as UsageError with a hint, on
opening or when the damaged page is first read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from msgspec.structs import fields, replace

from pgdyno.record import fileformat
from pgdyno.record._database import RunDatabase, array, clause, in_slices
from pgdyno.record._kinds import SliceKind
from pgdyno.record._plan_reader import PlanReader
from pgdyno.record._rows import (
    DrillRow,
    ErrorTotal,
    Event,
    GeneratorTotal,
    GroupInterval,
    HttpTotal,
    Interval,
    Ledger,
    LockLink,
    LockQueueTotal,
    LookRow,
    Losses,
    Refusal,
    RunInfo,
    Sighting,
    Slice,
    StatementCount,
    Trial,
    WaitTotal,
)
from pgdyno.record._samples import Samples
from pgdyno.record._statement_rows import (
    StatementTotal,
)
from pgdyno.record.latencies import LatencyReader

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pgdyno._engine import Histogram
    from pgdyno.record.cut import Cut
    from pgdyno.record.finding import Finding


By = tuple[Literal["client_group", "script"], ...]

WRITER_GONE = "the recording process has ended"

LEDGER_SUMS = (
    *("intended", "sent", "done", "failed", "skipped", "cancelled"),
    *("retried", "expected_errors", "late"),
)
# 08P01 is the code with which a pooler reports that it has lost its server.
LOST_CODES = ("connection-lost", "57P01", "57P02", "57P03", "08P01", "08006", "08003")
INTERVAL_SUMS = (*LEDGER_SUMS, "backlog")


class RunFile(LatencyReader, PlanReader, Samples):
    """A run file, open for reading. Threads may share it. Also a context manager."""

    def __init__(self, path: Path | str) -> None:
        """Open ``path``. UsageError if it is missing, foreign, damaged or of another schema
        version."""
        self.path = Path(path)
        super().__init__(RunDatabase(self.path))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @property
    def run(self) -> RunInfo:
        """The run: its spec, server and host, and its status now."""
        info, writer = self._cached(("run",), self._run_row)
        if info.status == "running" and not fileformat.writer_lives(writer, self.path):
            return replace(info, status="interrupted", status_detail=WRITER_GONE)
        return info

    def _run_row(self) -> tuple[RunInfo, Any]:
        """Return the row of the run, and the process that writes the file."""
        row = self._db.one("select * from run")
        writer = self._db.json(row.pop("writer_json"))
        return self._db.decoded(RunInfo, row), writer

    def slices(self, kind: SliceKind | None = None, trial_id: int | None = None) -> list[Slice]:
        """Return the slices in the order of their starts, of one kind or trial if given."""
        condition, values = clause("slice", {"kind": kind, "trial_id": trial_id}, skip_none=True)
        return self._db.all(Slice, f"select * from slice {condition} order by id", values)

    def slice(self, slice_id: int) -> Slice:
        """Return one slice. UsageError if it is missing."""
        row = self._db.one("select * from slice where id = ?", [slice_id])
        return self._db.decoded(Slice, row)

    def valid_slices(self, kind: SliceKind) -> list[int]:
        """Return the ids of the slices of a kind that figures are of: those that are not void; if
        all are, all of them, which shows what there was."""
        slices = self.slices(kind)
        return [each.id for each in slices if each.void is None] or [each.id for each in slices]

    def ledger(
        self, slice_ids: Collection[int] | None = None, *, group: str | None = None
    ) -> Ledger:
        """Return the ledger of the whole run or of some slices, of one client group if given."""
        key = ("ledger", in_slices(slice_ids), group)
        return self._cached(key, lambda: self._ledger(slice_ids, group))

    def _ledger(self, slice_ids: Collection[int] | None, group: str | None) -> Ledger:
        sums = ", ".join(f"coalesce(sum({name}), 0) as {name}" for name in LEDGER_SUMS)
        names = ", ".join((*LEDGER_SUMS, "backlog"))  # not *, which includes the blobs
        where = in_slices(slice_ids)
        of_group, values = clause("interval", {"client_group": group}, skip_none=True)
        row = self._db.one(
            f"""
            with stepped as (
                select {names}, at_ms, slice_id, client_group, script, rowid as id,
                    backlog - lag(backlog, 1, 0) over (
                        partition by client_group, script order by at_ms, rowid) as grown
                from interval {of_group}
            ), chosen as (
                select {names}, grown, row_number() over (
                    partition by client_group, script order by at_ms desc, id desc) as from_last
                from stepped {where}
            )
            select {sums},
                coalesce(sum(case from_last when 1 then backlog end), 0) as backlog,
                coalesce(sum(case from_last when 1 then backlog end) - sum(grown), 0)
                    as carried_in
            from chosen
            """,
            values,
        )
        return self._db.decoded(Ledger, row)

    def intervals(self, slice_ids: Collection[int] | None = None, *, by: By = ()) -> list[Interval]:
        """Return counts per interval in time order, a row per value of ``by`` (by default one).

        Clients and connections belong to a group and are counted once for all its scripts.
        """
        key = ("intervals", in_slices(slice_ids), by)
        return list(self._cached(key, lambda: self._intervals(slice_ids, by)))

    def _intervals(self, slice_ids: Collection[int] | None, by: By) -> list[Interval]:
        where = in_slices(slice_ids)
        names = ", ".join(("at_ms", "slice_id", *by))
        sums = ", ".join(f"sum({name}) as {name}" for name in INTERVAL_SUMS)
        by_group = ", ".join(dict.fromkeys(("at_ms", "slice_id", "client_group", *by)))
        rows = self._db.rows(
            f"""
            select {names}, max(duration_ms) as duration_ms, {sums},
                sum(clients) as clients, sum(connections) as connections
            from (
                select {by_group}, max(duration_ms) as duration_ms, {sums}, max(clients) as clients
                from interval {where} group by {by_group}
            ) as s
            left join (
                select at_ms as g_at_ms, slice_id as g_slice_id, client_group as g_group,
                    max(connections) as connections
                from group_interval {where} group by at_ms, slice_id, client_group
            ) as g on g_at_ms = at_ms and g_slice_id is slice_id and g_group = client_group
            group by {names} order by at_ms, slice_id
            """
        )
        missing = {"client_group": None, "script": None}
        return [self._db.decoded(Interval, missing | row) for row in rows]

    def group_intervals(self, slice_ids: Collection[int] | None = None) -> list[GroupInterval]:
        """Return clients and connections per interval and client group, in time order."""
        names = ", ".join(field.name for field in fields(GroupInterval))
        sql = (
            f"select {names} from group_interval {in_slices(slice_ids)}"
            " order by at_ms, slice_id, client_group"
        )
        return list(self._cached((sql,), lambda: self._db.all(GroupInterval, sql)))

    def statements(self, slice_ids: Collection[int] | None = None) -> list[StatementTotal]:
        """Return each statement of each script with its service times, in script order."""
        key = ("statements", in_slices(slice_ids))
        return list(self._cached(key, lambda: self._statements(slice_ids)))

    def _statements(self, slice_ids: Collection[int] | None) -> list[StatementTotal]:
        keys = "client_group, script, position, statement"
        totals: dict[tuple[Any, ...], list[Any]] = {}
        rows = self._db.tuples(
            f"select {keys}, done, failed, untouched, service_hist"
            f" from statement_interval {in_slices(slice_ids)} order by {keys}"
        )
        for group, script, position, text, done, failed, untouched, blob in rows:
            total = totals.setdefault((group, script, position, text), [0, 0, 0, []])
            total[0] += done
            total[1] += failed
            total[2] += untouched
            total[3].append(blob)
        first_bytes = self._first_bytes(slice_ids)
        return [
            StatementTotal(
                group,
                script,
                position,
                text,
                done,
                failed,
                service=self._merged(blobs),
                first_byte=first_bytes.get((group, script, position, text)),
                untouched=untouched,
            )
            for (group, script, position, text), (done, failed, untouched, blobs) in totals.items()
        ]

    def _first_bytes(self, slice_ids: Collection[int] | None) -> dict[tuple[Any, ...], Histogram]:
        """Return the times to the first byte of responses, by group, script, position and text."""
        blobs: dict[tuple[Any, ...], list[bytes]] = {}
        rows = self._db.tuples(
            "select client_group, script, position, statement, first_byte_hist"
            f" from request_interval {in_slices(slice_ids)}"
        )
        for *key, blob in rows:
            blobs.setdefault(tuple(key), []).append(blob)
        return {key: self._merged(each) for key, each in blobs.items()}

    def http_totals(self, slice_ids: Collection[int] | None = None) -> list[HttpTotal]:
        """Return the requests of each client group that sends requests by HTTP."""
        names = [field.name for field in fields(HttpTotal)][1:]
        sums = ", ".join(f"sum({name}) as {name}" for name in names)
        return self._db.all(
            HttpTotal,
            f"select client_group, {sums} from http_interval {in_slices(slice_ids)}"
            " group by client_group order by min(rowid)",
        )

    def errors(self, slice_ids: Collection[int] | None = None) -> list[ErrorTotal]:
        """Return errors by group, script, statement and SQLSTATE, the most frequent first."""
        keys = "client_group, script, statement, sqlstate, expected, retried"
        rows = self._db.rows(
            # SQLite takes the other columns from the row with the minimum at_ms.
            f"select *, min(at_ms), sum(count) as count from error {in_slices(slice_ids)}"
            f" group by {keys} order by sum(count) desc, {keys}"
        )
        flags = ({name: bool(row[name]) for name in ("expected", "retried")} for row in rows)
        pairs = zip(rows, flags, strict=True)
        return [self._db.decoded(ErrorTotal, row | flag) for row, flag in pairs]

    def generator(self, slice_ids: Collection[int] | None = None) -> GeneratorTotal:
        """Return the resources used by the load engine."""
        sums = ("cpu_user_us", "cpu_system_us", "run_queue_delay_us")
        totals = ", ".join(f"coalesce(sum({name}), 0) as {name}" for name in sums)
        row = self._db.one(
            f"select count(distinct thread) as threads, {totals},"
            " coalesce(max(loop_stall_us_max), 0) as loop_stall_us_max"
            f" from metric_generator {in_slices(slice_ids)}"
        )
        return self._db.decoded(GeneratorTotal, row)

    def waits(self, slice_ids: Collection[int] | None = None) -> list[WaitTotal]:
        """Return the average number of backends per state, wait event and statement, the largest
        first."""
        where = in_slices(slice_ids)
        ticks = self.samplings(slice_ids)
        names = "backend_type, state, wait_event_type, wait_event"
        return self._db.all(
            WaitTotal,
            f"""
            select {names}, text as statement, 1.0 * total / {ticks or 1} as average from (
                select {names}, statement_id, sum(count) as total
                from wait_sample {where} group by {names}, statement_id
            ) left join statement on statement.id = statement_id
            order by total desc, {names}, text
            """,
        )

    def statement_counts(self, slice_ids: Collection[int] | None = None) -> list[StatementCount]:
        """Return the counts of pg_stat_statements, those statements first that took most time: of
        others in a check, of all in a run that asks for it."""
        names = [each.name for each in fields(StatementCount) if each.name != "statement"]
        sums = ", ".join(f"sum({name}) as {name}" for name in names)
        return self._db.all(
            StatementCount,
            f"select text as statement, {sums} from statement_count"
            f" join statement on statement.id = statement_id {in_slices(slice_ids)}"
            " group by text order by sum(exec_ms) desc, text",
        )

    def statement_texts(self, ids: Collection[int]) -> dict[int, str]:
        """Return the texts of some statements by their id."""
        listed = ", ".join(str(int(number)) for number in ids)
        rows = self._db.tuples(f"select id, text from statement where id in ({listed})")
        return {int(number): str(text) for number, text in rows}

    def lock_queues(self, slice_ids: Collection[int] | None = None) -> list[LockQueueTotal]:
        """Return the queues for heavyweight locks, those with most waiters first."""
        names = (
            "lock_type, mode, relation, blocker_state, blocker_type, blocker_mode, blocker,"
            " link_id, waiting_statement, waiting_mode"
        )
        rows = self._db.rows(
            f"""
            select {names}, sum(seen) as seen, sum(waiting) as waiting, sum(first) as first,
                sum(places) as places, sum(behind_request) as behind_request,
                max(wait_ms_max) as wait_ms_max,
                max(blocker_transaction_ms_max) as blocker_transaction_ms_max,
                case when count(blocker_pid) = count(*) and min(blocker_pid) = max(blocker_pid)
                    then min(blocker_pid) end as blocker_pid,
                total(blocker_transaction_ms) / sum(seen) as blocker_transaction_ms,
                total(blocker_state_ms) / sum(seen) as blocker_state_ms
            from (
                select lock_queue.*, held.text as blocker, wanted.text as waiting_statement
                from lock_queue
                left join statement as held on held.id = blocker_statement_id
                left join statement as wanted on wanted.id = waiting_statement_id
                {in_slices(slice_ids)}
            ) group by {names} having sum(seen) > 0 order by sum(waiting) desc, {names}
            """
        )
        links = self._lock_links() if any(row["link_id"] for row in rows) else {}
        return [
            self._db.decoded(LockQueueTotal, row | {"links": links.get(row["link_id"], ())})
            for row in rows
        ]

    def _lock_links(self) -> dict[int, tuple[LockLink, ...]]:
        """Return the links from the blocker on, by the id of the last one."""
        rows = self._db.rows(
            "select lock_link.*, text as statement from lock_link"
            " left join statement on statement.id = statement_id order by lock_link.id"
        )
        chains: dict[int, tuple[LockLink, ...]] = {}
        for row in rows:  # A link is recorded after the one that it waits for.
            ahead = chains.get(row["ahead_id"], ())
            chains[row["id"]] = (*ahead, self._db.decoded(LockLink, row))
        return chains

    def samplings(self, slice_ids: Collection[int] | None = None) -> int:
        """Return the number of times that the states of all backends were read."""
        ((ticks,),) = self._db.tuples(
            "select sum(ticks) from (select max(ticks) as ticks from wait_sample"
            f" {in_slices(slice_ids)} group by at_ms, slice_id)"
        )
        return int(ticks or 0)

    def wait_series(self, slice_ids: Collection[int] | None = None) -> dict[str, NDArray[Any]]:
        """Return average backends over time, summed over statements, in long form and time order.

        Columns: at_ms, slice_id, backend_type, state, wait_event_type, wait_event, average, ticks.
        A wait event without backends at a time has no row for that time.
        """
        names = ("at_ms", "slice_id", "backend_type", "state", "wait_event_type", "wait_event")
        listed = ", ".join(names)
        rows = self._db.tuples(
            f"select {listed}, 1.0 * sum(count) / max(ticks), max(ticks) from wait_sample"
            f" {in_slices(slice_ids)} group by {listed} order by at_ms, slice_id"
        )
        kinds = ("at_ms", "integer", "text", "text", "text", "text", "real", "integer")
        columns = zip(*rows, strict=True) if rows else ((),) * len(kinds)
        labelled = zip((*names, "average", "ticks"), columns, kinds, strict=True)
        return {name: array(column, kind) for name, column, kind in labelled}

    def sightings(self) -> list[Sighting]:
        """Return the identities of the answering server, in time order."""
        return self._db.all(Sighting, "select * from metric_server order by at_ms, rowid")

    @property
    def was_probed(self) -> bool:
        """True if the server has answered the probes at least once."""
        return bool(self._db.tuples("select 1 from metric_database limit 1"))

    def answered_ms(self, from_ms: int, to_ms: int) -> list[int]:
        """Return the times at which the server answered the probes, between two times."""
        rows = self._db.tuples(
            "select distinct at_ms from metric_database where at_ms > ? and at_ms < ?"
            " order by at_ms",
            [from_ms, to_ms],
        )
        return [at_ms for (at_ms,) in rows]

    def active_sessions(self, from_ms: int, to_ms: int) -> list[int]:
        """Return the number of active client sessions in each sampling between two times."""
        rows = self._db.tuples(
            "select sum(case when backend_type = 'client backend' and state = 'active'"
            " then count else 0 end) from wait_sample where at_ms > ? and at_ms <= ?"
            " group by at_ms",
            [from_ms, to_ms],
        )
        return [count for (count,) in rows]

    def losses(self, slice_ids: Collection[int] | None = None) -> list[Losses]:
        """Return the connections that clients lost after connecting, by interval."""
        codes = ", ".join(f"'{code}'" for code in LOST_CODES)
        where = in_slices(slice_ids)
        rows = self._db.rows(
            f"select at_ms, slice_id, sum(count) as count from error {where}"
            f" {'and' if where else 'where'} sqlstate in ({codes}) and statement <> 'connect'"
            " group by at_ms, slice_id order by at_ms"
        )
        return [Losses(**row) for row in rows]

    def answered_with_errors_ms(self, is_answer: Callable[[str], bool]) -> set[int]:
        """Return the starts of the intervals in which clients received errors that are answers."""
        rows = self._db.tuples("select distinct at_ms, sqlstate from error")
        return {at_ms for at_ms, sqlstate in rows if is_answer(sqlstate)}

    def refusals(self) -> list[Refusal]:
        """Return the errors that clients received while connecting, in time order."""
        rows = self._db.rows(
            "select at_ms, sqlstate, message from error where statement = 'connect'"
            " order by at_ms, rowid"
        )
        return [self._db.decoded(Refusal, row) for row in rows]

    def pairs(self, trial_id: int) -> list[tuple[Slice, Slice]]:
        """Return the slices of a trial's pairs, side a first; without pairs with a void slice."""
        sides: dict[int | None, dict[str | None, Slice]] = {}
        for each in self.slices(trial_id=trial_id):
            if each.void is None and each.ended_ms is not None:
                sides.setdefault(each.pair, {})[each.side] = each
        return [(pair["a"], pair["b"]) for pair in sides.values() if {"a", "b"} <= pair.keys()]

    def events(self, kind: str | None = None) -> list[Event]:
        """Return events in time order, of one kind if given; without those of drills in the run."""
        condition, values = clause("event", {"kind": kind}, skip_none=True)
        query = f"select * from event {condition} order by at_ms, rowid"
        return [each for each in self._db.all(Event, query, values) if each.drill_id is None]

    def drill_events(self, drill_id: int) -> list[Event]:
        """Return the events of a drill in the run of another command, in time order."""
        events = self._db.all(Event, "select * from event order by at_ms, rowid")
        return [each for each in events if each.drill_id == drill_id]

    def findings(self, step: int | None = None) -> list[Finding]:
        """Return findings by step and rank; those without a rank are last."""
        from pgdyno.record.finding import Finding

        condition, values = clause("finding", {"step": step}, skip_none=True)
        order = "order by step, rank is null, rank, id"
        rows = self._db.rows(f"select * from finding {condition} {order}", values)
        return [self._db.fact(Finding, row, id=row["finding"]) for row in rows]

    def looks(self) -> list[LookRow]:
        """Return the looks of a check, by name and time; empty for other runs."""
        names = ", ".join(("look", "at_ms", "duration_ms", "rows_json", "why", "allow"))
        return self._db.all(LookRow, f"select {names} from look order by look, at_ms")

    def trials(self) -> list[Trial]:
        """Return trials in the order of their starts."""
        return self._db.all(Trial, "select * from trial order by id")

    def drills(self) -> list[DrillRow]:
        """Return drills in the order of their starts."""
        return self._db.all(DrillRow, "select * from drill order by id")

    def cuts(self, drill_id: int) -> list[Cut]:
        """Return the cuts of a drill by number."""
        from pgdyno.record.cut import Cut

        rows = self._db.rows("select * from cut where drill_id = ? order by number", [drill_id])
        return [self._db.fact(Cut, row, at_ms=row["load_ms"]) for row in rows]

    def seconds(self, slice_ids: Collection[int] | None = None) -> float:
        """Return the measured time in seconds: the sum over intervals."""
        ((total,),) = self._db.tuples(
            "select total(longest) from (select max(duration_ms) as longest"
            f" from interval {in_slices(slice_ids)} group by at_ms, slice_id)"
        )
        return float(total) / 1000


def throughput_tps(run: RunFile, slice_ids: Collection[int] | None = None) -> float:
    """Return transactions done per measured second; 0 if nothing was measured."""
    seconds = run.seconds(slice_ids)
    return run.ledger(slice_ids).done / seconds if seconds else 0.0

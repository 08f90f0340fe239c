"""Load of other clients on the measured server.

Three shares, of which the largest counts; the first two are of others' and pgdyno's together:

    sessions at work   of others: the time that sessions of other databases were active, by
                       pg_stat_database, and sessions with another name in the database under load,
                       as sampled; of pgdyno: connections in service
    rows written       in other databases where sessions are at work, against the database under
                       load
    CPU time           of the processes of others' sessions, of the server's cores

Sessions report rows at most once a second, and on a busy server later. The load's own rows are
therefore those that its finished transactions would have written at the reported rate of rows per
transaction, and in a few seconds rows are not compared at all.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.numbers import counted, figure, percent
from pgdyno.record.events import probe_events
from pgdyno.record.fileformat import OTHERS_BACKEND

if TYPE_CHECKING:
    from pgdyno.record import RunFile

LOAD_FOUND_SHARE = 0.1
"""Share of working sessions, written rows or CPU time from which other load is a finding."""
LOAD_DISTRUST_SHARE = 1 / 3
"""Share of any of them above which the measurement is not trusted."""
ROWS_S_MIN = 100.0
"""Rows per second written by others below which the load is negligible."""
SIGHTINGS_MIN = 2
"""Looks in which sessions must be seen at work where they are only sampled: one look in ten seconds
that meets a short query says little of the load, and beside a light one that would be much."""
ROWS_SECONDS_MIN = 3.0
"""Shortest period in which rows written are compared."""
_NAMED_MAX = 3
_TEMPLATES = frozenset({"template0", "template1"})
_WRITES = ("tup_inserted", "tup_updated", "tup_deleted")


class OtherDatabase(Struct, frozen=True):
    """Other load in one database."""

    name: str
    at_work: float
    """Sessions, on average."""
    transactions_s: float
    rows_written_s: float


class OtherLoad(Struct, frozen=True):
    """Load of others over some slices."""

    databases: tuple[OtherDatabase, ...]
    """Databases with other load, the busiest first."""
    own_at_work: float
    own_rows_written_s: float | None
    """None if the period is too short, or the load's sessions have not reported."""
    cores: float = 0.0
    """Cores that others' sessions use; 0 if not recorded."""
    cores_of_server: float = 1.0

    @property
    def at_work(self) -> float:
        """Sessions of others at work, on average."""
        return sum(each.at_work for each in self.databases)

    @property
    def rows_written_s(self) -> float:
        """Rows that others wrote in other databases; autovacuum's are nobody's load."""
        return sum(each.rows_written_s for each in self.databases if each.at_work)

    @property
    def transactions_s(self) -> float:
        """Transactions of others in other databases."""
        return sum(each.transactions_s for each in self.databases)

    @property
    def sessions_share(self) -> float:
        """Share of the working sessions that are others'."""
        return _part(self.at_work, self.own_at_work)

    @property
    def rows_share(self) -> float:
        """Share of the written rows that are others'."""
        written, own = self.rows_written_s, self.own_rows_written_s
        return _part(written, own) if own is not None and written >= ROWS_S_MIN else 0.0

    @property
    def cores_share(self) -> float:
        """Share of the server's cores that others' sessions use."""
        return self.cores / self.cores_of_server

    @property
    def takes_cores(self) -> bool:
        """True if they use so much that it is a finding."""
        return self.cores_share >= LOAD_FOUND_SHARE

    @property
    def share(self) -> float:
        """The largest of the three."""
        return max(self.sessions_share, self.rows_share, self.cores_share)

    @property
    def causes_distrust(self) -> bool:
        """True if it is so much that the measurement cannot be trusted."""
        return self.share > LOAD_DISTRUST_SHARE

    @property
    def sentence(self) -> str:
        """Sentence for the finding and for the distrust."""
        busiest = ", ".join(_in_words(each) for each in self.databases[:_NAMED_MAX])
        if self.share == self.sessions_share:
            what = f"{percent(self.share)} of the server's working sessions are"
        elif self.share == self.rows_share:
            what = f"{percent(self.share)} of the rows that the server writes are"
        else:
            what = f"{percent(self.share)} of the time of the server's cores is"
        return f"{what} not this load's: {busiest}"


def foreign_load(run: RunFile, slice_ids: Collection[int]) -> OtherLoad | None:
    """Return the other load on the server over these slices; None if not recorded."""
    seconds = run.seconds(slice_ids)
    looks = len(run.samples("metric_database", slice_ids))
    if seconds <= 0 or looks < 2 or not _has_answers(run):
        return None
    service = run.histogram("service", slice_ids)
    seen: dict[str, list[float]] = {}
    for each in run.samples("metric_foreign", slice_ids):
        seen.setdefault(str(each["database"]), []).append(float(each["at_work"]))
    databases = [
        _database(run, slice_ids, seconds, name, _at_work(at_work, looks))
        for name, at_work in seen.items()
        if name not in _TEMPLATES
    ]
    moved = [each for each in databases if each.at_work or each.transactions_s]
    return OtherLoad(
        tuple(sorted(moved, key=lambda each: (-each.at_work, -each.rows_written_s))),
        own_at_work=service.count * service.mean / 1e9 / seconds,
        own_rows_written_s=_own_rows_s(run, slice_ids, seconds, done=service.count),
        cores=_others_cores(run, slice_ids, seconds),
        cores_of_server=float(run.run.host.get("cores") or 1.0),
    )


def _others_cores(run: RunFile, slice_ids: Collection[int], seconds: float) -> float:
    used_ms = [
        run.delta("metric_process", column, slice_ids, where={"role": OTHERS_BACKEND}) or 0.0
        for column in ("cpu_user_ms", "cpu_system_ms")
    ]
    return sum(used_ms) / 1000 / seconds


def _own_rows_s(
    run: RunFile, slice_ids: Collection[int], seconds: float, *, done: int
) -> float | None:
    """Return the rows per second that the load wrote, including those not yet reported."""
    rows = sum(run.delta("metric_database", name, slice_ids) or 0.0 for name in _WRITES)
    reported = run.delta("metric_database", "xact_commit", slice_ids)
    if seconds < ROWS_SECONDS_MIN or (reported is not None and reported <= 0 < done):
        return None
    missing = 1.0 if reported is None else max(1.0, done / max(reported, 1.0))
    return rows * missing / seconds


def _has_answers(run: RunFile) -> bool:
    """True if other load was sampled."""
    return not probe_events(run, "foreign")


def _at_work(seen: Collection[float], looks: int) -> float:
    """Return the sessions at work on average, by the looks that met any."""
    sightings = sum(1 for sessions in seen if sessions > 0)
    return sum(seen) / looks if sightings >= SIGHTINGS_MIN else 0.0


def _database(
    run: RunFile, slice_ids: Collection[int], seconds: float, name: str, at_work: float
) -> OtherDatabase:
    rises = {
        column: run.delta("metric_foreign", column, slice_ids, where={"database": name})
        for column in ("active_time_ms", "transactions", "rows_written")
    }
    active_ms = rises["active_time_ms"]
    return OtherDatabase(
        name,
        # Sessions are sampled, because the statistics do not attribute time to clients.
        at_work if active_ms is None else max(at_work, active_ms / 1000 / seconds),
        (rises["transactions"] or 0.0) / seconds,
        (rises["rows_written"] or 0.0) / seconds,
    )


def _part(others: float, own: float) -> float:
    return others / (others + own) if others > 0 else 0.0


def _in_words(database: OtherDatabase) -> str:
    parts = [counted(database.at_work, "session", "sessions")]
    if database.transactions_s >= 1:
        parts.append(f"{figure(database.transactions_s)} transactions/s")
    if database.rows_written_s >= 1:
        parts.append(f"{figure(database.rows_written_s)} rows/s written")
    return f"{database.name} ({', '.join(parts)})"

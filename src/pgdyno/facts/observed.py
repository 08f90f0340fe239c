"""The load of a run file without clients, as the server itself counts it: ``pgdyno check``.

Where nobody but the server saw the load, its facts are taken from the server's own counts, so that
the rules that judge the server need not know:

- throughput: transactions of all databases that ended (commits and rollbacks in pg_stat_database),
  without pgdyno's own. All, since waits, cores and the WAL are those of the whole server;
- response time, which is all service: by Little's law, the average number of sessions in a
  transaction, as sampled, over the throughput. Only the mean is known;
- statements: those of the database that was named, by pg_stat_statements;
- one client group, whose clients are the sessions of others.

What only clients can know is not there: their queues, their own time, their errors, single seconds.
A rule that judges these is ``of_clients`` and is skipped.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from pgdyno.record import Interval, Ledger, RunFile, RunInfo, StatementTotal, WaitTotal
from pgdyno.record.events import probe_events
from pgdyno.record.fileformat import CLIENT_BACKEND
from pgdyno.record.finding import Lack, Skip
from pgdyno.record.latencies import HistogramKind
from pgdyno.wait_events import IN_TRANSACTION

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pgdyno._engine import Histogram

OBSERVED = "check"
"""The command whose run files have no load of pgdyno's own."""
SESSIONS = "sessions"
"""Name of the client group that the sessions of others are."""
TRACKED = "track_activities"
HIDDEN = "{:,} sessions of other roles are hidden from this role (pg_monitor shows them)"


def is_observed(run: RunFile) -> bool:
    """Return whether the load of ``run`` is that of others."""
    return run.run.command == OBSERVED


class ObservedRun(RunFile):
    """A run file of a server under the load of others, read as if that were a run's load."""

    @property
    def run(self) -> RunInfo:
        """The run, with the sessions of others as its client group."""
        info = super().run
        count = int(max(self._load(None)["sessions"], default=0))
        return replace(info, spec={**info.spec, "clients": [{"name": SESSIONS, "count": count}]})

    def seconds(self, slice_ids: Collection[int] | None = None) -> float:
        """Return the time between the first and the last count of transactions, in seconds."""
        at_ms = self._load(slice_ids)["at_ms"]
        return float(at_ms[-1] - at_ms[0]) / 1000 if len(at_ms) else 0.0

    def transactions(self, slice_ids: Collection[int] | None = None) -> int:
        """Return the transactions of others that ended."""
        ended = self.delta("metric_load", "transactions", slice_ids) or 0.0
        own = self.delta("metric_load", "own_transactions", slice_ids) or 0.0
        return max(0, round(ended - own))

    def ledger(
        self, slice_ids: Collection[int] | None = None, *, group: str | None = None
    ) -> Ledger:
        """Return the transactions that ended, as done; at least one, of which it is only known that
        it lasts as long as the period or longer, where sessions are at work and none ended."""
        done = max(self.transactions(slice_ids), 1 if self._in_transaction(slice_ids) else 0)
        return Ledger(done, done, done, *(0,) * 7)

    def histogram(
        self,
        kind: HistogramKind,
        slice_ids: Collection[int] | None = None,
        group: str | None = None,
        script: str | None = None,
    ) -> Histogram:
        """Return the mean time of a transaction for each of them; empty for a client's times."""
        from pgdyno._engine import Histogram

        times = Histogram()
        done = self.ledger(slice_ids).done
        if kind in ("response", "service") and done:
            mean_s = self._in_transaction(slice_ids) * self.seconds(slice_ids) / done
            times.record(round(mean_s * 1e9), done)
        return times

    def waits(self, slice_ids: Collection[int] | None = None) -> list[WaitTotal]:
        """Return average backends by state, wait event and statement. Skip if some are hidden: what
        is true of the rest need not be true of all."""
        for event in probe_events(self, TRACKED):
            raise Skip(str(event.detail.get("reason")))
        hidden = int(max(self._load(slice_ids)["hidden_sessions"], default=0))
        if hidden:
            raise Skip(HIDDEN.format(hidden), Lack.RIGHTS)
        return super().waits(slice_ids)

    def statements(self, slice_ids: Collection[int] | None = None) -> list[StatementTotal]:
        """Return the statements that pg_stat_statements counted, with the mean of their times."""
        from pgdyno._engine import Histogram

        totals = []
        for position, each in enumerate(self.statement_counts(slice_ids)):
            times = Histogram()
            times.record(round(1e6 * each.exec_ms / each.calls), each.calls)
            totals.append(
                StatementTotal(SESSIONS, "", position, each.statement, each.calls, 0, times)
            )
        return totals

    def intervals(
        self,
        slice_ids: Collection[int] | None = None,
        *,
        by: tuple[Literal["client_group", "script"], ...] = (),
    ) -> list[Interval]:
        """Raise Skip: sessions report what they did at most once a second, and not all at once."""
        why = "the server counts transactions over the whole period, not for each second"
        raise Skip(why, Lack.SECONDS)

    def _load(self, slice_ids: Collection[int] | None) -> dict[str, NDArray[Any]]:
        return self.series("metric_load", slice_ids)

    def _in_transaction(self, slice_ids: Collection[int] | None) -> float:
        """Return the average number of client sessions in a transaction."""
        try:
            waits = self.waits(slice_ids)
        except Skip:
            return 0.0
        return sum(
            wait.average
            for wait in waits
            if wait.backend_type == CLIENT_BACKEND and wait.state in IN_TRANSACTION
        )

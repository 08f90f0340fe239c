"""Client groups as they were while some slices lasted, and the account of each: ledger, intended
and reached rate, connections.

The accounts are read from the run file alone, for the result, the summary and the page alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno import numbers
from pgdyno.json_types import Fields
from pgdyno.record import GroupInterval, Ledger, RunFile
from pgdyno.spec.connections import pooled_connections

if TYPE_CHECKING:
    from pgdyno._engine import Histogram
    from pgdyno.record import StatementTotal
    from pgdyno.record.latencies import ScriptKind


_ROUNDING = 0.02
"""Relative error of the means of histograms with two significant digits, both together."""
CONNECTS_MIN = 100
"""So many connections made are worth telling of, even if each was made only once."""
SHORTFALL_SHARE = 0.01
"""Largest share of the due transactions that may fail, be skipped or be left in the backlog while
the rate still counts as held."""
BUSY_SHARE = 0.9
"""Part of the time that the clients spend on transactions from which on no more arrivals can be
carried: what is left of it passes between two transactions."""


class MeasuredGroup(Struct, frozen=True):
    """A client group as it was while the slices lasted."""

    name: str
    clients: int
    instances: int
    """Instances of the application, each with a pool of its own."""
    pool_max: int | None
    """Size of each pool."""
    response_ms: float
    pool_wait_ms: float
    connect_ms: float
    service_ms: float
    between_statements_ms: float | None
    think_ms: float
    throughput_tps: float

    @property
    def in_service(self) -> float:
        """Connections at work on average, by Little's law."""
        return self.throughput_tps * self.service_ms / 1000

    @property
    def in_connections(self) -> float:
        """Connections that are made or at work on average."""
        return self.in_service + self.throughput_tps * self.connect_ms / 1000

    @property
    def pooled_ms(self) -> float:
        """Time of a transaction from the wait for a connection on, without that for a free
        client."""
        return self.pool_wait_ms + self.service_ms

    @property
    def sessions_max(self) -> int:
        """The most server sessions that the group can keep busy."""
        if self.pool_max is None:
            return self.clients
        return pooled_connections(self.clients, self.pool_max, self.instances)

    @property
    def pooled(self) -> int:
        """Connections of the pools of all instances; 0 without a pool."""
        return (self.pool_max or 0) * self.instances

    @property
    def pool_words(self) -> str:
        """The pool's connections that a client may get, such as ``2 connections``."""
        connections = numbers.counted(self.pool_max or 0, "connection", "connections")
        if self.instances == 1:
            return connections
        return f"the {connections} of its instance ({self.instances:,} instances)"

    @property
    def one_of_pool(self) -> str:
        """The connection that a client waits for, such as ``one of 2 connections``."""
        if self.pool_max != 1:
            return f"one of {self.pool_words}"
        return f"the only connection{' of its instance' if self.instances > 1 else ''}"


def gap_ms(service: Histogram, statements: Iterable[StatementTotal]) -> float | None:
    """Return the mean time in service in which none of ``statements`` was under way; None if they
    overlap, as in a pipeline, or were not recorded."""
    answered_ns = sum(each.spent_ns for each in statements)
    gap_ms = (service.mean - answered_ns / service.count) / 1e6 if service.count else 0.0
    if not answered_ns or gap_ms < -_ROUNDING * service.mean / 1e6:
        return None
    return max(0.0, gap_ms)


class Connects(Struct, frozen=True):
    """Connections of a group over some slices."""

    open: int
    """At the end."""
    made: int
    again: int
    """Connections made to replace a lost one."""
    failed: int

    @property
    def is_notable(self) -> bool:
        """True if connections were lost, failed or made often after the start."""
        return self.made > self.open or self.failed > 0 or self.made >= CONNECTS_MIN


class GroupAccount(Struct, frozen=True):
    """A client group over some slices."""

    name: str
    clients: int
    clients_connected: int
    """The most that had a connection at the same time; of a pool, those that it could serve."""
    spec: Fields
    """The group in the resolved spec."""
    seconds: float
    ledger: Ledger
    connects: Connects
    busy_ms: float = 0.0
    """Mean time for which a transaction of an open loop keeps its client busy, the wait for a
    pooled connection and connecting included; 0 of a closed loop."""

    @property
    def idle(self) -> bool:
        """True if its clients only hold connections."""
        return bool(self.spec.get("idle"))

    @property
    def arrival(self) -> Fields | None:
        """Its arrivals, if it is an open loop."""
        arrival = self.spec.get("arrival")
        return arrival if isinstance(arrival, dict) else None

    @property
    def done_tps(self) -> float:
        """Transactions done per second."""
        return self.ledger.done / self.seconds if self.seconds else 0.0

    @property
    def asked_tps(self) -> float | None:
        """Transactions that came due per second; None in a closed loop, which asks for none."""
        if self.arrival is None:
            return None
        return self.ledger.intended / self.seconds if self.seconds else 0.0

    @property
    def waiting(self) -> int:
        """Transactions due and not begun at the end: the backlog, less what may be under way."""
        return max(0, self.ledger.backlog - self.clients)

    @property
    def fell_behind(self) -> bool:
        """True if the backlog of an open loop grew by more than its clients can have under way."""
        grown = self.ledger.backlog - self.ledger.carried_in
        return self.arrival is not None and grown > max(self.clients, self._slack)

    @property
    def rate_held(self) -> bool:
        """True if an open loop did nearly all due transactions; always true for a closed loop."""
        if self.arrival is None:
            return True
        not_done = self.ledger.failed + self.ledger.skipped
        cancelled = self.ledger.cancelled > max(self.clients, self._slack)
        return not (self.fell_behind or cancelled or not_done > self._slack)

    @property
    def busy_share(self) -> float:
        """Part of the time that the clients of an open loop spend on transactions (Little's law);
        without that of failed ones, whose time is not recorded."""
        return self.done_tps * self.busy_ms / 1000 / self.clients if self.clients else 0.0

    @property
    def carried_tps_max(self) -> float:
        """The most that the clients can carry if transactions take as long as they did: N / r."""
        return 1000 * self.clients / self.busy_ms if self.busy_ms else 0.0

    @property
    def skips_when_busy(self) -> bool:
        """True if transactions of an open loop that are due while no client is free are skipped."""
        return self.arrival is not None and self.arrival.get("when_busy") == "skip"

    @property
    def wants_free_clients(self) -> bool:
        """True if transactions of an open loop waited or were skipped because all clients were
        busy."""
        if self.skips_when_busy and self.ledger.skipped > self._slack:
            return True
        return not self.rate_held and self.busy_share >= BUSY_SHARE

    @property
    def _slack(self) -> float:
        return SHORTFALL_SHARE * self.ledger.intended


def group_accounts(run: RunFile, slice_ids: Collection[int] | None = None) -> list[GroupAccount]:
    """Return the client groups of ``run``, in the spec's order."""
    specs = {group["name"]: group for group in run.run.spec.get("clients") or []}
    seconds = run.seconds(slice_ids)
    rows = run.group_intervals(slice_ids)
    names = dict.fromkeys((*specs, *(row.client_group for row in rows)))
    accounts = []
    for name in names:
        mine = [row for row in rows if row.client_group == name]
        if not mine:
            continue
        accounts.append(
            GroupAccount(
                name=name,
                clients=max(row.clients for row in mine),
                clients_connected=_connected(mine, specs.get(name, {})),
                spec=specs.get(name, {}),
                seconds=seconds,
                ledger=run.ledger(slice_ids, group=name),
                connects=Connects(
                    open=mine[-1].connections,
                    made=sum(row.connects for row in mine),
                    again=sum(row.reconnects for row in mine),
                    failed=sum(row.connect_failures for row in mine),
                ),
                busy_ms=_busy_ms(run, slice_ids, name) if _is_open(specs.get(name, {})) else 0.0,
            )
        )
    return accounts


def _is_open(spec: Fields) -> bool:
    return isinstance(spec.get("arrival"), Mapping)


def _busy_ms(run: RunFile, slice_ids: Collection[int] | None, group: str) -> float:
    kinds: tuple[ScriptKind, ...] = ("pool_wait", "connect", "service")
    return sum(run.histogram(kind, slice_ids, group=group).mean for kind in kinds) / 1e6


def _connected(rows: Sequence[GroupInterval], spec: Fields) -> int:
    """Clients with a connection; of a group whose clients share or renew them, all."""
    clients = max(row.clients for row in rows)
    if spec.get("pool") or spec.get("connection", "persistent") != "persistent":
        return clients
    # Connections are counted as an interval ends, when those of a short run are closed again.
    first = sum(row.connects - row.reconnects for row in rows)
    return min(clients, max(first, *(row.connections for row in rows)))


def open_loop_sentence(account: GroupAccount) -> str:
    """Return a sentence about the intended and reached rate; '' for a closed loop.

    "intended 5,000/s, reached 3,120/s; 18,800 transactions waited at the end"
    """
    asked = account.asked_tps
    if account.arrival is None or asked is None or not account.ledger.intended:
        return ""
    parts = [
        f"intended {numbers.rate(asked)}, reached {numbers.rate(account.done_tps)}"
        if not account.rate_held
        else f"reached the intended {numbers.rate(asked)}"
    ]
    if account.waiting and not account.rate_held:
        parts.append(f"{account.waiting:,} transactions waited at the end")
    if account.ledger.failed and not account.rate_held:
        parts.append(f"{account.ledger.failed:,} failed")
    if skipped := account.ledger.skipped:
        share = numbers.percent(skipped / account.ledger.intended)
        parts.append(f"{skipped:,} skipped ({share}): {_why_skipped(account)}")
    if account.wants_free_clients and account.busy_ms:
        parts.append(_carried_words(account))
    return "; ".join(parts)


def _carried_words(account: GroupAccount) -> str:
    """Return the rate that the clients can carry, in words: "all 8 clients were busy; with 4.1 ms
    for each transaction they carry at most 1,951/s"."""
    they = "it carries" if account.clients == 1 else "they carry"
    most = f"{they} at most {numbers.rate(account.carried_tps_max)}"
    carries = f"with {numbers.figure(account.busy_ms)} ms for each transaction {most}"
    # Of what was skipped it is said already that they were busy.
    return carries if account.skips_when_busy else f"{_were_busy(account)}; {carries}"


def _were_busy(account: GroupAccount) -> str:
    if account.clients == 1:
        return "the client was busy"
    return f"all {account.clients:,} clients were busy"


def _why_skipped(account: GroupAccount) -> str:
    arrival = account.arrival or {}
    if account.skips_when_busy:
        reason = _were_busy(account)
    else:
        reason = f"the queue of {arrival.get('queue_max') or 1_000_000:,} was full"
    limit = account.spec.get("latency_limit")
    if not limit:
        return reason
    if account.skips_when_busy or arrival.get("queue_max"):
        return f"{reason}, or they were later than {limit} before they were sent"
    return f"they were later than {limit} before they were sent"

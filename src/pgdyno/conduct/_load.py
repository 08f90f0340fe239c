"""The running load engine: its polling thread and its faults.

:class:`RunningLoad` owns one engine ``Load`` from connect to drain. A thread collects finished
intervals and passes them to the recorder and the watcher; a fault in it (the server does not come
back, the disk is full) wakes the conductor, which raises it.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec import Struct

from pgdyno._engine import EngineError, Histogram, Load, build_info
from pgdyno.conduct._config import Acks, engine_config
from pgdyno.conduct._server_away import Standstill
from pgdyno.conduct.watch import Tick, Watcher
from pgdyno.errors import RunError, SetupError, UsageError
from pgdyno.json_types import Row
from pgdyno.record import ErrorTotal, Recorder, error_lines
from pgdyno.record.facts import EngineFacts
from pgdyno.record.failures import NO_PRIMARY, PASSING_CODES
from pgdyno.server import ConnInfo
from pgdyno.spec import Spec
from pgdyno.workload import load_workloads

if TYPE_CHECKING:
    from pgdyno._engine import GroupRow, Interval, SampledTransaction, ScriptRow
    from pgdyno.conduct._engine_types import EngineConfig, GroupConfig

_Row = TypeVar("_Row", bound=Mapping[str, object])
_POLL_SECONDS = 0.1
_FIRST_POLL_SECONDS = 0.005
"""Pause before the first look at the load, doubled with each until it is the usual one: a load of a
few transactions has ended by then."""
_RECORDED_SECONDS_MAX = 5.0
_CONNECTING_LOOK_SECONDS = 0.002
_CONNECTING_SECONDS_MAX = 3.0
"""Time without a new connection; longer than a pause after a failure."""
DRAIN_MS = 5_000
_RISE = 0.1
"""Rise of the throughput from look to look that counts as noise, not as warming up."""
_WARM_LOOK_SECONDS = 0.5
_NO_SERVER = ConnInfo("127.0.0.1", 1, "nobody", None, "nothing")
_KINDS_NOTED_MAX = 20
"""Kinds of errors that are shown while the load runs; all are in the run file."""
"""Columns of the transaction ledger in which a transaction ends."""


def check_scripts(spec: Spec, acks: Acks) -> None:
    """Raise UsageError for a script that cannot be executed, or to which the command of ``acks``
    cannot be added. Nothing is started, and no connection made."""
    workloads = load_workloads(spec)
    unset = {name: dict[str, str]() for name in workloads}
    _made(engine_config(spec, _NO_SERVER, workloads, unset, scheduled=False, acks=acks))


class Arrived(Struct, frozen=True):
    """Clients that are there, by group, their connections, and transactions that wait or run."""

    clients: Mapping[str, int]
    connections: int
    waiting: int


class RunningLoad:
    """A running engine, from the first connection until it is drained."""

    def __init__(
        self,
        config: EngineConfig,
        recorder: Recorder,
        watcher: Watcher,
        standstill: Standstill,
        *,
        tag: int | None = None,
        outage_expected: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Start the load. With ``outage_expected``, lost connections are not shown. ``check``
        raises an error that ends it from outside."""
        self._load = _made(config)
        self._standstill = standstill
        self._check = check
        self._recorder = recorder
        self._watcher = watcher
        self._fault: BaseException | None = None
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._seen = threading.Condition()
        self._seen_ns = 0
        self._over = False
        self._outage_expected = outage_expected
        self._groups = {group["name"]: group.copy() for group in config["groups"]}
        self._rates: dict[str, float] = {}
        """Factor of each group whose rate was changed."""
        self._pooled = {group["name"] for group in config["groups"] if group.get("pool")}
        """Groups whose clients share a pool."""
        self._verbose = config.get("verbose_errors", False)
        self._noted: set[tuple[Any, ...]] = set()
        self._last_rows: dict[tuple[str, str], ScriptRow] = {}
        self._to_end = _transactions_in_all(config)
        self._last_groups: dict[str, GroupRow] = {}
        self._last_tps = 0.0
        self._poller = threading.Thread(target=self._poll_loop, name="load-poll", daemon=True)
        self.started_ns = _started(self._load, tag)
        self._poller.start()

    def facts(self) -> EngineFacts:
        """Return the engine's reactor with the reason for it, its CPUs and its nice level."""
        return cast("EngineFacts", self._load.facts() or {})

    def samples(self) -> list[SampledTransaction]:
        """Return transactions as they were sent, the last few of each script; also once it has
        ended."""
        return self._load.samples()

    def wait(self, seconds: float) -> None:
        """Let the load run. Raises the fault that ends it, as soon as there is one.

        Returns early once :attr:`complete`.
        """
        if self._woken.wait(seconds):
            self.raise_fault()

    @property
    def connections_wanted(self) -> int | None:
        """Number of clients that keep one connection each.

        ``None`` with an open loop, whose clients connect when they are needed, and with a web
        server, which may close connections at any time.
        """
        groups = self._groups.values()
        if any(group.get("arrival") or group.get("http") for group in groups):
            return None
        own = [each for each in groups if each["name"] not in self._pooled]
        return sum(each["clients"] for each in own if not _reconnects(each))

    def wait_connected(self, wanted: int) -> int:
        """Wait for this many connections; return how many there are when no more are made."""
        most, since_s = 0, time.monotonic()
        while (now := self._load.connections()) < wanted:
            if now > most:
                most, since_s = now, time.monotonic()
                self._watcher.progress("clients connected", now, wanted)
            elif time.monotonic() - since_s > _CONNECTING_SECONDS_MAX:
                break
            self.wait(_CONNECTING_LOOK_SECONDS)
        return now

    def arrived(self, tag: int | None) -> Arrived:
        """End the interval, tag those that follow, and return the clients that are connected."""
        self.wait_recorded(self.end_interval(tag))
        return Arrived(
            clients={name: row["clients"] for name, row in self._last_groups.items()},
            connections=self._load.connections(),
            waiting=sum(row["backlog"] for row in self._last_rows.values()),
        )

    def wait_served(self, seconds_max: float) -> None:
        """Wait until the server answers clients or probes again, and the backlog is done."""
        since_s = time.monotonic()
        self.end_interval(None)
        while not self._standstill.answered_since(since_s) or self._is_behind():
            if time.monotonic() - since_s >= seconds_max:
                return
            self.wait(_POLL_SECONDS)

    def drain(self, seconds_max: float) -> None:
        """Hold back arrivals until no more transactions wait than there are clients."""
        since_s = time.monotonic()
        rates = {
            name: self._rates.get(name, 1.0)
            for name, group in self._groups.items()
            if group.get("arrival")
        }
        if not rates:
            return
        self.wait_recorded(self.end_interval(None))
        if not self._is_behind():
            return
        for group in rates:
            self._load.set_rate(group, 0.0)
        try:
            while self._is_behind() and time.monotonic() - since_s < seconds_max:
                self.wait(_POLL_SECONDS)
                self.wait_recorded(self.end_interval(None))
        finally:
            for group, factor in rates.items():
                self._load.set_rate(group, factor)

    def wait_warm(self, seconds_max: float) -> float:
        """Let the load run until its throughput no longer rises: in two looks in a row, by at most
        ``_RISE`` over the best one before. Returns the time that it took, in seconds."""
        best_tps, steady, took_s = 0.0, 0, 0.0
        self.end_interval(None)
        while steady < 2 and took_s < seconds_max and not self.complete:
            look_s = min(_WARM_LOOK_SECONDS, seconds_max - took_s)
            self.wait(look_s)
            took_s += look_s
            self.wait_recorded(self.end_interval(None))
            steady = 0 if self._last_tps > best_tps * (1 + _RISE) else steady + 1
            best_tps = max(best_tps, self._last_tps)
        return took_s

    def _is_behind(self) -> bool:
        """True if more transactions are waiting than there are clients."""
        waiting = sum(row["backlog"] for row in self._last_rows.values())
        return bool(waiting > sum(row["clients"] for row in self._last_groups.values()))

    @property
    def complete(self) -> bool:
        """True if all clients have executed the number of transactions given to them."""
        return self._over or (self._to_end is not None and self._to_end <= 0)

    def end_interval(self, tag: int | None) -> int:
        """End the interval now and tag those that follow; return the time in monotonic ns."""
        self.raise_fault()
        return self._load.end_interval(tag)

    def wait_recorded(self, until_ns: int) -> None:
        """Wait until every interval that ended by ``until_ns`` has been recorded.

        A load that has ended by itself has no interval that ends later.
        """
        deadline = time.monotonic() + _RECORDED_SECONDS_MAX
        with self._seen:
            while self._seen_ns < until_ns and self._fault is None and not self._over:
                left = deadline - time.monotonic()
                if left <= 0 or not self._seen.wait(left):
                    break
        self.raise_fault()

    def set_clients(self, group: str, clients: int) -> None:
        """Change how many clients of ``group`` run, from now on."""
        self._groups[group]["clients"] = clients
        self._load.set_clients(group, clients)

    def set_rate(self, group: str, factor: float) -> None:
        """Multiply the rate of an open loop by ``factor``, from now on."""
        self._rates[group] = factor
        self._load.set_rate(group, factor)

    def slow_down(self, share: float) -> None:
        """Start transactions of open loops at this share of their rate, and let this share of the
        clients of closed ones work. Of a load that is ending, nothing changes."""
        with suppress(EngineError):
            for name, group in self._groups.items():
                if group.get("idle"):
                    continue
                if group.get("arrival"):
                    self._load.set_rate(name, share)
                else:
                    self._load.set_clients(name, math.ceil(share * group["clients"]))

    def set_session(self, statement: str) -> None:
        """Have every session execute ``statement`` before its next transaction."""
        self._load.set_session(statement)

    def set_pool_max(self, group: str, pool_max: int | None) -> None:
        """Change the size of ``group``'s pool, from now on; ``None`` removes it."""
        if pool_max is None:
            self._pooled.discard(group)
        else:
            self._pooled.add(group)
        self._load.set_pool_max(group, pool_max)

    def stop(self, drain_ms: int = DRAIN_MS) -> None:
        """Start no more transactions, wait for running ones, record the rest. May be repeated."""
        if not self._stopping.is_set():
            try:
                self._load.stop(drain_ms)
            finally:
                self._stopping.set()
                self._poller.join()

    def abandon_backlog(self) -> None:
        """Count the backlog of the stopped load as cancelled, because another load follows it.

        The transaction ledger of a run has one backlog, at its end.
        """
        left = {key: row for key, row in self._last_rows.items() if row["backlog"]}
        if not left:
            return
        now_ns = time.monotonic_ns()
        rows: list[ScriptRow] = [
            {**_zeros(row), "cancelled": row["backlog"]} for row in left.values()
        ]
        self._recorder.add_interval(
            {
                "started_ns": now_ns,
                "ended_ns": now_ns,
                "tag": None,
                "scripts": rows,
                "groups": [_zeros(row) for row in self._last_groups.values()],
                "statements": [],
                "errors": [],
                "reports": [],
                "threads": [],
            }
        )

    def raise_fault(self) -> None:
        """Raise the error that ended the load, if there is one, once."""
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault

    def _poll_loop(self) -> None:
        pause_s = _FIRST_POLL_SECONDS
        try:
            while not self._stopping.wait(pause_s):
                pause_s = min(_POLL_SECONDS, 2 * pause_s)
                over = self._load.state() == "stopped"
                self._collect()
                self._check()
                if self._recorder.failure is not None:
                    raise self._recorder.failure
                if (fatal := self._load.fatal()) is not None:
                    raise RunError(fatal["message"], code=fatal["code"], hint=fatal.get("hint"))
                if over:
                    self._end()
                self._standstill.check()
            self._collect()
        except Exception as fault:
            self._fail(fault)

    def _end(self) -> None:
        """Note that the load has ended by itself, with everything recorded."""
        with self._seen:
            self._over = True
            self._seen.notify_all()
        self._woken.set()

    def _fail(self, fault: BaseException) -> None:
        with self._seen:
            self._fault = fault
            self._seen.notify_all()
        self._woken.set()

    def _collect(self) -> None:
        for interval in self._load.poll():
            self._recorder.add_interval(interval)
            self._standstill.see(interval)
            self._watcher.tick(self._tick(interval))
            self._note_errors(interval)
            if self.complete:
                self._woken.set()
            with self._seen:
                self._seen_ns = max(self._seen_ns, interval["ended_ns"])
                self._seen.notify_all()

    def _note_errors(self, interval: Interval) -> None:
        """Note the first error of each kind, or every error with ``verbose_errors``."""
        rows = interval["reports"] if self._verbose else interval["errors"]
        for row in rows:
            if self._outage_expected and row["sqlstate"] in (*PASSING_CODES, NO_PRIMARY):
                continue
            key = tuple(row[name] for name in ("group", "script", "line", "sqlstate"))
            new = key not in self._noted and len(self._noted) < _KINDS_NOTED_MAX
            if self._verbose or (new and not row["expected"] and not row["retried"]):
                self._noted.add(key)
                named: Row = {name: value for name, value in row.items() if name != "group"}
                error = ErrorTotal(client_group=row["group"], **named)
                for line in error_lines(error):
                    self._watcher.note(line)
        counted = sum(row["count"] for row in interval["errors"])
        if self._verbose and counted > len(rows):
            self._watcher.note(f"and {counted - len(rows):,} more errors in this second")

    def _tick(self, interval: Interval) -> Tick:
        response = Histogram()
        for group in interval["groups"]:
            self._last_groups[group["group"]] = group
        for row in interval["scripts"]:
            self._last_rows[row["group"], row["script"]] = row
            if self._to_end is not None:
                ended = row["done"] + row["failed"] + row["skipped"] + row["cancelled"]
                self._to_end -= ended
            response.add_encoded(row["response"])
        seconds = max((interval["ended_ns"] - interval["started_ns"]) / 1e9, 1e-9)
        self._last_tps = sum(row["done"] for row in interval["scripts"]) / seconds
        return Tick(
            at_s=self._recorder.at_ms(interval["ended_ns"]) / 1000,
            throughput_tps=self._last_tps,
            latency_ms_p50=_ms(response, 50),
            latency_ms_p99=_ms(response, 99),
            clients=sum(row["clients"] for row in interval["groups"]),
            failed=sum(row["failed"] for row in interval["scripts"]),
        )


def _made(config: EngineConfig) -> Load:
    """Make the engine. Raises :class:`UsageError` when it refuses the configuration."""
    try:
        return Load(json.dumps(config))
    except EngineError as problem:
        raise UsageError(problem.message, code=problem.code, hint=problem.hint) from None


def _started(load: Load, tag: int | None) -> int:
    """Start the load, whose intervals carry ``tag``; return its time zero in monotonic ns.

    Raises :class:`SetupError` with the engine's or server's message.
    """
    try:
        return load.start(tag)
    except EngineError as problem:
        raise SetupError(problem.message, code=problem.code, hint=problem.hint) from None


def _transactions_in_all(config: EngineConfig) -> int | None:
    """Return the transactions given to all clients together; None where one has no limit."""
    active = [group for group in config["groups"] if not group.get("idle")]
    given = [group["clients"] * group.get("transactions", 0) for group in active]
    return sum(given) if all(given) else None


def _reconnects(group: GroupConfig) -> bool:
    connection = group.get("connection")
    return connection is not None and connection["reconnect_every"] is not None


def _ms(response: Histogram, percentile: float) -> float | None:
    return response.percentile(percentile) / 1e6 if response.count else None


def _zeros(row: _Row) -> _Row:
    """Return a row with the same names and all counts zero."""
    empty = Histogram().encode()
    zeros = {
        name: value
        if isinstance(value, str)
        else empty
        if isinstance(value, bytes)
        else None
        if value is None or isinstance(value, dict)
        else 0
        for name, value in row.items()
    }
    return cast("_Row", zeros)


def engine_facts(spec: Spec) -> EngineFacts:
    """Return the engine's build, and its threads and protocol by ``spec``."""
    build = cast("EngineFacts", build_info())
    return {**build, "threads": spec.load.threads, "protocol": spec.load.protocol}

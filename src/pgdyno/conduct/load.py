"""The load engine as the conductor drives it: its configuration, its thread of polling, its faults.

:class:`RunningLoad` owns one engine ``Load`` from connect to drain. A thread collects finished
intervals, hands them to the recorder and tells the watcher; a fault in it (the server gone for
good, the disk full) wakes the conductor, which raises it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pgdyno._engine import Histogram, Load
from pgdyno.conduct.watch import Tick, Watcher
from pgdyno.errors import RunError
from pgdyno.record import Recorder
from pgdyno.server import ConnInfo
from pgdyno.spec import ClientGroup, Spec
from pgdyno.workload import WeightedScript

_POLL_SECONDS = 0.1
_CUT_SECONDS_MAX = 5.0
DRAIN_MS = 5_000


def engine_config(
    spec: Spec,
    conninfo: ConnInfo,
    scripts: Sequence[WeightedScript],
    variables: Mapping[str, str],
    *,
    scheduled: bool,
) -> dict[str, Any]:
    """The engine's configuration for a spec; ``scheduled`` takes its ramp or steps along."""
    load = spec.load
    return {
        "target": {
            "host": conninfo.host,
            "port": conninfo.port,
            "user": conninfo.user,
            "password": conninfo.password,
            "database": conninfo.database,
            "application_name": "pgdyno",
            "sslmode": conninfo.options.get("sslmode", "prefer"),
        },
        "threads": load.threads,
        "seed": load.seed,
        "protocol": load.protocol,
        "max_tries": load.max_tries,
        "groups": [
            {
                "name": group.name,
                "clients": group.count,
                "schedule": _schedule(spec, group) if scheduled else [],
                "pool": None
                if group.pool is None
                else {"max": group.pool.max, "max_wait_ms": group.pool.max_wait_ms},
                "think_ms": group.think_ms,
                "variables": dict(variables),
                "scripts": [
                    {"name": s.name, "text": s.text, "file": s.file, "weight": s.weight}
                    for s in scripts
                ],
            }
            for group in spec.clients
        ],
    }


def _schedule(spec: Spec, group: ClientGroup) -> list[dict[str, int]]:
    """The group's clients over time: a ramp to all of them, or the spec's steps."""
    if spec.load.ramp_ms:
        return [{"at_ms": 0, "clients": group.count, "ramp_ms": spec.load.ramp_ms}]
    return [
        {"at_ms": step.at_ms, "clients": max(1, round(group.count * step.share)), "ramp_ms": 0}
        for step in spec.load.steps
    ]


class RunningLoad:
    """One engine at work, from first connection to drained."""

    def __init__(self, config: Mapping[str, Any], recorder: Recorder, watcher: Watcher) -> None:
        self._load = Load(json.dumps(config))
        self._recorder = recorder
        self._watcher = watcher
        self._fault: BaseException | None = None
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._seen = threading.Condition()
        self._seen_ns = 0
        self._last_rows: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._poller = threading.Thread(target=self._poll_loop, name="load-poll", daemon=True)
        self.started_ns = self._load.start()
        self._poller.start()

    def wait(self, seconds: float) -> None:
        """Let the load run. Raises the fault that ends it, as soon as there is one."""
        if self._woken.wait(seconds):
            self.raise_fault()

    def cut(self, tag: int | None) -> int:
        """End the interval now and tag those that follow; the moment in monotonic ns."""
        self.raise_fault()
        return self._load.cut(tag)

    def wait_recorded(self, until_ns: int) -> None:
        """Wait until every interval that ended by ``until_ns`` is with the recorder."""
        deadline = time.monotonic() + _CUT_SECONDS_MAX
        with self._seen:
            while self._seen_ns < until_ns and self._fault is None:
                left = deadline - time.monotonic()
                if left <= 0 or not self._seen.wait(left):
                    break
        self.raise_fault()

    def set_clients(self, group: str, clients: int) -> None:
        """Change how many clients of ``group`` run, from now on."""
        self._load.set_clients(group, clients)

    def set_pool_max(self, group: str, pool_max: int | None) -> None:
        """Change the size of ``group``'s pool, from now on; ``None`` takes it away."""
        self._load.set_pool_max(group, pool_max)

    def stop(self, drain_ms: int = DRAIN_MS) -> None:
        """Begin nothing new, wait for what is in flight, record the rest. May be called again."""
        if not self._stopping.is_set():
            try:
                self._load.stop(drain_ms)
            finally:
                self._stopping.set()
                self._poller.join()

    def abandon_backlog(self) -> None:
        """Count what the stopped load left waiting as cancelled, for another load follows it.

        The ledger of a run knows one backlog, that of its end.
        """
        left = {key: row for key, row in self._last_rows.items() if row["backlog"]}
        if not left:
            return
        empty = Histogram().encode()
        zero = {
            name: empty if isinstance(value, bytes) else 0
            for name, value in next(iter(left.values())).items()
        }
        now_ns = time.monotonic_ns()
        rows = [
            {**zero, "group": group, "script": script, "cancelled": row["backlog"]}
            for (group, script), row in left.items()
        ]
        self._recorder.add_interval(
            {
                "started_ns": now_ns,
                "ended_ns": now_ns,
                "tag": None,
                "scripts": rows,
                "statements": [],
                "errors": [],
                "threads": [],
            }
        )

    def raise_fault(self) -> None:
        """Raise what ended the load, if something has, once."""
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault

    def _poll_loop(self) -> None:
        try:
            while not self._stopping.wait(_POLL_SECONDS):
                self._collect()
                if self._recorder.failure is not None:
                    raise self._recorder.failure
                if (fatal := self._load.fatal()) is not None:
                    raise RunError(fatal["message"], code=fatal["code"], hint=fatal.get("hint"))
            self._collect()
        except Exception as fault:
            self._fail(fault)

    def _fail(self, fault: BaseException) -> None:
        with self._seen:
            self._fault = fault
            self._seen.notify_all()
        self._woken.set()

    def _collect(self) -> None:
        for interval in self._load.poll():
            self._recorder.add_interval(interval)
            self._watcher.tick(self._tick(interval))
            with self._seen:
                self._seen_ns = max(self._seen_ns, interval["ended_ns"])
                self._seen.notify_all()

    def _tick(self, interval: Mapping[str, Any]) -> Tick:
        response = Histogram()
        clients: dict[str, int] = {}
        for row in interval["scripts"]:
            self._last_rows[row["group"], row["script"]] = row
            response.add_encoded(row["response"])
            clients[row["group"]] = row["clients"]
        seconds = max((interval["ended_ns"] - interval["started_ns"]) / 1e9, 1e-9)
        return Tick(
            at_s=self._recorder.at_ms(interval["ended_ns"]) / 1000,
            throughput_tps=sum(row["done"] for row in interval["scripts"]) / seconds,
            latency_ms_p50=response.percentile(50) / 1e6,
            latency_ms_p99=response.percentile(99) / 1e6,
            clients=sum(clients.values()),
            failed=sum(row["failed"] for row in interval["scripts"]),
        )

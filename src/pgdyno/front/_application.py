"""The front end of a spec: started before a server, changed between slices, read as metrics.

A web server that has as many connections as it accepts (maxConnections of Tomcat) leaves further
ones to the kernel, which completes them for the client: it is connected, as far as it can see, and
gets no answer. The kernel's list shows how many wait so, as the receive queue of the listening
socket (proc_net_tcp.txt in the documentation of Linux).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pgdyno.errors import RunError
from pgdyno.front._java import application_jar, find_java
from pgdyno.front._process import FrontEnd
from pgdyno.front._settings import FrontSettings
from pgdyno.json_types import Json, Row
from pgdyno.server import ConnInfo
from pgdyno.spec.front import OWN_WAITS_MS, FrontSpec

_LISTS = (Path("/proc/net/tcp6"), Path("/proc/net/tcp"))
_LISTENING = "0A"
_FIELDS = 5
LIVE = {
    *("max_total", "max_wait_ms", "threads", "keepalive_requests"),
    *("prepare_threshold", "rewrite_batched_inserts"),
}
"""Keys that a running front end takes. With fewer connections of clients than it has, it would go
on with those."""
_LIMITS = {
    "max_total": ("pool.max", "connections_max"),
    "max_wait_ms": ("pool.wait_ms", "max_wait_ms"),
    "threads": ("connector.threads", "threads_max"),
    "keepalive_requests": ("connector.keepalive_requests", "keepalive_requests"),
    "prepare_threshold": ("driver.prepare_threshold", "prepares_from"),
    "rewrite_batched_inserts": ("driver.rewrite_batched_inserts", "rewrite_batched_inserts"),
}
"""Key → the limit of the probe, and the property of the spec that has its value."""
_IN_FORCE_S_MAX = 10.0
_POLL_S = 0.02
_LOGS_KEPT = 3


def accept_queue(port: int) -> int | None:
    """Return how many connections to a local port wait to be accepted; None if nothing listens on
    it, or the kernel's list cannot be read."""
    waiting = [queue for path in _LISTS for at, queue in _listening(path) if at == port]
    return sum(waiting) if waiting else None


def _listening(path: Path) -> Iterator[tuple[int, int]]:
    """Yield the port and the queue of each listening socket, of which the list has all first."""
    try:
        with path.open(encoding="ascii") as rows:
            next(rows, None)
            for row in rows:
                fields = row.split(None, _FIELDS)
                if fields[3] != _LISTENING:
                    return
                yield int(fields[1].rpartition(":")[2], 16), int(fields[4].rpartition(":")[2], 16)
    except (OSError, ValueError, IndexError):
        return


Rows = Mapping[str, list[Row]]
"""Rows by metric table."""


class Application:
    """A front end before one server. Its pages need the tables of the workload ``business``."""

    def __init__(
        self, server: ConnInfo, spec: FrontSpec, note: Callable[[str], None] = lambda _: None
    ) -> None:
        """Start it; ``note`` is called before the application is built. Raises SetupError."""
        self._server = server
        self._java = find_java(spec.java)
        self._jar = application_jar(self._java, note)
        self._logs: list[str] = []
        self._spec = spec
        self._front = self._started(spec)

    @property
    def url(self) -> str:
        """Its address now; another one after a restart."""
        return self._front.url

    @property
    def spec(self) -> FrontSpec:
        """Keys of the one that runs."""
        return self._spec

    def suits(self, spec: FrontSpec) -> bool:
        """True if the application runs with the settings of ``spec``."""
        return self._spec == spec

    def follows(self, spec: FrontSpec) -> bool:
        """True if it can go to ``spec`` while it serves requests."""
        return all(
            getattr(self._spec, name) == getattr(spec, name)
            for name in FrontSpec.model_fields
            if name not in LIVE
        )

    def follow(self, spec: FrontSpec) -> None:
        """Go to ``spec`` while it serves requests, and wait until that is in force.

        A larger pool makes its connections when requests ask for them; a smaller one ends those
        above its size when they are returned. Raises RunError if it does not come into force.
        """
        for key, (limit, name) in _LIMITS.items():
            if getattr(self._spec, key) != getattr(spec, key):
                self._front.set(limit, _value(spec, key, name))
        self._spec = spec
        self._wait_in_force()

    def arrange(self, spec: FrontSpec) -> None:
        """Start it anew as ``spec`` asks for; no load may run. Raises SetupError."""
        self.close()
        self._spec = spec
        self._front = self._started(spec)

    def renew_sessions(self) -> None:
        """Let its pool make new connections in place of those that it has."""
        self._front.renew()

    @property
    def compiled_ms(self) -> float:
        """Time that its virtual machine has spent on compiling so far."""
        return float(self._front.read()["jvm"]["compile_ms"])

    @property
    def pid(self) -> int:
        """PID of its virtual machine."""
        return self._front.pid

    def check(self) -> None:
        """Raise RunError if it has ended by itself."""
        self._front.check()

    def facts(self) -> dict[str, object]:
        """Return settings, address and parts of the application, for the run file."""
        return {
            **self._spec.model_dump(mode="json", by_alias=True, exclude_none=True),
            "url": self._front.url,
            "pid": self.pid,
            "parts": self._front.parts,
        }

    def read(self) -> tuple[int, Rows]:
        """Return the time of the reading, in monotonic ns, and its rows. Raises PgdynoError.

        May be called from another thread.
        """
        at_ns, rows = rows_of(self._front.read())
        rows["metric_front"][0]["accept_queue"] = accept_queue(self._front.port)
        return at_ns, rows

    def log(self) -> str:
        """Return the end of its log, and of those of the applications before it."""
        return "".join([*self._logs, self._front.log])

    def close(self) -> None:
        """End it. May be repeated."""
        self._logs = [*self._logs, self._front.log][-_LOGS_KEPT:]
        self._front.close()

    def _started(self, spec: FrontSpec) -> FrontEnd:
        return FrontEnd(self._java, self._jar, self._server, FrontSettings.of(spec))

    def _wait_in_force(self) -> None:
        deadline = time.monotonic() + _IN_FORCE_S_MAX
        while (pool := self._front.read()["pool"])["active"] + pool["idle"] > pool["max"]:
            if time.monotonic() > deadline:
                raise RunError(
                    f"the front end's pool still has {pool['active'] + pool['idle']} connections"
                    f" {_IN_FORCE_S_MAX:.0f} s after it was set to {pool['max']}",
                    code="front-not-in-force",
                    hint="a request that keeps its connection for so long hinders it",
                )
            time.sleep(_POLL_S)


def _value(spec: FrontSpec, key: str, name: str) -> int:
    value = getattr(spec, name)
    if value is None and key == "max_wait_ms":
        return OWN_WAITS_MS[spec.pool]
    return int(value)


def rows_of(answer: Json) -> tuple[int, Rows]:
    """Return the time and the rows of an answer of the probe."""
    pool, connector, jvm = answer["pool"], answer["connector"], answer["jvm"]
    front = {
        "pool_max": pool["max"],
        "pool_active": pool["active"],
        "pool_idle": pool["idle"],
        "pool_waiting": pool["waiting"],
        "pool_created": pool["created"],
        "pool_borrowed": pool["borrowed"],
        "pool_refused": pool["refused"],
        "pool_wait_ms": pool["wait_ns"] / 1e6,
        "threads_max": connector["threads_max"],
        "threads_busy": connector.get("busy"),
        "connector_queue": connector.get("queue"),
        "connections_open": connector["connections"],
        "connections_max": connector["connections_max"],
    }
    machine = {
        "heap_bytes": jvm["heap_bytes"],
        "heap_bytes_max": jvm["heap_bytes_max"],
        "collections": jvm["collections"],
        "collection_ms": jvm["collection_ms"],
        "compile_ms": jvm["compile_ms"],
        "cpu_ms": jvm["cpu_ns"] / 1e6,
        "threads_live": jvm["threads"],
    }
    pages = [
        {
            "page": path,
            **{
                name: counts[name]
                for name in ("requests", "failed", "statements", "batched_rows", "kept")
            },
            **{f"{name}_ms": counts[f"{name}_ns"] / 1e6 for name in ("took", "pool", "database")},
        }
        for path, counts in answer["pages"].items()
    ]
    rows: Rows = {"metric_front": [front], "metric_jvm": [machine], "metric_front_page": pages}
    return int(answer["at_ns"]), rows

"""Sums of what a run has recorded so far, kept while it is recorded.

The recording threads only append; sums are made when they are asked for, or after some seconds, so
that no measuring thread waits. Nothing is asked of a server. Counts begin at zero with the process.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from pgdyno._engine import Histogram
from pgdyno.json_types import Row
from pgdyno.record.fileformat import CLIENT_BACKEND
from pgdyno.redact import blank

if TYPE_CHECKING:
    from pgdyno._engine import Interval

PENDING_MAX = 20
"""Intervals, of a second each, that wait to be added up."""
RECENT_S = 60.0
"""Time over which maxima are taken: Prometheus asks once a minute by default."""
MESSAGES_MAX = 50
"""Messages of errors that are counted one by one; the rest together."""
REST = "other"
SCRIPT_SUMS = (
    *("intended", "sent", "done", "failed", "skipped", "cancelled", "retried", "expected_errors"),
    "late",
)
TIMES = ("response", "wait", "service")
GROUP_SUMS = ("connects", "reconnects", "connect_failures")
THREAD_SUMS = ("cpu_user_us", "cpu_system_us", "run_queue_delay_us")

Script = tuple[str, str]
"""Client group and script."""


@dataclass
class ScriptFigures:
    """Sums and times of one script of a client group."""

    sums: Counter[str] = field(default_factory=Counter)
    backlog: int = 0
    times: dict[str, Histogram] = field(
        default_factory=lambda: {name: Histogram() for name in TIMES}
    )


@dataclass
class GroupFigures:
    """Clients and connections of a client group now, and sums."""

    clients: int = 0
    connections: int = 0
    unanswered: int = 0
    """Clients that have waited for an answer for 2 s or longer."""
    unanswered_us_max: int = 0
    sums: Counter[str] = field(default_factory=Counter)


class Recent(Struct, frozen=True):
    """Longest times of one interval, in ns, by script; and the longest pass of the event loop."""

    at_s: float
    longest_ns: Mapping[tuple[Script, str], int]
    loop_stall_us: int


class Figures:
    """The sums of one run. Its methods ``interval`` and ``rows`` listen to a recorder."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """Held while sums are read."""
        self.scripts: defaultdict[Script, ScriptFigures] = defaultdict(ScriptFigures)
        self.groups: defaultdict[str, GroupFigures] = defaultdict(GroupFigures)
        self.errors: Counter[tuple[str, str, str, bool]] = Counter()
        """By client group, script, SQLSTATE, and whether it was expected."""
        self.messages: Counter[tuple[str, str]] = Counter()
        """By client group and message."""
        self.generator: Counter[str] = Counter()
        self.threads = 0
        self.events: Counter[str] = Counter()
        self.waits: Counter[tuple[str, str]] = Counter()
        """Sessions seen at work, over all looks, by type and name of the wait event."""
        self.looks = 0
        self.last_interval_unix_s: float | None = None
        self._latest: dict[str, tuple[float, Sequence[Mapping[str, Any]]]] = {}
        self._io: dict[tuple[Any, ...], Row] = {}
        self._recent: deque[Recent] = deque()
        self._pending: list[Interval] = []

    def interval(self, interval: Interval) -> None:
        """Take note of an interval."""
        with self.lock:
            self._pending.append(interval)
            if len(self._pending) >= PENDING_MAX:
                self.catch_up()

    def rows(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Take note of samples or events."""
        with self.lock:
            if table == "event":
                self.events.update(str(row["kind"]) for row in rows)
            elif table == "wait_sample":
                self._count_waits(rows)
            elif table == "metric_io":  # Rows without activity are left out of a sampling.
                keys = ("backend_type", "object", "context")
                self._io |= {tuple(row[key] for key in keys): row for row in rows}
                self._latest[table] = time.monotonic(), list(self._io.values())
            elif table.startswith("metric_"):
                self._latest[table] = time.monotonic(), rows

    def latest(self, table: str, seconds_max: float) -> Sequence[Mapping[str, Any]]:
        """Return the rows of the last sampling; none if it is longer ago than that."""
        at_s, rows = self._latest.get(table, (0.0, ()))
        return rows if time.monotonic() - at_s <= seconds_max else ()

    def catch_up(self) -> None:
        """Add up the intervals that are waiting."""
        pending, self._pending = self._pending, []
        for interval in pending:
            self._add(interval)

    def longest_s(self, name: str, group: str, script: str | None = None) -> float:
        """Return the longest of these times in the last minute, 0 without any."""
        self._forget()
        longest_ns = (
            ns
            for each in self._recent
            for ((of_group, of_script), time_name), ns in each.longest_ns.items()
            if time_name == name and of_group == group and script in (None, of_script)
        )
        return max(longest_ns, default=0) / 1e9

    @property
    def loop_stall_s(self) -> float:
        """Longest pass of the load engine's event loop in the last minute."""
        self._forget()
        return max((each.loop_stall_us for each in self._recent), default=0) / 1e6

    def _forget(self) -> None:
        while self._recent and time.monotonic() - self._recent[0].at_s > RECENT_S:
            self._recent.popleft()

    def _add(self, interval: Interval) -> None:
        longest: dict[tuple[Script, str], int] = {}
        for row in interval["scripts"]:
            key = row["group"], row["script"]
            script = self.scripts[key]
            cells: Mapping[str, Any] = row
            script.sums.update({name: cells[name] for name in SCRIPT_SUMS})
            script.backlog = row["backlog"]
            for name in TIMES:
                times = Histogram.decode(cells[name])
                script.times[name].add(times)
                longest[key, name] = times.max
        for group_row in interval["groups"]:
            group = self.groups[group_row["group"]]
            group.clients, group.connections = group_row["clients"], group_row["connections"]
            group.unanswered = group_row["unanswered"]
            group.unanswered_us_max = group_row["unanswered_us_max"]
            counts: Mapping[str, Any] = group_row
            group.sums.update({name: counts[name] for name in GROUP_SUMS})
        for error in interval["errors"]:
            of = (error["group"], error["script"], error["sqlstate"], bool(error["expected"]))
            self.errors[of] += error["count"]
            self._count_message(error["group"], error["message"], error["count"])
        stall_us = self._add_threads(interval)
        self._recent.append(Recent(interval["ended_ns"] / 1e9, longest, stall_us))
        self._forget()
        ended_s = time.monotonic() - interval["ended_ns"] / 1e9
        self.last_interval_unix_s = time.time() - ended_s

    def _add_threads(self, interval: Interval) -> int:
        for thread in interval["threads"]:
            row: Mapping[str, Any] = thread
            self.generator.update({name: row[name] for name in THREAD_SUMS})
        self.threads = len(interval["threads"]) or self.threads
        return max((row["loop_stall_us_max"] for row in interval["threads"]), default=0)

    def _count_message(self, group: str, message: str, count: int) -> None:
        key = group, blank(message)
        known = key in self.messages or len(self.messages) < MESSAGES_MAX
        self.messages[key if known else (group, REST)] += count

    def _count_waits(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.looks += max((row["ticks"] for row in rows), default=0)
        for row in rows:
            if row["backend_type"] == CLIENT_BACKEND and row["state"] == "active":
                self.waits[row["wait_event_type"], row["wait_event"]] += row["count"]

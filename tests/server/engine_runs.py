"""Helper of the engine's tests: loads on a real server, and what came out of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from patience import wait_until
from pgdyno._engine import Histogram, Load
from pgdyno.server import ConnInfo

if TYPE_CHECKING:
    from pgdyno._engine import GroupRow, Interval

COUNTS = ["intended", "sent", "done", "failed", "skipped", "cancelled", "retried"]
COUNTS += ["expected_errors", "late"]
GROUP_COUNTS = ["connects", "reconnects", "connect_failures"]
GROUP_KEYS = ["clients", "schedule", "arrival", "latency_limit_us", "pool", "instances", "think_ms"]
GROUP_KEYS += ["connection", "idle", "hold_open_ms", "witness", "variables", "transactions"]


def config(conninfo: ConnInfo, *scripts: str, **keys: Any) -> str:
    """A load's configuration: one group ``g`` of four clients that execute ``scripts``.

    ``weights`` are the scripts' (each 1 otherwise); other ``keys`` of a group go to the group, the
    rest to the load.
    """
    weights = keys.pop("weights", (1,) * len(scripts))
    target = {
        "hosts": [{"host": conninfo.host, "port": conninfo.port}],
        "user": conninfo.user,
        "password": conninfo.password,
        "database": conninfo.database,
    }
    group: dict[str, Any] = {
        "name": "g",
        "clients": 4,
        "scripts": [
            {"name": f"s{i}", "text": text, "weight": weights[i]} for i, text in enumerate(scripts)
        ],
    }
    load: dict[str, Any] = {"target": target, "seed": 1, "groups": [group]}
    for key, value in keys.items():
        in_group = key in GROUP_KEYS
        (group if in_group else load)[key] = value
    return json.dumps(load)


class Run:
    """A started load; stops when the ``with`` block ends, and then holds every interval."""

    def __init__(self, load_config: str, drain_ms: int = 5000) -> None:
        self.load = Load(load_config)
        self.drain_ms = drain_ms
        self.intervals: list[Interval] = []
        self.started_ns = self.load.start()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.load.stop(self.drain_ms)
        self.poll()
        assert self.load.state() == "stopped"

    def poll(self) -> None:
        self.intervals += self.load.poll()

    def wait_for(self, condition: Callable[[Run], bool]) -> None:
        """Poll, cutting intervals short, until the condition holds for what was counted so far."""

        def holds() -> bool:
            self.poll()
            if condition(self):
                return True
            self.load.end_interval(None)
            return False

        wait_until(holds, lambda: f"{self.total} {self.errors}")

    def wait_until_known(self) -> None:
        """Wait until all threads have carried out what was asked of the load: an interval that
        begins now takes them all."""
        ended = len(self.intervals)
        self.wait_for(lambda run: len(run.intervals) > ended + 1)

    def wait_for_more(self, key: str, count: int) -> None:
        """Wait until a count has grown by at least this much from now on."""
        now_ns = self.load.end_interval(None)
        self.wait_for(lambda run: bool(run.intervals) and run.last["ended_ns"] >= now_ns)
        before = self.total[key]
        self.wait_for(lambda run: run.total[key] >= before + count)

    @property
    def total(self) -> Counter[str]:
        """Sums over all intervals, scripts and groups; the backlog as of the last interval."""
        total: Counter[str] = Counter()
        for interval in self.intervals:
            for row in interval["scripts"]:
                total.update({key: row[key] for key in COUNTS})  # type: ignore[literal-required]
            for group in interval["groups"]:
                total.update({key: group[key] for key in GROUP_COUNTS})  # type: ignore[literal-required]
        if self.intervals:
            total["backlog"] = sum(row["backlog"] for row in self.intervals[-1]["scripts"])
        return total

    @property
    def errors(self) -> Counter[tuple[str, bool, bool]]:
        """Counts by SQLSTATE, whether expected, whether tried again."""
        counts: Counter[tuple[str, bool, bool]] = Counter()
        for interval in self.intervals:
            for row in interval["errors"]:
                counts[row["sqlstate"], row["expected"], row["retried"]] += row["count"]
        return counts

    def histogram(self, kind: str) -> Histogram:
        """All of one kind, of scripts' rows or of groups'."""
        merged = Histogram()
        for interval in self.intervals:
            for row in (*interval["scripts"], *interval["groups"]):
                if kind in row:
                    merged.add_encoded(row[kind])  # type: ignore[literal-required]
        return merged

    @property
    def last(self) -> Interval:
        return self.intervals[-1]

    @property
    def group(self) -> GroupRow:
        """The group's counts of the last interval."""
        (row,) = self.last["groups"]
        return row

    def assert_balanced(self) -> None:
        """Check the ledger at the end of every interval and at the very end."""
        total: Counter[str] = Counter()
        for interval in self.intervals:
            for row in interval["scripts"]:
                key = row["script"]
                total[key] += row["intended"] - row["done"] - row["failed"]
                total[key] -= row["skipped"] + row["cancelled"]
                assert total[key] == row["backlog"], (interval, total)
        for kind in ("response", "wait", "client_lag", "pool_wait", "connect", "service"):
            assert self.histogram(kind).count == self.total["done"]
        for kind in ("tcp", "auth", "ready", "total"):
            assert self.histogram(kind).count == self.total["connects"]
        assert self.total["sent"] <= self.total["intended"]

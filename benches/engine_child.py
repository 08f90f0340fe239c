"""The process of pgdyno's engine in a benchmark: requests on stdin, answers on stdout.

``python -m benches.engine_child``; one JSON object per line. A load is run as by the conductor,
with a recorder and a run file, which is removed afterwards.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pgdyno._engine import EngineError, Histogram
from pgdyno.conduct import Silent
from pgdyno.conduct._engine_types import EngineConfig
from pgdyno.conduct._load import RunningLoad
from pgdyno.conduct._server_away import Standstill
from pgdyno.errors import PgdynoError
from pgdyno.record import Recorder
from pgdyno.record._writer import Writer

if TYPE_CHECKING:
    from pgdyno._engine import Interval

_PATIENCE_S = 120.0
_LOOK_EVERY_S = 0.02
_WARM, _MEASURED = 1, 2


class Counting(Recorder):
    """A recorder that also keeps the intervals in memory."""

    def __init__(self, writer: Writer) -> None:
        super().__init__(writer)
        self.intervals: list[Mapping[str, Any]] = []

    def add_interval(self, interval: Interval) -> None:
        """Record the interval, and keep it."""
        super().add_interval(interval)
        self.intervals.append(interval)


class Work:
    """A running load and its counts."""

    def __init__(self, config: EngineConfig, directory: str) -> None:
        self.clients = sum(group["clients"] for group in config["groups"])
        self.reconnecting = any(group.get("connection") for group in config["groups"])
        path = Path(directory) / "bench.db"
        self.recorder = cast(Counting, Counting.create(path, name="bench", command="run"))
        standstill = Standstill(lambda: 0.0)
        self.load = RunningLoad(config, self.recorder, Silent(), standstill)

    def close(self) -> None:
        """End the load and the recording."""
        self.load.stop()
        self.recorder.close()

    def end_interval(self, tag: int | None) -> int:
        """End an interval, and wait until it is counted."""
        at_ns = self.load.end_interval(tag)
        self.load.wait_recorded(at_ns)
        return at_ns

    def sum(self, key: str, tag: int | None = None) -> int:
        """Return a column's sum over all scripts, of the intervals with ``tag``, or of all."""
        return sum(
            row[key]
            for interval in self.recorder.intervals
            if tag in (None, interval["tag"])
            for row in interval["scripts"]
        )

    def histogram(self, rows: str, name: str, tag: int | None) -> Histogram:
        """Return a histogram merged over the rows of the intervals with ``tag``, or of all."""
        merged = Histogram()
        for interval in self.recorder.intervals:
            if tag in (None, interval["tag"]):
                for row in interval[rows]:
                    merged.add_encoded(row[name])
        return merged

    def connected(self) -> int:
        """Return the number of connections at the end of the last interval."""
        if not self.recorder.intervals:
            return 0
        return sum(row["connections"] for row in self.recorder.intervals[-1]["groups"])

    def warm_up(self) -> None:
        """Wait until all clients are connected, and then for as many transactions as clients.

        Clients that reconnect are never all connected.
        """
        if not self.reconnecting:
            self.wait_until(lambda: self.connected() >= self.clients, tag=None)
        self.end_interval(_WARM)
        self.wait_until(lambda: self.sum("done", _WARM) >= self.clients, tag=_WARM)

    def wait_until(self, reached: Callable[[], bool], *, tag: int | None) -> None:
        """Wait until ``reached``, with ``tag`` for the intervals meanwhile."""
        deadline = time.monotonic() + _PATIENCE_S
        while not reached():
            if time.monotonic() > deadline:
                raise EngineError("the load did not start in time")
            time.sleep(_LOOK_EVERY_S)
            self.end_interval(tag)


def measure_slice(config: EngineConfig, *, seconds: float) -> dict[str, Any]:
    """Return transactions and CPU of one slice."""
    with tempfile.TemporaryDirectory() as directory:
        work = Work(config, directory)
        try:
            work.warm_up()
            began_ns, before = (
                work.load.end_interval(_MEASURED),
                resource.getrusage(resource.RUSAGE_SELF),
            )
            work.load.wait(seconds)
            ended_ns, after = work.load.end_interval(None), resource.getrusage(resource.RUSAGE_SELF)
            work.load.wait_recorded(ended_ns)
        finally:
            work.close()
        return {
            "transactions": work.sum("done", _MEASURED),
            "seconds": (ended_ns - began_ns) / 1e9,
            "cpu_user_s": after.ru_utime - before.ru_utime,
            "cpu_system_s": after.ru_stime - before.ru_stime,
        }


def measure_lateness(config: EngineConfig, *, seconds: float) -> dict[str, Any]:
    """Return the lateness of an open loop, from the intended time (``wait``) and from the time at
    which a client was free (``send``), and its transactions."""
    with tempfile.TemporaryDirectory() as directory:
        work = Work(config, directory)
        try:
            work.warm_up()
            began_ns = work.end_interval(_MEASURED)
            work.load.wait(seconds)
            ended_ns = work.end_interval(None)
        finally:
            work.close()
        return {
            "done": work.sum("done", _MEASURED),
            "seconds": (ended_ns - began_ns) / 1e9,
            "wait": _quantiles(work.histogram("scripts", "wait", _MEASURED)),
            "send": _quantiles(work.histogram("threads", "send_late", _MEASURED)),
        }


def _quantiles(histogram: Histogram) -> dict[str, float]:
    return {
        "us_p50": histogram.percentile(50) / 1e3,
        "us_p99": histogram.percentile(99) / 1e3,
        "us_max": histogram.max / 1e3,
    }


def measure_crowd(config: EngineConfig, *, clients: int, idle: bool) -> dict[str, Any]:
    """Return the growth of memory from one client to ``clients``, and the time to connect
    them. Unless ``idle``, each has then executed a transaction."""
    with tempfile.TemporaryDirectory() as directory:
        work = Work(config, directory)
        group = config["groups"][0]["name"]
        try:
            work.wait_until(lambda: work.connected() >= 1, tag=None)
            _give_back_free_memory()
            before_bytes, began = _resident_bytes(), time.monotonic()
            work.load.set_clients(group, clients)
            work.wait_until(lambda: work.connected() >= clients, tag=None)
            connect_s = time.monotonic() - began
            if not idle:
                work.clients = clients
                work.warm_up()
            after_bytes = _resident_bytes()
        finally:
            work.close()
        return {"bytes": after_bytes - before_bytes, "connect_s": connect_s}


def measure_storm(config: EngineConfig) -> dict[str, Any]:
    """Return the time from the start of the engine until all clients are connected."""
    with tempfile.TemporaryDirectory() as directory:
        work = Work(config, directory)
        try:
            work.wait_until(lambda: work.connected() >= work.clients, tag=None)
            return {"connect_s": (time.monotonic_ns() - work.load.started_ns) / 1e9}
        finally:
            work.close()


def _give_back_free_memory() -> None:
    """Return freed memory to the system, which would hide later allocations."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
    if trim is not None:
        trim(0)


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "slice": measure_slice,
    "lateness": measure_lateness,
    "crowd": measure_crowd,
    "storm": measure_storm,
}


def main() -> None:
    """Answer requests until stdin ends."""
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = TASKS[request["task"]](request["config"], **request["options"])
        except (EngineError, PgdynoError) as error:
            answer = {"error": str(getattr(error, "message", error))}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):  # the parent receives it as well
        main()

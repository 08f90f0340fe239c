"""The process that carries pgdyno's engine for a benchmark: requests on stdin, answers on stdout.

``python -m benches.engine_child``; one JSON object per line either way. A load is run as the
conductor runs it, with its recorder and a run file, which is thrown away.
"""

from __future__ import annotations

import json
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from pgdyno._engine import EngineError
from pgdyno.conduct import Silent
from pgdyno.conduct.load import RunningLoad
from pgdyno.errors import PgdynoError
from pgdyno.record import Recorder

_PATIENCE_S = 120.0
_LOOK_EVERY_S = 0.02
_WARM, _MEASURED = 1, 2


class Counting(Recorder):
    """A recorder that also keeps the intervals at hand."""

    def __init__(self, path: Path, db: sqlite3.Connection, started_ns: int) -> None:
        super().__init__(path, db, started_ns)
        self.intervals: list[Mapping[str, Any]] = []

    def add_interval(self, interval: Mapping[str, Any]) -> None:
        """Records and keeps."""
        super().add_interval(interval)
        self.intervals.append(interval)


class Work:
    """A load at work, and what it has counted so far."""

    def __init__(self, config: Mapping[str, Any], folder: str) -> None:
        self.clients = sum(group["clients"] for group in config["groups"])
        path = Path(folder) / "bench.db"
        self.recorder = cast(Counting, Counting.create(path, name="bench", command="run"))
        self.load = RunningLoad(config, self.recorder, Silent())

    def close(self) -> None:
        """End the load and the recording."""
        self.load.stop()
        self.recorder.close()

    def cut(self, tag: int | None) -> int:
        """End an interval, and wait until it is counted."""
        at_ns = self.load.cut(tag)
        self.load.wait_recorded(at_ns)
        return at_ns

    def sum(self, key: str, tag: int | None = None) -> int:
        """A column's sum over all scripts, of the intervals with that tag, or of all."""
        return sum(
            row[key]
            for interval in self.recorder.intervals
            if tag in (None, interval["tag"])
            for row in interval["scripts"]
        )

    def connected(self) -> int:
        """Connections at the end of the last interval."""
        if not self.recorder.intervals:
            return 0
        return sum(row["connections"] for row in self.recorder.intervals[-1]["groups"])

    def warm_up(self) -> None:
        """Until every client is connected, and as many transactions as clients are done since."""
        self.wait_until(lambda: self.connected() >= self.clients, tag=None)
        self.cut(_WARM)
        self.wait_until(lambda: self.sum("done", _WARM) >= self.clients, tag=_WARM)

    def wait_until(self, reached: Callable[[], bool], *, tag: int | None) -> None:
        """Until the counts say so, with ``tag`` for the intervals meanwhile."""
        deadline = time.monotonic() + _PATIENCE_S
        while not reached():
            if time.monotonic() > deadline:
                raise EngineError("the load did not get going")
            time.sleep(_LOOK_EVERY_S)
            self.cut(tag)


def measure_slice(config: Mapping[str, Any], *, seconds: float) -> dict[str, Any]:
    """Transactions and CPU of one slice."""
    with tempfile.TemporaryDirectory() as folder:
        work = Work(config, folder)
        try:
            work.warm_up()
            began_ns, before = work.load.cut(_MEASURED), resource.getrusage(resource.RUSAGE_SELF)
            work.load.wait(seconds)
            ended_ns, after = work.load.cut(None), resource.getrusage(resource.RUSAGE_SELF)
            work.load.wait_recorded(ended_ns)
        finally:
            work.close()
        return {
            "transactions": work.sum("done", _MEASURED),
            "seconds": (ended_ns - began_ns) / 1e9,
            "cpu_user_s": after.ru_utime - before.ru_utime,
            "cpu_system_s": after.ru_stime - before.ru_stime,
        }


TASKS: dict[str, Callable[..., dict[str, Any]]] = {"slice": measure_slice}


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
    main()

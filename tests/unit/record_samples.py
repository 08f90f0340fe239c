"""Run files made by hand, for the tests of what writes and reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pgdyno.record import Recorder
from pgdyno.record._interval_rows import (
    ERROR_TEXTS,
    GROUP_COUNTS,
    GROUP_HISTOGRAMS,
    SCRIPT_COUNTS,
    SCRIPT_HISTOGRAMS,
    THREAD_COUNTS,
)

SECOND_NS = 1_000_000_000


def error_row(**given: Any) -> dict[str, Any]:
    """Errors of one kind, nowhere and of no client but for ``given``."""
    row: dict[str, Any] = {"group": "web", "script": "tpcb-like", "line": None, "client": None}
    row |= dict.fromkeys(("file", *ERROR_TEXTS), "")
    return row | {"sqlstate": "40001", "expected": 0, "retried": 0, "count": 1} | given


def new_recorder(path: Path, **given: Any) -> Recorder:
    facts: dict[str, Any] = {"name": "sample", "command": "run", "spec": {"name": "sample"}}
    return Recorder.create(path, **(facts | given))


def script_row(group: str = "web", script: str = "tpcb-like", **given: Any) -> dict[str, Any]:
    """One script's part of an interval: zeros and empty histograms but for ``given``."""
    row: dict[str, Any] = {"group": group, "script": script}
    row |= dict.fromkeys(SCRIPT_COUNTS, 0) | dict.fromkeys(SCRIPT_HISTOGRAMS, b"")
    return row | given


def group_row(group: str = "web", **given: Any) -> dict[str, Any]:
    """One group's connections in an interval: zeros and empty histograms but for ``given``."""
    row: dict[str, Any] = {"group": group}
    row |= dict.fromkeys(GROUP_COUNTS, 0) | dict.fromkeys(GROUP_HISTOGRAMS, b"")
    return row | given


def thread_row(**given: Any) -> dict[str, Any]:
    return dict.fromkeys(THREAD_COUNTS, 0) | {"send_late": b""} | given


def add_second(recorder: Recorder, second: float, scripts: Any, **given: Any) -> None:
    """An interval of one second that begins ``second`` seconds into the run.

    Groups that are not given have no connections.
    """
    began = recorder.started_ns + round(second * SECOND_NS)
    interval: dict[str, Any] = {
        "started_ns": began,
        "ended_ns": began + SECOND_NS,
        "tag": recorder.current_slice,
        "scripts": scripts,
        "groups": [group_row(name) for name in dict.fromkeys(row["group"] for row in scripts)],
        "statements": [],
        "errors": [],
        "threads": [],
    }
    recorder.add_interval(interval | given)


def at(recorder: Recorder, second: float) -> int:
    """Monotonic nanoseconds at ``second`` seconds into the run."""
    return recorder.started_ns + round(second * SECOND_NS)

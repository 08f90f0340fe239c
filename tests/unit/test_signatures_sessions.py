"""Signatures of client sessions, on made-up run files: idle ones, held ones, herds of log-ins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import Load, diagnosed
from inline_snapshot import snapshot

from pgdyno.probe._origins import by_origin
from pgdyno.record.finding import Lack

Rows = Callable[[int], Sequence[Mapping[str, Any]]]
USABLE = 97


def sessions(state: str, count: int, bucket: int) -> dict[str, Any]:
    """So many sessions in a state, all in one bucket of ages."""
    ages = [count if n == bucket else 0 for n in range(6)]
    return {
        "role": "shop", "application": "web", "address": "10.0.0.1", "state": state,
        "count": count, "unused": 0, "xact_age_ms_max": None, "state_ages": ages,
        "transaction_ages": [0] * 6, "connection_ages": ages,
    }  # fmt: skip


def load(*, of: Callable[[int], list[dict[str, Any]]], **facts: Any) -> Load:
    """A load beside which these sessions are seen, second by second."""
    rows: dict[str, Rows] = {
        "metric_origin": lambda second: by_origin(of(second)),
        "metric_connection": lambda second: [
            {"used": 50, "ours": 8, "others_idle": 0, "usable": USABLE}
        ],
    }
    return Load(rows=rows, **facts)


def idle(count: int, bucket: int, more_per_s: int = 0) -> Load:
    return load(
        of=lambda second: [
            sessions("idle", count + more_per_s * second, bucket),
            sessions("active", 4, 0),
        ]
    )


def test_half_of_the_connections_idle_for_long_are_found(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, idle(49, 2))["idle-connections"]
    assert found.status == "found", found.sentence
    assert found.sentence == snapshot(
        "49 connections have been idle for 10 s or longer, of 53, and at most 4 were at work at"
        " once, most of web, shop from 10.0.0.1; 97 can be used"
    )
    assert not found.is_about_to_fail


@pytest.mark.parametrize(("count", "bucket"), [(48, 2), (90, 1)], ids=["fewer", "not for long"])
def test_fewer_or_those_in_use_are_cleared(tmp_path: Path, count: int, bucket: int) -> None:
    assert diagnosed(tmp_path, idle(count, bucket))["idle-connections"].status == "cleared"


def test_a_leak_is_about_to_fail(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, idle(10, 2, more_per_s=1))["idle-connections"]
    assert (found.status, found.is_about_to_fail) == ("found", True), found.sentence
    assert found.sentence == snapshot(
        "20 connections have been idle for 10 s or longer, of 24, and at most 4 were at work at"
        " once, most of web, shop from 10.0.0.1; at this pace the server's 97 are used up in 1 min"
        " 13 s"
    )


def test_idle_ones_that_become_fewer_are_cleared(tmp_path: Path) -> None:
    ending = load(of=lambda second: [sessions("idle", 80 - second, 2)])
    assert diagnosed(tmp_path, ending)["idle-connections"].status == "cleared"


@pytest.mark.parametrize(
    ("count", "bucket", "status"),
    [(5, 2, "found"), (4, 2, "cleared"), (40, 1, "cleared")],
    ids=["five", "four", "not for long"],
)
def test_sessions_that_hold_connections_in_a_transaction(
    tmp_path: Path, count: int, bucket: int, status: str
) -> None:
    held = load(of=lambda second: [sessions("idle in transaction", count, bucket)])
    assert diagnosed(tmp_path, held)["held-connections"].status == status


def test_hidden_sessions_are_no_reason_to_clear(tmp_path: Path) -> None:
    hidden = load(of=lambda second: [sessions("idle", 3, 1) | {"state": None}])
    found = diagnosed(tmp_path, hidden)
    for name in ("idle-connections", "held-connections"):
        assert (found[name].status, found[name].lack) == ("skipped", Lack.RIGHTS)


def made(at_once: int, per_s: int = 0) -> Load:
    """Connections made in the fifth second, and in every second."""
    rows: dict[str, Rows] = {
        "metric_database": lambda second: [
            {"numbackends": 100, "sessions": per_s * second + (at_once if second >= 5 else 0)}
            | dict.fromkeys(("sessions_abandoned", "sessions_fatal", "sessions_killed"), 0)
        ]
    }
    return Load(rows=rows)


@pytest.mark.parametrize(
    ("at_once", "per_s", "status"),
    [(50, 0, "found"), (49, 0, "cleared"), (50, 20, "cleared"), (0, 60, "cleared")],
    ids=["herd", "smaller", "hardly more than usual", "steady"],
)
def test_a_herd_of_log_ins(tmp_path: Path, at_once: int, per_s: int, status: str) -> None:
    found = diagnosed(tmp_path, made(at_once, per_s))["login-storm"]
    assert found.status == status, found.sentence

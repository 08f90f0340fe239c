"""Connections that something between closes, and ends that are the server's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import CPU, IDLE, Load, diagnosed
from msgspec.structs import replace
from record_samples import error_row

from pgdyno.record.finding import Finding
from pgdyno.spec.pooler import haproxy_seconds

WHERE = {"group": "web", "script": "tpcb-like", "statement": "select slow()", "line": 2}
CLOSED = error_row(
    **WHERE, sqlstate="connection-lost", count=4, message="the connection was closed"
)
AT_LIMIT = (1000.0, 1002.0, 1004.0, 1008.0)
CUT = Load(clients=8, sessions={CPU: 0.5, IDLE: 1.0}, errors=[CLOSED], silence_ms=AT_LIMIT)


def ended(**rates: float) -> dict[str, Sequence[dict[str, Any]]]:
    """Sessions that the server ended, per second."""
    none = {"sessions_abandoned": 0.0, "sessions_fatal": 0.0, "sessions_killed": 0.0}
    return {"metric_database": [none | rates]}


def found(tmp_path: Path, load: Load) -> Finding:
    return diagnosed(tmp_path, load)["connections-cut"]


def figures(finding: Finding) -> dict[str, Any]:
    return {each.name: each.value for each in finding.evidence}


def test_connections_that_end_at_a_limit_are_cut_and_the_limit_is_told(tmp_path: Path) -> None:
    finding = found(tmp_path, replace(CUT, counters=ended(sessions_abandoned=4.0)))
    assert finding.id == "connections-cut"
    assert finding.status == "found"
    assert finding.severity == "costs"
    assert figures(finding)["sessions terminated, by the server's count"] == 0
    assert figures(finding)["time without a byte before the end, p50"] == pytest.approx(1002, 0.02)
    assert "1 s without a byte" in finding.sentence
    assert "HAProxy" in finding.advice


def test_sessions_that_find_their_client_gone_are_none_that_the_server_ends(tmp_path: Path) -> None:
    assert found(tmp_path, replace(CUT, counters=ended(sessions_fatal=4.0))).status == "found"


def test_the_setting_of_a_proxy_of_pgdynos_is_named(tmp_path: Path) -> None:
    pooler = {"kind": "haproxy", "settings": {"timeout client": "1s", "timeout server": "1h"}}
    finding = found(tmp_path, replace(CUT, counters=ended(), pooler=pooler))
    assert finding.status == "found"
    assert "HAProxy's timeout client = 1s" in finding.advice
    assert "timeout server" not in finding.advice


def test_ends_after_different_times_have_no_limit(tmp_path: Path) -> None:
    load = replace(CUT, counters=ended(), silence_ms=(3.0, 900.0, 40.0, 2500.0))
    finding = found(tmp_path, load)
    assert finding.status == "found"
    assert "without a byte" not in finding.sentence


@pytest.mark.parametrize(
    "load",
    [
        replace(CUT, errors=(), silence_ms=()),
        replace(CUT, counters=ended(sessions_killed=4.0)),
        replace(CUT, counters=ended(), errors=[CLOSED, error_row(**WHERE, sqlstate="57P02")]),
        replace(CUT, counters=ended(), errors=[CLOSED | {"expected": 1}]),
    ],
    ids=["none", "killed", "told by the server", "expected"],
)
def test_what_the_server_itself_ends_is_not_cut(tmp_path: Path, load: Load) -> None:
    finding = found(tmp_path, load)
    assert finding.id == "connections-cut"
    assert finding.status == "cleared"


@pytest.mark.parametrize("column", ["started_unix_ms", "checkpointer_unix_ms"])
def test_a_server_that_started_again_may_have_ended_them(tmp_path: Path, column: str) -> None:
    def sightings(edge: int) -> Sequence[dict[str, Any]]:
        row = {"system_identifier": "1", "started_unix_ms": 1, "checkpointer_unix_ms": 2}
        return [row | {"in_recovery": 0} | ({column: 9} if edge >= 2 else {})]

    load = replace(CUT, counters=ended(), rows={"metric_server": sightings})
    assert found(tmp_path, load).status == "cleared"


@pytest.mark.parametrize(
    ("text", "seconds"), [("1s", 1.0), ("1500", 1.5), ("2m", 120.0), ("24d", 2073600.0)]
)
def test_times_of_haproxy(text: str, seconds: float) -> None:
    assert haproxy_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "long", "1w", "-1s"])
def test_what_is_no_time_of_haproxy(text: str) -> None:
    assert haproxy_seconds(text) is None

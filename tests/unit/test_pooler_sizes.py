"""The pool of a pooler that is too small or too large, told apart from that of the application and
from a server that is the limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import CPU, IDLE, WAL_SYNC, Load, diagnosed
from inline_snapshot import snapshot
from msgspec.structs import replace

from pgdyno.diagnose import Finding
from pgdyno.remedy import assess, circumstances
from pgdyno.spec import Change, spec_from_fields

STATEMENTS = [("begin", 41.0), ("update t", 0.2), ("select", 0.15), ("end", 2.5)]
# PgBouncer with two sessions for 16 clients: the first statement waits for one of them.
SMALL = Load(
    clients=16,
    tps=345,
    service_ms=47.0,
    on_server=2.0,
    sessions={CPU: 0.2, WAL_SYNC: 0.8, IDLE: 0.95},
    busy=0.15,
    script_ms=STATEMENTS,
)
# All of 32 sessions want one of two cores.
LARGE = Load(
    clients=64,
    tps=6000,
    service_ms=10.5,
    on_server=32.0,
    sessions={CPU: 30.0, IDLE: 1.0},
    busy=0.99,
    queued=33.0,
    script_ms=[("begin", 5.3), ("update t", 1.8), ("select", 1.7), ("end", 1.7)],
)


def behind(load: Load, size: int, mode: str = "transaction", **server: float) -> Load:
    """The load through a PgBouncer that pgdyno started, with what it shows of its queue."""
    settings = {"pool_mode": mode, "default_pool_size": str(size)}

    def rows(_: int) -> Sequence[Mapping[str, Any]]:
        return [
            {
                "pool": "db",
                "clients": load.clients,
                "clients_waiting": load.clients - size,
                "servers_active": size,
                "servers_idle": 0,
                "listen_queue": 0,
            }
        ]

    return replace(
        load,
        pooler={"kind": "pgbouncer", "settings": settings},
        rows={"metric_pooler": rows},
        **server,
    )


def sizes(finding: Finding) -> list[int]:
    """The sizes proposed for the pooler's pool, the best first."""
    return [int(each.change.spec["pooler.default_pool_size"]) for each in finding.proposals]


def test_a_pool_that_is_too_small_is_to_be_larger(tmp_path: Path) -> None:
    finding = diagnosed(tmp_path, behind(SMALL, 2))["pooler"]
    assert finding.status == "found"
    assert finding.sentence == snapshot(
        "clients wait 41 of 47 ms for one of 2 sessions that a pooler shares among 16 connections"
    )
    assert sizes(finding)[0] > 2
    assert finding.proposals[0].predicted_ratio > 2
    assert finding.proposals[0].specific
    evidence = {each.name: each.value for each in finding.evidence}
    assert evidence["clients waiting in the pooler, by its own count"] == 14


def test_a_pooler_of_the_users_is_not_changed(tmp_path: Path) -> None:
    finding = diagnosed(tmp_path, SMALL)["pooler"]
    assert finding.status == "found"
    assert finding.proposals == ()


def test_a_larger_pool_has_room_in_the_server(tmp_path: Path) -> None:
    def room(_: int) -> Sequence[Mapping[str, Any]]:
        return [{"used": 6, "ours": 4, "others_idle": 0, "usable": 10}]

    small = behind(SMALL, 2)
    finding = diagnosed(tmp_path, replace(small, rows={**small.rows, "metric_connection": room}))
    assert max(sizes(finding["pooler"])) == 6


def test_a_pool_that_is_too_large_is_to_be_smaller(tmp_path: Path) -> None:
    findings = diagnosed(tmp_path, behind(LARGE, 32))
    finding = findings["connections"]
    assert finding.status == "found", finding.sentence
    assert finding.sentence == snapshot(
        "27 sessions compete for 2 cores, which PgBouncer's pool lets in (default_pool_size = 32)"
    )
    assert sizes(finding)
    assert max(sizes(finding)) < 32
    assert findings["pooler"].status == "cleared", findings["pooler"].sentence


@pytest.mark.parametrize("load", [LARGE, behind(LARGE, 32, mode="session")])
def test_without_a_pool_to_share_the_application_has_too_many(tmp_path: Path, load: Load) -> None:
    finding = diagnosed(tmp_path, load)["connections"]
    assert finding.status == "found"
    assert "PgBouncer" not in finding.sentence
    assert all(each.change.pool_max for each in finding.proposals)


def test_slices_have_the_pooler_of_their_change(tmp_path: Path) -> None:
    change = {"spec": {"pooler.kind": "pgbouncer", "pooler.default_pool_size": "2",
                       "pooler.pool_mode": "transaction"}}  # fmt: skip
    small = replace(behind(SMALL, 2), pooler={}, change=change)
    finding = diagnosed(tmp_path, small)["pooler"]
    assert finding.status == "found"
    assert sizes(finding)[0] > 2


def test_the_lines_to_type_have_the_setting() -> None:
    change = Change(spec={"pooler.kind": "pgbouncer", "pooler.default_pool_size": "16"})
    before = Change(spec={"pooler.default_pool_size": "2"})
    assessment = assess(change, circumstances(spec_from_fields({})))
    assert assessment.lines_to_apply() == snapshot(
        [
            "-- in front of the server: PgBouncer",
            "-- pooler: default_pool_size = 16",
        ]
    )
    assert assessment.lines_to_undo(before) == snapshot(
        [
            "-- pooler: kind: restore its previous value",
            "-- pooler: default_pool_size = 2",
        ]
    )

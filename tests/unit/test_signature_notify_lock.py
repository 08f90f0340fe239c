"""Commits with NOTIFY that take turns are told apart from statements that define objects."""

from __future__ import annotations

from pathlib import Path

import pytest
from diagnose_runs import CPU, IDLE, WAL_SYNC, Load, concluded, diagnosed, ranked
from inline_snapshot import snapshot
from msgspec.structs import replace

OBJECT = ("Lock", "object")
QUEUE = {
    "lock_type": "object",
    "mode": "AccessExclusiveLock",
    "relation": None,
    "blocker": "commit",
    "waits_with": "commit",
}
# Sixteen clients, of which one at a time commits with a flush of 2 ms.
TAKING_TURNS = Load(
    clients=16,
    tps=480,
    service_ms=33.0,
    statement="commit",
    script_ms=[("begin", 0.1), ("update t", 0.2), ("select pg_notify('a', 'b')", 0.1),
               ("commit", 32.0)],
    sessions={CPU: 0.2, WAL_SYNC: 0.95, OBJECT: 14.5, IDLE: 0.2},
    busy=0.2,
    wal={"wal_bytes": 1e6, "wal_records": 3000, "wal_sync": 480, "wal_sync_time_ms": 940},
    queues=[QUEUE],
)  # fmt: skip


def test_commits_that_take_turns_are_the_limit(tmp_path: Path) -> None:
    findings = ranked(tmp_path, TAKING_TURNS)
    first = findings[0]
    assert (first.id, first.rank) == ("notify-lock", 1), [each.sentence for each in findings[:3]]
    assert first.sentence == snapshot(
        "14 of 16 sessions in a transaction wait for the lock that each commit with NOTIFY holds,"
        " one at a time, held through the commit's flush; a sync takes 2 ms"
    )
    assert first.confidence == 0.9
    assert first.advice == snapshot(
        "send notifications in fewer transactions: let one session send them for many changes, or"
        " send only what somebody listens for; transactions without NOTIFY do not take the lock:"
        " 4.6x the throughput is predicted if no transaction did"
    )
    (proposal,) = first.proposals
    assert proposal.change.settings == {"synchronous_commit": "off"}
    assert proposal.predicted_ratio > 2
    assert not proposal.specific


def test_a_lock_that_is_not_held_through_a_flush_asks_for_no_other_commit(tmp_path: Path) -> None:
    asynchronous = replace(TAKING_TURNS, sessions={CPU: 1.2, OBJECT: 14.5, IDLE: 0.2})
    finding = diagnosed(tmp_path, asynchronous)["notify-lock"]
    assert finding.status == "found"
    assert "flush" not in finding.sentence
    assert not finding.proposals


def test_without_looks_the_wait_event_tells(tmp_path: Path) -> None:
    finding = ranked(tmp_path, replace(TAKING_TURNS, queues=[]))[0]
    assert finding.id == "notify-lock"


def test_a_trigger_that_notifies_is_less_sure(tmp_path: Path) -> None:
    hidden = replace(TAKING_TURNS, script_ms=[("begin", 0.1), ("update t", 0.2), ("commit", 32.0)])
    assert diagnosed(tmp_path, hidden)["notify-lock"].confidence == 0.8
    alone = replace(hidden, statement="insert into t values ($1)", script_ms=())
    assert diagnosed(tmp_path, alone)["notify-lock"].confidence == 0.6


@pytest.mark.parametrize("statement", ["drop function f", "ALTER ROLE a SET b = 1", "grant a to b"])
def test_statements_that_define_objects_are_not_notifications(
    tmp_path: Path, statement: str
) -> None:
    found = concluded(tmp_path, replace(TAKING_TURNS, statement=statement))
    (finding,) = (each for each in found.findings if each.id == "notify-lock")
    assert finding.status == "cleared"
    (part,) = (each for each in found.parts if each.part == "lock")
    assert part.status == "unexplained"


def test_a_few_commits_that_wait_are_no_limit(tmp_path: Path) -> None:
    few = replace(TAKING_TURNS, sessions={CPU: 10.0, WAL_SYNC: 4.0, OBJECT: 0.5})
    assert diagnosed(tmp_path, few)["notify-lock"].status == "cleared"


def test_other_locks_are_not_notifications(tmp_path: Path) -> None:
    virtual = {CPU: 0.2, ("Lock", "virtualxid"): 15.0}
    found = concluded(tmp_path, replace(TAKING_TURNS, sessions=virtual, queues=[]))
    (finding,) = (each for each in found.findings if each.id == "notify-lock")
    assert finding.status == "cleared"
    assert not finding.parts

"""Synchronous replication is told apart from a slow flush, and the standby's steps from another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import CPU, IDLE, ROW, WAL_QUEUE, WAL_SYNC, Load, diagnosed, ranked
from inline_snapshot import snapshot
from msgspec.structs import replace

from pgdyno.diagnose import Finding
from pgdyno.facts.standbys import WaitedFor, waited_for

SYNC_REP = ("IPC", "SyncRep")


def standby(name: str = "a", *, state: str = "quorum", **lags_ms: float) -> dict[str, Any]:
    times = {f"{step}_lag_ms": lags_ms.get(step) for step in ("write", "flush", "replay")}
    return {"application_name": name, "state": "streaming", "sync_state": state} | times


# Sixteen connections whose commits wait for a standby behind a link of 10 ms and back.
REMOTE = Load(
    clients=16,
    tps=1230,
    service_ms=13.0,
    sessions={CPU: 0.8, SYNC_REP: 13.5, WAL_SYNC: 0.7, WAL_QUEUE: 0.5, IDLE: 0.3},
    busy=0.3,
    settings={"synchronous_standby_names": "ANY 1 (a)"},
    standbys=[standby(write=10.2, flush=11.0, replay=11.2)],
)


def found(tmp_path: Path, load: Load) -> Finding:
    finding = diagnosed(tmp_path, load)["sync-replication"]
    assert finding.status == "found"
    return finding


def remedies(finding: Finding) -> dict[str, Any]:
    return {each.remedy_id: each for each in finding.proposals}


def values(finding: Finding) -> dict[str, Any]:
    return {each.name: each.value for each in finding.evidence}


def test_standby_behind_a_slow_link_is_the_limit(tmp_path: Path) -> None:
    first = ranked(tmp_path, REMOTE)[0]
    assert (first.id, first.rank) == ("sync-replication", 1)
    assert first.sentence == snapshot(
        "transactions wait 11 of 13 ms in synchronous replication for a to confirm their commit"
        " (synchronous_commit = on), 93 % of it until it has received and written them"
    )
    assert values(first)["a: network's round trip, about"] == 10.2
    proposed = remedies(first)
    assert set(proposed) == {"synchronous-commit-local", "synchronous-commit-remote-write"}
    local = proposed["synchronous-commit-local"].predicted_ratio
    assert local > 2 > proposed["synchronous-commit-remote-write"].predicted_ratio
    assert all(each.specific for each in first.proposals)


def test_slow_local_flush_is_not_taken_for_a_standby(tmp_path: Path) -> None:
    flush = {CPU: 0.8, WAL_SYNC: 1.5, WAL_QUEUE: 12.7, SYNC_REP: 0.6, IDLE: 0.3}
    findings = ranked(tmp_path, replace(REMOTE, sessions=flush))
    assert findings[0].id == "commit-flush"
    assert {f.id: f.status for f in findings}["sync-replication"] == "cleared"


def test_server_without_standbys_is_cleared(tmp_path: Path) -> None:
    alone = replace(REMOTE, sessions={CPU: 15.0}, standbys=[], settings={})
    assert diagnosed(tmp_path, alone)["sync-replication"].status == "cleared"


def test_slow_replay_is_named_and_need_not_be_waited_for(tmp_path: Path) -> None:
    settings = {**REMOTE.settings, "synchronous_commit": "remote_apply"}
    slow = [standby(write=0.4, flush=1.2, replay=11.0)]
    finding = found(tmp_path, replace(REMOTE, settings=settings, standbys=slow))
    assert finding.sentence == snapshot(
        "transactions wait 11 of 13 ms in synchronous replication for a to confirm their commit"
        " (synchronous_commit = remote_apply), 89 % of it until it has replayed them"
    )
    assert remedies(finding)["synchronous-commit-on"].predicted_ratio > 2


def test_slow_disk_of_the_standby_is_named(tmp_path: Path) -> None:
    slow = [standby(write=0.4, flush=11.0, replay=11.1)]
    finding = found(tmp_path, replace(REMOTE, standbys=slow))
    assert finding.sentence == snapshot(
        "transactions wait 11 of 13 ms in synchronous replication for a to confirm their commit"
        " (synchronous_commit = on), 96 % of it for the flush there"
    )
    assert remedies(finding)["synchronous-commit-remote-write"].predicted_ratio > 2


def test_the_slowest_of_several_that_must_confirm_is_named(tmp_path: Path) -> None:
    near, far = standby("near", write=0.3, flush=0.9), standby("far", write=10, flush=11)
    two = {"synchronous_standby_names": "ANY 2 (near, far)"}
    finding = found(tmp_path, replace(REMOTE, standbys=[far, near], settings=two))
    assert finding.sentence == snapshot(
        "transactions wait 11 of 13 ms in synchronous replication for near, far to confirm their"
        " commit (synchronous_commit = on), 91 % of it until it has received and written them"
    )
    fewer = remedies(finding)["synchronous-standbys-fewer"]
    assert fewer.change.settings == {"synchronous_standby_names": "ANY 1 (near, far)"}
    assert fewer.predicted_ratio > 2


def test_the_first_listed_need_not_be_waited_for_if_another_is_faster(tmp_path: Path) -> None:
    far = standby("far", state="sync", write=10, flush=11)
    near = standby("near", state="potential", write=0.3, flush=0.9)
    one = {"synchronous_standby_names": "far, near"}
    finding = found(tmp_path, replace(REMOTE, standbys=[far, near], settings=one))
    assert finding.sentence == snapshot(
        "transactions wait 11 of 13 ms in synchronous replication for far to confirm their commit"
        " (synchronous_commit = on), 91 % of it until it has received and written them"
    )
    anyone = remedies(finding)["synchronous-standbys-any"]
    assert anyone.change.settings == {"synchronous_standby_names": "ANY 1 (far, near)"}
    assert anyone.predicted_ratio > 2


def test_without_the_right_to_see_standbys_the_wait_is_still_named(tmp_path: Path) -> None:
    for name, unseen in {"none": [], "one": [standby("a", state="quorum")]}.items():
        finding = found(tmp_path, replace(REMOTE, standbys=unseen))
        assert (
            finding.sentence
            == snapshot(
                {
                    "none": (
                        "transactions wait 11 of 13 ms in synchronous replication for a standby"
                        " to confirm their commit (synchronous_commit = on)"
                    ),
                    "one": (
                        "transactions wait 11 of 13 ms in synchronous replication for a to"
                        " confirm their commit (synchronous_commit = on)"
                    ),
                }
            )[name]
        )
        assert set(remedies(finding)) == {"synchronous-commit-local"}


def test_rows_held_until_a_standby_confirms_are_its_symptom(tmp_path: Path) -> None:
    queue = {CPU: 0.8, SYNC_REP: 8.0, WAL_SYNC: 0.7, ROW: 6.2, IDLE: 0.3}
    findings = ranked(tmp_path, replace(REMOTE, sessions=queue))
    assert findings[0].id == "sync-replication"
    rows = next(each for each in findings if each.id == "hot-row")
    assert rows.causes == ("sync-replication",)
    assert rows.sentence == snapshot(
        "6.2 of 16 sessions in a transaction wait for the same rows, held until a standby"
        " confirms the commit"
    )


@pytest.mark.parametrize(
    ("names", "parsed"),
    [
        (None, None),
        ("", None),
        ("*", WaitedFor(any_of=False, count=1, listed="*")),
        ("a, b", WaitedFor(any_of=False, count=1, listed="a, b")),
        ("2 (a, b)", WaitedFor(any_of=False, count=2, listed="a, b")),
        ("FIRST 1 (a)", WaitedFor(any_of=False, count=1, listed="a")),
        ('any 2 ("s 1", b,c)', WaitedFor(any_of=True, count=2, listed='"s 1", b,c')),
    ],
)
def test_names_of_standbys_are_read_as_postgresql_does(
    names: str | None, parsed: WaitedFor | None
) -> None:
    assert waited_for(names) == parsed

"""Contention in shared memory: each structure has its name, and none is named for another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import CPU, Load, diagnosed, ranked
from inline_snapshot import snapshot
from msgspec.structs import replace

from pgdyno.diagnose import Finding

# Sixteen sessions on cores that are not all busy, most of them at one lock.
CROWD = Load(
    clients=16,
    cores=8,
    tps=4000,
    service_ms=4.0,
    sessions={CPU: 4.0},
    busy=0.5,
    settings={"synchronous_commit": "off", "wal_buffers": "64kB"},
)
EVENTS = {
    "relation-extension": [("Lock", "extend"), ("IO", "DataFileExtend")],
    "page-contention": [
        *(("LWLock", "BufferContent"), ("BufferPin", "BufferPin")),
        *(("Buffer", "BufferExclusive"), ("Buffer", "BufferCleanup")),
    ],
    "wal-insertion": [("LWLock", "WALInsert"), ("LWLock", "WALBufMapping")],
    "subtransactions": [("LWLock", "SubtransBuffer"), ("LWLock", "SubtransSLRU")],
    "multixact": [
        *(("LWLock", "MultiXactOffsetSLRU"), ("LWLock", "MultiXactMemberBuffer")),
        ("LWLock", "MultiXactGen"),
    ],
    "lock-manager": [("LWLock", "LockManager"), ("LWLock", "LockFastPath")],
    "buffer-mapping": [("LWLock", "BufferMapping")],
    "connections": [("LWLock", "ProcArray"), ("IPC", "ProcArrayGroupUpdate")],
}
CASES = [(name, event) for name, events in EVENTS.items() for event in events]


def _at(event: tuple[str, str], sessions: float = 10.0, **more: Any) -> Load:
    return replace(CROWD, sessions={CPU: 16.0 - sessions, event: sessions}, **more)


def _values(finding: Finding) -> dict[str, Any]:
    return {item.name: item.value for item in finding.evidence}


@pytest.mark.parametrize(("name", "event"), CASES)
def test_contention_is_named_by_its_structure(
    tmp_path: Path, name: str, event: tuple[str, str]
) -> None:
    findings = ranked(tmp_path, _at(event))
    answers = {finding.id: finding.status for finding in findings if finding.id in EVENTS}
    found = [other for other, status in answers.items() if status == "found"]
    if name == "connections":  # found only where the model predicts a gain from fewer
        assert found in ([], [name])
        return
    assert found == [name]
    finding = next(each for each in findings if each.id == name)
    assert finding.share == pytest.approx(10 / 16, abs=0.02)
    assert finding.advice
    assert ":".join(event) in "".join(_values(finding))


@pytest.mark.parametrize(("name", "event"), CASES)
def test_a_little_of_it_is_cleared(tmp_path: Path, name: str, event: tuple[str, str]) -> None:
    assert diagnosed(tmp_path, _at(event, 1.0))[name].status == "cleared"


def test_inserts_meet_in_the_last_page_of_an_index(tmp_path: Path) -> None:
    page = EVENTS["page-contention"][0]
    insert = _at(page, statement='insert into "public"."orders" (id) values ($1)')
    finding = diagnosed(tmp_path, insert)["page-contention"]
    assert finding.sentence == snapshot(
        '10 of 16 sessions wait for a page that all inserts into "public"."orders" write: the'
        " last of an index with ascending keys, or that of a row which they refer to, most with:"
        ' insert into "public"."orders" (id) values ($1)'
    )
    assert finding.advice == snapshot(
        "use keys that do not ascend (a random UUID, a hash of the number first), partition the"
        " index by hash, give each session a range of the sequence (CACHE), or use fewer sessions;"
        " no setting changes it"
    )
    sequence = diagnosed(tmp_path, _at(page, statement="select nextval('s')"))["page-contention"]
    assert sequence.sentence == snapshot(
        "10 of 16 sessions wait for the page of a sequence, most with: select nextval('s')"
    )
    assert "CACHE" in sequence.advice


def test_full_wal_buffers_are_made_larger(tmp_path: Path) -> None:
    wal = {"wal_bytes": 9e6, "wal_records": 9e4, "wal_fpi": 0, "wal_buffers_full": 3000}
    full = diagnosed(tmp_path, _at(("LWLock", "WALBufMapping"), wal=wal))["wal-insertion"]
    assert "wal-buffers" in {proposal.remedy_id for proposal in full.proposals}
    roomy = _at(("LWLock", "WALInsert"), wal=wal | {"wal_buffers_full": 0})
    proposals = diagnosed(tmp_path, roomy)["wal-insertion"].proposals
    assert "wal-buffers" not in {proposal.remedy_id for proposal in proposals}


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("subtransactions", "subtransaction_buffers"),
        ("multixact", "multixact_member_buffers"),
        ("lock-manager", "max_locks_per_transaction"),
    ],
)
def test_a_setting_is_advised_from_the_version_that_has_it(
    tmp_path: Path, name: str, setting: str
) -> None:
    event = EVENTS[name][0]
    for version, has_it in ((180006, True), (150018, False)):
        load = _at(event, server_facts={"version_num": version})
        assert (setting in diagnosed(tmp_path, load)[name].advice) == has_it


def test_more_sessions_than_cores_are_not_named_for_what_has_a_name(tmp_path: Path) -> None:
    """The locks of one structure are its finding; the crowd on the cores is the other's."""
    crowd = replace(
        CROWD,
        cores=2,
        tps=8700,
        service_ms=4.0,
        sessions={CPU: 28.0, ("LWLock", "LockManager"): 7.0},
        busy=0.99,
    )
    findings = diagnosed(tmp_path, crowd)
    assert findings["lock-manager"].status == findings["connections"].status == "found"
    assert "lock manager" not in findings["connections"].parts
    shares = findings["lock-manager"].share + findings["connections"].share
    assert shares <= 1.0

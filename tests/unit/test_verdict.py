"""The verdict: the limit, held, unexplained or nothing found, on run files made by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from diagnose_runs import CPU, ROW, WAL_SYNC, Load, concluded, diagnosed
from inline_snapshot import snapshot
from msgspec.structs import replace

from pgdyno.diagnose import HELD, NOTHING, UNEXPLAINED
from pgdyno.diagnose._attribution import NAMED_MIN
from pgdyno.diagnose._diagnosis import LIMIT_SHARE_MIN
from pgdyno.facts.budget import PART_MAX, part_words

RELATION = ("Lock", "relation")
OWN_WORK = Load(
    clients=10, tps=8000, service_ms=1.0, sessions={CPU: 6.9}, cores=8, busy=0.88, server=0.95
)
"""Ten clients whose transactions compute for most of their time, on eight cores."""
FLUSHING = Load(
    clients=4, tps=1000, service_ms=4.0, sessions={CPU: 0.4, WAL_SYNC: 3.4}, cores=2, busy=0.3
)


def test_a_load_whose_time_is_its_own_work_has_no_limit(tmp_path: Path) -> None:
    found = concluded(tmp_path, OWN_WORK)
    assert found.verdict.finding == NOTHING
    assert "CPU" in found.verdict.sentence
    assert all(finding.rank is None for finding in found.findings)


@pytest.mark.parametrize(("waiting", "said"), [(0.8, NOTHING), (2.0, UNEXPLAINED)])
def test_a_large_part_without_a_signature_is_unexplained(
    tmp_path: Path, waiting: float, said: str
) -> None:
    odd = replace(OWN_WORK, sessions={CPU: 6.9 - waiting, ("IPC", "Brandnew"): waiting})
    odd = replace(odd, busy=0.88 - waiting / 8)
    found = concluded(tmp_path, odd)
    (part,) = (part for part in found.parts if part.part == "other")
    assert (part.share >= PART_MAX) is (said == UNEXPLAINED)
    assert found.verdict.finding == said
    if said == UNEXPLAINED:
        assert found.verdict.sentence == snapshot(
            "unexplained: 25 % of the response time in IPC:Brandnew (other waits); a profile of"
            " the server's processes (perf, pg_stat_activity) would tell"
        )


def test_many_small_parts_without_a_signature_are_unexplained_together(tmp_path: Path) -> None:
    waits = {("IPC", "Brandnew"): 0.9, ("Extension", "Odd"): 0.9}
    odd = replace(OWN_WORK, sessions={CPU: 5.1, **waits}, busy=0.66)
    found = concluded(tmp_path, odd)
    missing = sum(part.share for part in found.parts if part.status == "unexplained")
    assert missing > 1 - NAMED_MIN
    assert found.verdict.finding == UNEXPLAINED
    assert found.verdict.sentence == snapshot(
        "unexplained: 22 % of the response time in Extension:Odd (other waits); a profile of the"
        " server's processes (perf, pg_stat_activity) would tell"
    )


def test_what_was_not_sampled_is_not_named(tmp_path: Path) -> None:
    found = concluded(tmp_path, replace(OWN_WORK, sessions={}, on_server=0))
    assert found.verdict.finding == UNEXPLAINED
    assert found.verdict.sentence == snapshot(
        "unexplained: 100 % of the response time in time without samples; samples of pg_stat_activity (pg_monitor) would tell"
    )
    assert any("are hidden" in sentence for sentence in found.missing)


def test_sessions_that_were_only_seen_idle_were_sampled(tmp_path: Path) -> None:
    """A load of short reads: between two answers every session is idle for most of the time."""
    fast = Load(
        clients=4, tps=10_000, service_ms=0.4, statements_ms=0.4, sessions={}, busy=0.95, queued=4.0
    )
    found = concluded(tmp_path, fast)
    shares = {part.part: part.share for part in found.parts}
    assert "unknown" not in shares
    assert shares["running"] > 0.3
    assert found.verdict.sentence == snapshot(
        "a transaction spends 0.15 of 0.4 ms in 1 round trip of 0.4 ms between client and server"
    )
    (only,) = found.statements
    assert "unknown" not in only.parts_ms
    assert found.missing == snapshot(
        [
            "no session was seen at work in 1000 samples: its waits are too short",
            "parsing and planning are part of the CPU time",
        ]
    )


def test_a_limit_is_named_unless_more_is_unexplained(tmp_path: Path) -> None:
    assert concluded(tmp_path, FLUSHING).verdict.finding == "commit-flush"
    mostly = replace(FLUSHING, sessions={CPU: 0.2, WAL_SYNC: 0.8, ("IPC", "Brandnew"): 3.0})
    found = concluded(tmp_path, mostly)
    assert found.verdict.finding == UNEXPLAINED
    assert found.findings[0].id == "commit-flush"
    assert found.verdict.sentence.endswith("; also found: commit flush")


def test_what_owns_less_than_a_tenth_is_minor(tmp_path: Path) -> None:
    small = replace(FLUSHING, lag_ms=60.0, generator_busy=0.95)
    flush = diagnosed(tmp_path, small)["commit-flush"]
    assert flush.status == "found"
    assert flush.share < LIMIT_SHARE_MIN
    assert flush.rank is None
    assert diagnosed(tmp_path, FLUSHING)["commit-flush"].rank == 1


def test_a_queue_in_front_of_the_server_is_due_to_what_those_ahead_wait_for(
    tmp_path: Path,
) -> None:
    """A pool that is no limit itself: with more connections they would wait inside the server."""
    load = Load(
        clients=16,
        pool=4,
        tps=2000,
        pool_wait_ms=6.0,
        service_ms=2.0,
        sessions={CPU: 3.9},
        cores=2,
        busy=0.99,
    )
    found = diagnosed(tmp_path, load)
    assert found["client-pool"].status == "cleared"
    assert found["server-cpu"].rank == 1
    assert found["server-cpu"].share > 0.9


def test_a_rate_that_is_held_has_no_limit(tmp_path: Path) -> None:
    found = concluded(tmp_path, replace(FLUSHING, rate=100, tps=100, sessions={WAL_SYNC: 0.38}))
    assert found.verdict.finding == HELD
    assert found.verdict.sentence == snapshot(
        "the load's rate of 100 tps is held, the cores are 30 % busy, and about 2.8 times as much"
        " is expected to be possible; a response of 4 ms: 95 % the WAL flush, 5.1 % network and"
        " messages"
    )
    assert all(finding.rank is None for finding in found.findings)


@pytest.mark.parametrize(("lag_ms", "said"), [(2.0, HELD), (6.0, "commit-flush")])
def test_a_rate_that_is_held_through_a_queue_has_a_limit(
    tmp_path: Path, lag_ms: float, said: str
) -> None:
    queued = replace(FLUSHING, rate=900, tps=900, lag_ms=lag_ms)
    assert concluded(tmp_path, queued).verdict.finding == said


def test_a_rate_on_cores_that_sessions_queue_for_is_not_held(tmp_path: Path) -> None:
    crowd = Load(clients=16, rate=1000, sessions={CPU: 4.0}, busy=0.99, queued=8)
    assert concluded(tmp_path, crowd).verdict.finding != HELD


def test_no_headroom_is_promised_without_an_idle_core(tmp_path: Path) -> None:
    busy = replace(FLUSHING, rate=100, tps=100, sessions={WAL_SYNC: 0.38}, busy=0.99)
    verdict = concluded(tmp_path, busy).verdict
    assert verdict.finding == HELD
    assert "expected" not in verdict.sentence


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (("Lock", "relation"), "relation locks"),
        (("Lock", "object"), "locks of other objects (NOTIFY, DDL)"),
        (("IPC", "MessageQueueReceive"), "parallel workers"),
    ],
)
def test_common_waits_have_names(tmp_path: Path, event: tuple[str, str], words: str) -> None:
    parts = concluded(tmp_path, Load(sessions={event: 3.9})).parts
    assert part_words(parts[0].part) == words


def test_a_rate_beyond_what_is_done_has_a_limit(tmp_path: Path) -> None:
    behind = replace(FLUSHING, rate=1500, lag_ms=2000.0)
    found = concluded(tmp_path, behind)
    assert found.verdict.finding == "commit-flush"
    assert found.findings[0].share > 0.5, "the queue for a client is due to the flush"


@pytest.mark.parametrize(("think", "said"), [("20ms", HELD), ("0s", "commit-flush")])
def test_clients_that_rest_have_no_limit(tmp_path: Path, think: str, said: str) -> None:
    resting = replace(FLUSHING, think=think, tps=160, sessions={WAL_SYNC: 0.6})
    assert concluded(tmp_path, resting).verdict.finding == said


def test_clients_that_rest_on_saturated_cores_do_not_rest(tmp_path: Path) -> None:
    crowd = Load(
        clients=300,
        think="100ms",
        tps=1600,
        service_ms=80.0,
        sessions={CPU: 120.0},
        busy=0.99,
        queued=124,
    )
    assert concluded(tmp_path, crowd).verdict.finding != HELD


@pytest.mark.parametrize(("answered_ms", "said"), [(4.0, HELD), (24.0, "hot-row")])
def test_a_script_that_sleeps_outside_a_transaction_rests(
    tmp_path: Path, answered_ms: float, said: str
) -> None:
    waiting = 3.7 if said == "hot-row" else 0.5
    load = Load(
        tps=160, service_ms=24.0, statements_ms=answered_ms, sessions={CPU: 0.1, ROW: waiting}
    )
    assert concluded(tmp_path, load).verdict.finding == said


def test_the_headroom_of_a_script_that_sleeps_is_without_its_pauses(tmp_path: Path) -> None:
    """Four clients that work for 4 of 24 ms could do nearly six times as much."""
    load = Load(tps=160, service_ms=24.0, statements_ms=4.0, sessions={CPU: 0.4}, busy=0.2)
    sentence = concluded(tmp_path, load).verdict.sentence
    (times,) = re.findall(r"about ([\d.]+) times as much", sentence)
    assert 3 < float(times) <= 6.5


def test_a_disk_that_fills_comes_before_a_rate_that_is_held(tmp_path: Path) -> None:
    disk = {
        "holds": "data,wal",
        "filesystem": "ext4",
        "size_bytes": 10 << 30,
        "free_bytes": 1 << 30,
        "fills": 20 << 20,
    }
    held = replace(FLUSHING, rate=100, tps=100, sessions={WAL_SYNC: 0.38}, space=[disk])
    assert concluded(tmp_path, held).verdict.finding == "disk-filling"


def test_a_rate_that_is_held_has_no_gain_in_throughput(tmp_path: Path) -> None:
    held = replace(FLUSHING, rate=FLUSHING.tps, clients=64)
    found = next(e for e in concluded(tmp_path, held).findings if e.id == "commit-flush")
    assert found.proposals
    for each in found.proposals:
        assert each.predicted_ratio <= 1.0
        assert (each.predicted_response_ratio or 1.0) < 1.0

"""Too few clients for a rate, and a server that is too slow for it, are distinguished."""

from __future__ import annotations

from pathlib import Path

import pytest
from diagnose_runs import CPU, ROW, WAL_QUEUE, WAL_SYNC, Load, concluded, diagnosed, ranked, written
from inline_snapshot import snapshot
from msgspec.structs import replace

from pgdyno.facts.groups import group_accounts, open_loop_sentence

FEW = Load(
    clients=4, rate=2000, tps=1000, service_ms=4.0, lag_ms=2500.0,
    sessions={CPU: 3.9}, cores=16, busy=0.3,
)  # fmt: skip
"""Each transaction takes 4 ms on one of 16 cores, most of which are idle."""


def test_a_rate_that_so_few_clients_cannot_carry(tmp_path: Path) -> None:
    found = concluded(tmp_path, FEW)
    assert found.verdict.finding == "busy-clients"
    assert found.verdict.sentence == snapshot(
        "transactions due at 2,000 per second wait because all 4 clients are busy: with 4 ms for"
        " each, they carry at most 999 tps, while the server's machine is 70 % idle"
    )
    (proposal,) = found.findings[0].proposals
    assert proposal.change.clients == {"web": 12}  # 8 are busy on average
    assert proposal.predicted_ratio == pytest.approx(2.0)
    assert "at least 9 are needed" in found.findings[0].advice


@pytest.mark.parametrize(
    ("slow", "limit"),
    [
        ({"sessions": {CPU: 0.2, WAL_SYNC: 3.8}}, "commit-flush"),
        ({"sessions": {CPU: 0.2, ROW: 3.8}}, "hot-row"),
        ({"sessions": {CPU: 4.0}, "cores": 2, "busy": 0.99}, "server-cpu"),
    ],
)
def test_a_server_too_slow_for_the_rate_is_no_lack_of_clients(
    tmp_path: Path, slow: dict[str, object], limit: str
) -> None:
    found = concluded(tmp_path, replace(FEW, **slow))
    by_id = {finding.id: finding for finding in found.findings}
    assert found.verdict.finding == limit
    assert by_id["busy-clients"].status == "cleared"
    assert (
        by_id["busy-clients"].sentence
        == snapshot(
            {
                "commit-flush": (
                    "transactions due at 2,000 per second wait because all 4 clients are busy:"
                    " with 4 ms for each, they carry at most 999 tps; 95 % of that time is the"
                    " WAL flush, for which more would wait too"
                ),
                "hot-row": (
                    "transactions due at 2,000 per second wait because all 4 clients are busy:"
                    " with 4 ms for each, they carry at most 999 tps; 95 % of that time is row"
                    " locks, for which more would wait too"
                ),
                "server-cpu": (
                    "transactions due at 2,000 per second wait because all 4 clients are busy:"
                    " with 4 ms for each, they carry at most 999 tps; the server's cores are 99 %"
                    " busy, with none for more clients"
                ),
            }
        )[limit]
    )


def test_more_clients_share_a_commit_delay(tmp_path: Path) -> None:
    delayed = replace(
        FEW,
        sessions={CPU: 0.8, ("Timeout", "CommitDelay"): 0.8, WAL_QUEUE: 2.3},
        wal={"wal_bytes": 1e6, "wal_records": 1e4, "wal_sync": 250, "wal_sync_time_ms": 25},
        settings={"commit_delay": "3000", "commit_siblings": "0"},
    )
    found = diagnosed(tmp_path, delayed)
    assert found["commit-delay"].status == "found"
    assert found["busy-clients"].status == "found"


def test_locks_that_make_transactions_long_come_before_the_clients(tmp_path: Path) -> None:
    held = replace(
        FEW,
        clients=10,
        rate=412.6,
        tps=391,
        service_ms=25.6,
        sessions={CPU: 6.0, ROW: 3.9},
        queues=[{"waiting": 195, "first": 195, "places": 195, "blocker": "",
                 "blocker_transaction_ms": 195 * 69.0}],
    )  # fmt: skip
    ids = [each.id for each in ranked(tmp_path, held)]
    assert ids.index("batch-update") < ids.index("busy-clients")


def test_transactions_that_are_skipped_when_all_clients_are_busy(tmp_path: Path) -> None:
    skipping = replace(FEW, when_busy="skip", lag_ms=0.0)
    found = concluded(tmp_path, skipping)
    assert found.verdict.finding == "busy-clients"
    assert found.verdict.sentence == snapshot(
        "transactions due at 2,000 per second are skipped because all 4 clients are busy: with 4"
        " ms for each, they carry at most 999 tps, while the server's machine is 70 % idle"
    )
    assert found.findings[0].share == pytest.approx(0.5)


def test_a_pool_that_clients_wait_for_is_the_limit_itself(tmp_path: Path) -> None:
    pooled = replace(FEW, pool=1, tps=500, service_ms=2.0, pool_wait_ms=6.0, sessions={CPU: 0.4})
    found = diagnosed(tmp_path, pooled)
    assert found["busy-clients"].status == "cleared"
    assert "pooled connections" in found["busy-clients"].sentence


def test_a_client_that_connects_each_time_is_as_busy(tmp_path: Path) -> None:
    """Connecting takes time, and CPU time of which its transactions would take none."""
    one = Load(
        clients=1, rate=500, tps=200, connect_ms=4.0, service_ms=1.0, lag_ms=2500.0,
        sessions={CPU: 0.2}, cores=2, busy=0.5,
    )  # fmt: skip
    found = diagnosed(tmp_path, one)["busy-clients"]
    assert found.status == "found"
    (proposal,) = found.proposals
    assert 1.5 < proposal.predicted_ratio < 2.5


def test_a_rate_held_through_a_queue_needs_more_clients_but_gets_no_more_done(
    tmp_path: Path,
) -> None:
    found = diagnosed(tmp_path, replace(FEW, rate=1000, lag_ms=8.0))["busy-clients"]
    assert found.status == "found"
    assert found.proposals == ()
    assert found.advice


def test_clients_with_time_to_spare_are_cleared(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, replace(FEW, rate=500, tps=500, lag_ms=0.1, sessions={CPU: 0.2}))
    assert found["busy-clients"].status == "cleared"
    assert found["busy-clients"].sentence == snapshot("clients are busy 50 % of the time")


def test_without_sessions_for_more_clients_max_connections_is_named(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, replace(FEW, settings={"max_connections": "14"}))["busy-clients"]
    assert found.status == "cleared"
    assert "max_connections" in found.sentence


def test_a_closed_loop_has_no_rate(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, replace(FEW, rate=None))["busy-clients"]
    assert found.status == "cleared"
    assert found.sentence == snapshot("no client group has a rate")


@pytest.mark.parametrize(
    ("load", "said"),
    [
        (FEW, "; all 4 clients were busy; with 4 ms for each transaction they carry at most"
              " 999/s"),
        (replace(FEW, when_busy="skip", lag_ms=0.0),
         "10,000 skipped (50 %): all 4 clients were busy; with 4 ms for each transaction they"
         " carry at most 999/s"),
        (replace(FEW, clients=1, tps=250, rate=500),
         "; the client was busy; with 4 ms for each transaction it carries at most 250/s"),
    ],
)  # fmt: skip
def test_the_line_of_the_rate_says_what_the_clients_carry(
    tmp_path: Path, load: Load, said: str
) -> None:
    with written(tmp_path, load) as run:
        (account,) = group_accounts(run)
        assert open_loop_sentence(account).endswith(said)


def test_a_backlog_of_clients_that_were_not_busy_is_not_blamed_on_them(tmp_path: Path) -> None:
    """As while the server is away: transactions come due and none is under way."""
    with written(tmp_path, replace(FEW, tps=100)) as run:
        (account,) = group_accounts(run)
        assert "busy" not in open_loop_sentence(account)


def test_clients_that_a_governor_pauses_all_the_time_are_no_finding(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, Load(clients=2, tps=0.0, sessions={}))
    assert found["few-clients"].status == "skipped"

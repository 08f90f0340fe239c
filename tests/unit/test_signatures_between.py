"""Look-alikes at about 340 tps: a client pool of 2, a pooler's 2 sessions, round trips, one client.

In each the server is mostly idle; only one of the findings fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import (
    CPU,
    IDLE,
    ROW,
    WAL_QUEUE,
    WAL_SYNC,
    Load,
    concluded,
    diagnosed,
    ranked,
    written,
)
from inline_snapshot import snapshot
from msgspec.structs import replace

from pgdyno.facts.situation import Situation
from pgdyno.record.fileformat import EXITED
from pgdyno.rules._cpu_uses import backend_cores
from pgdyno.spec.change import Change

BETWEEN = ("client-pool", "pooler", "round-trips", "few-clients")
QUICK = [("begin", 0.02), ("update t", 0.1), ("select", 0.05), ("end", 2.4)]


def statements(at_least_ms: float, **changed: float) -> list[tuple[str, float]]:
    return [(name, changed.get(name, 0.0) or ms + at_least_ms) for name, ms in QUICK]


ONE = Load(
    clients=1,
    tps=345,
    service_ms=2.9,
    sessions={CPU: 0.1, WAL_SYNC: 0.75, IDLE: 0.05},
    busy=0.15,
    script_ms=statements(0.05),
)
CLIENT_POOL = replace(
    ONE, clients=16, pool=2, pool_wait_ms=41, service_ms=5.8, sessions={CPU: 0.2, WAL_SYNC: 1.7},
    script_ms=statements(0.05, end=5.4),
)  # fmt: skip
# PgBouncer with two sessions: the transaction's first statement waits for one of them.
POOLER = replace(
    ONE,
    clients=16,
    service_ms=47.0,
    on_server=2.0,
    sessions={CPU: 0.2, WAL_SYNC: 0.8, IDLE: 0.95},
    script_ms=statements(0.1, begin=41.0),
)
# A relay of 2.5 ms in each direction: between two statements the session waits for the client.
FAR = replace(
    ONE,
    clients=8,
    service_ms=23.2,
    sessions={CPU: 0.2, WAL_SYNC: 0.7, IDLE: 5.2},
    script_ms=statements(5.1),
)
CASES = {
    "few-clients": ONE,
    "client-pool": CLIENT_POOL,
    "pooler": POOLER,
    "round-trips": FAR,
}


@pytest.mark.parametrize("cause", CASES)
def test_only_the_cause_is_found_and_ranks_first(tmp_path: Path, cause: str) -> None:
    findings = ranked(tmp_path, CASES[cause])
    assert findings[0].id == cause, [each.sentence for each in findings]
    found = {each.id for each in findings if each.status == "found"}
    assert found & set(BETWEEN) == {cause}


@pytest.mark.parametrize(
    "busy",
    [
        Load(clients=16, tps=5300, service_ms=3.0, busy=0.75, script_ms=statements(0.05),
             sessions={CPU: 3.0, WAL_SYNC: 3.0, WAL_QUEUE: 8.0, IDLE: 1.0}),
        Load(clients=16, tps=8700, service_ms=1.8, busy=0.99, script_ms=statements(0.05),
             sessions={CPU: 13.0, IDLE: 1.0}, queued=16.0),
        Load(clients=16, tps=700, service_ms=22.0, busy=0.2, script_ms=statements(0.05),
             sessions={CPU: 0.3, ROW: 14.0, WAL_SYNC: 0.7, IDLE: 0.3}),
    ],
)  # fmt: skip
def test_none_is_found_where_the_server_is_the_limit(tmp_path: Path, busy: Load) -> None:
    findings = diagnosed(tmp_path, busy)
    assert {findings[each].status for each in BETWEEN} == {"cleared"}


def test_one_client_is_told_what_its_time_consists_of_and_how_many_would_help(
    tmp_path: Path,
) -> None:
    finding = diagnosed(tmp_path, ONE)["few-clients"]
    assert finding.sentence == snapshot(
        "one client sends one transaction after another, so throughput is bounded by its response"
        " time of 2.9 ms (75 % the WAL flush, 11 % network and messages)"
    )
    (proposal,) = finding.proposals
    assert proposal.change in [Change(clients={"web": count}) for count in (4, 8, 16)]
    assert proposal.predicted_ratio > 3
    assert proposal.specific


def test_two_clients_on_two_busy_cores_are_enough(tmp_path: Path) -> None:
    both = replace(
        ONE, clients=2, tps=12_000, service_ms=0.16, sessions={CPU: 1.9}, busy=0.99, queued=3.0
    )
    assert diagnosed(tmp_path, both)["few-clients"].status == "cleared"


def test_little_is_certain_of_clients_that_fill_the_cores(tmp_path: Path) -> None:
    waiting = replace(ONE, tps=500, service_ms=2.0, sessions={CPU: 0.55, WAL_SYNC: 0.4})
    (filling,) = diagnosed(tmp_path, replace(waiting, busy=0.6))["few-clients"].proposals
    (idle,) = diagnosed(tmp_path, replace(waiting, busy=0.3))["few-clients"].proposals
    assert 1.0 < filling.prediction.low < 1.25 < filling.predicted_ratio
    assert idle.prediction.low > 1.25


@pytest.mark.parametrize("server", [0.4, 0.9])
def test_one_client_without_an_idle_core_is_not_too_few(tmp_path: Path, server: float) -> None:
    crowded = replace(ONE, busy=0.97, server=server, sessions={CPU: 0.5, WAL_SYNC: 0.4})
    finding = diagnosed(tmp_path, crowded)["few-clients"]
    assert finding.status == "cleared"
    assert finding.sentence == snapshot("3 % of the cores are idle for more clients")


def test_clients_that_rest_are_not_too_few(tmp_path: Path) -> None:
    resting = replace(ONE, tps=100, sessions={CPU: 0.03, WAL_SYNC: 0.22})
    sentence = diagnosed(tmp_path, resting)["few-clients"].sentence
    assert sentence == snapshot("clients rest 71 % of their time")


def test_round_trips_are_counted_and_their_length_told(tmp_path: Path) -> None:
    finding = diagnosed(tmp_path, FAR)["round-trips"]
    assert finding.sentence == snapshot(
        "a transaction spends 20 of 23 ms in 4 round trips of 5.1 ms between client and server"
    )
    assert "\\startpipeline" in finding.advice
    assert not any(each.specific for each in finding.proposals)


def test_rows_held_over_round_trips_stand_behind_these(tmp_path: Path) -> None:
    held = replace(
        FAR,
        service_ms=100.0,
        tps=80,
        sessions={CPU: 0.1, WAL_SYNC: 0.2, IDLE: 1.5, ROW: 6.0},
        script_ms=[("begin", 5.1), ("update t", 82.0), ("select", 5.2), ("end", 7.7)],
    )
    findings = diagnosed(tmp_path, held)
    assert findings["round-trips"].status == "found"
    assert (findings["round-trips"].rank, findings["hot-row"].rank) == (1, 2)
    assert "round-trips" in findings["hot-row"].causes


SOCKET = {"uri": "postgresql://app@/shop?host=/run/postgresql&port=5432"}


@pytest.mark.parametrize(
    ("server", "host", "status"),
    [
        (SOCKET, {}, "cleared"),
        (SOCKET, {"same_host_as_server": False}, "found"),  # forwarded
        (SOCKET | {"entrance_uri": "postgresql://app@db:6432/shop"}, {}, "found"),
        ({"uri": "postgresql://app@localhost:5432/shop"}, {}, "found"),
        (
            {"uri": "postgresql://app@localhost:5432/shop", "settings": {"port": "5432"}},
            {},
            "cleared",
        ),
        (
            {"uri": "postgresql://app@localhost:6000/shop", "settings": {"port": "5432"}},
            {},
            "found",
        ),
        (SOCKET | {"settings": {"port": "6000"}}, {}, "found"),  # a pooler's socket
    ],
)
def test_straight_to_a_server_on_the_same_machine_no_round_trip_is_long(
    tmp_path: Path, server: dict[str, Any], host: Mapping[str, bool], status: str
) -> None:
    late = replace(FAR, server_facts=server | {"cores": 2}, host_facts=host)
    assert diagnosed(tmp_path, late)["round-trips"].status == status


def test_statements_of_a_pipeline_make_one_round_trip(tmp_path: Path) -> None:
    piped = replace(FAR, service_ms=7.0, tps=1100, script_ms=[(name, 7.0) for name, _ in QUICK])
    finding = diagnosed(tmp_path, piped)["round-trips"]
    values = {each.name: each.value for each in finding.evidence}
    assert values["round trips per transaction"] == pytest.approx(1.0, rel=0.01)


def test_sleep_within_a_transaction_is_no_round_trip(tmp_path: Path) -> None:
    asleep = replace(FAR, script_ms=statements(0.05))
    finding = diagnosed(tmp_path, asleep)["round-trips"]
    assert finding.status == "cleared"
    values = {each.name: each.value for each in finding.evidence}
    assert values["client's own time between statements"] == pytest.approx(20.4, rel=0.05)


def test_pauses_within_a_transaction_are_told_apart_from_pauses_after_it(tmp_path: Path) -> None:
    inside = diagnosed(tmp_path, replace(FAR, script_ms=statements(0.05)))["client-pauses"]
    assert inside.status == "found"
    assert inside.sentence == snapshot(
        "clients pause for 15 of 23 ms between the statements of a transaction: the server waits"
        " for them"
    )
    outside = {CPU: 0.2, WAL_SYNC: 0.7}
    after = replace(FAR, script_ms=statements(0.05), sessions=outside)
    assert diagnosed(tmp_path, after)["client-pauses"].status == "cleared"
    assert diagnosed(tmp_path, FAR)["client-pauses"].status == "cleared"


def test_pooler_before_a_busy_server_is_not_the_limit(tmp_path: Path) -> None:
    busy = replace(
        POOLER, tps=9000, service_ms=1.75, sessions={CPU: 1.9}, busy=0.99, queued=3.0,
        script_ms=statements(0.02, begin=1.5, end=0.05),
    )  # fmt: skip
    assert diagnosed(tmp_path, busy)["pooler"].status == "cleared"


def test_pooler_is_promised_no_more_cpu_time_than_is_idle(tmp_path: Path) -> None:
    name = "predicted with more sessions"
    ratios = {}
    for busy in (0.15, 0.8):
        finding = diagnosed(tmp_path, replace(POOLER, busy=busy))["pooler"]
        assert finding.status == "found"
        (ratios[busy],) = (each.value for each in finding.evidence if each.name == name)
    assert ratios[0.15] > ratios[0.8]
    own = 0.8 * 2 * 0.8 + 0.1  # the server's part of what is busy, and the generator's
    assert ratios[0.8] <= 1 + 0.2 * 2 / own + 0.01


def test_pooler_whose_sessions_get_no_idle_core_says_so(tmp_path: Path) -> None:
    taken = replace(POOLER, busy=1.0, server=0.1, sessions={CPU: 0.1, WAL_SYNC: 0.9, IDLE: 0.95})
    finding = diagnosed(tmp_path, taken)["pooler"]
    assert finding.status == "found"
    assert finding.sentence == snapshot(
        "clients wait 41 of 47 ms for one of 2 sessions that a pooler shares among 16"
        " connections, and hardly a core is idle for more of them"
    )
    assert "hardly" not in diagnosed(tmp_path, POOLER)["pooler"].sentence


def test_pooler_that_keeps_sessions_for_the_connected_leaves_clients_out(tmp_path: Path) -> None:
    left = replace(
        POOLER, service_ms=5.8, sessions={CPU: 0.3, WAL_SYNC: 1.7}, script_ms=statements(0.8)
    )
    finding = diagnosed(tmp_path, left)["pooler"]
    assert finding.status == "found"
    assert finding.sentence == snapshot(
        "14 of 16 clients wait for a session of a pooler, which keeps each session for one client"
        " as long as that is connected"
    )
    assert "pool_mode = transaction" in finding.advice


def test_clients_that_connect_are_not_left_out_by_a_pooler(tmp_path: Path) -> None:
    """14 of 16 connect again for what they do next, two are at work."""
    connect = replace(
        POOLER,
        service_ms=5.8,
        connect_ms=41.0,
        sessions={CPU: 0.3, WAL_SYNC: 1.7},
        script_ms=statements(0.8),
    )
    findings = ranked(tmp_path, connect)
    assert findings[0].id == "connection-per-transaction"
    assert all(each.status != "found" for each in findings if each.id == "pooler")


def test_slow_pooler_whose_sessions_are_idle_is_told_apart_from_its_queue(tmp_path: Path) -> None:
    slow = replace(POOLER, sessions={CPU: 0.1, IDLE: 0.1}, script_ms=statements(10.0))
    finding = diagnosed(tmp_path, slow)["pooler"]
    assert finding.sentence == snapshot(
        "42 of 47 ms pass between clients and server, where a pooler shares 2 sessions among 16"
        " connections; these are in use 10 % of the time"
    )
    assert finding.advice == snapshot(
        "look at the pooler itself: PgBouncer uses one core (several of them can share a port"
        " with so_reuseport), and its own round trip adds to each statement"
    )


@pytest.mark.parametrize("hidden", [{}, {CPU: 0.0}])
def test_sessions_that_cannot_be_seen_are_no_pooler(
    tmp_path: Path, hidden: Mapping[tuple[str, str], float]
) -> None:
    unseen = replace(POOLER, sessions=hidden, on_server=0.0)
    assert diagnosed(tmp_path, unseen)["pooler"].status == "skipped"


def test_without_times_of_statements_round_trips_are_not_checked(tmp_path: Path) -> None:
    finding = diagnosed(tmp_path, replace(FAR, script_ms=()))["round-trips"]
    assert finding.status == "skipped"
    assert finding.sentence == snapshot(
        "not checked: no statement was timed apart from the wait for a session"
    )


def test_whatever_stands_between_may_queue_too(tmp_path: Path) -> None:
    (proposal,) = diagnosed(tmp_path, FAR)["round-trips"].proposals
    assert proposal.predicted_interval is not None
    low, _ = proposal.predicted_interval
    assert low < 0.9 * proposal.predicted_ratio


def test_of_clients_that_connect_each_time_more_do_more(tmp_path: Path) -> None:
    """One client that connects for half of its time does not rest, nor is it all that the cores
    can do."""
    one = Load(clients=1, tps=100, connect_ms=5.0, service_ms=4.5, busy=0.5, sessions={CPU: 0.4})
    found = diagnosed(tmp_path, one)["few-clients"]
    assert found.status == "found"
    assert found.sentence == snapshot(
        "one client sends one transaction after another, so throughput is bounded by its response"
        " time of 9.5 ms (52 % connecting, 42 % CPU)"
    )
    (proposal,) = found.proposals
    assert proposal.change.clients == snapshot({"web": 2})
    assert proposal.predicted_interval is not None
    assert 1.2 < proposal.predicted_ratio < 8
    rests = diagnosed(tmp_path, replace(one, tps=10, sessions={CPU: 0.04}))["few-clients"]
    assert rests.sentence == snapshot("clients rest 91 % of their time")


def exited(cores: float) -> dict[str, Any]:
    def rows(edge: int) -> list[dict[str, Any]]:
        return [{"role": EXITED, "count": 0, "cpu_user_ms": 1000.0 * cores * edge}]

    return {"metric_process": rows}


def test_sessions_that_end_soon_used_the_cores_of_what_has_ended(tmp_path: Path) -> None:
    each = Load(tps=400, connect_ms=6.0, service_ms=4.0, busy=0.9, server=0.1, rows=exited(1.5))
    for load, cores in ((each, 0.18 + 1.5), (replace(each, connect_ms=0.0), 0.18)):
        with written(tmp_path, load) as run:
            situation = Situation(run, [part.id for part in run.slices()])
            assert backend_cores(situation) == pytest.approx(cores)


def test_a_connection_for_each_transaction_is_a_finding_of_its_own(tmp_path: Path) -> None:
    each = Load(tps=400, connect_ms=6.0, service_ms=4.0, sessions={CPU: 1.5}, busy=0.7)
    first = ranked(tmp_path, each)[0]
    assert first.id == "connection-per-transaction"
    assert first.sentence == snapshot(
        "clients connect again for each transaction, which takes 6 of 10 ms"
    )
    assert "pool" in first.advice
    values = {item.name: item.value for item in first.evidence}
    assert values["transactions per connection made"] == pytest.approx(1.0)
    assert values["authentication, mean"] == pytest.approx(6.0, rel=0.02)


def test_connections_that_take_the_cores_come_before_these(tmp_path: Path) -> None:
    each = Load(
        clients=8, tps=125, connect_ms=16.0, service_ms=48.0, busy=0.99, queued=6.0, ready=4.0,
        sessions={CPU: 6.0},
    )  # fmt: skip
    first, second = ranked(tmp_path, each)[:2]
    assert (first.id, second.id) == ("connection-per-transaction", "server-cpu")


def test_the_kernel_s_work_for_connections_does_not_go_with_flushes(tmp_path: Path) -> None:
    kept = Load(
        clients=8, tps=300, service_ms=25.0, busy=0.99, system=0.6, queued=3.0, ready=1.0,
        sessions={CPU: 4.0, WAL_SYNC: 1.0, WAL_QUEUE: 2.5},
    )  # fmt: skip
    loads = (kept, replace(kept, connect_ms=2.0))
    proposals = [diagnosed(tmp_path, load)["commit-flush"].proposals[0] for load in loads]
    much, little = (proposal.predicted_ratio for proposal in proposals)
    assert little < 1.05 < 1.2 < much


def test_clients_that_keep_their_connections_do_not_connect_for_each_transaction(
    tmp_path: Path,
) -> None:
    assert diagnosed(tmp_path, ONE)["connection-per-transaction"].status == "cleared"


CROWD = Load(
    clients=300, tps=10_000, service_ms=30.0, sessions={CPU: 0.2, IDLE: 0.1}, busy=0.99,
    queued=3.0, script_ms=[("select", 30.0)], server_facts=SOCKET,
)  # fmt: skip


def test_messages_on_one_machine_without_an_idle_core_wait_for_a_core(tmp_path: Path) -> None:
    diagnosis = concluded(tmp_path, CROWD)
    assert diagnosis.budget is not None
    assert diagnosis.budget.share("ready") > 0.9
    assert diagnosis.budget.parts_ms["between"] == pytest.approx(0.13, abs=0.01)
    found = {each.id: each for each in diagnosis.findings if each.status == "found"}
    assert found["connections"].sentence == snapshot("298 sessions compete for 2 cores")
    assert "round-trips" not in found


@pytest.mark.parametrize(
    "other",
    [
        {"busy": 0.6},
        {"server_facts": {"uri": "postgresql://app@db:5432/shop", "cores": 2}},
        {"server_facts": SOCKET | {"entrance_uri": "postgresql://app@localhost:6432/shop"}},
    ],
)
def test_messages_that_may_wait_elsewhere_are_no_queue_for_a_core(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    budget = concluded(tmp_path, replace(CROWD, **other)).budget
    assert budget is not None
    assert budget.share("between") > 0.9


def test_idle_sessions_of_another_pooler_are_not_this_one_s(tmp_path: Path) -> None:
    finding = diagnosed(tmp_path, replace(POOLER, on_server=6.0))["pooler"]
    assert finding.sentence == snapshot(
        "clients wait 41 of 47 ms for one of 2 sessions that a pooler shares among 16 connections"
    )
    assert "default_pool_size" in finding.advice


def test_clients_without_an_idle_core_are_not_predicted_to_gain_by_more(tmp_path: Path) -> None:
    taken = {"busy": 1.0, "server": 0.1, "sessions": {CPU: 0.1, WAL_SYNC: 1.7}}
    pool = diagnosed(tmp_path, replace(CLIENT_POOL, **taken))["client-pool"]
    assert pool.status == "found"
    assert pool.sentence == snapshot(
        "clients wait 41 of 47 ms for one of 2 connections, and other programs take the cores"
        " that more of them would need"
    )
    assert not pool.proposals
    assert diagnosed(tmp_path, CLIENT_POOL)["client-pool"].proposals


def test_two_clients_that_wait_for_each_other_are_not_too_few(tmp_path: Path) -> None:
    behind = {CPU: 0.1, ROW: 0.9, WAL_SYNC: 0.9}
    both = replace(ONE, clients=2, tps=340, service_ms=5.8, script_ms=(), sessions=behind)
    finding = diagnosed(tmp_path, both)["few-clients"]
    assert finding.sentence == snapshot("they wait 47 % of their time for locks")


def test_large_results_are_a_transfer_and_no_round_trips(tmp_path: Path) -> None:
    sending = {CPU: 0.1, ("Client", "ClientWrite"): 1.2}
    large = Load(
        clients=2, tps=16, service_ms=120, sessions=sending, script_ms=[("select t", 120.0)]
    )
    findings = diagnosed(tmp_path, large)
    assert findings["large-results"].status == "found"
    assert findings["large-results"].sentence == snapshot(
        "sessions wait 75 of 120 ms for their clients to take large results"
    )
    assert findings["round-trips"].status == "cleared"
    for small in (ONE, FAR):
        assert diagnosed(tmp_path, small)["large-results"].status == "skipped", "rows not known"

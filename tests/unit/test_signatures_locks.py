"""Queues for heavyweight locks are told apart, at the same number of waiting sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import CPU, IDLE, ROW, WAL_SYNC, Load, diagnosed, ranked
from inline_snapshot import snapshot
from msgspec.structs import replace

from pgdyno.diagnose import Finding
from pgdyno.probe.lock_modes import strongest_beside
from pgdyno.rules._queues import LOOKS_MIN

ADVISORY = ("Lock", "advisory")
RELATION = ("Lock", "relation")
OBJECT = ("Lock", "object")
QUEUE = Load(
    clients=16,
    tps=100,
    service_ms=160.0,
    sessions={CPU: 1.0, ROW: 15.0},
    queues=[{}],
    statements_ms=159.9,
)
BATCH = {"first": 48, "places": 46, "blocker_transaction_ms": 5 * 400.0}
KEY_SHARE = {"mode": "AccessShareLock", "relation": "public.parent", "first": 50}
PAUSED = {"blocker_state": "idle in transaction", "blocker_state_ms": 5 * 8.0}
FORGOTTEN = {"blocker_state": "idle in transaction", "blocker_state_ms": 5 * 60_000.0}

CASES: dict[str, tuple[dict[str, Any], Load]] = {
    "hot-row": ({}, QUEUE),
    "batch-update": (BATCH, QUEUE),
    "foreign-key": (KEY_SHARE, QUEUE),
    "deadlocks": ({"blocker_state": "deadlock"}, QUEUE),
    "idle-in-transaction": (PAUSED, replace(QUEUE, statements_ms=144.0)),
    "advisory-lock": (
        {"lock_type": "advisory", "relation": None},
        replace(QUEUE, sessions={CPU: 1.0, ADVISORY: 15.0}),
    ),
    "relation-lock": (
        {"lock_type": "relation", "mode": "AccessExclusiveLock"},
        replace(QUEUE, sessions={CPU: 1.0, RELATION: 15.0}),
    ),
    "notify-lock": (
        {
            "lock_type": "object",
            "mode": "AccessExclusiveLock",
            "relation": None,
            "blocker": "commit",
            "waits_with": "commit",
        },
        replace(QUEUE, sessions={CPU: 1.0, OBJECT: 15.0}),
    ),
}
OTHERS = {kind: [other for other in CASES if other != kind] for kind in CASES}


def _load(kind: str) -> Load:
    queue, load = CASES[kind]
    return replace(load, queues=[queue])


def _values(finding: Finding) -> dict[str, Any]:
    return {item.name: item.value for item in finding.evidence}


@pytest.mark.parametrize("kind", CASES)
def test_each_kind_of_queue_is_named_and_no_other(tmp_path: Path, kind: str) -> None:
    findings = ranked(tmp_path, _load(kind))
    first = findings[0]
    assert (first.id, first.rank) == (kind, 1), [finding.sentence for finding in findings[:3]]
    assert first.share == pytest.approx(15 / 16, abs=0.02)
    assert first.advice
    status = {finding.id: finding.status for finding in findings}
    assert {status[other] for other in OTHERS[kind]} == {"cleared"}


FOR_ROWS = ("hot-row", "batch-update", "foreign-key", "deadlocks", "idle-in-transaction")


@pytest.mark.parametrize("kind", FOR_ROWS)
def test_what_is_cleared_of_one_kind_says_that_others_wait(tmp_path: Path, kind: str) -> None:
    findings = diagnosed(tmp_path, _load(kind))
    for other in {*FOR_ROWS} - {kind}:
        assert findings[other].status == "cleared"
        assert (
            findings[other].sentence
            == snapshot(
                {
                    "deadlocks": (
                        "0 of 16 sessions in a transaction wait for each other in a deadlock, or"
                        " behind one; 15 more wait for rows in queues of another kind"
                    ),
                    "idle-in-transaction": (
                        "0 of 16 sessions in a transaction wait for locks of sessions that are"
                        " idle in a transaction; 15 more wait for rows in queues of another kind"
                    ),
                    "batch-update": (
                        "0 of 16 sessions in a transaction wait for different rows that one"
                        " transaction holds; 15 more wait for rows in queues of another kind"
                    ),
                    "foreign-key": (
                        "0 of 16 sessions in a transaction wait for rows that a foreign key"
                        " refers to; 15 more wait for rows in queues of another kind"
                    ),
                    "hot-row": (
                        "0 of 16 sessions in a transaction wait for the same row; 15 more wait"
                        " for rows in queues of another kind"
                    ),
                }
            )[other]
        )
    assert "more wait" not in findings[kind].sentence
    assert "more wait" not in findings["advisory-lock"].sentence
    assert "more wait" not in findings["relation-lock"].sentence


@pytest.mark.parametrize("kind", CASES)
def test_few_waiting_sessions_are_no_limit(tmp_path: Path, kind: str) -> None:
    load = _load(kind)
    event = next(event for event in load.sessions if event != CPU)
    few = replace(load, sessions={CPU: 15.0, event: 0.7})
    assert diagnosed(tmp_path, few)[kind].status == "cleared"


def test_deadlocks_over_advisory_locks_are_no_order_of_rows(tmp_path: Path) -> None:
    queue = {"lock_type": "advisory", "relation": None, "blocker_state": "deadlock"}
    load = replace(QUEUE, sessions={CPU: 1.0, ADVISORY: 15.0}, queues=[queue])
    finding = diagnosed(tmp_path, load)["deadlocks"]
    assert finding.status == "found"
    assert finding.advice == snapshot(
        "let all sessions take their advisory locks in the same order; a lower"
        " deadlock_timeout ends each deadlock sooner"
    )


def test_table_and_statements_are_named(tmp_path: Path) -> None:
    table = diagnosed(tmp_path, replace(_load("relation-lock"), queues=[
        {"lock_type": "relation", "blocker": "truncate t", "waits_with": "insert into t values (?)"}
    ]))["relation-lock"]  # fmt: skip
    assert table.sentence == snapshot(
        "15 of 16 sessions in a transaction wait for a lock on public.t, held by: truncate t,"
        " not of this load (for up to 9 ms)"
    )
    assert _values(table)["waiting statement"] == "insert into t values (?)"
    own = diagnosed(tmp_path, replace(_load("advisory-lock"), queues=[
        {"lock_type": "advisory", "waits_with": "select pg_advisory_lock(?)"}
    ]))["advisory-lock"]  # fmt: skip
    assert own.sentence == snapshot(
        "15 of 16 sessions in a transaction wait for an advisory lock: select pg_advisory_lock(?)"
    )


CONVOY: dict[str, Any] = {
    "lock_type": "relation",
    "mode": "AccessExclusiveLock",
    "blocker": "vacuum t",
    "blocker_mode": "ShareUpdateExclusiveLock",
    "blocker_pid": 77,
    "blocker_transaction_ms_max": 40_000.0,
    "behind_request": 45,
    "waiting_mode": "RowExclusiveLock",
    "links": [{}],
}
"""ALTER TABLE waits for a vacuum, and the load waits for ALTER TABLE."""


def test_a_request_that_waits_itself_is_named_with_the_session_it_waits_for(
    tmp_path: Path,
) -> None:
    finding = diagnosed(tmp_path, replace(_load("relation-lock"), queues=[CONVOY]))["relation-lock"]
    assert finding.sentence == snapshot(
        "15 of 16 sessions in a transaction wait for a lock on public.t, behind: alter table t"
        " add m int, which wants AccessExclusiveLock on public.t, itself behind: vacuum t, not"
        " of this load (process 77, ShareUpdateExclusiveLock, for up to 40 s); when seen, 9 of"
        " those who waited conflicted with no lock that was held"
    )
    assert finding.advice == snapshot(
        "set a lock_timeout for “alter table t add m int”, and repeat it until it gets the"
        " lock: while it waits, all later requests that conflict with it wait too (a request"
        " in ShareUpdateExclusiveLock or a weaker mode, as of VALIDATE CONSTRAINT or CREATE"
        " INDEX CONCURRENTLY, would let these pass); execute it when the vacuum or index build"
        " that it waits for is over, or cancel that"
    )
    values = _values(finding)
    assert values["statement that waits and is in the way of others"] == "alter table t add m int"
    assert values["mode that it wants"] == "AccessExclusiveLock"
    assert values["mode of the lock that is held"] == "ShareUpdateExclusiveLock"
    assert values["sessions behind a request, not a lock"] == 9.0
    assert values["oldest transaction of the holder"] == 40_000.0


def test_a_request_behind_an_idle_session_is_named_as_well(tmp_path: Path) -> None:
    idle = CONVOY | {"blocker": "select sum(n) from t"} | FORGOTTEN
    load = replace(_load("relation-lock"), queues=[idle])
    findings = diagnosed(tmp_path, load)
    assert findings["relation-lock"].status == "cleared"
    finding = findings["idle-in-transaction"]
    assert finding.status == "found"
    assert _values(finding)["mode that it wants"] == "AccessExclusiveLock"
    assert finding.sentence == snapshot(
        "15 of 16 sessions in a transaction wait for locks of a session that is not of this"
        " load and pauses in a transaction, behind: alter table t add m int, which wants"
        " AccessExclusiveLock on public.t, itself behind: select sum(n) from t, not of this"
        " load (process 77, ShareUpdateExclusiveLock, idle in transaction, for up to 40 s);"
        " when seen, 9 of those who waited conflicted with no lock that was held"
    )
    assert "lock_timeout" in finding.advice
    without = replace(_load("relation-lock"), queues=[{"lock_type": "relation"} | FORGOTTEN])
    again = diagnosed(tmp_path, without)["idle-in-transaction"]
    assert again.status == "found"
    assert "mode that it wants" not in _values(again)


def test_a_holder_of_the_table_that_waits_for_a_row_is_a_link(tmp_path: Path) -> None:
    """The samples of waits say that the load waits for the table; the queue's root is a row."""
    link = {
        "lock_type": "transactionid",
        "mode": "ShareLock",
        "relation": None,
        "held_type": "relation",
        "held_mode": "AccessExclusiveLock",
        "held_relation": "public.t",
    }
    queue = {"blocker": "update u set n = ?", "relation": "public.u", "links": [link]}
    finding = diagnosed(tmp_path, replace(_load("relation-lock"), queues=[queue]))["relation-lock"]
    assert finding.status == "found"
    assert finding.sentence == snapshot(
        "15 of 16 sessions in a transaction wait for a lock on public.t, behind: alter table t"
        " add m int, which holds AccessExclusiveLock on public.t and waits for a row, itself"
        " behind: update u set n = ?, not of this load (for up to 9 ms)"
    )


def test_a_queue_behind_the_holder_alone_has_no_chain(tmp_path: Path) -> None:
    finding = diagnosed(tmp_path, _load("relation-lock"))["relation-lock"]
    assert "mode that it wants" not in _values(finding)


@pytest.mark.parametrize(
    ("waiting_mode", "passes"),
    [
        ("AccessShareLock", "ExclusiveLock"),
        ("RowExclusiveLock", "ShareUpdateExclusiveLock"),
        ("AccessExclusiveLock", None),
    ],
)
def test_the_mode_that_would_have_let_the_others_pass(
    tmp_path: Path, waiting_mode: str, passes: str | None
) -> None:
    convoy = CONVOY | {"waiting_mode": waiting_mode}
    finding = diagnosed(tmp_path, replace(_load("relation-lock"), queues=[convoy]))["relation-lock"]
    assert strongest_beside(waiting_mode) == passes
    said = f"a request in {passes} or a weaker mode"
    assert (said in finding.advice) == (passes is not None)
    assert ("would let these pass" in finding.advice) == (passes is not None)


def test_two_kinds_at_once_share_the_wait(tmp_path: Path) -> None:
    batch = BATCH | {"waiting": 40, "first": 38, "places": 38, "blocker": "delete from t"}
    findings = diagnosed(tmp_path, replace(QUEUE, queues=[{"waiting": 60}, batch]))
    assert findings["hot-row"].share == pytest.approx(0.6 * 15 / 16, abs=0.02)
    assert findings["batch-update"].share == pytest.approx(0.4 * 15 / 16, abs=0.02)


def test_one_waiter_is_behind_a_batch_if_that_is_old(tmp_path: Path) -> None:
    """Half of the sessions wait: a transaction works for 10 ms."""
    two = replace(QUEUE, clients=2, tps=100, service_ms=20.0, statements_ms=19.9)
    two = replace(two, sessions={CPU: 1.0, ROW: 1.0})
    one = {"waiting": 5, "first": 5, "places": 5}
    old = replace(two, queues=[one | {"blocker_transaction_ms": 5 * 200.0}])
    young = replace(two, queues=[one | {"blocker_transaction_ms": 5 * 6.0}])
    assert diagnosed(tmp_path, old)["batch-update"].status == "found"
    assert diagnosed(tmp_path, young)["batch-update"].status == "cleared"
    assert diagnosed(tmp_path, young)["hot-row"].status == "found"


def test_a_few_looks_at_an_old_blocker_are_no_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diagnose_runs.SECONDS", LOOKS_MIN - 1)
    once = {"looks": 1, "seen": 1, "waiting": 1, "first": 1, "places": 1}
    two = replace(QUEUE, clients=2, tps=100, service_ms=20.0, statements_ms=19.9)
    two = replace(two, sessions={CPU: 1.0, ROW: 1.0})
    old = replace(two, queues=[once | {"blocker_transaction_ms": 200.0}])
    assert diagnosed(tmp_path, old)["batch-update"].status == "cleared"
    monkeypatch.setattr("diagnose_runs.SECONDS", LOOKS_MIN)
    assert diagnosed(tmp_path, old)["batch-update"].status == "found"


def test_batches_that_queue_behind_each_other_are_no_hot_row(tmp_path: Path) -> None:
    """They begin with the same row; each transaction changes a hundred."""
    old = replace(QUEUE, queues=[{"blocker_transaction_ms": 5 * 400.0}])
    many = replace(old, tables={"public.t": {"n_tup_upd": 100 * QUEUE.tps}})
    one = replace(old, tables={"public.t": {"n_tup_upd": QUEUE.tps}})
    assert ranked(tmp_path, many)[0].id == "batch-update"
    assert ranked(tmp_path, one)[0].id == "hot-row"


def test_a_holder_between_two_round_trips_is_not_idle(tmp_path: Path) -> None:
    """Its client sends the next statement at once; the network takes the time."""
    findings = diagnosed(tmp_path, replace(_load("idle-in-transaction"), statements_ms=159.8))
    assert findings["idle-in-transaction"].status == "cleared"
    assert findings["hot-row"].status == "found"


def test_a_forgotten_transaction_of_another_program_is_idle(tmp_path: Path) -> None:
    forgotten = replace(QUEUE, queues=[FORGOTTEN])
    finding = ranked(tmp_path, forgotten)[0]
    assert finding.id == "idle-in-transaction"
    assert "idle_in_transaction_session_timeout" in finding.advice
    assert _values(finding)["holder idle for, when seen, on average"] == 60_000.0


def test_a_prepared_transaction_is_named(tmp_path: Path) -> None:
    finding = ranked(tmp_path, replace(QUEUE, queues=[{"blocker_state": "prepared"}]))[0]
    assert finding.id == "idle-in-transaction"
    assert finding.sentence == snapshot(
        "15 of 16 sessions in a transaction wait for locks of a prepared transaction"
    )
    assert "pg_prepared_xacts" in finding.advice


def test_a_hot_row_is_a_symptom_of_clients_that_pause(tmp_path: Path) -> None:
    mixed = replace(_load("idle-in-transaction"), queues=[PAUSED, {}])
    assert diagnosed(tmp_path, mixed)["hot-row"].causes == ("idle-in-transaction",)


def test_pauses_that_hold_connections_which_others_wait_for(tmp_path: Path) -> None:
    crowd = Load(
        clients=16,
        pool=2,
        tps=100,
        pool_wait_ms=140.0,
        service_ms=20.0,
        statements_ms=4.0,
        sessions={IDLE: 1.7, CPU: 0.3},
    )
    finding = diagnosed(tmp_path, crowd)["idle-in-transaction"]
    assert finding.status == "found"
    assert finding.sentence == snapshot(
        "clients pause for 80 % of the time that transactions take, and hold connections that"
        " others wait for"
    )
    assert finding.share == pytest.approx(156 / 160, abs=0.02)
    outside = replace(crowd, sessions={CPU: 0.3, IDLE: 0.1})  # without a transaction block
    assert diagnosed(tmp_path, outside)["idle-in-transaction"].status == "cleared"
    at_work = replace(crowd, statements_ms=19.8, sessions={CPU: 1.9, IDLE: 0.1})
    assert diagnosed(tmp_path, at_work)["idle-in-transaction"].status == "cleared"


def test_deadlocks_are_counted(tmp_path: Path) -> None:
    counted = replace(_load("deadlocks"), counters={"metric_database": [{"deadlocks": 2.0}]})
    finding = diagnosed(tmp_path, counted)["deadlocks"]
    assert _values(finding)["deadlocks in 10 seconds"] == 20.0
    assert "1,000 ms (deadlock_timeout)" in finding.sentence


def test_without_looks_the_kind_is_that_of_the_wait(tmp_path: Path) -> None:
    """A look may come too late for a queue that the samples of waits saw."""
    for kind in ("hot-row", "advisory-lock", "relation-lock"):
        first = ranked(tmp_path, replace(_load(kind), queues=[]))[0]
        assert (first.id, first.share) == (kind, pytest.approx(15 / 16, abs=0.02))


@pytest.mark.parametrize(
    ("statement", "unlocks"),
    [("select pg_advisory_lock($1)", True), ("select pg_advisory_xact_lock($1)", False)],
)
def test_an_advisory_lock_of_a_transaction_is_not_to_be_unlocked(
    tmp_path: Path, statement: str, unlocks: bool
) -> None:
    queue = {"lock_type": "advisory", "relation": None, "waits_with": statement}
    load = replace(QUEUE, sessions={CPU: 1.0, ADVISORY: 15.0}, queues=[queue])
    advice = diagnosed(tmp_path, load)["advisory-lock"].advice
    assert ("pg_advisory_unlock" in advice) == unlocks
    assert "different keys" in advice


TURNS = Load(
    clients=8,
    tps=500,
    service_ms=16.0,
    busy=0.2,
    sessions={ADVISORY: 5.5, WAL_SYNC: 2.0, CPU: 0.4},
    script_ms=[
        *(
            ("begin", 0.05),
            ("select pg_advisory_lock(7)", 11.0),
            ("insert into t default values", 0.1),
        ),
        *(("select pg_advisory_unlock(7)", 0.05), ("commit", 4.5)),
    ],
)


@pytest.mark.parametrize(
    ("takes", "holder", "promised"),
    [
        ("select pg_advisory_lock(?)", "insert into t default values", False),
        ("select pg_advisory_lock(?)", "commit", True),
        ("select pg_advisory_xact_lock(?)", "insert into t default values", True),
    ],
)
def test_a_flush_without_the_lock_is_not_the_limit(
    tmp_path: Path, takes: str, holder: str, promised: bool
) -> None:
    queue = {"lock_type": "advisory", "relation": None, "waits_with": takes, "blocker": holder}
    findings = diagnosed(tmp_path, replace(TURNS, queues=[queue]))
    assert findings["advisory-lock"].rank == 1
    proposals = findings["commit-flush"].proposals
    assert any(each.remedy_id == "synchronous-commit-off" for each in proposals) is promised


def test_a_key_that_the_script_writes_is_not_mended_by_the_scale(tmp_path: Path) -> None:
    queue = {"relation": "public.pgbench_branches"}
    fixed = "update pgbench_branches set bbalance = bbalance + 1 where bid = 1"
    load = replace(QUEUE, scale=1, statement=fixed, queues=[queue])
    sentence = diagnosed(tmp_path, load)["hot-row"].sentence
    assert sentence == snapshot(
        "15 of 16 sessions in a transaction wait for the same rows in public.pgbench_branches;"
        " the script writes its key in pgbench_branches as a constant"
    )
    chosen = replace(load, statement=fixed.replace("= 1", "= :bid"))
    assert "-s 16" in diagnosed(tmp_path, chosen)["hot-row"].sentence


@pytest.mark.parametrize(
    "kind", ["hot-row", "advisory-lock", "relation-lock", "idle-in-transaction"]
)
def test_a_holder_that_is_not_of_the_load_is_named(tmp_path: Path, kind: str) -> None:
    queue, load = CASES[kind]
    assert (
        diagnosed(tmp_path, _load(kind))[kind].sentence
        == snapshot(
            {
                "hot-row": "15 of 16 sessions in a transaction wait for the same rows in public.t",
                "advisory-lock": (
                    "15 of 16 sessions in a transaction wait for an advisory lock: update t set"
                    " n = ? where id = $1"
                ),
                "relation-lock": (
                    "15 of 16 sessions in a transaction wait for a lock on public.t, held by:"
                    " update pgbench_branches set bbalance = bbalance + $1 where b … (for up"
                    " to 9 ms)"
                ),
                "idle-in-transaction": (
                    "15 of 16 sessions in a transaction wait for locks of clients that pause in"
                    " a transaction, after: update pgbench_branches set bbalance = bbalance + $1"
                    " where b …"
                ),
            }
        )[kind]
    )
    script = {"statement": "update t set n = :n where id = :id"}
    foreign = replace(load, **script, queues=[queue | {"blocker": "select pg_sleep(?)"}])
    found = diagnosed(tmp_path, foreign)[kind]
    assert (
        found.sentence
        == snapshot(
            {
                "hot-row": (
                    "15 of 16 sessions in a transaction wait for the same rows in public.t; who"
                    " holds them is not a session of this load: select pg_sleep(?)"
                ),
                "advisory-lock": (
                    "15 of 16 sessions in a transaction wait for an advisory lock: update t set"
                    " n = ? where id = $1; who holds them is not a session of this load: select"
                    " pg_sleep(?)"
                ),
                "relation-lock": (
                    "15 of 16 sessions in a transaction wait for a lock on public.t, held by:"
                    " select pg_sleep(?), not of this load (for up to 9 ms)"
                ),
                "idle-in-transaction": (
                    "15 of 16 sessions in a transaction wait for locks of a session that is not"
                    " of this load and pauses in a transaction, after: select pg_sleep(?)"
                ),
            }
        )[kind]
    )
    assert (
        found.advice
        == snapshot(
            {
                "hot-row": (
                    "end that session's transaction, or make it shorter: the load itself is not"
                    " at fault"
                ),
                "advisory-lock": (
                    "end that session's transaction, or make it shorter: the load itself is not"
                    " at fault"
                ),
                "relation-lock": (
                    "end that session's transaction, or make it shorter: the load itself is not"
                    " at fault"
                ),
                "idle-in-transaction": (
                    "end that session's transaction, or make it shorter: the load itself is not"
                    " at fault"
                ),
            }
        )[kind]
    )


@pytest.mark.parametrize(
    "blocker", ["update t set n = -5 where id = $1;", "commit", "update t set"]
)
def test_a_holder_of_the_load_is_recognised_whatever_its_values(
    tmp_path: Path, blocker: str
) -> None:
    load = replace(
        QUEUE, statement="UPDATE t SET n = :n WHERE id = :id", queues=[{"blocker": blocker}]
    )
    assert "this load" not in diagnosed(tmp_path, load)["hot-row"].sentence


@pytest.mark.parametrize("kind", ["batch-update", "foreign-key", "deadlocks"])
def test_a_holder_of_many_rows_that_is_not_of_the_load_is_named(tmp_path: Path, kind: str) -> None:
    queue, load = CASES[kind]
    assert (
        diagnosed(tmp_path, _load(kind))[kind].sentence
        == snapshot(
            {
                "batch-update": (
                    "15 of 16 sessions in a transaction wait for different rows that one"
                    " transaction holds in public.t, open for 400 ms on average when seen: update"
                    " pgbench_branches set bbalance = bbalance + $1 where b …"
                ),
                "foreign-key": (
                    "15 of 16 sessions in a transaction wait for rows of public.parent that a"
                    " foreign key refers to, held by: update pgbench_branches set bbalance ="
                    " bbalance + $1 where b …"
                ),
                "deadlocks": (
                    "15 of 16 sessions in a transaction wait for each other in a deadlock, or"
                    " behind one over rows of public.t; each lasts for 1,000 ms (deadlock_timeout)"
                ),
            }
        )[kind]
    )
    script = {"statement": "update t set n = :n where id = :id"}
    foreign = replace(load, **script, queues=[queue | {"blocker": "delete from t where old"}])
    found = diagnosed(tmp_path, foreign)[kind]
    assert (
        found.sentence
        == snapshot(
            {
                "batch-update": (
                    "15 of 16 sessions in a transaction wait for different rows that one"
                    " transaction holds in public.t, open for 400 ms on average when seen; who"
                    " holds them is not a session of this load: delete from t where old"
                ),
                "foreign-key": (
                    "15 of 16 sessions in a transaction wait for rows of public.parent that a"
                    " foreign key refers to; who holds them is not a session of this load: delete"
                    " from t where old"
                ),
                "deadlocks": (
                    "15 of 16 sessions in a transaction wait for each other in a deadlock, or"
                    " behind one over rows of public.t; each lasts for 1,000 ms"
                    " (deadlock_timeout); in most of them is a session that is not of this load:"
                    " delete from t where old"
                ),
            }
        )[kind]
    )
    assert (
        found.advice
        == snapshot(
            {
                "batch-update": (
                    "the load itself is not at fault: split the batch into transactions of few"
                    " rows, or run it when the load is low; each row is held until the batch"
                    " commits"
                ),
                "foreign-key": (
                    "end that session's transaction, or make it shorter: the load itself is not"
                    " at fault; or lock the referenced row FOR NO KEY UPDATE instead of FOR"
                    " UPDATE: foreign keys do not wait for that; and do not update columns of its"
                    " key"
                ),
                "deadlocks": (
                    "let all transactions change their rows in the same order, or lock them"
                    " first in one statement with ORDER BY … FOR UPDATE; a lower deadlock_timeout"
                    " ends each deadlock sooner"
                ),
            }
        )[kind]
    )


@pytest.mark.parametrize("kind", ["batch-update", "foreign-key"])
def test_a_holder_of_many_rows_that_is_hidden_is_not_known(tmp_path: Path, kind: str) -> None:
    queue, load = CASES[kind]
    hidden = queue | {"blocker_state": "", "blocker": None}
    found = diagnosed(tmp_path, replace(load, queues=[hidden]))[kind]
    assert (
        found.sentence
        == snapshot(
            {
                "batch-update": (
                    "15 of 16 sessions in a transaction wait for different rows that one"
                    " transaction holds in public.t, open for 400 ms on average when seen; who"
                    " holds them is not known (pg_monitor would show it)"
                ),
                "foreign-key": (
                    "15 of 16 sessions in a transaction wait for rows of public.parent that a"
                    " foreign key refers to; who holds them is not known (pg_monitor would show"
                    " it)"
                ),
            }
        )[kind]
    )
    assert (
        found.advice
        == snapshot(
            {
                "batch-update": (
                    "split the batch into transactions of few rows, or run it when the load is"
                    " low; each row is held until the batch commits"
                ),
                "foreign-key": (
                    "lock the referenced row FOR NO KEY UPDATE instead of FOR UPDATE: foreign"
                    " keys do not wait for that; and do not update columns of its key"
                ),
            }
        )[kind]
    )


def test_a_holder_that_is_hidden_is_not_known(tmp_path: Path) -> None:
    hidden = {"blocker_state": "", "blocker": None, "blocker_transaction_ms": 0}
    found = diagnosed(tmp_path, replace(QUEUE, queues=[hidden]))["hot-row"]
    assert found.sentence == snapshot(
        "15 of 16 sessions in a transaction wait for the same rows in public.t; who holds them"
        " is not known (pg_monitor would show it)"
    )
    assert not found.proposals


@pytest.mark.parametrize(("clients", "status"), [(1, "found"), (4, "cleared")])
def test_one_session_of_few_may_be_enough(tmp_path: Path, clients: int, status: str) -> None:
    """Half a session waits on average, of one client or of four."""
    sessions = {CPU: 0.3 * clients, RELATION: 0.5}
    look = {"lock_type": "relation", "mode": "AccessExclusiveLock", "waiting": 25, "first": 25}
    load = replace(
        QUEUE, clients=clients, tps=2000 * clients, service_ms=0.5, statements_ms=0.4,
        sessions=sessions, queues=[look],
    )  # fmt: skip
    assert diagnosed(tmp_path, load)["relation-lock"].status == status

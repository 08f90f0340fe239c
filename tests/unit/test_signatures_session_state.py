"""Session state behind a pooler that shares sessions: which statements leave some; the finding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import CPU, Load, diagnosed
from inline_snapshot import snapshot

from pgdyno._engine import Histogram
from pgdyno.facts.session_state import session_state
from pgdyno.record import StatementTotal

ADVISORY = ("Lock", "advisory")
LOCKS = [
    ("select pg_advisory_lock($1)", 120.0),
    ("update tenant set runs = runs + 1 where id = $1", 20.0),
    ("select pg_advisory_unlock($1)", 20.0),
]
"""Statements of a script, and their time in ms."""
TRANSACTION_MODE = {"kind": "pgbouncer", "settings": {"pool_mode": "transaction"}}
SESSION_MODE = {"kind": "pgbouncer", "settings": {"pool_mode": "session"}}
STATE = "session-state"


def left(*statements: str) -> list[tuple[str, str]]:
    """Kind and statement of what a script of these leaves behind."""
    totals = [
        StatementTotal("web", "script", position, text, 10, 0, Histogram())
        for position, text in enumerate(statements)
    ]
    return [(use.kind, use.statement) for use in session_state(totals)]


@pytest.mark.parametrize(
    ("kind", "statement"),
    [
        ("advisory lock", "select pg_advisory_lock(1)"),
        ("advisory lock", "SELECT pg_try_advisory_lock_shared(:id)"),
        ("setting", "set work_mem = '64MB'"),
        ("setting", "/* app */ set session statement_timeout to 100"),
        ("setting", "select set_config('app.tenant', :tenant, false)"),
        ("setting", "set role app"),
        ("listen", "listen orders"),
        ("temporary table", "create temp table seen (id int)"),
        ("temporary table", "create temporary table seen as select 1"),
        ("temporary table", "select id into temp seen from t"),
        ("cursor", "declare c cursor with hold for select 1"),
        ("prepared statement", "prepare p as select 1"),
    ],
)
def test_statements_that_leave_something_behind(kind: str, statement: str) -> None:
    assert left(statement) == [(kind, statement)]
    assert left("begin", statement, "commit") == [(kind, statement)]


@pytest.mark.parametrize(
    "statements",
    [
        ("select pg_advisory_xact_lock(1)",),
        ("select pg_try_advisory_xact_lock_shared(1)",),
        ("begin", "select pg_advisory_lock(1)", "select pg_advisory_unlock(1)", "end"),
        ("begin", "set local work_mem = '64MB'", "commit"),
        ("set transaction isolation level serializable",),
        ("set constraints all deferred",),
        ("set time zone 'UTC'",),
        ("set application_name = 'shop'",),
        ("select set_config('app.tenant', :tenant, true)",),
        ("begin", "create temp table seen (id int) on commit drop", "commit"),
        ("begin", "create temp table seen (id int)", "drop table seen", "commit"),
        ("begin", "declare c cursor for select 1", "commit"),
        ("prepare transaction 'x'",),
        ("select 'select pg_advisory_lock(1)'",),
        ("update t set listen = 1", "insert into prepare_log values ('set x = 1')"),
    ],
)
def test_statements_that_leave_nothing_behind(statements: tuple[str, ...]) -> None:
    assert left(*statements) == []


def test_a_lock_that_is_let_go_of_in_another_transaction_is_left_behind() -> None:
    assert left(*(text for text, _ in LOCKS)) == [("advisory lock", "select pg_advisory_lock($1)")]
    parted = ("begin", "select pg_advisory_lock(1)", "commit", "select pg_advisory_unlock(1)")
    assert left(*parted) == [("advisory lock", "select pg_advisory_lock(1)")]


def pooled(**given: Any) -> Load:
    """Sixteen clients on four sessions, which wait for advisory locks that idle sessions hold."""
    queue = {
        "lock_type": "advisory", "relation": None, "blocker_state": "idle", "waiting": 15,
        "waits_with": "select pg_advisory_lock($1)", "blocker": "select pg_advisory_unlock($1)",
    }  # fmt: skip
    described: dict[str, Any] = {
        "clients": 16, "on_server": 4.0, "tps": 100, "service_ms": 160.0, "script_ms": LOCKS,
        "sessions": {CPU: 0.3, ADVISORY: 3.5}, "queues": [queue], "pooler": TRANSACTION_MODE,
    }  # fmt: skip
    return Load(**described | given)


def test_advisory_locks_of_sessions_behind_a_pooler_that_shares_these(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, pooled())
    finding = found[STATE]
    assert finding.status == "found", finding.sentence
    assert finding.rank == 1
    assert set(finding.parts) == {"advisory", "between"}
    values = {each.name: each.value for each in finding.evidence}
    assert values["of those seen waiting, behind a session without a transaction"] == 1.0
    assert finding.sentence == snapshot(
        "advisory locks of sessions outlast the transaction, and PgBouncer in transaction mode"
        " gives each transaction any of its sessions: select pg_advisory_lock($1)"
    )
    assert finding.advice == snapshot(
        "take advisory locks with pg_advisory_xact_lock (pg_try_advisory_xact_lock) in the"
        " transaction that they protect, at whose end they are released; what needs a session"
        " of its own goes around the pooler, or through a pool in session mode"
    )
    assert found["pooler"].status == "cleared"
    assert found["advisory-lock"].causes == (STATE,)
    assert "pg_advisory_xact_lock" in found["advisory-lock"].advice
    assert "pool_mode" not in "".join(each.advice for each in found.values())


def test_other_state_behind_such_a_pooler_costs_no_time_that_is_seen(tmp_path: Path) -> None:
    script = [("set search_path = tenant_1", 80.0), ("create temp table seen (id int)", 80.0)]
    load = pooled(script_ms=script, sessions={CPU: 3.0}, queues=[])
    finding = diagnosed(tmp_path, load)[STATE]
    assert (finding.status, finding.severity) == ("found", "costs")
    assert finding.sentence == snapshot(
        "settings of sessions and temporary tables outlast the transaction, and PgBouncer in"
        " transaction mode gives each transaction any of its sessions: set search_path ="
        " tenant_1"
    )


@pytest.mark.parametrize(
    "given",
    [
        {"pooler": SESSION_MODE},
        {"pooler": {}},
        {"script_ms": [("select pg_advisory_xact_lock($1)", 160.0)]},
        {
            "script_ms": [("set search_path = tenant_1", 160.0)],
            "pooler": {
                "kind": "pgbouncer",
                "settings": {
                    "pool_mode": "transaction",
                    "track_extra_parameters": "IntervalStyle, search_path",
                },
            },
        },
    ],
    ids=["session mode", "no pooler", "locks of transactions", "parameters that it tracks"],
)
def test_sessions_that_keep_their_state(tmp_path: Path, given: dict[str, Any]) -> None:
    finding = diagnosed(tmp_path, pooled(**given))[STATE]
    assert finding.status == "cleared", finding.sentence

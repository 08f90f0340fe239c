"""Which statements a look at plans executes, and what it says of those that it does not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pgdyno.conduct import Silent, open_session, plan_look
from pgdyno.conduct.plan_look import look_at_plans
from pgdyno.plans.tree import read_plan
from pgdyno.record import RunFile, StatementPlan
from pgdyno.server import Cluster, ConnInfo, connect_plain
from pgdyno.spec import spec_from_fields

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("patient_look")]

SETUP = """
drop table if exists looked, noted cascade;
drop sequence if exists drawn, numbered cascade;
create sequence drawn;
create sequence numbered;
create table looked (id serial, n int);
insert into looked (n) select i from generate_series(1, 100) i;
create table noted (n int);
create or replace function harmless() returns float volatile language plpgsql
    as $$ begin return random(); end $$;
create or replace function turned_back() returns bigint volatile language sql
    begin atomic select setval('drawn', 1000); end;
create or replace function told() returns trigger language plpgsql
    as $$ begin perform pg_notify('noted', new.n::text); return new; end $$;
create or replace function locked() returns trigger language plpgsql
    as $$ begin perform pg_advisory_lock(7), pg_advisory_unlock(7); return new; end $$;
create trigger told after insert on noted for each row execute function told();
create trigger locked after update on noted for each row execute function locked();
create rule nothing as on delete to noted do instead nothing;
"""
SCRIPT = [
    "select n from looked where id = 5",
    "select nextval('drawn')",
    "insert into looked (n) values (1)",
    "select harmless()",
    "select turned_back()",
    "insert into noted values (1)",
    "update noted set n = n where n = 7",
    "select n from looked where id = 6 for update",
    "select pg_try_advisory_lock(5)",
    "select pg_advisory_unlock(5)",
    "delete from noted",
    "lock table looked in row share mode",
]
READ, NEXTVAL, INSERT, HARMLESS, SETVAL, NOTIFIES = range(6)
LOCKS, FOR_UPDATE, ADVISORY, UNLOCK, RULE, LOCK = range(6, 12)
OWN = {"kind": "embedded"}


def looked_at(
    directory: Path,
    server: Mapping[str, Any],
    script: str | None = None,
    between: str = "",
    **load: Any,
) -> dict[int, StatementPlan]:
    """Load a server for a moment, and look at the plans; return them by the number of their
    statement. What is ``between`` load and look is SQL."""
    (directory / "setup.sql").write_text(SETUP)
    text = script or "begin;\n" + "".join(f"{each};\n" for each in SCRIPT) + "commit;\n"
    (directory / "script.sql").write_text(text)
    workload: dict[str, Any] = {"script": [{"file": str(directory / "script.sql")}]}
    if server["kind"] == "embedded":
        workload["setup"] = str(directory / "setup.sql")
    spec = spec_from_fields(
        {
            "name": "looked",
            "server": server,
            "workload": workload,
            "clients": [{"name": "web", "count": 1}],
            "load": {"hold": "2s", **load},
        }
    )
    path = directory / "run.db"
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        session.start_load(scheduled=True)
        with session.measured("run") as slice_id:
            session.wait(1.2)
        session.stop_load()
        if between:
            execute(session.target.conninfo, between)
        before = drawn(session.target.conninfo)
        look_at_plans(session, [slice_id])
        assert drawn(session.target.conninfo) == before
    with RunFile(path) as run:
        warnings = [event for event in run.events() if event.kind == "warning"]
        assert {event.label for event in warnings} <= {"tables"}
        plans = {row.position: row for row in run.statement_plans()}
    first = min(plans, default=0)
    return {position - first: row for position, row in plans.items()}


def trials_of(directory: Path) -> int:
    with RunFile(directory / "run.db") as run:
        return len(run.statement_trials())


def execute(conninfo: ConnInfo, sql: str) -> None:
    with connect_plain(conninfo) as connection:
        connection.execute(sql.encode())


def drawn(conninfo: ConnInfo) -> tuple[Any, ...]:
    """What no rollback would undo."""
    query = (
        b"select last_value, (select count(*) from pg_locks where locktype = 'advisory') from drawn"
    )
    with connect_plain(conninfo) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row


def executed(plans: Mapping[int, StatementPlan]) -> set[int]:
    return {number for number, row in plans.items() if row.is_analyzed}


def test_all_that_is_undone_is_executed_on_a_server_of_ours(tmp_path: Path) -> None:
    plans = looked_at(tmp_path, OWN)
    assert executed(plans) == {READ, INSERT, HARMLESS, NOTIFIES, FOR_UPDATE}
    for number, name in (
        (NEXTVAL, "nextval"),
        (SETVAL, "setval"),
        (LOCKS, "pg_advisory_lock"),
        (ADVISORY, "pg_try_advisory_lock"),
        (UNLOCK, "pg_advisory_unlock"),
    ):
        assert plans[number].plan is not None
        assert name in plans[number].lack
    assert plans[RULE].plan is None
    assert plans[RULE].lack
    assert trials_of(tmp_path)


def test_reads_alone_are_executed_on_a_server_of_the_user(pg: Cluster, tmp_path: Path) -> None:
    execute(pg.conninfo, SETUP)
    server = {"kind": "existing", "conninfo": pg.conninfo.uri_without_password}
    plans = looked_at(tmp_path, server, plans="analyze")
    assert executed(plans) == {READ, HARMLESS}
    assert all(plans[number].plan and plans[number].lack for number in (NEXTVAL, INSERT, SETVAL))
    assert not trials_of(tmp_path)


def test_all_is_tried_on_a_server_of_the_user_that_allows_it(pg: Cluster, tmp_path: Path) -> None:
    execute(pg.conninfo, SETUP)
    server = {"kind": "existing", "conninfo": pg.conninfo.uri_without_password}
    plans = looked_at(tmp_path, server, plans="try")
    assert executed(plans) == {READ, INSERT, HARMLESS, NOTIFIES, FOR_UPDATE}
    assert trials_of(tmp_path)


@pytest.mark.parametrize(("plans", "count"), [("explain", len(SCRIPT)), ("none", 0)])
def test_nothing_is_executed_where_that_is_asked_for(
    tmp_path: Path, plans: str, count: int
) -> None:
    found = looked_at(tmp_path, OWN, plans=plans)
    assert len(found) == count
    assert executed(found) == set()
    assert not trials_of(tmp_path)


SLOW = "select pg_sleep(0.9);\n"


@pytest.mark.parametrize("script", [SLOW, f"set statement_timeout = 0;\n{SLOW}"])
def test_a_statement_that_takes_too_long_is_cancelled(
    tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"statement_timeout": "600", "lock_timeout": "100"}
    monkeypatch.setattr("pgdyno.plans._session._LIMITS", limits)
    *_, last = looked_at(tmp_path, OWN, script).values()
    assert last.plan is not None
    assert not last.is_analyzed
    assert "timeout" in last.lack


def test_what_cannot_be_explained_any_more(tmp_path: Path) -> None:
    script = "select n from looked where id = 5;\nselect n from noted;\n"
    plans = looked_at(tmp_path, OWN, script, between="drop table looked")
    assert plans[0].plan is None
    assert "looked" in plans[0].lack
    assert plans[1].is_analyzed


def test_a_plan_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgdyno.plans.look.PLAN_BYTES_MAX", 100)
    (plan,) = looked_at(tmp_path, OWN, "select n from looked where id = 5;\n").values()
    assert plan.plan is None
    assert not plan.is_analyzed
    assert plan.lack


@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
def test_rows_that_are_made_up_are_in_the_plan(tmp_path: Path, protocol: str) -> None:
    script = (
        "select 7 as seven \\gset\n\\set count random(2, 3)\n"
        "insert into looked (id, n) values \\rows 30 1000 + :row, :seven\n"
        "update looked set n = v.n::int from (values :rows) v (id, n) where looked.id = v.id::int"
        " \\rows :count 1000 + :row, null\n"
    )
    plans = looked_at(tmp_path, OWN, f"begin;\n{script}commit;\n", protocol=protocol)
    assert executed(plans) == {0, 1, 2}
    insert, update = (read_plan(json.loads(plans[number].plan or "")) for number in (1, 2))
    (values,) = insert.root.children
    assert (values.kind, values.rows) == ("Values Scan", 30)
    assert update.root.kind == "ModifyTable"
    assert trials_of(tmp_path)


def test_of_too_many_rows_none_is_kept(tmp_path: Path) -> None:
    script = "insert into looked (id, n) values \\rows 5001 1000, 1\nselect n from looked where id = 5;\n"
    plans = looked_at(tmp_path, OWN, script)
    assert plans[0].plan is None
    assert "\\rows" in plans[0].lack
    assert plans[1].is_analyzed


def test_joined_queries_are_explained_one_by_one(tmp_path: Path) -> None:
    script = (
        "begin\\; insert into looked (n) values (';')\\; select n from looked where id = 5"
        "\\; select n from noted\\; commit;\nselect n from noted;\n"
    )
    plans = looked_at(tmp_path, OWN, script.replace("';'", "length(';')"), protocol="simple")
    assert executed(plans) == {0, 1}
    plan = read_plan(json.loads(plans[0].plan or ""))
    assert [each.kind for each in plan.root.children] == ["ModifyTable", "Seq Scan", "Seq Scan"]
    assert trials_of(tmp_path)


def test_what_ends_a_transaction_within_a_statement_is_left_out(tmp_path: Path) -> None:
    script = "insert into noted values (9)\\; commit\\; select 1;\nselect n from noted;\n"
    plans = looked_at(tmp_path, OWN, script)
    assert executed(plans) == {0, 1}
    plan = read_plan(json.loads(plans[0].plan or ""))
    assert [each.kind for each in plan.root.children] == ["ModifyTable", "Result"]


def test_what_cannot_be_undone_among_joined_queries_is_not_executed(tmp_path: Path) -> None:
    script = "select n from noted\\; notify noted;\nselect n from noted;\n"
    plans = looked_at(tmp_path, OWN, script)
    assert executed(plans) == {1}
    assert plans[0].plan is not None
    assert "undone" in plans[0].lack


@pytest.mark.parametrize(
    ("number", "count"), [("nextval('numbered')", 2), ("setval('numbered', 900)", 0)]
)
def test_numbers_of_a_sequence_may_be_missing_but_rows_may_not(
    tmp_path: Path, number: str, count: int
) -> None:
    """A row is deleted again; without it, the statement that deletes it does something else."""
    insert = f"insert into looked (id, n) values ({number}, 5) returning id \\gset\n"
    plans = looked_at(tmp_path, OWN, f"{insert}delete from looked where id = :id;\n")
    assert len(executed(plans)) == count


def test_a_long_transaction_is_tried_once_at_least(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_look, "SECONDS_MAX", 3.0)
    script = "select n, pg_sleep(0.15) from looked where id = 5;\n"
    looked_at(tmp_path, OWN, script, protocol="simple")
    assert trials_of(tmp_path)

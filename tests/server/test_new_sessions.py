"""A setting of which sessions may keep something, such as plans made under the value before, is
measured with new sessions: on both sides, by both ways of setting it, and through a pooler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from engine_runs import Run, config

from pgdyno.compare.change import compare
from pgdyno.conduct import Session, Silent, open_session
from pgdyno.dimension.session_state import kept_by_sessions
from pgdyno.server import Cluster, connect_plain
from pgdyno.spec import Change, spec_from_fields
from pooler_fixtures import PgBouncer, existing

pytestmark = pytest.mark.server

NO_INDEX = {"enable_indexscan": "off", "enable_bitmapscan": "off", "enable_indexonlyscan": "off"}
FLUSHED_S = 2.0
LOOKUP = "\\set aid random(1, 1000)\nselect abalance from pgbench_accounts where aid = :aid;\n"
BY_FUNCTION = "\\set id random(1, 1000)\nselect found(:id);\n"
OF_CATALOG = "\\set oid random(1, 1000)\nselect relname from pg_class where oid = :oid;\n"
PARALLEL = "debug_parallel_query"
OF_DATABASE = "select parallel_workers_to_launch from pg_stat_database where datname = %s"
OF_TABLE = "select idx_scan from pg_stat_user_tables where relname = %s"
_SHELF = """
create table shelf (id int primary key, name text);
insert into shelf select i, repeat('x', 100) from generate_series(1, 1000) i;
vacuum analyze shelf;
create function found(wanted int) returns text language plpgsql as
  $$ declare it text; begin select name into it from shelf where id = wanted; return it; end $$
"""


@pytest.fixture
def shelf(pg18: Cluster) -> Iterator[None]:
    """A user's table, and a function that looks for one of its rows."""
    with psycopg.connect(**pg18.conninfo.kwargs(), autocommit=True) as conn:
        for statement in _SHELF.split(";\n"):
            conn.execute(statement.encode())
        yield
        conn.execute("drop function found(int); drop table shelf")


class Notes(Silent):
    """Keeps what is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def note(self, text: str) -> None:
        self.told.append(text)


def spec_of(folder: Path, script: str, **fields: Any) -> Any:
    path = folder / "script.sql"
    path.write_text(script)
    workload = {"script": [{"file": str(path)}], "scale": 1}
    clients = [{"name": "web", "count": 2, "think": "2ms"}]
    return spec_from_fields({"name": "kept", "workload": workload, "clients": clients, **fields})


def counted(session: Session, query: str, name: str) -> int:
    with connect_plain(session.target.conninfo) as connection:
        connection.execute("select pg_stat_clear_snapshot()")
        found = connection.execute(query.encode(), [name]).fetchone()
    assert found is not None
    return int(found[0])


def each(session: Session, query: str, name: str) -> tuple[int, int]:
    """The counts of a slice, and its transactions."""
    # What sessions count arrives within a second or so.
    session.wait(FLUSHED_S)
    before = counted(session, query, name)
    slice_id = session.slice(1.0, kind="baseline")
    session.wait(FLUSHED_S)
    return counted(session, query, name) - before, session.reader().ledger([slice_id]).done


def assert_plans_follow(
    session: Session, query: str, name: str, settings: dict[str, str], *, counts: bool
) -> None:
    """Each transaction is counted in those slices that have the settings, and none in the others;
    or the other way round."""
    session.start_load()
    for change in (Change(), Change(settings=settings), Change()):
        session.provide(change)
        session.apply(change)
        found, done = each(session, query, name)
        assert done > 0
        # pgdyno's probes may add a few.
        assert (found >= done) if bool(change.settings) == counts else (10 * found < done)


@pytest.mark.parametrize(
    ("protocol", "pooler"),
    [
        ("prepared", {}),
        pytest.param("simple", {}, marks=pytest.mark.long),
        ("prepared", {"kind": "pgbouncer"}),
    ],
)
def test_a_load_plans_its_statements_again_under_another_setting(
    tmp_path: Path, protocol: str, pooler: dict[str, Any]
) -> None:
    spec = spec_of(
        tmp_path,
        LOOKUP,
        server={"kind": "embedded", "settings": NO_INDEX},
        load={"protocol": protocol, "seed": 1},
        pooler=pooler,
    )
    path, watcher = tmp_path / "run.db", Silent()
    with open_session(spec, run=path, command="run", spec_text="", watcher=watcher) as session:
        on = {"enable_indexscan": "on"}
        assert_plans_follow(session, OF_TABLE, "pgbench_accounts", on, counts=True)


@pytest.mark.long
def test_a_front_end_plans_its_statements_again_under_another_setting(tmp_path: Path) -> None:
    fields = {
        "name": "front",
        "server": {"kind": "embedded", "settings": NO_INDEX},
        "clients": [{"name": "web", "count": 2}],
        "front": {},
        "workload": {"script": [{"request": "/product?id=7"}]},
    }
    path, watcher, spec = tmp_path / "run.db", Silent(), spec_from_fields(fields)
    with open_session(spec, run=path, command="run", spec_text="", watcher=watcher) as session:
        on = {"enable_indexscan": "on"}
        assert_plans_follow(session, OF_TABLE, "business_products", on, counts=True)


@pytest.mark.long
def test_a_setting_that_no_list_of_the_planners_has(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, OF_CATALOG, server={"settings": {PARALLEL: "on"}})
    path, watcher = tmp_path / "run.db", Silent()
    with open_session(spec, run=path, command="run", spec_text="", watcher=watcher) as session:
        database = session.target.conninfo.database
        off = {PARALLEL: "off"}
        assert_plans_follow(session, OF_DATABASE, database, off, counts=False)


@pytest.mark.parametrize("protocol", ["prepared", "simple"])
def test_sessions_of_a_users_server_begin_with_a_setting(
    pg18: Cluster, shelf: None, tmp_path: Path, protocol: str
) -> None:
    server, load = existing(pg18), {"protocol": protocol}
    spec, told = spec_of(tmp_path, BY_FUNCTION, server=server, load=load), Notes()
    path = tmp_path / "run.db"
    with open_session(spec, run=path, command="run", spec_text="", watcher=told) as session:
        assert_plans_follow(session, OF_TABLE, "shelf", NO_INDEX, counts=False)
        assert all(session.target.in_sessions(name) for name in NO_INDEX)
    assert not [each for each in told.told if "warning" in each]


def test_what_sessions_begin_with_comes_before_their_first_transaction(pg: Cluster) -> None:
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as conn:
        conn.execute("create table begun (value text)")
        script = "insert into begun values (current_setting('work_mem'));"
        with Run(config(pg.conninfo, script, session="set work_mem = '77kB'")) as run:
            run.wait_for(lambda r: r.total["done"] > 100)
            run.load.set_session("set work_mem = '78kB'")
            done = run.total["done"]
            run.wait_for(lambda r: r.total["done"] > done + 100)
        found = conn.execute("select distinct value from begun order by 1").fetchall()
        conn.execute("drop table begun")
    assert found == [("77kB",), ("78kB",)]
    assert not run.errors
    with pytest.raises(Exception, match="zero byte"):
        Run(config(pg.conninfo, script, session="set a = '\0'"))


def through(pooler: PgBouncer, folder: Path) -> Any:
    conninfo, control = pooler.conninfo, pooler.cluster.conninfo
    server = {
        "kind": "existing",
        "conninfo": conninfo.uri_without_password,
        "control": control.uri_without_password,
    }
    return spec_of(folder, BY_FUNCTION, server=server, load={"protocol": "extended"})


@pytest.mark.usefixtures("shelf", "own_home")
def test_a_users_pooler_connects_again_where_the_role_may_have_it_do_so(
    pg18: Cluster,
    pgbouncer: Callable[..., PgBouncer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGPASSWORD", pg18.conninfo.password or "")
    pooler, told = pgbouncer(pg18, pool_mode="transaction"), Notes()
    spec, path = through(pooler, tmp_path), tmp_path / "run.db"
    with open_session(
        spec, run=path, command="run", spec_text="", watcher=told, may_apply=True
    ) as session:
        assert_plans_follow(session, OF_TABLE, "shelf", NO_INDEX, counts=False)
        assert not session.reader().events("warning")
    log = (pooler.folder / "pgbouncer.log").read_text()
    assert log.count(f"RECONNECT '{pg18.conninfo.database}' command issued") == 2


@pytest.mark.usefixtures("shelf", "own_home")
def test_a_users_pooler_that_may_not_be_asked_is_said_to_keep_sessions(
    pg18: Cluster,
    pgbouncer: Callable[..., PgBouncer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGPASSWORD", pg18.conninfo.password or "")
    settings = {"admin_users": "nobody", "stats_users": pg18.conninfo.user}
    pooler, told = pgbouncer(pg18, pool_mode="transaction", **settings), Notes()
    spec, path = through(pooler, tmp_path), tmp_path / "run.db"
    with open_session(
        spec, run=path, command="run", spec_text="", watcher=told, may_apply=True
    ) as session:
        session.start_load()
        for change in (Change(), Change(settings=NO_INDEX), Change()):
            session.provide(change)
            session.apply(change)
        (warning,) = session.reader().events("warning")
    assert warning.label == "sessions not made again"
    assert all(name in warning.detail["message"] for name in NO_INDEX)
    assert [each for each in told.told if "your pooler keeps" in each]


PLANNER = "Query Tuning"
ALIKE = (
    *("Autovacuum", "Vacuuming", "Resource Usage / Cost-Based Vacuum Delay"),
    *("Resource Usage / Background Writer", "Write-Ahead Log", "Lock Management"),
)
"""Categories of which sessions keep nothing, as versions 14 to 19 begin them."""
MIXED = (
    *("Replication", "Reporting and Logging", "Statistics", "Developer Options"),
    "Client Connection Defaults",
)
"""Categories with both; other settings that are not kept are of the server's processes."""


def test_the_table_agrees_with_the_servers_categories(pg: Cluster) -> None:
    with psycopg.connect(**pg.conninfo.kwargs()) as conn:
        conn.execute("set lc_messages = 'C'")
        rows = conn.execute("select name, category, context from pg_settings").fetchall()
    changeable = [row for row in rows if row[2] not in ("internal", "postmaster")]
    kept = set(kept_by_sessions(name for name, _, _ in changeable))
    assert not [row for row in changeable if row[0] not in kept and "backend" in row[2]]
    assert not [row for row in changeable if row[0] not in kept and PLANNER in row[1]]
    assert not [row for row in changeable if row[0] in kept and row[1].startswith(ALIKE)]
    others = [row for row in changeable if row[0] not in kept and not row[1].startswith(ALIKE)]
    others = [row for row in others if not row[1].startswith(MIXED) and row[2] != "sighup"]
    # The buffers of a VACUUM are among those of memory.
    assert {name for name, _, _ in others} <= {"vacuum_buffer_usage_limit"}


@pytest.mark.long
@pytest.mark.parametrize("own", [True, False])
def test_what_a_plan_costs_is_found(
    pg18: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    monkeypatch.setenv("PGPASSWORD", pg18.conninfo.password or "")
    server = {"settings": {PARALLEL: "on"}} if own else existing(pg18)
    spec, path = spec_of(tmp_path, OF_CATALOG, server=server), tmp_path / "run.db"
    change = Change(settings={PARALLEL: "off" if own else "on"})
    with open_session(spec, run=path, command="compare", spec_text="", watcher=Silent()) as session:
        result = compare(session, change, budget_s=15.0, slice_s=0.5)
    assert result.decision == ("better" if own else "worse")
    assert result.effect is not None
    assert (result.effect.throughput_ratio > 2) if own else (result.effect.throughput_ratio < 0.5)

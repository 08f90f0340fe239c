"""``pgdyno vacuum-plan`` on real servers: rates by several looks, SQL that runs, young counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jsonschema
import psycopg
import pytest
from inline_snapshot import snapshot
from standby_signal import as_standby

from patience import wait_until
from pgdyno.check import Where
from pgdyno.errors import SetupError, UsageError
from pgdyno.results import schemas
from pgdyno.results.vacuum_plan import PlannedOption, PlannedTable, ProofSide, VacuumPlanResult
from pgdyno.server import Cluster, Installation
from pgdyno.vacuumplan.as_sql import as_sql
from pgdyno.vacuumplan.planning import VacuumPlan, VacuumPlanRequest, look, make_plan
from pgdyno.vacuumplan.proving import effects_of, models_of, prove

pytestmark = pytest.mark.server

_TABLES = """
drop schema if exists planned cascade;
create schema planned;
create table planned."Grows" (id int primary key, note text);
create table planned.churns (id int primary key, n int);
alter table planned."Grows" set (autovacuum_vacuum_insert_threshold = 2000000000);
alter table planned.churns set (autovacuum_vacuum_threshold = 2000000000);
create table planned.small (id int, n int);
create index on planned.small (n);
insert into planned.small select i, i from generate_series(1, 1500) i;
vacuum analyze planned.small;
create index on planned.churns (n);
create table planned.quiet (id int);
create table planned.empty (id int);
create table planned.burst (id int primary key, n int);
alter table planned.burst set (autovacuum_vacuum_threshold = 2000000000);
create index on planned.burst (n);
insert into planned.burst select i, i from generate_series(1, 20000) i;
insert into planned."Grows" select -i, $$x$$ from generate_series(1, 200000) i;
insert into planned.churns select i, i from generate_series(1, 20000) i;
insert into planned.quiet values (1);
vacuum analyze planned.churns;
"""


def connected(cluster: Cluster) -> psycopg.Connection:
    return psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True)


def counted(conn: psycopg.Connection, table: str, column: str) -> int:
    conn.execute("select pg_stat_clear_snapshot()")
    text = f"select {column} from pg_stat_user_tables where schemaname = 'planned' and relname = %s"
    row = conn.execute(text.encode(), [table]).fetchone()
    return 0 if row is None else int(row[0])


def changed(cluster: Cluster) -> None:
    """Change some tables, the first time more of them, and wait until that is counted."""
    with connected(cluster) as conn:
        first = conn.execute("select to_regclass('planned.made') is null").fetchone()
        if first == (True,):
            conn.execute("create table planned.made as select generate_series(1, 20000) as id")
            conn.execute("insert into planned.empty select generate_series(1, 20000)")
            conn.execute("update planned.burst set n = n + 1")
    with connected(cluster) as conn:
        before = counted(conn, "Grows", "n_tup_ins"), counted(conn, "churns", "n_tup_upd")
        conn.execute(
            'insert into planned."Grows" select i, $$x$$ from generate_series('
            '(select coalesce(max(id), 0) + 1 from planned."Grows"),'
            ' (select coalesce(max(id), 0) + 30000 from planned."Grows")) i'
        )
        conn.execute("update planned.churns set n = n + 1")
        conn.execute("update planned.small set n = n + 1")
        conn.execute("insert into planned.quiet values (2)")
    with connected(cluster) as conn:
        wait_until(lambda: counted(conn, "Grows", "n_tup_ins") > before[0], "inserts are counted")
        wait_until(lambda: counted(conn, "churns", "n_tup_upd") > before[1], "updates too")


def planned(cluster: Cluster, **values: str) -> VacuumPlan:
    with connected(cluster) as conn:
        for statement in filter(str.strip, _TABLES.split(";")):
            conn.execute(statement.encode())
        wait_until(lambda: counted(conn, "Grows", "n_tup_ins") > 0, "the beginning is counted")
    return planned_on(cluster, **values)


def planned_on(cluster: Cluster, **values: str) -> VacuumPlan:
    conninfo = psycopg.conninfo.make_conninfo(
        "", **{**cluster.conninfo.kwargs(), "application_name": None, **values}
    )
    # In seconds, since the changes come as fast as they can: 72 s are more than autovacuum_naptime.
    request = VacuumPlanRequest(Where(conninfo), every_h=0.02)
    return make_plan(request, lambda text: None, lambda seconds: changed(cluster))


@pytest.fixture(scope="module", params=[18, 15])
def usual(
    request: pytest.FixtureRequest, installation_of: Callable[[int], Installation]
) -> Iterator[Cluster]:
    """A server whose autovacuum looks every minute, as by default."""
    with Cluster.create(installation_of(request.param), {"checkpoint_timeout": "1d"}) as cluster:
        yield cluster


def test_a_standby_is_refused(usual: Cluster) -> None:
    with as_standby(usual), pytest.raises(SetupError, match="is a standby") as refused:
        planned_on(usual)
    assert refused.value.code == "vacuum-plan-standby"
    assert refused.value.hint == snapshot("name the primary")


def test_a_plan_has_a_reason_for_each_option_and_runs_as_it_is(usual: Cluster) -> None:
    plan = planned(usual).result
    jsonschema.validate(plan.to_json(), schemas()["vacuum-plan"])
    tables = {each.relation: each for each in plan.tables}
    grows, churns = tables['planned."Grows"'], tables["planned.churns"]
    assert {each.name for each in grows.options} >= {
        "autovacuum_vacuum_insert_threshold",
        "autovacuum_freeze_min_age",
    }
    assert {each.name for each in churns.options} >= {"autovacuum_vacuum_threshold"}
    assert churns.hot_share == pytest.approx(0, abs=0.05), "an index has the column"
    assert all(each.reason for table in plan.tables for each in table.options)
    assert "planned.quiet" in {each.relation for each in plan.not_planned}
    assert plan.xids_h is not None
    assert plan.xids_h > 0
    assert any("rates of 60 s" in each for each in plan.warnings)
    triggers = {each.name for each in tables["planned.small"].options} - {"fillfactor"}
    assert not triggers, "it is vacuumed often enough"
    text = as_sql(plan)
    with connected(usual) as conn:
        tables_only = [line for line in text.splitlines() if line.startswith("ALTER TABLE")]
        for line in tables_only:
            conn.execute(line.encode())
        row = conn.execute(
            "select reloptions from pg_class where oid = 'planned.\"Grows\"'::regclass"
        ).fetchone()
        assert row is not None
        assert "autovacuum_freeze_min_age=0" in row[0]
        conn.execute("drop schema planned cascade")


def test_a_role_that_may_only_connect_gets_a_plan(pg18: Cluster) -> None:
    with connected(pg18) as conn:
        conn.execute("drop role if exists planner")
        conn.execute("create role planner login")
    assert planned(pg18, user="planner").result.tables
    with connected(pg18) as conn:
        conn.execute("drop role planner")
        conn.execute("drop schema planned cascade")


@pytest.mark.alike
def test_what_came_at_once_is_no_rate(usual: Cluster) -> None:
    plan = planned(usual).result
    why = {each.relation: each.why for each in plan.not_planned}
    assert why["planned.made"] == snapshot("it was not there at the first look")
    assert why["planned.empty"].startswith("it had 0 rows at the first look, and 20,000 more since")
    assert why["planned.burst"].startswith("90 % of its changes came in 1 of 6 parts of the time")
    left = {each.relation for each in plan.tables}
    assert left == {'planned."Grows"', "planned.churns", "planned.small"}
    assert why["planned.made"] in as_sql(plan)


@pytest.mark.alike
def test_sizes_are_those_of_the_files_and_not_of_the_last_vacuum(usual: Cluster) -> None:
    """The table was never vacuumed or analyzed, so pg_class has no pages of it."""
    plan = planned(usual).result
    grows = next(each for each in plan.tables if each.relation == 'planned."Grows"')
    assert grows.size_bytes is not None
    assert grows.size_bytes > 30_000 * 24


def test_a_locked_table_has_no_size_and_delays_nobody(usual: Cluster) -> None:
    with connected(usual) as conn:
        conn.execute("create table if not exists locked (id int)")
        conn.execute("insert into locked select generate_series(1, 2000)")
        with connected(usual) as other, other.transaction():
            other.execute("lock table locked")
            looked, _ = look(usual.conninfo)
        conn.execute("drop table locked")
    (row,) = (row for row in looked.tables.values() if row["relation"] == "public.locked")
    assert row["bytes"] is None


@pytest.mark.alike
def test_statistics_that_are_too_young_are_refused(pg: Cluster) -> None:
    conninfo = psycopg.conninfo.make_conninfo(
        "", **{**pg.conninfo.kwargs(), "application_name": None}
    )
    request = VacuumPlanRequest(Where(conninfo), since_reset=True)
    with pytest.raises(SetupError, match="never reset"):
        make_plan(request, lambda text: None)
    with connected(pg) as conn:
        conn.execute("select pg_stat_reset()")
    with pytest.raises(SetupError, match=r"reset 0\.0 h ago"):
        make_plan(request, lambda text: None)


def test_a_reset_between_the_looks_is_no_rate(pg18: Cluster) -> None:
    def reset(seconds: float) -> None:
        with connected(pg18) as conn:
            conn.execute("select pg_stat_reset()")

    conninfo = psycopg.conninfo.make_conninfo(
        "", **{**pg18.conninfo.kwargs(), "application_name": None}
    )
    with pytest.raises(SetupError, match="reset between two looks"):
        make_plan(VacuumPlanRequest(Where(conninfo)), lambda text: None, reset)


def plan_of_orders(version: str) -> VacuumPlanResult:
    """A plan as for a table of 10 million rows whose last vacuum by percent is far away."""
    options = (
        PlannedOption(name="autovacuum_vacuum_scale_factor", value=0, present=0.2, reason="x"),
        PlannedOption(name="autovacuum_vacuum_threshold", value=200_000, present=50, reason="x"),
    )
    table = PlannedTable(
        relation="public.orders",
        rows=10_000_000,
        size_bytes=1 << 30,
        inserts_h=20_000,
        updates_h=100_000,
        deletes_h=20_000,
        hot_share=0.1,
        now_every_h=20.0,
        planned_every_h=2.0,
        options=options,
        unsure=(),
        statement="ALTER TABLE public.orders SET (autovacuum_vacuum_threshold = 200000)",
    )
    values = {"schema_version": 1, "server": "postgresql://u@h/shop", "version": version}
    values |= {"database": "shop", "since": "looks", "over_s": 60.0, "every_h": 2.0}
    values |= {"xids_h": 1e6, "to_forced_vacuum_h": 200.0, "freeze_max_age": 200_000_000}
    values |= {"tables": (table,), "not_planned": (), "settings": (), "warnings": ()}
    return VacuumPlanResult.model_validate(values)


PRESENT = {
    "public.orders": {
        "autovacuum_vacuum_threshold": 50.0,
        "autovacuum_vacuum_scale_factor": 0.2,
        "autovacuum_vacuum_insert_threshold": -1.0,
        "autovacuum_enabled": 1.0,
    }
}


@pytest.mark.parametrize(
    ("version", "rounds"), [("18.6", 2), pytest.param("15.18", 1, marks=pytest.mark.long)]
)
def test_a_plan_is_tried_against_the_present_settings(
    version: str, rounds: int, pg15: Cluster
) -> None:
    plan = plan_of_orders(version)
    proof = prove(plan, PRESENT, seconds=1.0, rounds=rounds, note=lambda text: None)
    tried = plan.model_copy(update={"proof": proof})
    jsonschema.validate(tried.to_json(), schemas()["vacuum-plan"])
    assert proof.tables == ("public.orders",)
    for side in (proof.present, proof.plan):
        assert (side.p99_ms is None) == (side.statements == 0)
        assert side.to_forced_vacuum_h is not None
    assert (proof.plan.vacuum_io_share is None) == (version < "16")
    said = " ".join(as_sql(tried).replace("\n--", "\n").split())
    assert " plan: " in said
    assert "warning: 0.12 of the plan's periods" in said, "1 s is less than two periods of 8"
    assert "as with --prove 16s" in said
    if rounds == 1:
        assert proof.effects is None
        assert "small differences mean nothing" in said
        return
    assert proof.effects is not None
    assert proof.effects.size_ratio is not None
    low, high = proof.effects.size_ratio.ci95
    assert low <= proof.effects.size_ratio.ratio <= high
    assert "2 rounds of 1 s each" in said
    assert "plan over present: size " in said


def side(**of: float | None) -> ProofSide:
    usual = {"statements": 10.0, "size_ratio": 1.0, "dead_share": 0.2, "vacuums": 1.0}
    usual |= {"vacuum_io_share": 0.1, "p99_ms": 5.0, "to_forced_vacuum_h": 10.0}
    return ProofSide.model_validate({**usual, **of})


def test_rounds_show_how_sure_an_effect_is() -> None:
    present = [side(dead_share=share) for share in (0.2, 0.21, 0.19, 0.2, 0.22, 0.2)]
    plan = [side(dead_share=each.dead_share / 4, p99_ms=None) for each in present]
    effects = effects_of(present, plan)
    assert effects is not None
    assert effects.dead_share is not None
    assert effects.dead_share.ratio == pytest.approx(0.25)
    assert effects.dead_share.ci95[1] < 0.3
    assert effects.size_ratio is not None
    assert effects.size_ratio.ci95 == (1.0, 1.0)
    assert effects.p99_ms is None, "not known in a round"
    assert effects_of(present, [side(dead_share=0.0)] * 6).dead_share is None  # type: ignore[union-attr]
    assert effects_of(present[:1], plan[:1]) is None


def test_a_server_without_autovacuum_is_tried_without_and_with_it() -> None:
    on = PlannedOption(name="autovacuum", value=1, present=0, reason="x")
    plan = plan_of_orders("18.6").model_copy(update={"settings": (on,)})
    present = {"public.orders": {**PRESENT["public.orders"], "autovacuum_enabled": 0.0}}
    (model,) = models_of(plan, present, 900.0)
    assert model.present["autovacuum_enabled"] == "off"
    assert model.planned["autovacuum_enabled"] == "on"
    assert model.planned["autovacuum_vacuum_threshold"] == "1000", "at the scale of 50,000 rows"


def test_a_plan_that_changes_nothing_cannot_be_tried() -> None:
    nothing = plan_of_orders("18.6").model_copy(update={"tables": ()})
    with pytest.raises(UsageError, match="changes no table"):
        prove(nothing, PRESENT, seconds=1.0, rounds=1, note=lambda text: None)

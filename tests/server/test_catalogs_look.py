"""What a look at plans asks the catalogs, on each version, of a role without rights of its own; and
that what it tries leaves the planner's counts alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from pgdyno.plans.look import Executes, LoadSample, PlanLook, look_at_plans
from pgdyno.record import WhyUnusable
from pgdyno.server import Cluster, connect_plain

if TYPE_CHECKING:
    from pgdyno._engine import SampledTransaction

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("patient_look")]

SETUP = """
create schema asked;
create table asked.item (id int primary key, kind int, note text) with (autovacuum_enabled = off);
insert into asked.item select i, i % 100, repeat('x', 60) from generate_series(1, 5000) i;
create index item_kind on asked.item (kind);
update pg_catalog.pg_index set indisvalid = false where indexrelid = 'asked.item_kind'::regclass;
create function asked.checked() returns trigger language plpgsql as $$ begin return new; end $$;
create trigger checks before insert on asked.item for each row execute function asked.checked();
alter table asked.item alter column note set statistics 0;
create table asked.parted (id int, total int) partition by range (id);
create table asked.parted_1 partition of asked.parted for values from (0) to (10);
create table asked.parted_2 partition of asked.parted for values from (10) to (20);
create role asking login;
grant usage on schema asked to asking;
grant all on all tables in schema asked to asking;
"""
READ = "select count(*) from asked.item where kind = 5"
WRITE = "insert into asked.item values (0, 1, 'y')"
PARTED = "select sum(total) from asked.parted where total = 1"


def sampled(*texts: str) -> LoadSample:
    transaction: SampledTransaction = {
        "group": "web",
        "script": "asked",
        "statements": [
            {"position": n, "text": text, "parameterized": None, "parameters": [], "captures": None}
            for n, text in enumerate(texts)
        ],
    }
    per_s = {("web", "asked", n): 10.0 for n in range(len(texts))}
    return LoadSample(transactions=[transaction], per_s=per_s, protocol="simple")


@contextmanager
def asked(cluster: Cluster) -> Iterator[None]:
    with connect_plain(cluster.conninfo) as connection:
        connection.execute(SETUP.encode())
        try:
            yield
        finally:
            connection.execute(b"drop schema asked cascade; drop owned by asking; drop role asking")


def looked(cluster: Cluster, *texts: str, executes: Executes, user: str | None = None) -> PlanLook:
    conninfo = cluster.conninfo if user is None else replace(cluster.conninfo, user=user)
    return look_at_plans(conninfo, sampled(*texts), executes=executes, seconds_max=2.0)


@pytest.mark.parametrize("user", [None, "asking"])
def test_what_catalogs_say_without_executing(pg: Cluster, user: str | None) -> None:
    with asked(pg):
        look = looked(pg, READ, WRITE, PARTED, executes="nothing", user=user)
    (trigger,) = look.triggers
    assert (trigger.relation, trigger.trigger_name) == ("asked.item", "checks")
    assert trigger.function == "asked.checked()"
    (index,) = look.unusable
    assert (index.index_name, index.compared) == ("asked.item_kind", "kind")
    assert index.reason is WhyUnusable.INVALID
    assert {each.relation: each.key for each in look.partitions} == {
        "asked.parted_1": "RANGE (id)",
        "asked.parted_2": "RANGE (id)",
    }
    (item,) = look.statistics
    assert (item.relation, item.has_statistics) == ("asked.item", False)
    assert item.statements == ["alter table asked.item alter column note set statistics -1"]
    assert not look.counted
    assert not look.trials


def test_functions_are_counted_for_each_statement(pg: Cluster) -> None:
    with asked(pg):
        look = looked(pg, WRITE, READ, executes="everything")
    (called,) = look.called
    assert (called.position, called.function, called.calls) == (0, "asked.checked()", 1)
    assert called.is_trigger
    assert [each.position for each in look.counted] == [0, 1]


def test_analyze_is_tried_and_leaves_the_counts_as_they_were(pg: Cluster) -> None:
    counts = b"select relpages, reltuples from pg_class where oid = 'asked.item'::regclass"
    with asked(pg), connect_plain(pg.conninfo) as connection:
        before = connection.execute(counts).fetchone()
        look = looked(
            pg, "select count(*) from asked.item where kind + 0 < 1", executes="everything"
        )
        assert connection.execute(counts).fetchone() == before
    assert any("analyze asked.item" in each.change for each in look.trials)


def test_each_turn_without_analyze_has_the_plan_that_the_load_has(pg: Cluster) -> None:
    table = """
        create table asked.few (id int, note char(200)) with (autovacuum_enabled = off);
        insert into asked.few select generate_series(1, 500), '';
        update pg_catalog.pg_class set relpages = 1, reltuples = 0
            where oid = 'asked.few'::regclass;
    """
    text = "select count(*) from asked.few one join asked.few other on one.id + 0 = other.id + 0"
    with asked(pg), connect_plain(pg.conninfo) as connection:
        connection.execute(table.encode())
        look = looked(pg, text, executes="everything")
    (trial,) = (each for each in look.trials if "analyze asked.few" in each.change)
    assert trial.is_replanned
    # Nested loops over all rows, and a hash.
    assert trial.ms > 5 * trial.changed_ms

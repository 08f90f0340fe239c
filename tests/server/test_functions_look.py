"""Triggers, functions and foreign keys that take the time of the load's statements, on servers of
pgdyno's: what names each, and loads beside them that are healthy."""

from __future__ import annotations

from pathlib import Path

import pytest
from plan_runs import diagnosed, of

from pgdyno.record import RunFile
from pgdyno.record.finding import Finding

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("patient_look")]

LOG = """
create table log (id int generated always as identity primary key, what text not null);
create function checked() returns trigger language plpgsql as $$
declare n int := 0;
begin {work} return new; end $$;
create trigger checks before insert on log for each row execute function checked();
"""
LOOP = "for i in 1..20000 loop n := n + i % 7; end loop;"
INSERT = "insert into log (what) values ('seen');\n"
LONG_INSERT = "insert into log (what) select count(*)::text from generate_series(1, 20000);\n"
WEIGHED = """
create table item (id int primary key, total int);
insert into item select i, i % 100 from generate_series(1, 1000) i;
create function weighed(n int) returns int language plpgsql volatile as $$
declare m int := 0;
begin {work} return n * 2; end $$;
analyze item;
"""
SUM = (
    "\\set k random(1, 900)\n"
    "select sum(weighed(total)) from item where id between :k and :k + 20;\n"
)
PARENTS = """
create table parent (id int generated always as identity primary key, n int);
create table child (id int primary key, parent_id int references parent);
insert into parent (n) select i from generate_series(1, 1000) i;
insert into child select i, 1 + i % 900 from generate_series(1, 60000) i;
{index}
analyze parent, child;
"""
DELETE = (
    "insert into parent (n) values (1) returning id \\gset\ndelete from parent where id = :id;\n"
)


def evidence(found: Finding) -> dict[str, object]:
    return {each.name: each.value for each in found.evidence}


def test_a_trigger_that_computes(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, INSERT, LOG.format(work=LOOP))
    cause = of(found, "trigger-time")
    assert cause.status == "found"
    assert evidence(cause)["trigger of public.log"] == "checks"
    assert "public.checked() / response time" in evidence(cause)
    assert not cause.proposals
    assert of(found, "function-time").status == "cleared"


def test_a_trigger_that_does_little(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, LONG_INSERT, LOG.format(work=""))
    assert of(found, "trigger-time").status == "cleared"
    with RunFile(tmp_path / "run.db") as run:
        (called,) = run.called_functions()
    assert (called.function, called.is_trigger, called.calls) == ("public.checked()", True, 1)


def test_a_function_that_computes(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, SUM, WEIGHED.format(work=LOOP.replace("20000", "1000")))
    cause = of(found, "function-time")
    assert cause.status == "found"
    assert evidence(cause)["calls by the statement"] == 21
    assert "public.weighed(integer) / response time" in evidence(cause)
    assert of(found, "trigger-time").status == "cleared"


COUNTED = """
create table item (id int primary key, total int);
insert into item select i, i % 100 from generate_series(1, 10000) i;
create function total_of(low int) returns bigint language plpgsql as $$
begin return (select sum(total) from item where id >= low); end $$;
create function counted(low int) returns bigint language plpgsql volatile as $$
begin
    for i in 1..10 loop
        perform count(*) from item where total >= low % 100;
    end loop;
    {work}
    return total_of(low);
end $$;
analyze item;
"""
COUNT = "\\set k random(1, 900)\nselect counted(:k);\n"


@pytest.mark.parametrize(
    ("work", "status"),
    [("", "cleared"), ("for i in 1..200000 loop low := low + 1 - 1; end loop;", "found")],
)
@pytest.mark.parametrize("superuser", [True, False])
def test_a_function_that_executes_statements(
    tmp_path: Path, work: str, status: str, superuser: bool
) -> None:
    """The statements take a hundred times as long as it takes to execute them from a function."""
    found = diagnosed(tmp_path, COUNT, COUNTED.format(work=work), superuser=superuser)
    assert of(found, "function-time").status == status
    with RunFile(tmp_path / "run.db") as run:
        called = {each.function: each for each in run.called_functions()}
        executed = {each.statement.split()[0]: each for each in run.function_statements()}
    counted = called["public.counted(integer)"]
    assert counted.own_ms is not None
    assert counted.own_ms < 0.5 * counted.self_ms or work
    assert executed["SELECT"].executions == 10
    assert {*executed} == {"SELECT", "(select"}


def test_no_function_at_all(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, "select count(*) from item;\n", WEIGHED.format(work=""))
    assert of(found, "function-time").status == "cleared"
    with RunFile(tmp_path / "run.db") as run:
        assert not run.called_functions()
        assert [each.place for each in run.counted_statements()] == [("web", "planted", 0)]


@pytest.mark.parametrize(
    ("index", "status"), [("", "found"), ("create index on child (parent_id);", "cleared")]
)
def test_checks_of_a_foreign_key(tmp_path: Path, index: str, status: str) -> None:
    found = diagnosed(tmp_path, DELETE, PARENTS.format(index=index))
    cause = of(found, "foreign-key-time")
    assert cause.status == status
    if status == "found":
        assert "child_parent_id_fkey / response time" in evidence(cause)
        assert "missing-index" in cause.causes

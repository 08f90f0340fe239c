"""Causes that only the plans of the load's statements tell, planted on servers of pgdyno's: the
finding that names each, and healthy loads beside them.

Each cause makes a statement take many times as long, so that the machine's noise decides nothing
but the rank, which other programs on it may have.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from plan_runs import diagnosed, of

from pgdyno.conduct import Silent, open_session
from pgdyno.conduct.plan_look import look_at_plans
from pgdyno.record import RunFile
from pgdyno.record.finding import Finding
from pgdyno.server import Cluster, connect_plain
from pgdyno.spec import Change, spec_from_fields

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("patient_look")]

ROWS = """
create table item (id int primary key, kind int, total int, note text);
insert into item select i, i % 500, i % 100, repeat('x', 40) from generate_series(1, 60000) i;
create index on item (kind);
analyze item;
"""
JOINED = 8
JOINS = "".join(
    f"create table j{n} (id int primary key, next int);"
    f"insert into j{n} select i, i % 100 + 1 from generate_series(1, 100) i; analyze j{n};\n"
    for n in range(JOINED)
)
JOIN = (
    "\\set x random(1, 100)\nselect count(*) from j0 "
    + " ".join(f"join j{n} on j{n}.id = j{n - 1}.next" for n in range(1, JOINED))
    + " where j0.id = :x;\n"
)
LOOKUP = "\\set k random(1, 400)\nselect sum(total) from item where kind = :k;\n"
NO_FOREIGN_INDEX = """
create table parent (id bigint generated always as identity primary key, n int);
create table child (parent_id bigint references parent, what text);
create table other (parent_id bigint, what text);
insert into parent (n) select i from generate_series(1, 1000) i;
insert into child select i % 1000 + 1, 'x' from generate_series(1, 60000) i;
analyze parent, child;
"""
ORDER = (
    "insert into parent (n) values (1) returning id \\gset\n"
    "insert into other values (:id, 'one');\n"
    "begin;\ndelete from parent where id = :id;\ncommit;\n"
)


def changes(found: Finding) -> list[Change]:
    return [each.change for each in found.proposals]


def test_a_setting_that_forbids_the_index(tmp_path: Path) -> None:
    off = {"enable_indexscan": "off", "enable_bitmapscan": "off", "enable_indexonlyscan": "off"}
    found = diagnosed(tmp_path, LOOKUP, ROWS, settings=off)
    cause = of(found, "costly-settings")
    assert cause.status == "found"
    assert Change(settings={"enable_bitmapscan": "on"}) in changes(cause)
    # The index that the statement needs is there.
    assert not of(found, "missing-index").proposals


def test_planning_at_each_execution(tmp_path: Path) -> None:
    mode = {"plan_cache_mode": "force_custom_plan"}
    found = diagnosed(tmp_path, JOIN, JOINS, settings=mode)
    cause = of(found, "costly-settings")
    assert cause.status == "found"
    assert changes(cause) == [Change(settings={"plan_cache_mode": "auto"})]


def test_a_statement_that_a_rule_adds(tmp_path: Path) -> None:
    setup = """
    create table entry (kind int);
    create table counted (kind int, n int);
    insert into counted select i % 500, 0 from generate_series(1, 60000) i;
    analyze counted;
    create rule counts as on insert to entry
        do also update counted set n = n + 1 where kind = new.kind;
    """
    script = "\\set k random(1, 400)\ninsert into entry values (:k);\n"
    cause = of(diagnosed(tmp_path, script, setup), "missing-index")
    assert [each.change.indexes for each in cause.proposals] == [{"public.counted": "kind"}]


def test_statements_that_are_not_prepared(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, JOIN, JOINS, protocol="simple")
    cause = of(found, "parse-plan")
    assert cause.status == "found"
    assert changes(cause) == [Change(spec={"load.protocol": "prepared"})]


def test_an_index_that_is_missing(tmp_path: Path) -> None:
    setup = ROWS.replace("create index on item (kind);", "")
    found = diagnosed(tmp_path, LOOKUP, setup)
    cause = of(found, "missing-index")
    assert cause.status == "found"
    assert changes(cause) == [Change(indexes={"public.item": "kind"})]


def test_a_foreign_key_without_an_index(tmp_path: Path) -> None:
    cause = of(diagnosed(tmp_path, ORDER, NO_FOREIGN_INDEX), "missing-index")
    assert changes(cause) == [Change(indexes={"public.child": "parent_id"})]


@pytest.mark.parametrize("protocol", ["simple", "prepared"])
def test_a_foreign_key_of_rows_that_the_load_has_deleted(tmp_path: Path, protocol: str) -> None:
    setup = NO_FOREIGN_INDEX + "insert into parent (n) select i from generate_series(1, 90000) i;\n"
    script = "\\set id random(2000, 91000)\ndelete from parent where id = :id;\n"
    cause = of(diagnosed(tmp_path, script, setup, protocol=protocol), "missing-index")
    assert changes(cause) == [Change(indexes={"public.child": "parent_id"})]


NO_INDEX_WITHIN = (
    ROWS.replace("create index on item (kind);", "")
    + """
create function spent(k int) returns bigint language plpgsql as
    $$ begin return (select sum(total) from item where kind = k); end $$;
create table entry (kind int);
create function checked() returns trigger language plpgsql as
    $$ begin perform total from item where item.kind = new.kind; return new; end $$;
create trigger checks before insert on entry for each row execute function checked();
"""
)


@pytest.mark.parametrize("statement", ["select spent(:k);", "insert into entry values (:k);"])
def test_a_missing_index_within_a_function(tmp_path: Path, statement: str) -> None:
    script = f"\\set k random(1, 400)\n{statement}\n"
    cause = of(diagnosed(tmp_path, script, NO_INDEX_WITHIN), "missing-index")
    assert changes(cause) == [Change(indexes={"public.item": "kind"})]
    assert "foreign key" not in cause.sentence


def test_a_condition_that_most_rows_meet(tmp_path: Path) -> None:
    script = "select count(*), sum(total) from item where total >= 2;\n"
    found = diagnosed(tmp_path, script, ROWS)
    assert not of(found, "missing-index").proposals
    assert of(found, "missing-index").status == "cleared"


def test_nothing_is_executed_on_a_server_of_the_user(pg18: Cluster, tmp_path: Path) -> None:
    with connect_plain(pg18.conninfo) as connection:
        connection.execute("drop table if exists looked")
        connection.execute("create table looked (id serial, n int)")
    (tmp_path / "script.sql").write_text(
        "begin;\ninsert into looked (n) values (1) returning id \\gset\n"
        "lock table looked in row share mode;\nselect n from looked where id = :id;\ncommit;\n"
    )
    spec = spec_from_fields(
        {
            "name": "looked",
            "server": {"kind": "existing", "conninfo": pg18.conninfo.uri_without_password},
            "workload": {"script": [{"file": str(tmp_path / "script.sql")}]},
            "clients": [{"name": "web", "count": 1}],
            "load": {"hold": "2s"},
        }
    )
    path = tmp_path / "run.db"
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        session.start_load(scheduled=True)
        with session.measured("run") as slice_id:
            session.wait(1.5)
        session.stop_load()
        look_at_plans(session, [slice_id])
        with connect_plain(pg18.conninfo) as connection:
            (drawn,) = connection.execute("select last_value from looked_id_seq").fetchone()
            (rows,) = connection.execute("select count(*) from looked").fetchone()
        plans = session.reader().statement_plans()
        trials = session.reader().statement_trials()
    assert drawn == rows
    assert [plan.is_analyzed for plan in plans] == [False, False, False]
    assert [plan.plan is None for plan in plans] == [False, True, False]
    assert not trials


def test_a_healthy_load(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, LOOKUP, ROWS)
    for name in ("parse-plan", "jit", "costly-settings", "missing-index"):
        assert of(found, name).status == "cleared", name
    # On a busy machine the executions with each plan may differ too much to tell.
    kept = of(found, "kept-plan")
    assert kept.status == "cleared" or "executions differ" in kept.sentence
    with RunFile(tmp_path / "run.db") as run:
        (plan,) = run.statement_plans()
    assert plan.is_analyzed
    assert not plan.lack

"""The script language against pgbench itself: same values, same rows, same refusals.

pgbench runs a script once. pgdyno has no such mode: a load runs until it is stopped. So every
script here writes rows under fixed keys and leaves alone what is there, and how often it ran does
not show.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from patience import PATIENCE_S
from pgdyno import _engine
from pgdyno.server import Cluster

pytestmark = [pytest.mark.server, pytest.mark.alike]

_TABLE = Path(__file__).parents[2] / "crates/load/tests/data/expressions.txt"

# As the table's head says.
_DEFINED = {
    "i": "+3",
    "n": "null",
    "t": "t",
    "f": "of",
    "d": "1.0",
    "text": "bla",
    "octal": "010",
    "sci": "1e3",
    "default_seed": "42",
}

_PROTOCOLS = ["simple", "extended", "prepared"]


def expressions() -> list[tuple[str, str]]:
    """The table's expressions and what pgbench makes of them."""
    lines = _TABLE.read_text(encoding="utf-8").splitlines()
    rows = [line.rsplit(" => ", 1) for line in lines if line and not line.startswith("#")]
    return [(expression, value) for expression, value in rows]


def pgbench(
    cluster: Cluster,
    script: str,
    *,
    protocol: str = "simple",
    defined: dict[str, str] | None = None,
    folder: Path,
) -> subprocess.CompletedProcess[str]:
    """Runs a script once with the cluster's own pgbench."""
    file = folder / "script.sql"
    file.write_text(script, encoding="utf-8", newline="")
    conninfo = cluster.conninfo
    where = ["-h", conninfo.host, "-p", str(conninfo.port), "-U", conninfo.user]
    definitions = [f"-D{name}={value}" for name, value in (defined or {}).items()]
    program = str(cluster.installation.bindir / "pgbench")
    return subprocess.run(
        [
            program,
            "-n",
            "-t1",
            "-M",
            protocol,
            *where,
            *definitions,
            f"-f{file}",
            conninfo.database,
        ],
        capture_output=True,
        text=True,
        check=False,
    )


def run_here(
    cluster: Cluster,
    script: str,
    *,
    protocol: str = "simple",
    defined: dict[str, str] | None = None,
) -> None:
    """Runs a script a few times with pgdyno's engine; fails with the server's message."""
    conninfo = cluster.conninfo
    config = {
        "target": {
            "hosts": [{"host": conninfo.host, "port": conninfo.port}],
            "user": conninfo.user,
            "password": conninfo.password,
            "database": conninfo.database,
        },
        "threads": 1,
        "seed": 1,
        "protocol": protocol,
        "groups": [
            {
                "name": "clients",
                "clients": 1,
                "schedule": [],
                "pool": None,
                "think_ms": 0,
                "variables": defined or {},
                "scripts": [{"name": "script", "text": script, "file": "script.sql", "weight": 1}],
            }
        ],
    }
    load = _engine.Load(json.dumps(config))
    load.start()
    done = 0
    errors: list[object] = []
    deadline = time.monotonic() + PATIENCE_S
    while not done and not errors and time.monotonic() < deadline:
        time.sleep(0.02)
        load.end_interval(None)
        for interval in load.poll():
            done += sum(row["done"] for row in interval["scripts"])
            errors += interval["errors"]
    load.stop(5000)
    assert not errors, errors
    assert done, f"nothing was done: {load.fatal()}"


@pytest.fixture
def rows(pg: Cluster) -> Iterator[psycopg.Connection[tuple[str, ...]]]:
    """A connection to the server, with empty tables for the scripts."""
    conninfo = pg.conninfo
    with psycopg.connect(**conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("drop schema if exists script_test cascade")
        connection.execute("create schema script_test")
        connection.execute("create table script_test.result (k int primary key, v text)")
        connection.execute(
            "create table script_test.typed"
            " (k int primary key, i bigint, d double precision, b boolean, n numeric, a int[])"
        )
        yield connection
        connection.execute("drop schema script_test cascade")


def contents(connection: psycopg.Connection[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """All rows of both tables; empties them."""
    found: list[tuple[str, ...]] = []
    for table in ("result", "typed"):
        query = f"select to_jsonb(t)::text from script_test.{table} t order by k"
        found += connection.execute(query.encode()).fetchall()
    connection.execute("truncate script_test.result, script_test.typed")
    return found


def value_script() -> tuple[str, list[str]]:
    """A script that keeps the value of every expression that has one; and those values."""
    cases = [(expression, value) for expression, value in expressions() if value != "error"]
    text = "".join(
        f"\\set x {expression}\n"
        f"insert into script_test.result values ({k}, ':x') on conflict do nothing;\n"
        for k, (expression, _) in enumerate(cases)
    )
    return text, [value for _, value in cases]


def stored_values(connection: psycopg.Connection[tuple[str, ...]]) -> list[str]:
    stored = connection.execute("select v from script_test.result order by k").fetchall()
    return [value for (value,) in stored]


def test_the_table_of_expressions_is_what_pgbench_says(
    pg: Cluster, rows: psycopg.Connection[tuple[str, ...]], tmp_path: Path
) -> None:
    script, wanted = value_script()
    ran = pgbench(pg, script, defined=_DEFINED, folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert stored_values(rows) == wanted


def test_expressions_without_a_value_have_none_in_pgbench(pg18: Cluster, tmp_path: Path) -> None:
    accepted = []
    for expression, value in expressions():
        if value == "error":
            script = f"\\set x {expression}\nselect 1;\n"
            if pgbench(pg18, script, defined=_DEFINED, folder=tmp_path).returncode == 0:
                accepted.append(expression)
    # pgbench takes an argument list that starts with a comma; here it is a mistake.
    assert not accepted


@pytest.mark.parametrize("protocol", _PROTOCOLS)
def test_values_reach_the_server_as_from_pgbench(
    pg: Cluster, rows: psycopg.Connection[tuple[str, ...]], protocol: str
) -> None:
    script, wanted = value_script()
    run_here(pg, script, protocol=protocol, defined=_DEFINED)
    assert stored_values(rows) == wanted


_SCRIPTS = {
    "types": """
\\set i 40 + 2
\\set d 1.0 / 3
\\set b 1 < 2
\\set n -5 % 3
insert into script_test.typed values (1, :i, :d, :b, :n) on conflict do nothing;
insert into script_test.typed (k, i) values (2, :i::int + :n::int) on conflict do nothing;
insert into script_test.typed (k, a) values (3, array[:i, :n]::int[]) on conflict do nothing;
""",
    "null": """
\\set nothing null
insert into script_test.typed values (1, :nothing, :nothing, :nothing, :nothing)
    on conflict do nothing;
""",
    "branches": """
\\set k 0
\\if :scale > 1000000
    \\set k 1
\\elif :client_id = 0 and not (1 > 2)
    \\set k 2
    \\if null
        \\set k 3
    \\else
        insert into script_test.result values (20, 'inner else') on conflict do nothing;
    \\endif
\\elif 1 / 0 = 1
    \\set k 4
\\else
    \\set k 5
\\endif
insert into script_test.result values (:k, 'branch') on conflict do nothing;
""",
    "gset": """
select 7 as a, 'it is' as b, 2.50 as c, true as d, null as e \\gset
select 1 as a, 'x' as b
    \\gset p_
\\set sum :a + :p_a * 100
insert into script_test.result values (1, :sum) on conflict do nothing;
insert into script_test.result values (2, ':b') on conflict do nothing;
insert into script_test.result values (3, ':c') on conflict do nothing;
insert into script_test.result values (4, ':d') on conflict do nothing;
insert into script_test.result values (5, ':e') on conflict do nothing;
insert into script_test.result values (6, ':p_b') on conflict do nothing;
""",
    "aset": """
select generate_series(1, 3) as last \\aset
select 1 as never where false \\aset
insert into script_test.result values (1, ':last') on conflict do nothing;
insert into script_test.result values (2, ':never') on conflict do nothing;
""",
    "joined": """
select 1 as a \\; select 2 as a \\; select 3 as b \\aset
select 5 as c \\; select 6 as c \\gset
insert into script_test.result values (:a, ':b') on conflict do nothing
    \\; insert into script_test.result values (:c, ';') on conflict do nothing;
""",
    "quotes": """
\\set x 5
insert into script_test.result values (1, ':x;''') on conflict do nothing;
insert into script_test.result values (2, E'\\';\\\\') on conflict do nothing;
insert into script_test.result values (3, $$;'$$) on conflict do nothing;
insert into script_test.result values (4, $q$ $$ ; :x $q$) on conflict do nothing; -- ; :x
insert into script_test.result /* ; /* ' */ :y */ values (5, '{"a":true}') on conflict do nothing;
insert into script_test.result values (6, '12:34'::time::text) on conflict do nothing;
insert into script_test.result values (7, (array[1, 2, :x])[2:3]::text) on conflict do nothing;
insert into script_test.result values (8, 'a\\') on conflict do nothing;
insert into script_test.result values (9, U&'\\0041;') on conflict do nothing;
insert into script_test.result select 10, "a;b" from (select 'c;d' as "a;b") as s
    on conflict do nothing;
""",
    "layout": """
-- a comment
\\

\\SET x \\
    1 + \\
    2
;
insert into script_test.result
    values (1,
        :x) on conflict do nothing \\set y :x * 2
/* a hint */ insert into script_test.result values (2, :y) on conflict do nothing;;
\\sleep 1 us
\\sleep :x us
  \\sleep 1us
insert into script_test.result values (3, 'last') on conflict do nothing""",
    "routine": """
select pg_advisory_lock(1);
create or replace function script_test.twice(x int) returns int language sql
begin atomic
    select case when x is null then 0 else 2 * x end;
end;
create or replace procedure script_test.note(x int) language sql
begin atomic
    insert into script_test.result values (1, x) on conflict do nothing;
    insert into script_test.result values (2, x + 1) on conflict do nothing;
end;
call script_test.note(script_test.twice(4));
select pg_advisory_unlock(1);
""",
    "variables": """
\\set x :given + 1
insert into script_test.result values (1, :x) on conflict do nothing;
insert into script_test.result values (2, ':word') on conflict do nothing;
insert into script_test.result values (3, ':undefined :1 ::x :-)') on conflict do nothing;
""",
    "block": """
begin;
insert into script_test.result values (1, 'kept') on conflict do nothing;
savepoint s;
insert into script_test.result values (2, 'dropped') on conflict do nothing;
rollback to s;
end;
begin;
insert into script_test.result values (3, 'dropped') on conflict do nothing;
rollback;
""",
}


@pytest.mark.parametrize("protocol", _PROTOCOLS)
@pytest.mark.parametrize("name", _SCRIPTS)
def test_scripts_leave_the_rows_that_pgbench_leaves(
    pg: Cluster,
    rows: psycopg.Connection[tuple[str, ...]],
    name: str,
    protocol: str,
    tmp_path: Path,
) -> None:
    defined = {"given": "6", "word": "some word"}
    script = _SCRIPTS[name]
    # pgbench's default protocol is the meaning to keep, in every protocol here.
    ran = pgbench(pg, script, defined=defined, folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    wanted = contents(rows)
    assert wanted
    run_here(pg, script, protocol=protocol, defined=defined)
    assert contents(rows) == wanted


def test_the_built_in_scripts_do_what_those_of_pgbench_do(pg18: Cluster) -> None:
    program = str(pg18.installation.bindir / "pgbench")

    def words(text: str) -> list[str]:
        lines = [line for line in text.splitlines() if not line.startswith("--")]
        spaced = " ".join(lines).lower().replace("(", " ( ").replace(")", " ) ")
        return spaced.split()

    for name, text in _engine.builtin_scripts().items():
        shown = subprocess.run(
            [program, f"--show-script={name}"], capture_output=True, text=True, check=True
        )
        assert words(text) == words(shown.stdout + shown.stderr)


_MALFORMED = [
    "",
    "-- nothing but a comment",
    "\\set",
    "\\set x",
    "\\set x 1 +",
    "\\set 1x 1\nselect 1;",
    "\\set . 1\nselect 1;",
    "\\set i noSuchFunction()",
    "\\set i ;",
    "\\set i CASE TRUE THEN 1 ELSE 0 END",
    "\\set d ln(1.0, 2.0)",
    "\\set i greatest()",
    "\\set i least(0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16)\nselect 1;",
    "\\set i 9223372036854775808",
    "\\set i 1 < 2 < 3",
    "\\set i (1",
    "\\set i 1)",
    "\\set i 'text'",
    "\\sleep",
    "\\sleep soon",
    "\\sleep 1 week",
    "\\sleep 1.5 s",
    "\\sleep 1 s s",
    "\\nosuchcommand",
    "\\else\nselect 1;",
    "\\elif 1\nselect 1;",
    "\\endif\nselect 1;",
    "\\if 1\nselect 1;",
    "\\if\nselect 1;\n\\endif",
    "\\if 1\n\\else\n\\else\n\\endif\nselect 1;",
    "\\if 1\n\\else\n\\elif 1\n\\endif\nselect 1;",
    "\\if 1\nselect 1;\n\\endif x",
    "\\gset",
    "\\set i 1\n\\gset",
    "select 1 as i \\gset\n\\gset",
    "select 1 as i \\gset a b",
    "select 1 as i \\gset 1\n",
    "\\if 1\nselect 1 as i;\n\\endif\n\\gset",
    "\\startpipeline now\nselect 1;",
    "\\startpipeline\n\\startpipeline\nselect 1;",
    "\\endpipeline\nselect 1;",
    "\\syncpipeline\nselect 1;",
    "\\startpipeline\nselect 1 as i \\gset\n\\endpipeline",
    "\\shell",
    "\\setshell x",
    "select 'open;\n",
    "select $$open;\n",
    "select /* open;\n",
    "select (1;\n",
    "\\set i 0\nselect least(" + ", ".join([":i"] * 256) + ");",
]


@pytest.mark.parametrize("script", _MALFORMED)
def test_what_pgbench_refuses_is_refused(pg18: Cluster, script: str, tmp_path: Path) -> None:
    assert pgbench(pg18, script, protocol="extended", folder=tmp_path).returncode != 0
    with pytest.raises(_engine.ScriptError) as caught:
        _engine.check_script(script, "bad.sql")
    error = caught.value
    assert error.file == "bad.sql"
    assert 1 <= error.line <= script.count("\n") + 1
    assert error.column >= 1


def test_a_script_is_checked_without_a_server() -> None:
    text = "\\set x :a + 1\nselect :x, :b;\nselect 'c' as c \\gset p_\nselect :p_c"
    facts = _engine.check_script(text, "good.sql", ["b"])
    assert facts["statements"] == ["select :x, :b", "select 'c' as c", "select :p_c"]
    assert facts["variables_used"] == ["a", "b"]
    assert facts["sent"][0] == {
        "text": "select :x, :b",
        "parameterized": "select $1, $2",
        "simple_only": False,
        "expect": None,
        "line": 2,
        "column": 1,
    }

"""Parameters on real servers: binary ones say what text says, and errors are the server's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from engine_runs import Run, config

from pgdyno._engine import EngineError, Load
from pgdyno.server import Cluster

pytestmark = pytest.mark.server

_PROTOCOLS = ["extended", "prepared"]


@pytest.fixture
def table(pg: Cluster) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A connection to a server with the empty table ``typed``."""
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("drop table if exists typed")
        connection.execute(
            "create table typed (k serial, i2 smallint, i4 int, i8 bigint, f4 real,"
            " f8 double precision, b boolean, u uuid, t text, v varchar(20), n numeric,"
            " o oid, s timestamptz)"
        )
        yield connection
        connection.execute("drop table typed")


def _run(pg: Cluster, *scripts: str, **keys: Any) -> Run:
    with Run(config(pg.conninfo, *scripts, **{"clients": 1, "transactions": 3, **keys})) as run:
        run.wait_for(lambda run: run.load.state() == "stopped")
    run.assert_balanced()
    return run


_SET = """
\\set i2 -2 + :txn
\\set i4 2000000000 + :txn
\\set i8 9000000000000000000 + :txn
\\set f4 0.5
\\set f8 0.1 + 0.2
\\set b :txn > 1
\\set n 12.5
\\set o 4000000000
\\set nothing null
select 'it''s é' as t, gen_random_uuid() as u, now() as s \\gset
"""
_INSERT = """
insert into typed (i2, i4, i8, f4, f8, b, u, t, v, n, o, s)
    values (:i2, :i4, :i8, :f4, :f8, :b, :u, :t, :i4, :n, :o, :s);
insert into typed (i2, i4, i8, f4, f8, b, u, t, v, n, o, s)
    values (:nothing, :nothing, :nothing, :i2, :i2, :nothing, :never, :nothing, :t, :i2, :nothing,
            :nothing);
"""
_ROWS = "insert into typed (i2, i4, f8, b, t, n) values \\rows 4 :row, :i4, :f8, :row = 2, 'x', 0.5"


@pytest.mark.parametrize("protocol", _PROTOCOLS)
def test_binary_values_are_those_of_text(
    pg: Cluster, table: psycopg.Connection[tuple[Any, ...]], protocol: str
) -> None:
    columns = "i2, i4, i8, f4, b, t, v, n, o, s is null, u is null"
    found = []
    for parameters in ("text", "binary"):
        script = _SET + _INSERT + _ROWS
        run = _run(pg, script, protocol=protocol, parameters=parameters)
        assert not run.errors, run.last["errors"]
        found.append(table.execute(f"select {columns} from typed order by k".encode()).fetchall())
        table.execute("truncate typed")
    assert found[0] == found[1]
    assert len(found[0]) == 3 * 6


@pytest.mark.parametrize("protocol", _PROTOCOLS)
def test_only_the_first_execution_of_a_load_is_text(
    pg: Cluster, table: psycopg.Connection[tuple[Any, ...]], protocol: str
) -> None:
    script = "\\set f8 0.1 + 0.2\ninsert into typed (f8) values (:f8);\n"
    keys = {"protocol": protocol, "parameters": "binary"}
    run = _run(pg, script, clients=1, transactions=20, **keys)
    assert not run.errors
    rows = table.execute("select f8 from typed order by k").fetchall()
    assert rows == [(0.3,)] + [(0.1 + 0.2,)] * 19


def test_values_out_of_range_are_the_servers_errors(
    pg: Cluster, table: psycopg.Connection[tuple[Any, ...]]
) -> None:
    value = "\\set x case when :txn = 0 then 1 else {} end\n"
    scripts = {
        value.format("3000000000") + "insert into typed (i4) values (:x);": "22003",
        value.format("40000") + "insert into typed (i2) values (:x);": "22003",
        value.format("-5000000000") + "insert into typed (o) values (:x);": "22003",
        value.format("1.5") + "insert into typed (i8) values (:x);": "22P02",
        value.format("true") + "insert into typed (i4) values (:x);": "22P02",
        value.format("1e300") + "insert into typed (f4) values (:x);": "22003",
        value.format("2") + "insert into typed (u) values (:x);": "22P02",
    }
    for script, code in scripts.items():
        codes = []
        for parameters in ("text", "binary"):
            run = _run(pg, script, parameters=parameters)
            codes.append(set(run.errors))
            assert run.total["reconnects"] == 0
        assert codes == [{(code, False, False)}] * 2, script


def test_binary_parameters_need_parameters(pg18: Cluster) -> None:
    with pytest.raises(EngineError) as caught:
        Load(config(pg18.conninfo, "select 1;", protocol="simple", parameters="binary"))
    assert caught.value.code == "config-invalid"
    assert caught.value.message.startswith('parameters is "binary"')


def test_binary_parameters_in_a_pipeline(
    pg: Cluster, table: psycopg.Connection[tuple[Any, ...]]
) -> None:
    script = """
\\set f8 0.1 + 0.2
\\startpipeline
insert into typed (f8) values (:f8);
select :f8::float8;
insert into typed (f8) values \\rows 2 :f8
\\endpipeline
"""
    for protocol in _PROTOCOLS:
        run = _run(pg, script, protocol=protocol, parameters="binary")
        assert not run.errors, run.last["errors"]
        counted = table.execute("select f8, count(*) from typed group by 1 order by 1").fetchall()
        assert counted == [(0.3, 3), (0.1 + 0.2, 6)]
        table.execute("truncate typed")


def test_parameters_without_a_type_come_with_a_hint(pg: Cluster) -> None:
    script = "\\set a 1\n\\set b 2\nselect :a + :b;\n"
    for protocol in _PROTOCOLS:
        run = _run(pg, script, protocol=protocol, transactions=1)
        [row] = [row for interval in run.intervals for row in interval["errors"]]
        assert row["sqlstate"] == "42725"
        assert row["message"] == "operator is not unique: unknown + unknown"
        assert "cast it, as in :x::int, or use -M simple" in row["advice"]
    assert not _run(pg, script, protocol="simple", transactions=1).errors

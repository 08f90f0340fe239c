"""PostgreSQL's own pgbench and the engine, side by side: same tables, same refusals.

Every script runs a fixed number of transactions from the same random seed, once by pgbench and once
by the engine. Where the two differ on purpose (``crates/load/src/script/mod.rs`` lists it), a test
at the end says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pgbench_runs import Pair

from pgdyno.server import Cluster

pytestmark = pytest.mark.server

# (name, script), each run three times; `x` keeps a value under a number.
_VALUES = {
    "arithmetic": ["1 + 2 * 3", "(1 + 2) * 3", "7 / 2", "-7 / 2", "7 % 3", "-7 % 3", "7 % -3"],
    "precedence": [
        "2 + 3 * 4 - 5 / 2 % 3",
        "1 << 2 + 1",
        "6 & 3 | 8 # 1",
        "- 2 * - 3",
        "~ 5 & 15",
        "not 1 = 2 and 2 < 3 or false",
        "1 + 1 = 2 and 3 > 2 is not null",
        "not true or true",
        "5 - 3 - 1",
        "100 / 10 / 5",
        "2 * 3 % 4",
    ],
    "bits": ["1 << 62", "1 << 63", "-1 >> 60", "12 & 10", "12 | 10", "12 # 10", "~ 0", "~~ 7"],
    "doubles": [
        "1.5 + 1",
        "1 / 2.0",
        "1.0 / 3",
        "1e10",
        "1E-7",
        ".5",
        "2.",
        "1e20 * 1e20",
        "1.0 / 0",
        "-1.0 / 0",
        "123456789.123456789",
        "0.1 + 0.2",
        "1e15",
        "1e16",
        "-0.0",
    ],
    "comparisons": [
        "1 < 2",
        "1 <= 1",
        "2 > 1",
        "2 >= 3",
        "1 = 1.0",
        "1 <> 1",
        "1 != 2",
        "1.5 < 2",
        "1 < 2.5",
    ],
    "booleans": [
        "true and false",
        "true or false",
        "not false",
        "null and true",
        "true and null",
        "false and null",
        "null or true",
        "true or null",
        "not null",
        "false or 1 = 1",
    ],
    "nulls": [
        "null",
        "null + 1",
        "null = null",
        "null is null",
        "1 is null",
        "1 isnull",
        "1 notnull",
        "null notnull",
        "null is not null",
        "true is true",
        "1 is true",
        "false is not true",
        "null is false",
        ":nothing is null",
    ],
    "case": [
        "case when 1 = 2 then 1 when 2 = 2 then 2 else 3 end",
        "case when false then 1 end",
        "case when null then 1 else 2 end",
        "case when 1 then 5 else 0 end",
        "case when 0.0 then 1 else case when true then 6 end end",
        "case when :zero = 0 then -1 else 1 / :zero end",
    ],
    "functions": [
        "abs(-3)",
        "abs(-3.5)",
        "int(1.2)",
        "least(3, 1, 2)",
        "greatest(3, 1, 2)",
        "least(1, 0.5)",
        "greatest(-1, -2.5, null)",
        "mod(17, 5)",
        "mod(-17, 5)",
        "sqrt(2)",
        "exp(1)",
        "ln(10)",
        "pi()",
        "pow(2, 10)",
        "power(2, 0.5)",
        "pow(-3, 3)",
        "pow(-2, -3)",
        "pow(0, 0)",
        "pow(9223372036854775807, 2)",
        "PI() > 3",
        "debug(5) + 1",
    ],
    "casts": [
        "int(2.5)",
        "int(3.5)",
        "int(-2.5)",
        "int(1e18)",
        "double(7)",
        "double(7) / 2",
        "int(double(4))",
        "7 / int(2.0)",
        "int(:text_double)",
        ":text_double * 2",
        ":text_bool and true",
        ":text_int + 1",
    ],
    "hashes": [
        "hash(1)",
        "hash(1, 2)",
        "hash_fnv1a(1)",
        "hash_fnv1a(12345, 6)",
        "hash_murmur2(1)",
        "hash_murmur2(12345, 6)",
        "hash(-1) = hash_murmur2(-1)",
        "hash(10) = hash(10, :default_seed)",
        ":default_seed",
    ],
    "permute": [
        "permute(0, 10)",
        "permute(3, 10, 42)",
        "permute(13, 10, 42)",
        "permute(0, 1)",
        "permute(123456789, 1000000007, 5432)",
        "permute(5, 9223372036854775797, 5432)",
    ],
    "random": [
        "random(5, 5)",
        "random(1, 6)",
        "random(-10, 10)",
        "random(0, 9223372036854775806)",
        "random(-4611686018427387904, 4611686018427387902)",
        "random(1, :three) + random(1, 2)",
    ],
    "distributions": [
        "random_exponential(1, 1000, 2.5)",
        "random_exponential(7, 7, 1)",
        "random_gaussian(1, 1000, 2.5)",
        "random_gaussian(-50, 50, 10)",
        "random_zipfian(1, 1000, 1.07)",
        "random_zipfian(1, 1000000, 1.5)",
        "random_zipfian(4, 4, 2.0)",
    ],
    "extremes": [
        "-9223372036854775808",
        "9223372036854775807",
        "- (- 9223372036854775807)",
        "-(-9223372036854775807 - 1 + 1)",
        ":min + 1",
        ":min % -1",
    ],
    "automatic": [":client_id", ":scale", ":random_seed", ":scale * 10 + :client_id"],
}

_DEFINED = {
    "zero": "0",
    "three": "3",
    "count": "0",
    "nothing": "null",
    "text_double": "2.50",
    "text_bool": "on",
    "text_int": "007",
    "min": "-9223372036854775808",
    "word": "it''s",
}

_SCRIPTS = {
    "branches": """
\\set count :count + 1
\\if :count = 1
    insert into parity values (:count, 'if');
    \\if :count > 5
        insert into parity values (:count, 'never');
    \\elif null
        insert into parity values (:count, 'never');
    \\elif 0.5
        insert into parity values (:count, 'inner elif');
        \\if false
            insert into parity values (:count, 'never');
        \\else
            insert into parity values (:count, 'innermost else');
        \\endif
    \\else
        insert into parity values (:count, 'never');
    \\endif
\\elif :count = 2
    insert into parity values (:count, 'elif');
\\elif :count = 2 and 1 / :zero = 1
    insert into parity values (:count, 'never');
\\else
    insert into parity values (:count, 'else');
\\endif
\\if :count - 2
\\else
    \\if true
    insert into parity values (:count, 'only else');
    \\endif
\\endif
""",
    "empty branches": """
\\if true
\\endif
\\if false
\\elif false
\\else
\\endif
\\set count :count + 1
insert into parity values (:count, 'after');
""",
    "gset": """
select 7 as a, 'it is' as b, 2.50 as c, true as d, null as e \\gset
select 1 as a, 'x' as "B"
    \\gset p_
\\set sum :a + :p_a * 100
insert into parity values (:sum, ':b|:c|:d|:e|:p_B');
insert into parity values (:c::numeric * 2, 'sql');
select \\gset
select 1 as one, 2 as one \\gset
insert into parity values (:one, 'the last of two columns');
""",
    "gset of the last query": """
\\; \\; select 0 as x, 5 as y \\; select 8 as x \\; \\; \\gset
select 1 as x from generate_series(1, 3) \\; select 9 as z \\gset
create temp table if not exists t (k int) \\; select 4 as w \\gset
insert into parity values (:x, ':z :w');
""",
    "gset of returning": """
insert into parity values (1, 'row') returning k + 1 as next \\gset
insert into parity values (:next, 'next');
""",
    "aset": """
\\; select 6 as x \\; select 7 as y \\; \\aset
select 8 as x union select 9 order by 1 desc \\aset
select 1 as x where false \\aset
select 5 as a \\; select 1 as a where false \\; select 3 as b \\aset q_
insert into parity values (:x, ':y :q_a :q_b :q_c');
""",
    "variables live on": """
\\set count :count + 1
\\set total :count * 10
insert into parity values (:count, ':total');
""",
    "quotes": """
\\set x 5
insert into parity values (1, ':x;''');
insert into parity values (2, E'\\';\\\\');
insert into parity values (3, $$;':x$$);
insert into parity values (4, $q$ $$ ; :x $q$); -- ; :x
insert into parity /* ; /* ' */ :y */ values (5, '{"a":true}');
insert into parity values (6, '12:34'::time::text);
insert into parity values (7, (array[1, 2, :x])[2:3]::text);
insert into parity values (8, 'a\\');
insert into parity values (9, U&'\\0041;');
insert into parity select 10, "a;b" from (select 'c;d' as "a;b") as s;
insert into parity values (11, ':word :undefined :1 ::x :-)');
""",
    "layout": """
-- a comment
\\

\\SET x \\
    1 + \\
    2
;
insert into parity
    values (1,
        :x) \\set y :x * 2
/* a hint */ insert into parity values (2, :y);;
\\sleep 1 us
\\sleep :x us
  \\sleep 1us
\\sleep :zero
insert into parity values (3, 'last')""",
    "blocks": """
begin;
insert into parity values (1, 'kept');
savepoint s;
insert into parity values (2, 'dropped');
rollback to s;
end;
start transaction isolation level serializable read write;
insert into parity values (3, 'dropped');
rollback;
begin; insert into parity values (4, 'one line'); commit;
""",
    "joined": """
insert into parity values (1, 'first') \\; insert into parity values (2, 'second');
begin \\; insert into parity values (3, 'third') \\; commit;
select 'a\\:b' \\; insert into parity values (4, 'colon\\:' || 'x');
""",
    "routines": """
select pg_advisory_lock(1);
create or replace function twice(x int) returns int language sql
begin atomic
    select case when x is null then 0 else 2 * x end;
end;
create or replace procedure note(x int) language sql
begin atomic
    insert into parity values (1, x);
    insert into parity values (2, x + 1);
end;
call note(twice(4));
do $$ begin insert into parity values (3, 'do'); end $$;
select pg_advisory_unlock(1);
""",
    "text as numbers": """
select '1.5' as d, 'true' as b, 'null' as n, '0x10' as h, ' 12' as s, '-0' as z \\gset
\\set sum :d + :s
insert into parity values (1, ':sum');
\\set kind case when :n is null and :b then 1 else 0 end
insert into parity values (:kind, ':z');
""",
    "random values": """
\\set a random(1, 1000000)
\\set b random_gaussian(1, 1000000, 3.0)
\\if :a % 2 = 0
\\set b random(1, 10)
\\endif
insert into parity values (:a, ':b');
""",
}

_PIPELINES = {
    "pipeline": """
\\set count :count + 1
\\startpipeline
insert into parity values (:count, 'first');
\\set x :count * 2
insert into parity values (:x, 'second');
\\if :count = 2
insert into parity values (:x, 'if');
\\endif
\\endpipeline
insert into parity values (:x, 'after');
\\startpipeline
\\endpipeline
""",
    "pipeline with syncs": """
\\startpipeline
\\syncpipeline
insert into parity values (1, 'first');
\\syncpipeline
\\syncpipeline
insert into parity values (2, 'second');
\\endpipeline
""",
    "pipeline with blocks": """
\\startpipeline
begin isolation level serializable;
insert into parity values (1, 'kept');
commit;
begin;
insert into parity values (2, 'dropped');
rollback;
\\endpipeline
begin;
\\startpipeline
insert into parity values (3, 'kept');
\\endpipeline
commit;
""",
}


@pytest.fixture
def rows(pg18: Cluster) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection to the server, with an empty table ``parity``."""
    with psycopg.connect(**pg18.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("drop table if exists parity cascade")
        connection.execute("create table parity (k numeric, v text)")
        yield connection
        connection.execute("drop table parity cascade")


def _take(connection: psycopg.Connection[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """All rows of the table, sorted; empties it."""
    found = connection.execute("select k, v from parity order by k, v").fetchall()
    connection.execute("truncate parity")
    return found


def _value_script(expressions: list[str]) -> str:
    return "".join(
        f"\\set x {expression}\ninsert into parity values ({k}, ':x');\n"
        for k, expression in enumerate(expressions)
    )


def _compare(
    pair: Pair, rows: psycopg.Connection[tuple[object, ...]], script: str, protocols: list[str]
) -> None:
    """Three transactions by pgbench in the first protocol, and here in each."""
    ran = pair.pgbench(script, protocol=protocols[0], transactions=3, defined=_DEFINED)
    assert ran.returncode == 0, ran.stderr
    wanted = _take(rows)
    assert wanted
    for protocol in protocols:
        done, errors = pair.engine(script, protocol=protocol, transactions=3, defined=_DEFINED)
        assert (done, errors) == (3, [])
        assert _take(rows) == wanted, protocol


@pytest.mark.parametrize("name", _VALUES)
def test_expressions_have_the_values_that_pgbench_gives_them(
    pg18: Cluster, rows: psycopg.Connection[tuple[object, ...]], name: str, tmp_path: Path
) -> None:
    _compare(Pair(pg18, tmp_path), rows, _value_script(_VALUES[name]), ["simple", "prepared"])


@pytest.mark.parametrize("name", _SCRIPTS)
def test_scripts_leave_the_tables_that_pgbench_leaves(
    pg18: Cluster, rows: psycopg.Connection[tuple[object, ...]], name: str, tmp_path: Path
) -> None:
    protocols = ["simple", "extended", "prepared"]
    _compare(Pair(pg18, tmp_path), rows, _SCRIPTS[name], protocols)


@pytest.mark.parametrize("name", _PIPELINES)
def test_pipelines_leave_the_tables_that_pgbench_leaves(
    pg18: Cluster, rows: psycopg.Connection[tuple[object, ...]], name: str, tmp_path: Path
) -> None:
    _compare(Pair(pg18, tmp_path), rows, _PIPELINES[name], ["extended", "prepared"])


@pytest.mark.parametrize("clients", [1, 4])
def test_a_seed_gives_each_client_the_numbers_that_pgbench_gives_it(
    pg18: Cluster, rows: psycopg.Connection[tuple[object, ...]], clients: int, tmp_path: Path
) -> None:
    script = (
        "\\set a random(1, 9223372036854775806)\n\\set b random_zipfian(1, 1000, 1.2)\n"
        "insert into parity values (:client_id, ':a :b :default_seed :random_seed');\n"
    )
    pair = Pair(pg18, tmp_path, seed=987654321)
    ran = pair.pgbench(script, clients=clients, transactions=10)
    assert ran.returncode == 0, ran.stderr
    wanted = _take(rows)
    assert len(wanted) == 10 * clients
    for threads in (1, 2):
        assert pair.engine(script, clients=clients, transactions=10, threads=threads)[1] == []
        assert _take(rows) == wanted

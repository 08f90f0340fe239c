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
from inline_snapshot import snapshot
from pgbench_runs import Pair

from pgdyno import _engine
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


# As pgbench's own tests define them.
_ODD = {
    "foo": "bla",
    "null": "null",
    "true": "true",
    "one": "1",
    "zero": "0.0",
    "badtrue": "trueXXX",
    "maxint": "9223372036854775807",
    "minint": "-9223372036854775808",
}

# What is wrong, and a part of what the engine says of it. The statement is there so that the script
# is not refused for sending nothing.
_MALFORMED = {
    "\\set i 1 +\nselect 1;": "a value should be",
    "\\set i noSuchFunction()\nselect 1;": "noSuchFunction",
    "\\set . 1\nselect 1;": 'invalid variable name "."',
    "\\set 9x 1\nselect 1;": 'invalid variable name "9x"',
    "\\set i 1/0\nselect 1;": "division by zero",
    "\\set i 1 % 0\nselect 1;": "division by zero",
    "\\set i :nosuchvariable\nselect 1;": 'variable "nosuchvariable" is not defined',
    "\\set i ;\nselect 1;": "unexpected character ';'",
    "\\set i 'x'\nselect 1;": "unexpected character '\\''",
    "\\set i least(0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16)\nselect 1;": "least takes 1 to 16",
    "\\set i random(5,3)\nselect 1;": "empty range given to random",
    "\\set i random(:minint, :maxint)\nselect 1;": "random range is too large",
    "\\set i random_gaussian(0, 10, 1.0)\nselect 1;": "gaussian parameter must be at least 2.0",
    "\\set i random_exponential(0, 10, 0.0)\nselect 1;": "exponential parameter must be greater",
    "\\set i random_zipfian(0, 10, 1)\nselect 1;": "zipfian parameter must be in range",
    "\\set i random_zipfian(0, 10, 1000000)\nselect 1;": "zipfian parameter must be in range",
    "\\set i :foo + 1\nselect 1;": 'variable "foo" is not a number: "bla"',
    "\\set i\nselect 1;": "a value should be",
    "\\set\nselect 1;": "\\set needs",
    "\\set b NOT 0.0\nselect 1;": "cannot convert double to boolean",
    "\\set i TRUE + 2\nselect 1;": "cannot convert boolean to int",
    "\\set d ln(TRUE)\nselect 1;": "cannot convert boolean to double",
    "\\set i null and 1 + true\nselect 1;\n\\set i 1 and true\n": "cannot convert int to boolean",
    "\\set i CASE TRUE THEN 1 ELSE 0 END\nselect 1;": "where when should be",
    "\\set i CASE WHEN TRUE THEN 1\nselect 1;": "where when, else or end should be",
    "\\set i CASE END\nselect 1;": "where when should be",
    "\\set b random(FALSE, TRUE)\nselect 1;": "cannot convert boolean to int",
    "\\set d ln(1.0, 2.0)\nselect 1;": "ln",
    "\\set i greatest()\nselect 1;": "greatest",
    "\\set i least()\nselect 1;": "least",
    "\\set i hash()\nselect 1;": "hash",
    "\\set i hash(1,2,3)\nselect 1;": "hash",
    "\\set i permute(1)\nselect 1;": "permute",
    "\\set i permute(1, 2, 3, 4)\nselect 1;": "permute",
    "\\set i permute(0, 0)\nselect 1;": "size given to permute must be greater than zero",
    "\\set i random_zipfian(1, 2)\nselect 1;": "random_zipfian",
    "\\set i pi(1)\nselect 1;": "pi",
    "\\set i abs()\nselect 1;": "abs",
    "\\set i int(1E32)\nselect 1;": "double to int overflow for 100",
    "\\set i (1<<62) + (1<<62)\nselect 1;": "bigint add out of range",
    "\\set i 0 - (1<<62) - (1<<62) - (1<<62)\nselect 1;": "bigint sub out of range",
    "\\set i 2 * (1<<62)\nselect 1;": "bigint mul out of range",
    "\\set i :minint / -1\nselect 1;": "bigint div out of range",
    "\\set i 100000000000000000000\nselect 1;": "bigint constant overflow",
    "\\set i 9223372036854775808\nselect 1;": "bigint constant overflow",
    "\\set d 1.0E309\nselect 1;": "double constant overflow",
    "\\set d .1E310\nselect 1;": "double constant overflow",
    "\\set i 1 < 2 < 3\nselect 1;": "comparisons cannot be chained",
    "\\set i (1\nselect 1;": '")"',
    "\\set i 1)\nselect 1;": "the end of the expression",
    "\\set i 1 2\nselect 1;": "the end of the expression",
    "\\set b :badtrue or true\nselect 1;": 'variable "badtrue" is not a number: "trueXXX"',
    "\\set i 5 in (1, 2)\nselect 1;": "the end of the expression",
    "\\set i 5 between 1 and 9\nselect 1;": "the end of the expression",
    "\\set i ceil(1.5)\nselect 1;": "ceil",
    "\\set i 1 || 2\nselect 1;": "a value should be",
    "\\set i 2 ^ 3\nselect 1;": "unexpected character '^'",
    "\\set i !true\nselect 1;": "unexpected character '!'",
    "\\sleep :nosuchvariable\nselect 1;": 'variable "nosuchvariable" is not defined',
    "\\sleep :foo\nselect 1;": 'variable "foo" is not a number: "bla"',
    "\\sleep 1 ms extra\nselect 1;": 'does not take "extra"',
    "\\sleep\nselect 1;": "\\sleep needs a time",
    "\\sleep 1 week\nselect 1;": 'unknown time unit "week"',
    "\\nosuchcommand\nselect 1;": 'unknown meta-command "\\nosuchcommand"',
    "\\if 1\nselect 1;": "\\if without \\endif",
    "\\elif 1\nselect 1;": "\\elif without \\if",
    "\\else\nselect 1;": "\\else without \\if",
    "\\endif\nselect 1;": "\\endif without \\if",
    "\\if 1\n\\else\n\\elif 0\n\\endif\nselect 1;": "\\elif after \\else",
    "\\if 1\n\\else\n\\else\n\\endif\nselect 1;": "\\else after \\else",
    "\\if\n\\endif\nselect 1;": "a value should be",
    "\\if 0\n\\elif +\n\\endif\nselect 1;": "a value should be",
    "\\if 0\n\\else BAD\n\\endif\nselect 1;": '\\else does not take "BAD"',
    "\\if 0\n\\endif BAD\nselect 1;": '\\endif does not take "BAD"',
    "\\if 1 / 0\n\\endif\nselect 1;": "division by zero",
    "": "the script is empty",
    "-- nothing": "the script is empty",
    "select where false \\gset": "the statement returned 0",
    "select 5432 as fail union select 5433 order by 1 \\gset": "the statement returned 2",
    "select 1 as i \\; select 2 as i from generate_series(1, 2) \\gset": "returned 2",
    "create temp table t (i int) \\gset": "the statement returned 0",
    "\\gset\nselect 1;": "\\gset must follow an SQL statement",
    "\\aset\nselect 1;": "\\aset must follow an SQL statement",
    "select 1;\n\\set i +1\n\\gset": "\\gset must follow an SQL statement",
    "select 1 \\gset a b": '\\gset does not take "b"',
    "select 1 as i \\gset\n\\gset": "\\gset must follow an SQL statement",
    "select 1 \\gset": 'no variable can be called "?column?"',
    'select 1 as "bad name!" \\gset': 'no variable can be called "bad name!"',
    'select 1 as "bad name!" \\aset': 'no variable can be called "bad name!"',
    "select 5432 as i8 where false \\aset\n\\set i :i8": 'variable "i8" is not defined',
    "select 1 + ;": "syntax error",
    "select 1 from nowhere;": 'relation "nowhere" does not exist',
    "begin;\nselect 1;": "ended without ending its transaction",
    "copy (select 1) from stdin;": "syntax error",
    "create temp table t (i int);\ncopy t from stdin;": "no data for COPY FROM STDIN",
    "\\set i 0\nselect least(" + ", ".join([":i"] * 256) + ");": "256, and 255 are allowed",
    "\\startpipeline\n\\startpipeline\nselect 1;\n\\endpipeline": "\\startpipeline inside",
    "\\endpipeline\nselect 1;": "\\endpipeline outside a pipeline",
    "\\syncpipeline\nselect 1;": "\\syncpipeline outside a pipeline",
    "\\startpipeline\nselect 1;": "ends inside a pipeline",
    "\\startpipeline\nselect 1 as f \\gset\n\\endpipeline": "\\gset cannot be used in a pipeline",
    "\\startpipeline\nselect 1 as f \\aset\n\\endpipeline": "\\aset cannot be used in a pipeline",
    "\\startpipeline x\nselect 1;\n\\endpipeline": '\\startpipeline does not take "x"',
    "\\startpipeline\nselect 1 / 0;\n\\endpipeline": "division by zero",
    "\\startpipeline\nselect 1 \\; select 2;\n\\endpipeline": "cannot be used in a pipeline",
    "\\if 1\n\\startpipeline\n\\endif\nselect 1;": "the script ended inside a pipeline",
    "\\if 1\n\\startpipeline\n\\endif\n\\startpipeline\nselect 1;": "\\startpipeline inside",
    "\\if 0\n\\startpipeline\n\\endif\nselect 1;\n\\endpipeline": "there is no pipeline to",
    "\\setshell i echo -n one\nselect 1;": "\\setshell is not supported",
    "\\shell no-such-command\nselect 1;": "\\shell is not supported",
}


def test_what_pgbench_refuses_is_refused_with_place_and_reason(
    pg18: Cluster, tmp_path: Path
) -> None:
    assert len(_MALFORMED) > 60
    pair = Pair(pg18, tmp_path)
    accepted, unsaid = [], []
    for script, reason in _MALFORMED.items():
        if pair.pgbench(script, protocol="prepared", defined=_ODD).returncode == 0:
            accepted.append(f"pgbench: {script}")
        try:
            done, errors = pair.engine(script, protocol="prepared", defined=_ODD)
        except _engine.ScriptError as error:
            assert (error.file, error.message.count("script.sql:")) == ("script.sql", 1)
            assert 1 <= error.line <= script.count("\n") + 1
            assert error.column >= 1
            said = error.message
        else:
            assert done == 0, script
            said = " ".join(row["message"] for row in errors)
        if reason not in said:
            unsaid.append((script, said))
    assert (accepted, unsaid) == ([], [])


def test_a_pipeline_in_the_simple_protocol_is_refused_by_both(
    pg18: Cluster, tmp_path: Path
) -> None:
    script = "\\startpipeline\nselect 1;\n\\endpipeline\n"
    pair = Pair(pg18, tmp_path)
    assert pair.pgbench(script).returncode != 0
    with pytest.raises(_engine.ScriptError) as caught:
        pair.engine(script)
    assert caught.value.message == snapshot(
        "script.sql:1:1: a pipeline cannot be used in the simple protocol"
    )


# (script, what `x` is at its end), run by both in each protocol.
_HELD_ALIKE = {
    # Numbers as C reads them.
    "select '0x1F' as v \\gset\n\\set x :v + 1": "32",
    "select '-0x.8p2' as v \\gset\n\\set x :v * 2": "-4",
    "\\set x :client_id * 2": "14",
    f"\\set x {'(' * 500}1{')' * 500}": "1",
    f"\\set x 1{' + 1' * 2999}": "3000",
}


@pytest.mark.parametrize("protocol", ["simple", "prepared"])
def test_what_both_make_of_rare_things(pg18: Cluster, tmp_path: Path, protocol: str) -> None:
    pair = Pair(pg18, tmp_path)
    for script, value in _HELD_ALIKE.items():
        checked = f"{script}\n\\if :x <> {value}\nselect wrong;\n\\endif\nselect 1;\n"
        defined = {"client_id": "7"}
        ran = pair.pgbench(checked, protocol=protocol, defined=defined)
        assert ran.returncode == 0, (script, ran.stderr)
        assert pair.engine(checked, protocol=protocol, defined=defined) == (1, []), script


@pytest.mark.parametrize("script", ["\\set x 1", "\\sleep 1 us"])
def test_a_script_need_not_send_anything(pg18: Cluster, tmp_path: Path, script: str) -> None:
    pair = Pair(pg18, tmp_path)
    assert pair.pgbench(script, transactions=3, clients=2).returncode == 0
    assert pair.engine(script, transactions=3, clients=2) == (6, [])


def test_a_script_may_be_long(pg18: Cluster, tmp_path: Path) -> None:
    pair = Pair(pg18, tmp_path)
    script = "select 1;\n" * 1000 + f"select '{'x' * (3 << 20)}';\n"
    assert pair.pgbench(script).returncode == 0
    assert pair.engine(script) == (1, [])


@pytest.mark.parametrize("seed", [(1 << 63) + 5, (1 << 64) - 1])
def test_seeds_have_64_bits(pg18: Cluster, tmp_path: Path, seed: int) -> None:
    pair = Pair(pg18, tmp_path, seed)
    script = (
        "create table if not exists seeded (by_whom text, seed text, n bigint);\n"
        "\\set n random(1, 1000000000000)\n"
        "insert into seeded values (':by_whom', ':random_seed', :n);\n"
    )
    with psycopg.connect(**pg18.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("drop table if exists seeded")
        assert pair.pgbench(script, defined={"by_whom": "pgbench"}).returncode == 0
        assert pair.engine(script, defined={"by_whom": "pgdyno"}) == (1, [])
        drawn = connection.execute("select by_whom, seed, n from seeded").fetchall()
        assert {row[0] for row in drawn} == {"pgbench", "pgdyno"}
        assert len({row[1:] for row in drawn}) == 1, drawn
        connection.execute("drop table seeded")


# Where the engine differs on purpose: what pgbench does with it, and what happens here.
_DIFFERENT = {
    # An argument list that starts with a comma.
    "\\set x abs(, 1)\nselect 1;": (True, False),
    # A variable in quotes, and queries joined by \\;, in the extended protocols.
    "\\set x 1\nselect ':x';": (False, True),
    "select 1 \\; select 2;": (False, True),
    # A colon and a name that nothing sets.
    "select (array[1, 2])[1:upper] from (select 2 as upper) as s;": (False, True),
    # A table made and used in one pipeline: pgbench prepares before the pipeline begins.
    "\\startpipeline\ncreate temp table u (i int);\nselect i from u;\n\\endpipeline": (False, True),
}


def test_where_the_engine_differs_from_pgbench_on_purpose(pg18: Cluster, tmp_path: Path) -> None:
    pair = Pair(pg18, tmp_path)
    for script, (by_pgbench, here) in _DIFFERENT.items():
        assert (pair.pgbench(script, protocol="prepared").returncode == 0) == by_pgbench, script
        try:
            done, errors = pair.engine(script, protocol="prepared")
        except _engine.ScriptError:
            done, errors = 0, []
        assert (done == 1) == here, (script, errors)

"""Dumps by pg_dump as the setup of a load: what they make, what is refused, what is recorded."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pgdyno.errors import PgdynoError, UsageError
from pgdyno.server import Cluster, ConnInfo, connect_plain
from pgdyno.spec.workload import WorkloadSpec
from pgdyno.workload.setup import Setup, run_setup

pytestmark = [pytest.mark.server]
SOURCE = r"""
create role alice;
create schema "Odd; schema";
create type mood as enum ('glad', 'so-so''');
create domain positive as int check (value > 0);
create table kinds (
  id bigserial primary key, b bool, i int4[], n numeric(12, 3), f float8, t text, c char(3),
  y bytea, d date, z timestamptz, v interval, j jsonb, u uuid, p point, r int4range,
  a inet, m mood, o positive, w tsvector, q bit varying,
  g text generated always as (t || '!') stored);
insert into kinds (b, i, n, f, t, c, y, d, z, v, j, u, p, r, a, m, o, w, q)
select true, '{1,NULL,3}', 12.5, 'NaN', e'back\\slash\ttab\nline\rreturn', 'ab', '\x00ff5c2e',
       '2024-02-29',
       '2024-01-01 00:00:00+00', '1 year 2 hours', '{"a": "\\n"}', gen_random_uuid(), '(1,2)',
       '[1,5)', '10.0.0.0/8', 'so-so''', 7, 'fat cat', '1011';
insert into kinds (t) values (e'\\.'), (e'\\N'), (null), (''), ('COPY t FROM stdin;'), ('é');
create table "Odd; schema"."Name ""quoted"" x" ("a b" text, "select" int);
insert into "Odd; schema"."Name ""quoted"" x" values ('x;y', 1);
create table empty (a int);
create table orders (id int generated always as identity primary key, kind bigint references kinds,
  at date not null default '2024-01-01') partition by list (id);
create table orders_rest partition of orders default;
insert into orders (kind) select 1 from generate_series(1, 200);
create index on orders (kind);
create function noted() returns trigger language plpgsql as $body$
begin
  -- COPY kinds FROM stdin;
  perform e'\'; $$'; return new;
end $body$;
create function twice(n int) returns int
  begin atomic select case when n > 0 then n else 0 end; select n * 2; end;
create trigger "Noted" before insert on empty
  for each row execute function noted();
create view few as select id from kinds where id < 3;
create materialized view counted as select count(*) from orders;
create sequence steps start 5 increment 3;
select nextval('steps');
comment on table empty is 'it''s; a \ "comment" é';
alter table empty owner to alice;
grant select on kinds to alice;
"""
_FACTS = """
select (select count(*) from kinds),
       (select md5(string_agg(k::text, '|' order by id)) from kinds k),
       (select count(*) from "Odd; schema"."Name ""quoted"" x"), (select count(*) from orders_rest),
       (select count(*) from few), (select count from counted), (select last_value from steps),
       twice(4), obj_description('empty'::regclass),
       (select count(*) from pg_trigger where not tgisinternal),
       (select last_value from kinds_id_seq)
"""


def facts(conninfo: ConnInfo) -> tuple[Any, ...] | None:
    with connect_plain(conninfo) as conn:
        return conn.execute(_FACTS).fetchone()


@pytest.fixture
def source(pg: Cluster) -> Iterator[ConnInfo]:
    """A database with a little of everything."""
    with connect_plain(pg.conninfo) as conn:
        conn.execute("create database source")
        conn.execute("create database target")
    there = replace(pg.conninfo, database="source")
    try:
        with connect_plain(there) as conn:
            conn.execute(SOURCE.encode())
        yield there
    finally:
        with connect_plain(pg.conninfo) as conn:
            conn.execute("drop database source")
            conn.execute("drop database target")
            conn.execute("drop role alice")


def dump(pg: Cluster, to: Path, *options: str, database: str = "source") -> str:
    program = pg.installation.binary("pg_dump")
    conninfo = pg.conninfo.client_conninfo(dbname=database)
    subprocess.run([program, *options, "-f", to, conninfo], check=True)
    return str(to)


def set_up(pg: Cluster, file: str, *, ours: bool = True) -> ConnInfo:
    target = replace(pg.conninfo, database="target")
    run_setup(target, WorkloadSpec(setup=file), ours=ours)
    return target


def refused(pg: Cluster, file: str) -> PgdynoError:
    with pytest.raises(PgdynoError) as found:
        set_up(pg, file)
    with connect_plain(replace(pg.conninfo, database="target")) as conn:
        left = conn.execute("select count(*) from pg_class where relnamespace = 2200").fetchone()
    assert left == (0,), "it was rolled back"
    return found.value


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--inserts",),
        ("--format=custom",),
        ("--format=directory", "--jobs=2"),
        ("--format=tar",),
        ("--encoding=LATIN1",),
        ("--disable-triggers", "--quote-all-identifiers"),
    ],
    ids=" ".join,
)
def test_a_dump_makes_what_was_dumped(
    pg: Cluster, source: ConnInfo, tmp_path: Path, options: tuple[str, ...]
) -> None:
    before = facts(source)
    target = set_up(pg, dump(pg, tmp_path / "it", *options))
    assert facts(target) == before
    with connect_plain(target) as conn:
        known = conn.execute(
            "select relallvisible > 0 and exists (select from pg_stats where tablename = relname)"
            "  from pg_class where relname = 'orders_rest'"
        ).fetchone()
    assert known == ("--inserts" not in options,)


def test_roles_that_are_missing(pg: Cluster, source: ConnInfo, tmp_path: Path) -> None:
    files = [
        dump(pg, tmp_path / "rows.sql"),
        dump(pg, tmp_path / "schema.sql", "--schema-only"),
        dump(pg, tmp_path / "archive", "--format=custom"),
    ]
    with connect_plain(pg.conninfo) as conn:
        conn.execute("alter role alice rename to bob")
    try:
        for file in files[:2]:
            problem = refused(pg, file)
            assert problem.message.endswith('role "alice" does not exist')
            assert "pg_dump --no-owner --no-privileges" in (problem.hint or "")
        set_up(pg, files[2])
    finally:
        with connect_plain(pg.conninfo) as conn:
            conn.execute("alter role bob rename to alice")


def test_bad_files(pg: Cluster, source: ConnInfo, tmp_path: Path) -> None:
    file = tmp_path / "dump.sql"
    dump(pg, file, "--create")
    problem = refused(pg, str(file))
    assert problem.code == "setup-psql"
    assert "\\connect" in problem.message
    assert "leave -C (--create) out" in (problem.hint or "")
    dump(pg, file, "--no-owner", "--no-privileges")
    text = file.read_text()
    number = text[: text.index("\n", text.index("12.500\tNaN"))].count("\n") + 1
    file.write_text(text.replace("12.500\tNaN", "12.500\tbad\x1b[2J"))
    problem = refused(pg, str(file))
    assert problem.message.startswith(f"{file}:{number}: invalid input syntax for type double")
    file.write_text(text.replace("CREATE TABLE public.empty", "CREATE TABL public.empty"))
    problem = refused(pg, str(file))
    number = text[: text.index("CREATE TABLE public.empty")].count("\n") + 1
    assert problem.message == f'{file}:{number}: syntax error at or near "TABL"'
    file.write_text(text[: text.index("12.500\tNaN")])
    assert refused(pg, str(file)).code == "setup-rows"
    file.write_bytes(text.encode("latin-1"))
    assert "invalid byte sequence for encoding" in refused(pg, str(file)).message
    file.write_text(text.replace("SET row_security = off;", "SET of_a_newer_version = 0;", 1))
    assert "--pg-version" in (refused(pg, str(file)).hint or "")
    file.write_text(text + "\\! touch /tmp/never\n")
    assert refused(pg, str(file)).code == "setup-psql"


def test_bad_archives(pg: Cluster, source: ConnInfo, tmp_path: Path) -> None:
    file = tmp_path / "it.dump"
    dump(pg, file, "--format=custom")
    file.write_bytes(file.read_bytes()[:3000])
    problem = refused(pg, str(file))
    assert problem.code == "setup-archive"
    version = pg.installation.version
    assert problem.message.startswith(f"the setup {file} cannot be read by pg_restore {version}: ")
    by_hand = f"pg_restore --no-owner --no-privileges --file=it.dump.sql {file}"
    assert by_hand in (problem.hint or "")
    file.write_bytes(b"PGDMP" + b"\xff" * 100)
    assert refused(pg, str(file)).code == "setup-archive"
    (tmp_path / "empty").mkdir()
    problem = refused(pg, str(tmp_path / "empty"))
    assert problem.code == "setup-file"
    assert str(tmp_path / "empty") in problem.message


def test_a_file_that_changes_meanwhile(pg: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "rows.sql"
    file.write_text("create table t (a int);\ncopy t from stdin;\n1\n\\.\n")
    target = replace(pg.conninfo, database="pgdyno")
    with pytest.raises(UsageError, match="has changed"):
        run_setup(target, WorkloadSpec(setup=str(file), setup_sha256="0" * 64), ours=True)
    with connect_plain(target) as conn:
        assert conn.execute("select to_regclass('t')").fetchone() == (None,)


def test_rows_that_are_made(pg: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "setup.sql"
    file.write_text(
        "create table made (id int primary key, name text, at timestamptz, ref uuid);\n"
        "\\set n 500 * :scale\n"
        "copy made from stdin \\rows :n :row + 1, text_of(:row, 12), timestamp(:row), uuid_of(:row)\n"
        "create index on made (name);\n"
    )
    workload = WorkloadSpec(setup=str(file), scale=3)
    with connect_plain(pg.conninfo) as conn:
        conn.execute("drop table if exists made")
        run_setup(pg.conninfo, workload, ours=True)
        made = conn.execute("select count(*), count(distinct name), count(distinct ref) from made")
        assert made.fetchone() == (1500, 1500, 1500)
        analyzed = conn.execute("select reltuples::int from pg_class where relname = 'made'")
        assert analyzed.fetchone() == (1500,)
        conn.execute("drop table made")
    # Its rows are nobody's: a run file has the text, which makes them again.
    assert Setup.of(workload).text == file.read_text()


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("\\rows 3 :row, nonsense(:row)", "nonsense"),
        ("\\rows :many :row, 1", "many"),
        ("\\rows 3 :row", "missing data for column"),
        ("\\rows 3 1, 1", "duplicate key"),
    ],
)
def test_rows_that_cannot_be_made(pg: Cluster, tmp_path: Path, rows: str, said: str) -> None:
    file = tmp_path / "setup.sql"
    file.write_text(
        f"create table made (id int primary key, n int);\ncopy made from stdin {rows}\n"
    )
    with pytest.raises(PgdynoError, match=rf"setup\.sql:2.*{said}"):
        run_setup(pg.conninfo, WorkloadSpec(setup=str(file)), ours=True)

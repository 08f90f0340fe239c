"""The clone of a schema with functions, triggers, checks, views and columns that are computed: it
does what its source does, and has no value of it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import psycopg

from capturing import capture_of, likeness_of
from patience import beside
from pgdyno.capture._renaming import renamed
from pgdyno.clone import Capture, write_capture
from pgdyno.server import Cluster, connect_plain

SECONDS = 2.0
SCHEMA = """
create extension pg_stat_statements;
create schema app;
create type app.mood as enum ('glad', 'sad');
create table app.stock (
    id bigserial primary key, name text not null, number int not null, mood app.mood not null,
    size int generated always as (length(name) + number) stored, changed timestamptz,
    at date not null default current_date,
    constraint positive check (number >= 0), constraint short check (length(name) < 4711),
    one int, two int, constraint same check (one = two)
);
create table app.audit (id bigserial primary key, op text, stock bigint, old int, at timestamptz);
create view app.many as select id, name from app.stock where number > 0;
create view app.some as select id from app.stock where name = 'hush-view';
create function app.log() returns trigger language plpgsql as $$
declare word text := 'hush-word'; -- hush-comment
begin /* hush-comment /* hush-nested */ */
    if new.mood = 'sad' and tg_argv[0] = 'hush-argument' then
        raise exception 'hush-message % %', new.id, word;
    end if;
    insert into app.audit (op, stock, old, at) values (tg_op, new.id, app.old_of(old.number), now());
    return null;
end $$;
create function app.old_of(number int) returns int language sql immutable as
    'select case when number = 4930123456 then 1 else number end /* hush */';
create function app.touch() returns trigger language plpgsql as
    'begin new.changed := clock_timestamp() + interval ''5 minutes''; return new; end';
create function app.never() returns trigger language plpgsql as $$
begin raise exception 'hush-never'; end $$;
create function app.dynamic() returns trigger language plpgsql as $$
begin execute 'select ''hush-dynamic'''; return new; end $$;
create function app.number_of(wanted bigint) returns int language sql stable as
    'select number from app.stock where id = wanted and name <> ''hush-name''';
create trigger log after update on app.stock for each row
    when (old.number is distinct from new.number and new.name <> 'hush-when')
    execute function app.log('hush-argument');
create trigger touch before update on app.stock for each row execute function app.touch();
create trigger dynamic before insert on app.stock for each row execute function app.dynamic();
alter table app.stock disable trigger dynamic;
alter table app.stock enable always trigger dynamic;
create trigger broken before insert on app.audit for each row
    when (new.op = 'hush-op') execute function app.never();
create trigger never before delete on app.stock for each row execute function app.never();
insert into app.stock (name, number, mood, one, two)
select 'hush-' || i, i % 100, 'glad', i % 700, i % 700 from generate_series(1, 3000) i;
analyze;
"""
UPDATE = "update app.stock set number = number + %s where id = %s"
CALL = "select app.number_of(%s)"
READ = "select name from app.many where id = %s"
SOME = "select id from app.some where id = %s"


def load(cluster: Cluster, *, alone: bool = False) -> AbstractContextManager[None]:
    """A session with one transaction over and over, or with its first statement ``alone``."""

    def work(begun: threading.Event, ended: threading.Event) -> None:
        with psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True) as conn:
            conn.execute("set search_path = app")
            number = 0
            while not ended.is_set():
                number = number % 3000 + 1
                with conn.transaction():
                    conn.execute(UPDATE, (1, number))
                    ended.wait(0.002)
                    for each in () if alone else (CALL, READ, SOME):
                        conn.execute(each, (number,))
                begun.set()

    return beside(work)


def captured(cluster: Cluster, path: Path, *, alone: bool = False) -> Capture:
    with load(cluster, alone=alone):
        return capture_of(cluster.conninfo, path, SECONDS)


def test_functions_and_triggers(new_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    cluster = new_cluster(
        18, shared_preload_libraries="pg_stat_statements", **{"pg_stat_statements.track": "all"}
    )
    with connect_plain(cluster.conninfo) as conn:
        conn.execute(SCHEMA.encode())
    path = tmp_path / "app.pgdyno"
    found = captured(cluster, path)
    content = path.read_text()
    assert "hush" not in content
    assert "4930123456" not in content
    assert "4711" not in content

    assert {each.name for each in found.functions} == {
        "log",
        "old_of",
        "touch",
        "number_of",
        "never",
    }
    (stock,) = (each for each in found.tables if each.name == "stock")
    assert [each.split()[2] for each in stock.triggers] == ["log", "touch"]
    assert stock.checks == ("CHECK ((number >= 0))",)
    size = stock.column("size")
    assert size is not None
    assert size.generated == "(length(name) + number)"
    assert [each.name for each in found.views] == ["many"]
    texts = {each.text.split()[0] for each in found.statements}
    assert texts == {"update", "select"}
    assert len(found.statements) == 3
    gaps = " ".join(found.gaps)
    assert "functions with dynamic SQL" in gaps
    assert "views with values" in gaps
    assert "trigger is left out" in gaps
    assert "CHECK constraints with values" in gaps

    other = renamed(found)
    assert len(other.gaps) == len(found.gaps)
    assert [len(each.triggers) for each in other.tables] == [
        len(each.triggers) for each in found.tables
    ]
    assert len(other.functions) == len(found.functions)
    assert len(other.statements) == len(found.statements)
    write_capture(other, renamed_path := tmp_path / "renamed.pgdyno")
    assert not re.findall(r"stock|audit|mood|touch|_of\b", renamed_path.read_text())

    likeness = likeness_of(found, path, SECONDS)
    assert likeness.done > 10
    assert not likeness.failed
    unlike = [each for each in likeness.compared if each.verdict == "unlike"]
    assert not [each for each in unlike if each.kind == "errors"]


def test_code_of_the_source_has_no_rights_here(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = new_cluster(18, shared_preload_libraries="pg_stat_statements")
    planted = cluster.data_dir / "planted"
    path = " || ".join(f"chr({ord(each)})" for each in str(planted))
    with connect_plain(cluster.conninfo) as conn:
        conn.execute(
            f"""
            create extension pg_stat_statements;
            create schema app;
            create table app.stock (id int primary key, number int);
            insert into app.stock select i, 0 from generate_series(1, 3000) i;
            create table app.many as select i as id from generate_series(1, 9) i;
            create function app.plant() returns trigger language plpgsql as $$
            declare made oid;
            begin
                if (select rolsuper from pg_catalog.pg_roles where rolname = session_user) then
                    made := lo_from_bytea(0, convert_to(chr(65), 'UTF8'));
                    perform lo_export(made, {path});
                end if;
                return new;
            end $$;
            analyze;
            create trigger plant before update on app.many for each row execute function app.plant();
            """.encode()
        )
    found = captured(cluster, tmp_path / "app.pgdyno", alone=True)
    assert [len(each.triggers) for each in found.tables if each.name == "many"] == [1]
    assert not planted.exists()

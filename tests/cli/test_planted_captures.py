"""Captures with code that somebody has planted: on a server of pgdyno's it is executed by a role
without rights, whatever the command, and writes and reads no file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import test_planted_names
from inline_snapshot import snapshot
from psycopg import sql
from test_capture_command import SHOP
from test_planted_names import names_called

from capturing import spec_of
from pgdyno.conduct import Silent, open_session, started_server
from pgdyno.conduct._fronting import server_of
from pgdyno.record import RunFile
from pgdyno.record.events import own_events
from pgdyno.server import Installation, connect_plain
from pgdyno.spec import Change, spec_from_fields

if TYPE_CHECKING:
    from printed import Said

Pgdyno = Callable[..., "Said"]
COMMANDS = (
    "run {file} --pooler pgbouncer -T 1 -c 2",
    "run {file} --pooler pgpool -T 1 -c 2",
    "run {file} --standby on -T 1 -c 2",
    "drill {file} --fault kill --cuts 1 -c 2",
    "capture alike {file} -T 2 -c 2",
)
LONG = (
    "drill {file} --fault failover --cuts 1 -c 2",
    "investigate {file} --budget 40 -c 2",
    "knee {file} --budget 31",
)
TRIES = (
    "copy (select 1) to program 'touch {at}/program'",
    "copy (select 1) to '{at}/copied'",
    "do $x$ declare made oid = lo_from_bytea(0, 'x'); begin perform lo_export(made, '{at}/exported');"
    " end $x$",
    "copy stolen from '{at}/secret'",
    "insert into stolen values (pg_read_file('{at}/secret'))",
    "alter system set archive_command = 'touch {at}/archived'",
    "alter role current_user superuser",
    "create role friend superuser",
    "grant pg_execute_server_program to current_user",
    "create event trigger planted on ddl_command_end execute function public.noted()",
    "drop schema public cascade",
    "alter database pgdyno set session_preload_libraries = '{at}/library'",
    "set role pgdyno",
    "set session authorization pgdyno",
)
"""What a function tries, each by itself; as superuser it would leave files in a directory."""
CALLED = """
create table public.stolen (value text);
create sequence public.calls;
create function public.tried(sql text) returns void language plpgsql as $$
begin
    execute sql;
exception when others then null;
end $$;
create function public.steal() returns integer language plpgsql immutable {definer} as $$
begin
    perform nextval('public.calls');
    perform public.tried('reset role'), public.tried('reset session authorization');
    {tries}
    return 0;
end $$;
create function public.noted() returns trigger language plpgsql {definer} as $$
begin
    perform public.steal();
    return new;
end $$
"""
PLACES: dict[str, dict[str, Any]] = {
    "trigger": {
        "triggers": [
            "create trigger planted before insert or update on public.orders"
            " for each row execute function public.noted()"
        ]
    },
    "check": {"checks": ["CHECK ((public.steal() >= 0))"]},
    "index": {"indexes": [{"sql": "USING btree ((id + public.steal()))"}]},
    "column": {
        "sql": "alter table public.orders add made integer generated always as (public.steal()) stored"
    },
    "view": {"view": "select id, state, public.steal() as stolen from public.orders"},
}
STATEMENTS = {
    "called": "select public.steal(), id from orders where id = $1",
    "folded": "select state from orders where id = $1 + public.steal()",
    "written": "update orders set state = state where id = $1",
}


def function_text(at: Path, *, definer: bool) -> str:
    """The functions, which stand in a capture as one."""
    lines = (f"perform public.tried({sql_text(each.format(at=at))});" for each in TRIES)
    return CALLED.format(definer="security definer" if definer else "", tries="\n    ".join(lines))


def sql_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def planted(
    at: Path, place: str, statements: dict[str, str], *, definer: bool = False, block: bool = True
) -> str:
    """A capture with the functions at a place of its table; return the name of its file."""
    table = json.loads(json.dumps(SHOP["tables"][0]))
    parts = dict(PLACES.get(place, {}))
    more, view = parts.pop("sql", ""), parts.pop("view", None)
    table |= parts
    texts = [*statements.values(), *(["select stolen from v where id = $1"] if view else [])]
    text = function_text(at, definer=definer)
    capture = {
        **SHOP,
        "tables": [table],
        "functions": [{"schema": "public", "name": "f", "sql": f"{text};\n{more}"}],
        "views": [{"schema": "public", "name": "v", "sql": view}] if view else [],
        "statements": [{**SHOP["statements"][0], "text": each} for each in texts],
        "transactions": [
            {"per_s": 100.0, "block": block, "steps": [{"statement": number}]}
            for number in range(len(texts))
        ],
        "settings": {},
    }
    Path("planted.pgdyno").write_text(json.dumps(capture))
    return "planted.pgdyno"


@pytest.fixture
def outside(open_dir: Path) -> Path:
    """A directory in which the server's account may write, with a file that it may read."""
    (directory := open_dir / "outside").mkdir()
    directory.chmod(0o777)
    (directory / "secret").write_text("hush\n")
    (directory / "secret").chmod(0o644)
    return directory


def left_in(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


@pytest.mark.parametrize("definer", [False, True], ids=["invoker", "definer"])
@pytest.mark.parametrize("place", PLACES)
def test_planted_code_reaches_no_file(
    pgdyno: Pgdyno, outside: Path, place: str, definer: bool
) -> None:
    said = pgdyno("run", planted(outside, place, STATEMENTS, definer=definer), "-T", "1", "-c", "2")
    assert said.status == 0, said.err
    assert left_in(outside) == ["secret"]


def test_a_superuser_would_have_done_it(pgdyno: Pgdyno, outside: Path) -> None:
    """The same file, as a spec that somebody changed: the test above can fail."""
    assert pgdyno("import", planted(outside, "trigger", STATEMENTS), "-o", ".").status == 0
    spec = Path("planted.toml")
    text = spec.read_text()
    assert "superuser = false" in text
    said = pgdyno("run", "planted.toml", "-T", "1", "-c", "2")
    assert said.status == 0, said.err
    assert left_in(outside) == ["secret"]
    spec.write_text(text.replace("superuser = false", "superuser = true"))
    pgdyno("run", "planted.toml", "-T", "1", "-c", "2")
    assert {"copied", "exported", "program"} <= {*left_in(outside)}


def test_statements_are_refused(pgdyno: Pgdyno, outside: Path) -> None:
    texts = {each: each.format(at=outside) for each in TRIES}
    said = pgdyno(
        "run", planted(outside, "none", texts, block=False), "-T", "1", "-c", "2", "-o", "run.db"
    )
    assert (said.status, said.code) == (2, "nothing-succeeds"), said.err
    with RunFile(Path("run.db")) as run:
        refused = {each.statement: each.sqlstate for each in run.errors([run.slices()[0].id])}
    assert {*refused} == {*texts.values()}
    assert {*refused.values()} == {"42501"}
    assert left_in(outside) == ["secret"]


def test_a_setup_is_refused_as_a_whole(pgdyno: Pgdyno, outside: Path) -> None:
    file = Path(planted(outside, "none", STATEMENTS))
    capture = json.loads(file.read_text())
    capture["functions"][0]["sql"] = TRIES[0].format(at=outside)
    file.write_text(json.dumps(capture))
    said = pgdyno("run", str(file), "-T", "1")
    assert (said.status, said.code) == (1, "setup-failed")
    assert said.err.splitlines()[-3:] == snapshot(
        [
            "error: planted-setup.sql:6: permission denied to COPY to or from an external program",
            "",
            "hint: the role pgdyno_owner owns the database and has no other rights; where you trust the setup, import it as a spec, and set workload.superuser = true",
        ]
    )
    assert left_in(outside) == ["secret"]


def test_a_statement_reads_no_file_here(pgdyno: Pgdyno, outside: Path) -> None:
    """A script's own commands are those of the machine that runs it."""
    file = planted(
        outside, "none", {"command": f"select 1;\n\\csv rows {outside}/secret\nselect 1"}
    )
    for command in (["run", file], ["import", file, "-o", "made"]):
        said = pgdyno(*command)
        assert (said.status, said.code) == (1, "import-script")
        assert "would have a script read the file" in said.err
    assert not Path("made").exists()


@pytest.mark.parametrize(
    "command", [*COMMANDS, *(pytest.param(each, marks=pytest.mark.long) for each in LONG)]
)
def test_other_commands_have_the_same_fence(pgdyno: Pgdyno, outside: Path, command: str) -> None:
    file = planted(outside, "trigger", STATEMENTS)
    said = pgdyno(*command.format(file=file).split())
    assert said.status == 0, said.err
    assert left_in(outside) == ["secret"]


def test_a_snapshot_keeps_the_fence(pgdyno: Pgdyno, outside: Path, own_home: Path) -> None:
    file = planted(outside, "trigger", STATEMENTS)
    saved = pgdyno("snapshot", "save", "planted", file)
    assert saved.status == 0, saved.err
    Path("updates.sql").write_text("update orders set state = state where id = 1;\n")
    for what in (["tpcb-like", "-s", "1"], ["-f", "updates.sql"]):
        said = pgdyno("run", *what, "--snapshot", "planted", "-T", "1", "-c", "2")
        assert said.status == 0, said.err
        assert left_in(outside) == ["secret"]


def test_a_server_that_takes_turns_has_the_role(
    pgdyno: Pgdyno, outside: Path, installation_of: Callable[[int], Installation]
) -> None:
    spec, other = spec_of(Path(planted(outside, "trigger", STATEMENTS))), installation_of(15)
    change = Change(spec={"server.bindir": str(other.bindir)})
    how = {"command": "compare", "spec_text": "", "watcher": Silent()}
    with open_session(spec, run=Path("run.db"), **how) as session:
        session.provide(change)
        session.apply(change)
        slice_id = session.slice(0.5, kind="trial", side="b")
        session.stop_load()
        assert session.reader().ledger([slice_id]).done > 0
    assert left_in(outside) == ["secret"]


def test_a_front_end_connects_as_that_role() -> None:
    spec = spec_from_fields({"workload": {"superuser": False}})
    with started_server(spec, Silent()) as target, connect_plain(server_of(target)) as connection:
        asked = connection.execute("select current_user, current_setting('is_superuser')")
        assert asked.fetchone() == ("pgdyno_owner", "off")


EXTENSIONS = """
create function public.pg_prewarm(regclass) returns bigint language sql as
    $$ select evil.told('pg_prewarm')::int::bigint $$;
create function public.bt_index_parent_check(index oid, heapallindexed boolean, rootdescend boolean)
    returns void language sql as $$ select evil.told('amcheck') $$;
create function public.bt_index_parent_check(index oid, heapallindexed boolean, rootdescend boolean,
    checkunique boolean) returns void language sql as $$ select evil.told('amcheck') $$;
"""
"""Functions that fit the calls of extensions' better than those, in the schema of new objects."""
OF_DATABASE = """
alter database pgdyno set search_path = evil, pg_catalog, public;
alter database pgdyno set role = 'pgdyno_owner';
alter database pgdyno set standard_conforming_strings = 'off'
"""
"""Settings that an owner may give a database, for all sessions that connect to it."""


def names(at: Path) -> str:
    """Functions and operators in the place of the system's and of extensions', which a superuser
    would have leave a file."""
    text = Path(test_planted_names.__file__).with_name("planted.sql").read_text("utf-8")
    told = "raise log 'planted: % as %', what, current_user;"
    assert told in text
    as_superuser = (
        "if pg_catalog.current_setting('is_superuser') operator(pg_catalog.=) 'on' then"
        f" copy (select 1) to program 'touch {at}/named'; end if;"
    )
    parts = {
        "schema": sql.Identifier("evil"),
        "functions": sql.Literal(names_called()),
        "operators": sql.Literal(["=", "<>", "<", ">", "<=", ">=", "+", "-", "||", "~"]),
    }
    template = sql.SQL(text.replace(told, as_superuser))  # type: ignore[arg-type]
    made = template.format(**parts).as_string(None).strip().removesuffix(";")
    return f"create schema evil;\n{made};\n{EXTENSIONS}\n{OF_DATABASE}"


@pytest.fixture
def better(pgdyno: Pgdyno, outside: Path) -> str:
    """A capture with a path of the database that has the owner's functions before the system's."""
    file = Path(planted(outside, "none", {"update": STATEMENTS["written"]}))
    capture = json.loads(file.read_text())
    capture["functions"] = [{"schema": "public", "name": "f", "sql": names(outside)}]
    file.write_text(json.dumps(capture))
    return str(file)


@pytest.mark.parametrize(
    "command",
    [
        "drill {file} --fault kill --cuts 1 -c 2",
        "age {file} --to 1e9 --multixact -T 2 -c 2",
        "run {file} --statements -T 1 -c 2",
    ],
)
def test_names_that_fit_better(pgdyno: Pgdyno, outside: Path, better: str, command: str) -> None:
    said = pgdyno(*command.format(file=better).split())
    assert said.status == 0, said.err
    assert left_in(outside) == ["secret"]


def test_a_restart_calls_none_of_them(outside: Path, better: str) -> None:
    spec = spec_of(Path(better))
    how = {"command": "compare", "spec_text": "", "watcher": Silent()}
    with (
        open_session(spec, run=Path("run.db"), **how) as session,
        session.offline("restarted", restored=True),
    ):
        pass
    with RunFile(Path("run.db")) as run:
        assert "data read into shared_buffers by pgdyno" in {each.label for each in own_events(run)}
    assert left_in(outside) == ["secret"]

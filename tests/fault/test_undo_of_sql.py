"""A user's server is without the change by SQL at the end, whatever becomes of pgdyno."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from msgspec.structs import asdict, replace
from undo_runs import Begin, end, execute, guardian_of, is_locked

from patience import PATIENCE_S, wait_until
from pgdyno.errors import RunError, SetupError, UsageError
from pgdyno.server import Cluster, ConnInfo, Settings, restore_all_leftovers, restore_leftovers
from pgdyno.server.settings import _running_sql
from pgdyno.server.settings._undo import read_undo, undo_files

pytestmark = [pytest.mark.server, pytest.mark.alike, pytest.mark.usefixtures("own_home")]

TABLE = "ordered"
INDEX = f"{TABLE}_customer"
MADE = (f"create index {INDEX} on {TABLE} (customer)",)
UNDONE = (f"drop index {INDEX}",)
ALONE = (f"create index concurrently {INDEX} on {TABLE} (customer)",)
ALONE_UNDONE = (f"drop index concurrently {INDEX}",)
_DYING = """
import json, os, signal, sys
from pgdyno.server import ConnInfo, Settings
from pgdyno.server.settings._sql_changes import SqlChanges

conninfo, make, undo, state, when, takes_back = json.loads(sys.argv[1])
note = SqlChanges._note

def dying(self, now):
    if now.state == state and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    note(self, now)
    if now.state == state:
        os.kill(os.getpid(), signal.SIGKILL)

settings = Settings.of_user(ConnInfo(**conninfo), may_apply=True)
if takes_back:
    settings.sql.make(make, undo)
SqlChanges._note = dying
settings.sql.take_back() if takes_back else settings.sql.make(make, undo)
"""


@pytest.fixture
def server(pg: Cluster) -> Iterator[ConnInfo]:
    """A user's server with a table."""
    execute(pg.conninfo, f"create table {TABLE} (id int, customer int)")
    execute(pg.conninfo, f"insert into {TABLE} values (1, 1), (2, 1)")
    yield pg.conninfo
    execute(pg.conninfo, f"drop table {TABLE}")


@pytest.fixture
def theirs(server: ConnInfo) -> Iterator[Settings]:
    """The user's server, as a run has it."""
    settings = Settings.of_user(server, may_apply=True)
    yield settings
    settings.restore_all()


def indexes(server: ConnInfo) -> list[str]:
    """The indexes of the table."""
    listed = f"select array_agg(indexname::text) from pg_indexes where tablename = '{TABLE}'"
    return list(execute(server, listed) or [])  # type: ignore[call-overload]


def is_as_before(server: ConnInfo) -> Callable[[], bool]:
    def look() -> bool:
        if next(undo_files(), None) is not None or indexes(server):
            return False
        return not execute(server, "select current_setting('pgdyno.undo', true)")

    return look


def pgdyno(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pgdyno", *arguments], text=True, capture_output=True, check=False
    )


def kill_all(run: subprocess.Popen[str]) -> None:
    os.kill(guardian_of(run), signal.SIGKILL)
    end(run, "kill")


@pytest.mark.parametrize(("make", "undo"), [(MADE, UNDONE), (ALONE, ALONE_UNDONE)])
def test_made_and_taken_back_again_and_again(
    server: ConnInfo, theirs: Settings, make: tuple[str], undo: tuple[str]
) -> None:
    for _ in range(2):
        assert theirs.sql.make(make, undo) > 0
        theirs.sql.make(make, undo)
        assert indexes(server) == [INDEX]
        theirs.sql.take_back()
        theirs.sql.take_back()
        assert indexes(server) == []
    theirs.sql.make(make, undo)
    (path,) = undo_files()
    assert path.stat().st_mode & 0o077 == 0
    assert str(execute(server, "show pgdyno.undo")).endswith('"sql": true}')
    done = theirs.restore_all()
    assert (done.undone, len(done.sentences())) == (make[0], 1)
    assert is_as_before(server)()


@pytest.mark.parametrize(("make", "undo"), [(MADE, UNDONE), (ALONE, ALONE_UNDONE)])
def test_kill_9(
    server: ConnInfo, begin: Begin, stderr_of_runs: Path, make: tuple[str], undo: tuple[str]
) -> None:
    run = begin(server, sql=(make, undo), work_mem="5MB")
    assert indexes(server) == [INDEX]
    run.kill()
    wait_until(is_as_before(server), "the guardian undoes it")
    assert execute(server, "show work_mem") == "4MB"
    wait_until(lambda: "undone on" in stderr_of_runs.read_text(), "the guardian says so")
    assert make[0] in stderr_of_runs.read_text()


def test_with_the_guardian_killed_too_a_sweep_undoes_it(server: ConnInfo, begin: Begin) -> None:
    kill_all(begin(server, sql=(MADE, UNDONE)))
    assert indexes(server) == [INDEX]
    swept = pgdyno("server", "sweep")
    assert (swept.returncode, swept.stderr) == (0, "")
    assert swept.stdout.endswith(f"after a killed pgdyno, undone on your server: {MADE[0]}\n")
    assert is_as_before(server)()


def test_nothing_is_run_of_what_another_machine_marked(
    server: ConnInfo, begin: Begin, tmp_path: Path
) -> None:
    """The mark does not have the statements: who may write it must not make others run them."""
    kill_all(begin(server, sql=(MADE, UNDONE)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGDYNO_HOME", str(tmp_path))
        with pytest.raises(SetupError, match="a change by SQL: still as a killed pgdyno") as caught:
            restore_leftovers(server)
        assert caught.value.code == "undo-pending"
        assert "pgdyno server sweep" in str(caught.value.hint)
        other = Settings.of_user(server, may_apply=True)
        assert other.sql.make(("select 1",), ("select 1",)) > 0
        other.restore_all()
    assert indexes(server) == [INDEX]
    assert restore_leftovers(server)
    assert is_as_before(server)()


@pytest.mark.parametrize(
    ("state", "when", "takes_back", "left"),
    [
        ("making", "before", False, []),
        ("making", "after", False, []),
        ("made", "before", False, [INDEX]),
        ("made", "after", False, [INDEX]),
        ("undoing", "before", True, [INDEX]),
        ("undoing", "after", True, [INDEX]),
        ("undone", "before", True, []),
        ("undone", "after", True, []),
        ("begun", "after", False, []),
    ],
)
def test_killed_at_any_point(
    server: ConnInfo, state: str, when: str, takes_back: bool, left: list[str]
) -> None:
    make, undo = (ALONE, ALONE_UNDONE) if state == "begun" else (MADE, UNDONE)
    given = [asdict(server), make, undo, state, when, takes_back]
    run = subprocess.Popen([sys.executable, "-c", _DYING, json.dumps(given)])
    assert run.wait(PATIENCE_S) == -signal.SIGKILL
    if left and (state, when) not in (("made", "after"), ("undoing", "before")):
        assert indexes(server) in (left, [])  # The guardian may have been quicker.
    wait_until(is_as_before(server), "nothing is left")


def test_a_statement_alone_that_fails_leaves_nothing(server: ConnInfo, theirs: Settings) -> None:
    """An index that cannot be made concurrently is there, invalid."""
    make = (ALONE[0].replace("create index", "create unique index"),)
    with pytest.raises(SetupError, match="could not create unique index") as caught:
        theirs.sql.make(make, ALONE_UNDONE)
    assert "is duplicated" in str(caught.value.hint)
    assert indexes(server) == [INDEX]
    theirs.restore_all()
    assert is_as_before(server)()


def test_a_statement_in_a_transaction_that_fails_has_done_nothing(
    server: ConnInfo, theirs: Settings
) -> None:
    make = (f"create index first on {TABLE} (id)", MADE[0].replace("index", "unique index", 1))
    with pytest.raises(SetupError, match="could not create unique index"):
        theirs.sql.make(make, ("drop index first", *UNDONE))
    assert indexes(server) == []
    assert theirs.restore_all().sentences() == []


@pytest.mark.parametrize("undo", ["drop index nosuch", "drop index concurrently nosuch"])
def test_an_undo_that_fails_is_told_and_tried_again(
    server: ConnInfo, theirs: Settings, undo: str
) -> None:
    theirs.sql.make(MADE, (undo,))
    with pytest.raises(RunError, match=r'drop index.* index "nosuch" does not exist') as caught:
        theirs.restore_all()
    assert caught.value.message.startswith(f"{MADE[0]}: still changed on your server: ")
    assert f"or in the database pgdyno: {undo};" in str(caught.value.hint)
    (path,) = undo_files()
    for _ in range(2):
        swept = pgdyno("server", "sweep", server.uri_without_password)
        assert swept.returncode == 1
        assert 'index "nosuch" does not exist' in swept.stderr
        assert str(path) in swept.stderr
    with pytest.raises(SetupError, match="left create index") as left:
        restore_leftovers(server)
    assert left.value.code == "undo-pending"
    execute(server, f"alter index {INDEX} rename to nosuch")
    wait_until(is_as_before(server), "the guardian tries again")


def test_what_is_there_before_is_not_dropped(server: ConnInfo, theirs: Settings) -> None:
    execute(server, MADE[0])
    make = (MADE[0].replace("index", "index if not exists", 1),)
    for undo in (
        UNDONE,
        ALONE_UNDONE,
        ("set search_path = public", f"drop index if exists {INDEX}"),
    ):
        with pytest.raises(UsageError, match="would drop what is there before the change"):
            theirs.sql.check_undo(make, undo)
    theirs.sql.check_undo(UNDONE, MADE)
    with pytest.raises(SetupError, match="already exists"):
        theirs.sql.make(ALONE, ALONE_UNDONE)
    theirs.restore_all()
    assert indexes(server) == [INDEX]


@pytest.mark.parametrize(("make", "undo"), [(MADE, UNDONE), (ALONE, ALONE_UNDONE)])
def test_a_change_that_is_tried_leaves_nothing(
    server: ConnInfo, theirs: Settings, make: tuple[str], undo: tuple[str]
) -> None:
    assert min(theirs.sql.try_out(make, undo)) > 0
    assert indexes(server) == []
    with pytest.raises(SetupError, match='index "nosuch" does not exist'):
        theirs.sql.try_out(MADE, ("drop index nosuch",))
    assert indexes(server) == []
    theirs.restore_all()
    assert is_as_before(server)()


def test_a_lock_of_the_application_is_not_waited_for_without_end(
    server: ConnInfo, theirs: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(_running_sql._PINS, "lock_timeout", "100ms")
    with psycopg.connect(**server.kwargs()) as application:
        application.execute(f"insert into {TABLE} values (3, 3)".encode())
        with pytest.raises(SetupError, match="another session holds a lock"):
            theirs.sql.make(MADE, UNDONE)
        application.rollback()
    theirs.sql.make(MADE, UNDONE)


def test_a_role_that_is_no_superuser_and_its_limits(server: ConnInfo, begin: Begin) -> None:
    execute(server, "create role clerk login")
    try:
        execute(server, f"alter table {TABLE} owner to clerk")
        execute(server, "grant create on schema public to clerk")
        execute(server, "alter role clerk set statement_timeout = 1")
        execute(server, "alter role clerk set default_transaction_read_only = on")
        clerk = replace(server, user="clerk")
        kill_all(begin(clerk, sql=(MADE, UNDONE)))
        assert indexes(server) == [INDEX]
        # Another role finds the same names.
        execute(server, "alter role clerk set search_path = nowhere")
        assert restore_leftovers(replace(server, database="postgres"))
        assert is_as_before(server)()
    finally:
        execute(server, f"alter table {TABLE} owner to {server.user}")
        execute(server, "drop owned by clerk")
        execute(server, "drop role clerk")


def test_two_pgdynos_at_once(server: ConnInfo, begin: Begin) -> None:
    run = begin(server, sql=(MADE, UNDONE))
    other = Settings.of_user(server, may_apply=True)
    with pytest.raises(SetupError, match="another pgdyno is changing the settings of this server"):
        other.sql.make(("select 1",), ("select 1",))
    end(run, "end")
    assert is_as_before(server)()


def test_names_of_any_kind(server: ConnInfo, theirs: Settings) -> None:
    name = '"a;\n\x1b[2J""; drop table x --\u202e"'
    make, undo = (f"create index {name} on {TABLE} (id)",), (f"drop index {name}",)
    theirs.sql.make(make, undo)
    assert indexes(server) == ['a;\n\x1b[2J"; drop table x --\u202e']
    (said,) = theirs.restore_all().sentences()
    assert said.isprintable()
    assert is_as_before(server)()


def test_no_function_of_the_database_s_owner_is_called(server: ConnInfo) -> None:
    """The role that connects finds them before those of pg_catalog, as its statements do."""
    execute(server, "create database planted")
    there = replace(server, database="planted")
    try:
        execute(there, f"create schema evil create table {TABLE} (customer int)")
        for function in (
            "current_schemas(boolean) returns name[]",
            "pg_current_xact_id() returns xid8",
        ):
            body = "begin raise exception 'called'; end"
            execute(there, f"create function evil.{function} language plpgsql as $${body}$$")
        execute(there, "alter database planted set search_path = evil, pg_catalog")
        settings = Settings.of_user(there, may_apply=True)
        settings.sql.check((*MADE, *UNDONE))
        settings.sql.check_undo(MADE, UNDONE)
        settings.sql.try_out(MADE, UNDONE)
        settings.sql.make(MADE, UNDONE)
        assert indexes(there) == [INDEX]
        settings.restore_all()
        assert is_as_before(there)()
    finally:
        execute(server, "drop database planted with (force)")


def test_the_database_is_dropped(server: ConnInfo, begin: Begin) -> None:
    execute(server, "create database undone")
    there = replace(server, database="undone")
    execute(there, f"create table {TABLE} (customer int)")
    kill_all(begin(there, sql=(MADE, UNDONE)))
    execute(server, "drop database undone with (force)")
    assert restore_leftovers(server)
    assert is_as_before(server)()


def test_a_record_says_what_and_how(server: ConnInfo, begin: Begin) -> None:
    run = begin(server, sql=(MADE, UNDONE), work_mem="5MB")
    (path,) = undo_files()
    recorded = read_undo(path).sql
    assert recorded is not None
    assert (recorded.make, recorded.undo, recorded.state) == (MADE, UNDONE, "made")
    assert (recorded.database, recorded.schemas) == ("pgdyno", ("public",))
    kill_all(run)
    wait_until(lambda: not is_locked(path), "the killed guardian has released the record")
    (outcome,) = restore_all_leftovers(quick=True)
    assert not outcome.failed
    assert is_as_before(server)()

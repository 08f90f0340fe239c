"""``pgdyno compare --sql``, and the advice of a check followed as it is printed."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from patience import PATIENCE_S, wait_until
from pgdyno.conduct import Session, Silent, open_session
from pgdyno.errors import RunError, SetupError
from pgdyno.record import RunFile
from pgdyno.record.events import own_events
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.server import Cluster
from pgdyno.server.settings._undo import undo_files
from pgdyno.spec import Change, spec_from_fields

pytestmark = [pytest.mark.server, pytest.mark.alike, pytest.mark.usefixtures("own_home")]

DATABASE = "sql_shop"
INDEX = "create index orders_customer on orders (customer_id)"
DROP = "drop index orders_customer"
SCRIPT = "\\set c random(1, 50000)\nselect count(*) from orders where customer_id = :c;\n"
_TABLE = """
create table orders (id int, customer_id int, note text);
insert into orders select i, i, repeat('x', 60) from generate_series(1, 50000) i;
vacuum analyze orders
"""
_SHORT = ("--slice", "500ms", "--budget", "90s")


def made_shop(cluster: Cluster) -> str:
    """Make a database with a table that lacks an index; return its connection string."""
    with psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True) as conn:
        conn.execute(f"create database {DATABASE}".encode())
    uri = f"postgresql://{cluster.conninfo.user}@/{DATABASE}"
    uri += f"?host={cluster.conninfo.host}&port={cluster.conninfo.port}"
    with psycopg.connect(uri, autocommit=True) as conn:
        for statement in _TABLE.split(";"):
            conn.execute(statement.encode())
    return uri


@pytest.fixture
def shop(pg18: Cluster) -> Iterator[str]:
    """A user's database; its connection string."""
    yield made_shop(pg18)
    with psycopg.connect(**pg18.conninfo.kwargs(), autocommit=True) as conn:
        conn.execute(f"drop database {DATABASE} with (force)".encode())


def state(uri: str) -> list[Any]:
    """All that the database has, and what ALTER SYSTEM has set."""
    with psycopg.connect(uri) as conn:
        listed = conn.execute("select relname::text, reloptions from pg_class order by oid")
        rows = listed.fetchall()
        altered = conn.execute(
            "select name, setting from pg_file_settings where sourcefile like '%auto.conf'"
        )
        return [*rows, *altered.fetchall()]


def begin(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pgdyno", *arguments],
        cwd=directory,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def pgdyno(directory: Path, *arguments: str) -> tuple[int, str, str]:
    run = begin(directory, *arguments)
    said, complained = run.communicate(timeout=PATIENCE_S)
    return run.returncode, said, complained


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "SCRIPT.sql").write_text(SCRIPT)
    return tmp_path


@contextmanager
def load_of_others(uri: str) -> Iterator[None]:
    """The application's sessions."""
    ended = threading.Event()

    def work(number: int) -> None:
        with psycopg.connect(uri, autocommit=True, application_name="shop") as conn:
            while not ended.is_set():
                conn.execute(f"select count(*) from orders where customer_id = {number}".encode())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        ended.set()
        for each in threads:
            each.join()


@pytest.mark.long
def test_the_advice_of_a_check_is_followed_as_printed(
    new_cluster: Callable[..., Cluster], directory: Path
) -> None:
    server = new_cluster(18, shared_preload_libraries="pg_stat_statements")
    shop = made_shop(server)
    with psycopg.connect(shop, autocommit=True) as conn:
        conn.execute("create extension pg_stat_statements")
    with load_of_others(shop):
        # On a busy machine, a window may show too little of the statement to predict a gain.
        found: list[Any] = []
        wait_until(lambda: proposed(directory, shop, found), "an index is proposed")
    (remedy,) = found
    assert remedy["commands"] == [
        "CREATE INDEX CONCURRENTLY orders_customer_id_idx ON public.orders (customer_id);"
    ]
    before = state(shop)
    command = remedy["prove"][0]["command"]
    assert command == (
        f"pgdyno compare {shlex.quote(shop_as_printed(command))} -f SCRIPT.sql"
        " --sql 'create index pgdyno_orders_customer_id on public.orders (customer_id)'"
        " --undo-sql 'drop index public.pgdyno_orders_customer_id' --apply"
    )
    _, *words = shlex.split(command)
    status, said, complained = pgdyno(directory, *words, *_SHORT, "-o", "run.db")
    assert status == 0, complained
    assert "better" in said or "x" in said
    assert "undone on your server: create index pgdyno_orders_customer_id" in complained
    assert state(shop) == before
    assert not list(undo_files())
    with RunFile(directory / "run.db") as run:
        lines = [line.text for line in summary_lines(run, 100)]
        assert run.run.result["decision"] == "better"
        assert run.run.result["sql"]["times"] > 6
    assert any(line.startswith("took") for line in lines)
    assert any("create index pgdyno_orders_customer_id on public.orders" in x for x in lines)
    status, said, _ = pgdyno(directory, "run", shop, "-f", "SCRIPT.sql", "-t", "1500", "-o", "r.db")
    (proving,) = [line for line in said.splitlines() if line.startswith("to prove it")]
    _, *words = shlex.split(proving.removeprefix("to prove it"))
    assert words[1] == str(directory / "r.db")
    status, said, complained = pgdyno(directory, *words, *_SHORT)
    assert status == 0, complained
    assert state(shop) == before


def proposed(directory: Path, shop: str, found: list[Any]) -> bool:
    """Check the server; add the remedy of a missing index to ``found`` if an index is proposed."""
    words = ("check", shop, "-T", "4", "--format", "json", "--fail-on", "never")
    status, said, complained = pgdyno(directory, *words)
    assert status == 0, complained
    for each in json.loads(said)["findings"]:
        if each["id"] == "missing-index" and each["remedy"]["prove"]:
            found.append(each["remedy"])
    return bool(found)


def shop_as_printed(command: str) -> str:
    """The connection string in a command, which names the server as libpq resolved it."""
    uri = shlex.split(command)[2]
    assert uri.startswith("postgresql://")
    assert f"/{DATABASE}?" in uri
    return uri


def test_ctrl_c_undoes_it(shop: str, directory: Path) -> None:
    before = state(shop)
    given = ("--sql", INDEX, "--undo-sql", DROP, "--apply", "-o", "run.db")
    run = begin(directory, "compare", shop, "-f", "SCRIPT.sql", *given)
    wait_until(lambda: made(directory / "run.db") > 1, "it is made for a slice")
    run.send_signal(signal.SIGINT)
    _, complained = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 130, complained
    assert INDEX in complained
    assert state(shop) == before
    assert not list(undo_files())


def made(path: Path) -> int:
    """How often it was made so far."""
    if not path.exists():
        return 0
    try:
        with RunFile(path) as run:
            return sum(event.detail.get("sql") == "made" for event in own_events(run))
    except Exception:  # The file is being made.
        return 0


REFUSED = {
    "without --apply": (
        ("--sql", INDEX, "--undo-sql", DROP),
        f"error: {INDEX}: your server is changed by SQL only with --apply",
    ),
    "a syntax error": (
        ("--sql", "creat index i on orders (id)", "--undo-sql", "drop index i", "--apply"),
        'error: creat index i on orders (id): syntax error at or near "creat", at character 1',
    ),
    "two statements": (
        ("--sql", "create table a (); create table b ()", "--undo-sql", "drop table a", "--apply"),
        "error: create table a (); create table b (): is more than one statement",
    ),
    "an undo that cannot be": (
        ("--sql", INDEX, "--undo-sql", "drop index nosuch", "--apply"),
        'error: drop index nosuch: index "nosuch" does not exist',
    ),
    "data that do not fit": (
        ("--sql", "create unique index i on orders (note)", "--undo-sql", "drop index i",
         "--apply"),
        'error: create unique index i on orders (note): could not create unique index "i"',
    ),
    "what is there already": (
        ("--sql", "create table if not exists orders ()", "--undo-sql", "drop table orders",
         "--apply"),
        "error: drop table orders: this would drop what is there before the change",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused_before_the_load(shop: str, directory: Path, case: str) -> None:
    before = state(shop)
    given, said = REFUSED[case]
    status, _, complained = pgdyno(directory, "compare", shop, "-f", "SCRIPT.sql", *given)
    assert said in complained.splitlines()
    assert status == 1
    assert state(shop) == before
    assert not list(undo_files())


@contextmanager
def session_on_own_server(path: Path) -> Iterator[Session]:
    groups = [{"count": 2, "think": "20ms"}]
    spec = spec_from_fields({"clients": groups, "workload": {"scale": 1}})
    with open_session(spec, run=path, command="compare", spec_text="", watcher=Silent()) as session:
        yield session


def indexes(session: Session) -> list[str]:
    with psycopg.connect(**session.target.conninfo.kwargs()) as conn:
        rows = conn.execute("select indexname::text from pg_indexes where indexname ~ '^mine'")
        return [name for (name,) in rows]


def by_sql(make: Sequence[str], undo: Sequence[str]) -> Change:
    return Change(sql={"make": tuple(make), "undo": tuple(undo)})


def test_on_a_server_of_pgdyno_with_a_setting(
    installation_of: Callable[[int], object], tmp_path: Path
) -> None:
    installation_of(18)
    on = "pgbench_accounts (bid)"
    both = by_sql(
        [f"create index concurrently mine on {on}", f"create index mine_too on {on}"],
        ["drop index mine", "drop index concurrently mine_too"],
    ).over(Change(settings={"work_mem": "8MB"}))
    with session_on_own_server(tmp_path / "run.db") as session:
        session.provide(both)
        for change, there in ((both, ["mine", "mine_too"]), (Change(), [])) * 2:
            session.apply(change)
            assert sorted(indexes(session)) == there
            session.slice(0.2, kind="run")
    with RunFile(tmp_path / "run.db") as run:
        events = [event.detail["sql"] for event in own_events(run) if "sql" in event.detail]
        assert events == ["made", "undone"] * 3
        assert Change.from_json(run.slices("run")[0].change) == both
        assert run.ledger().balanced


def test_what_fails_in_a_pair_ends_the_run(
    installation_of: Callable[[int], object], tmp_path: Path
) -> None:
    installation_of(18)
    change = by_sql(["create unique index mine on pgbench_tellers (bid)"], ["drop index mine"])
    with session_on_own_server(tmp_path / "run.db") as session:
        with pytest.raises(SetupError, match="could not create unique index") as before_load:
            session.provide(change)
        assert "is duplicated" in str(before_load.value.hint)
        with pytest.raises(RunError, match="could not create unique index"):
            session.apply(change)
        assert indexes(session) == []


def test_kill_9_of_a_comparison(shop: str, directory: Path) -> None:
    before = state(shop)
    given = ("--sql", INDEX, "--undo-sql", DROP, "--apply", "-o", "run.db")
    run = begin(directory, "compare", shop, "-f", "SCRIPT.sql", *given)
    wait_until(lambda: made(directory / "run.db") > 1, "it is made for a slice")
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    wait_until(lambda: not list(undo_files()), "the guardian undoes it")
    wait_until(lambda: state(shop) == before, "nothing is left")

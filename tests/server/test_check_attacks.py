"""``pgdyno check`` where others wish it ill: planted code, killed checks, servers that hang."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from corrupting import CorruptingRelay

from patience import PATIENCE_S, wait_until
from pgdyno.check import _write_probe
from pgdyno.check._reach import Where
from pgdyno.check.checking import CheckRequest, check
from pgdyno.conduct import Silent
from pgdyno.errors import PgdynoError, SetupError
from pgdyno.results.check import CheckResult
from pgdyno.server import Cluster, connect_plain
from pgdyno.workload.cleanup import plan_cleanup, remove

pytestmark = [pytest.mark.server, pytest.mark.alike]

_PLANTED = """
create schema evil;
grant usage on schema evil to public;
create function evil.told(what text) returns bool language plpgsql as
    $$ begin raise log 'planted: % as %', what, current_user; return true; end $$;
create function evil.current_setting(text) returns text language sql as
    $$ select pg_catalog.current_setting($1) from evil.told('current_setting') $$;
create function evil.current_schema() returns name language sql as
    $$ select pg_catalog.current_schema() from evil.told('current_schema') $$;
create function evil.pg_backend_pid() returns int language sql as
    $$ select pg_catalog.pg_backend_pid() from evil.told('pg_backend_pid') $$;
create function evil.current_database() returns name language sql as
    $$ select pg_catalog.current_database() from evil.told('current_database') $$;
create view evil.pg_settings as select * from pg_catalog.pg_settings where evil.told('settings');
create view evil.pg_class as select * from pg_catalog.pg_class where evil.told('pg_class');
create view evil.pg_database as select * from pg_catalog.pg_database where evil.told('database');
create view evil.pg_extension as select * from pg_catalog.pg_extension where evil.told('extension');
create function evil.equals(text, text) returns bool language sql as
    $$ select $1 operator(pg_catalog.=) $2 from evil.told('=') $$;
create operator evil.= (leftarg = text, rightarg = text, function = evil.equals);
grant all on all tables in schema evil to public;
alter database planted set search_path = evil, pg_catalog, public
"""


def connected(cluster: Cluster, **values: str) -> psycopg.Connection:
    kwargs = {**cluster.conninfo.kwargs(), "application_name": "shop", **values}
    return psycopg.connect(**kwargs, autocommit=True)


def conninfo_of(cluster: Cluster, **values: str) -> str:
    kwargs = {**cluster.conninfo.kwargs(), "application_name": None, **values}
    return psycopg.conninfo.make_conninfo("", **kwargs)


def checked(cluster: Cluster, *, write_probe: bool = False, **values: str) -> CheckResult:
    where = Where(conninfo_of(cluster, **values))
    return check(CheckRequest(where, 2.0, None, write_probe), Silent())


@pytest.fixture
def few_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_write_probe, "COMMITS_MAX", 20)


@contextmanager
def planted(cluster: Cluster) -> Iterator[None]:
    """A database whose owner has put code of his own in the place of the system's."""
    with connected(cluster) as conn:
        conn.execute("create role mallory login")
        conn.execute("create database planted owner mallory")
        try:
            with connected(cluster, dbname="planted") as inside:
                inside.execute("create extension if not exists pg_stat_statements schema public")
                inside.execute("set role mallory")
                inside.execute(_PLANTED.encode())
            yield
        finally:
            conn.execute("drop database planted with (force)")
            conn.execute("drop role mallory")


@pytest.mark.parametrize("major", [18, 15])
@pytest.mark.usefixtures("few_commits")
def test_code_that_the_owner_of_the_database_planted_does_not_run(
    new_cluster: Callable[..., Cluster], major: int
) -> None:
    cluster = new_cluster(major, shared_preload_libraries="pg_stat_statements")
    with planted(cluster):
        result = checked(cluster, write_probe=True, dbname="planted")
        plan_cleanup(cluster.conninfo)
        with connected(cluster, dbname="planted") as conn:
            (at_work,) = conn.execute("select current_setting('port')").fetchone() or ("",)
    assert at_work
    log = cluster.log_path.read_text()
    assert log.count("planted: ") == 1, "only that of the test itself"
    assert result.write_probe is not None
    assert "statements" not in {each.subject for each in result.not_checked}


def left(cluster: Cluster) -> list[str]:
    with connected(cluster) as conn:
        query = "select relname::text from pg_class where relname ~ 'write_probe' and relkind = 'r'"
        return [name for (name,) in conn.execute(query)]


@pytest.fixture
def own_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for temporary files, of this test alone."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def started(cluster: Cluster, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pgdyno", "check", conninfo_of(cluster), "-q", *words]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def probing(cluster: Cluster) -> subprocess.Popen[str]:
    """A check in its write probe."""
    process = started(cluster, "--write-probe", "-T", "2")

    def is_probing() -> bool:
        assert process.poll() is None, process.communicate()
        return bool(left(cluster))

    wait_until(is_probing, "its table is there")
    return process


def test_a_page_is_written_of_a_run_file_that_is_not_kept(
    pg: Cluster, own_temporary: Path, tmp_path: Path
) -> None:
    process = started(pg, "-T", "2", "--fail-on", "never", "--report", str(tmp_path / "check.html"))
    out, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said + out
    assert "pgdyno check" in (tmp_path / "check.html").read_text()
    assert [each.name for each in own_temporary.iterdir()] == ["check.html"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_write_probe_that_is_stopped_leaves_no_table(
    pg: Cluster, own_temporary: Path, number: signal.Signals
) -> None:
    process = probing(pg)
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + number, said
    assert left(pg) == []
    assert [*own_temporary.iterdir()] == []


def test_what_a_killed_write_probe_left_is_removed(
    new_cluster: Callable[..., Cluster], own_temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = new_cluster(18)

    def killed() -> None:
        process = probing(cluster)
        process.kill()
        process.communicate(timeout=PATIENCE_S)
        assert len(left(cluster)) == 1

    killed()
    (removal,) = plan_cleanup(cluster.conninfo).removals
    assert left(cluster)[0] in removal.what
    (directory,) = own_temporary.iterdir()
    os.utime(directory, (0, 0))
    monkeypatch.setattr(_write_probe, "COMMITS_MAX", 20)
    assert checked(cluster, write_probe=True).write_probe is not None
    assert left(cluster) == []
    assert [*own_temporary.iterdir()] == []
    killed()
    (removal,) = plan_cleanup(cluster.conninfo).removals
    remove(cluster.conninfo, removal)
    assert left(cluster) == []


@pytest.mark.parametrize(
    ("phase", "restarts", "code"),
    [
        ("looking", False, "no-answer"),
        ("watching", False, "no-server"),
        ("watching", True, "restarted"),
    ],
)
def test_a_server_that_dies_during_a_check_is_no_healthy_one(
    new_cluster: Callable[..., Cluster], phase: str, restarts: bool, code: str
) -> None:
    cluster = new_cluster(18)

    class Killer(Silent):
        def phase(self, text: str, lasts_s: float | None = None) -> None:
            if text.startswith(phase):
                if restarts:
                    cluster.restart()
                else:
                    cluster.kill()

    with pytest.raises(SetupError) as problem:
        check(CheckRequest(Where(conninfo_of(cluster)), 2.0, None), Killer())
    assert problem.value.code in (code, "no-server")
    assert "starts its own server" not in str(problem.value.hint)


def test_a_server_that_hangs_is_given_up(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(18)
    with connect_plain(cluster.conninfo, patience_s=0.2) as conn:
        pid = conn.info.backend_pid
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(psycopg.OperationalError, match="hangs"):
                conn.execute("select 1")
        finally:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.usefixtures("few_commits")
def test_settings_of_the_role_do_not_disturb_a_check(pg: Cluster) -> None:
    settings = {
        "default_transaction_read_only": "on",
        "lock_timeout": "1ms",
        "idle_session_timeout": "200ms",
        "idle_in_transaction_session_timeout": "100ms",
    }
    with connected(pg) as conn:
        conn.execute("create role hampered login; create schema hampered authorization hampered")
        for name, value in settings.items():
            conn.execute(f"alter role hampered set {name} = '{value}'".encode())
        try:
            result = checked(pg, write_probe=True, user="hampered")
        finally:
            conn.execute("drop schema hampered; drop role hampered")
    assert result.write_probe is not None
    assert not [each for each in result.not_checked if "not sampled" in each.why]


@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.usefixtures("few_commits")
def test_answers_that_are_damaged_on_the_way_end_in_a_result_or_a_message(
    new_cluster: Callable[..., Cluster], seed: int
) -> None:
    cluster = new_cluster(18)
    info = cluster.conninfo
    relay = CorruptingRelay(info.host, info.port, seed=seed, every_bytes=4_000, spare_bytes=900)
    where = conninfo_of(cluster, host="127.0.0.1", port=str(relay.port), sslmode="disable")
    try:
        result = check(CheckRequest(Where(where), 2.0, None, write_probe=True), Silent())
        assert result.load is not None
    except PgdynoError as problem:
        assert problem.message
    finally:
        relay.close()

"""A user's server is as it was, whatever becomes of pgdyno, of its guardian or of the server."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace
from undo_runs import Begin, execute, guardian_of, is_as, is_locked, state

from patience import wait_until
from pgdyno.conduct._server_away import is_loss
from pgdyno.errors import RunError, SetupError
from pgdyno.server import Cluster, Settings, restore_all_leftovers, restore_leftovers
from pgdyno.server.settings._undo import undo_files

pytestmark = [pytest.mark.server, pytest.mark.alike, pytest.mark.usefixtures("own_home")]


def test_kill_9_puts_everything_back(server: Cluster, begin: Begin) -> None:
    before = state(server)
    run = begin(server.conninfo, max_wal_size="4GB", work_mem="5MB", log_line_prefix="it's %p ")
    assert execute(server.conninfo, "show max_wal_size") == "4GB"
    (path,) = undo_files()
    assert str(server.conninfo.password) not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    run.kill()
    wait_until(is_as(server, before), "the guardian puts them back")


@pytest.mark.parametrize("by", ["the file", "ALTER SYSTEM", "a line taken out"])
def test_what_the_user_has_not_loaded_is_not_loaded_for_them(server: Cluster, by: str) -> None:
    conf = server.directory / "postgresql.conf"
    if by == "the file":
        with conf.open("a") as file:
            file.write("Work_Mem = '77MB'\nsynchronous_commit=off\nlog_timezone='utc'\n")
            file.write("shared_buffers='1GB'\n")
    elif by == "ALTER SYSTEM":
        execute(server.conninfo, "alter system set synchronous_commit = off")
        execute(server.conninfo, "alter system set work_mem = '77MB'")
    else:
        text = conf.read_text()
        conf.write_text(text + "synchronous_commit = off\nwork_mem = 77MB\n")
        execute(server.conninfo, "select pg_reload_conf()")
        wait_until(lambda: execute(server.conninfo, "show work_mem") == "77MB", "it is loaded")
        conf.write_text(text)
    before = state(server)
    settings = Settings.of_user(server.conninfo, may_apply=True)
    with pytest.raises(
        SetupError, match=r"^synchronous_commit, work_mem: .* not yet loaded"
    ) as caught:
        settings.apply({"max_wal_size": "3GB"})
    assert "SELECT pg_reload_conf()" in str(caught.value.hint)
    settings.restore_all()
    assert is_as(server, before)()


def test_what_the_user_changes_during_a_run_is_not_loaded_by_the_next_change(
    server: Cluster,
) -> None:
    settings = Settings.of_user(server.conninfo, may_apply=True)
    settings.apply({"max_wal_size": "3GB"})
    settings.apply({"max_wal_size": "2GB"})
    with (server.directory / "postgresql.conf").open("a") as file:
        file.write("work_mem = '77MB'\n")
    with pytest.raises(SetupError, match=r"^work_mem: .* not yet loaded"):
        settings.apply({"max_wal_size": "5GB"})
    assert execute(server.conninfo, "show work_mem") == "4MB"
    assert execute(server.conninfo, "show max_wal_size") == "2GB"
    done = settings.restore_all()
    assert (done.restored, done.also_loaded) == (["max_wal_size"], ["work_mem"])
    assert done.sentences() == snapshot(
        [
            "your server's settings are restored: max_wal_size",
            "the reload also applied changes that had not been loaded before: work_mem",
        ]
    )
    assert execute(server.conninfo, "show work_mem") == "77MB"


def test_other_words_for_what_is_in_force_are_no_edit(server: Cluster) -> None:
    with (server.directory / "postgresql.conf").open("a") as file:
        file.write("datestyle='iso, mdy'\nwork_mem='0.004GB'\nlog_file_mode=0600\nfsync=TRUE\n")
        file.write("archive_command='true'\nshop.mode='x'\nmax_connections=77\n")
    execute(server.conninfo, "select pg_reload_conf()")
    wait_until(
        lambda: execute(server.conninfo, "select current_setting('shop.mode', true)") == "x",
        "it is loaded",
    )
    with (server.directory / "postgresql.conf").open("a") as file:
        file.write("datestyle='ISO,mdy'\nlog_file_mode=384\nfsync=1\n")
    settings = Settings.of_user(server.conninfo, may_apply=True)
    settings.apply({"max_wal_size": "3GB"})
    with (server.directory / "postgresql.conf").open("a") as file:
        file.write("commit_delay=7\nshop.mode='y'\n")
    done = settings.restore_all()
    assert (done.restored, done.also_loaded) == (["max_wal_size"], ["commit_delay", "shop.mode"])


def test_files_with_an_error_are_told_before_anything_is_changed(server: Cluster) -> None:
    with (server.directory / "postgresql.conf").open("a") as file:
        file.write("work_men = 1\n")
    before = state(server)
    settings = Settings.of_user(server.conninfo, may_apply=True)
    with pytest.raises(SetupError, match=r"postgresql.conf, line \d+: work_men: unrecognized"):
        settings.apply({"max_wal_size": "3GB"})
    settings.restore_all()
    assert is_as(server, before)()


def test_kill_9_of_the_whole_process_group(
    new_cluster: Callable[..., Cluster], begin: Begin
) -> None:
    server = new_cluster()
    before = state(server)
    run = begin(server.conninfo, checkpoint_timeout="20min")
    os.killpg(run.pid, signal.SIGKILL)
    wait_until(is_as(server, before), "the guardian puts it back")


def test_with_the_guardian_killed_too_the_next_command_does_it(
    server: Cluster, begin: Begin
) -> None:
    before = state(server)
    run = begin(server.conninfo, max_wal_size="4GB", work_mem="5MB")
    os.kill(guardian_of(run), signal.SIGKILL)
    run.kill()
    run.wait()
    assert execute(server.conninfo, "show work_mem") == "5MB"
    # Where the record is not at hand, or is another user's, the server itself tells.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGDYNO_HOME", os.environ["PGDYNO_HOME"] + "/elsewhere")
        (said,) = restore_leftovers(replace(server.conninfo, database="postgres"))
    assert said.startswith("at postgresql://")
    assert said.endswith("your server's settings are restored: max_wal_size, work_mem")
    (done,) = restore_all_leftovers(quick=False)
    assert not done.failed
    assert is_as(server, before)()


def test_what_a_mark_does_not_tell_is_asked_for(
    new_cluster: Callable[..., Cluster], begin: Begin, tmp_path: Path
) -> None:
    server = new_cluster()
    execute(server.conninfo, "alter system set log_line_prefix = 'secret '")
    execute(server.conninfo, "select pg_reload_conf()")
    wait_until(lambda: execute(server.conninfo, "show log_line_prefix") == "secret ", "loaded")
    run = begin(server.conninfo, log_line_prefix="%p ")
    assert "secret" not in str(execute(server.conninfo, "show pgdyno.undo"))
    os.kill(guardian_of(run), signal.SIGKILL)
    run.kill()
    run.wait()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGDYNO_HOME", str(tmp_path))
        with pytest.raises(SetupError, match="log_line_prefix: still as a killed pgdyno set it"):
            restore_leftovers(server.conninfo)
    assert restore_leftovers(server.conninfo)
    assert execute(server.conninfo, "show log_line_prefix") == "secret "


def test_a_mark_that_others_may_write_is_not_acted_upon(
    new_cluster: Callable[..., Cluster],
) -> None:
    server = new_cluster()
    execute(server.conninfo, "create role mallory login")
    execute(server.conninfo, "alter role mallory set pgdyno.undo = '{}'")
    mallory = replace(server.conninfo, user="mallory")
    assert restore_leftovers(mallory) == [], "what a role gives itself is no mark"
    execute(server.conninfo, "alter role mallory reset pgdyno.undo")
    execute(server.conninfo, "grant alter system on parameter pgdyno.undo to mallory")
    execute(server.conninfo, "alter system set fsync = on")
    mark = json.dumps({"run": "00000000", "settings": {"fsync": ["off", "on"]}})
    execute(mallory, f"alter system set pgdyno.undo = '{mark}'")
    execute(server.conninfo, "select pg_reload_conf()")
    wait_until(lambda: execute(server.conninfo, "show pgdyno.undo") == mark, "the mark is there")
    with pytest.raises(SetupError, match="roles other than superusers may set") as caught:
        restore_leftovers(server.conninfo)
    assert caught.value.hint is not None
    assert "ALTER SYSTEM SET \"fsync\" = 'off';" in caught.value.hint
    assert execute(server.conninfo, "show fsync") == "on"


def test_a_server_that_restarts_or_is_away(server: Cluster, begin: Begin) -> None:
    before = state(server)
    run = begin(server.conninfo, max_wal_size="4GB")
    server.restart()
    run.kill()
    wait_until(is_as(server, before), "after a restart the guardian connects again")
    run = begin(server.conninfo, max_wal_size="4GB")
    server.stop()
    run.kill()
    run.wait()
    (left,) = restore_all_leftovers(quick=True)
    assert left.failed
    assert re.search(
        r"not yet restored(; a guardian is still trying$| after a killed pgdyno: no PostgreSQL)",
        left.sentences[0],
    )
    server.start()
    wait_until(is_as(server, before), "when it is back")


def test_a_server_that_is_away_at_the_end(new_cluster: Callable[..., Cluster]) -> None:
    server = new_cluster()
    before = state(server)
    settings = Settings.of_user(server.conninfo, may_apply=True)
    settings.apply({"checkpoint_timeout": "20min"})
    server.stop()
    with pytest.raises(RunError, match="checkpoint_timeout: still changed on your") as caught:
        settings.restore_all()
    assert caught.value.hint is not None
    assert 'ALTER SYSTEM RESET "checkpoint_timeout"; ALTER SYSTEM' in caught.value.hint
    server.start()
    wait_until(is_as(server, before), "the guardian goes on by itself")


def test_the_role_that_changed_them_is_dropped(
    new_cluster: Callable[..., Cluster], begin: Begin
) -> None:
    server = new_cluster()
    before = state(server)
    execute(server.conninfo, "create role boss superuser login")
    run = begin(replace(server.conninfo, user="boss"), checkpoint_timeout="20min")
    execute(server.conninfo, "drop role boss")
    run.kill()
    run.wait()  # Until then its process ID is that of a run that goes on.
    path = next(undo_files())
    wait_until(lambda: not is_locked(path), "another pgdyno may restore while the guardian retries")
    (left,) = restore_all_leftovers(quick=True)
    assert left.failed
    assert 'ALTER SYSTEM RESET "checkpoint_timeout";' in left.manually
    assert restore_leftovers(server.conninfo)
    assert is_as(server, before)()


def test_its_database_is_dropped(new_cluster: Callable[..., Cluster], begin: Begin) -> None:
    server = new_cluster()
    before = state(server)
    postgres = replace(server.conninfo, database="postgres")
    run = begin(server.conninfo, checkpoint_timeout="20min")
    execute(postgres, "drop database pgdyno with (force)")
    run.kill()
    try:
        wait_until(lambda: not list(undo_files()), "the guardian goes through another database")
    finally:
        execute(postgres, "create database pgdyno")
    assert is_as(server, before)()


@pytest.mark.parametrize(
    ("name", "value"), [("session_preload_libraries", "nosuchlib"), ("pre_auth_delay", "60")]
)
def test_a_change_that_locks_everybody_out_is_taken_back_at_once(
    new_cluster: Callable[..., Cluster], name: str, value: str
) -> None:
    server = new_cluster()
    before = state(server)
    settings = Settings.of_user(server.conninfo, may_apply=True)
    with pytest.raises(SetupError, match=f"with {name} = {value}, new connections fail") as caught:
        settings.apply({name: value})
    assert caught.value.code == "locked-out"
    assert caught.value.hint == snapshot("it was reverted at once")
    assert not is_loss(caught.value), "tried again, it would lock everybody out again"
    settings.restore_all()
    assert is_as(server, before)()


def test_locked_out_and_killed(new_cluster: Callable[..., Cluster], begin: Begin) -> None:
    server = new_cluster()
    before = state(server)
    run = begin(server.conninfo, work_mem="5MB")
    # As if it were killed between the change and the proof: the record tells of both.
    os.kill(guardian_of(run), signal.SIGKILL)
    run.kill()
    run.wait()
    (path,) = undo_files()
    fields = json.loads(path.read_text())
    fields["settings"]["session_preload_libraries"] = {"before": None, "ours": ["nosuchlib"]}
    path.write_text(json.dumps(fields))
    execute(server.conninfo, "alter system set session_preload_libraries = 'nosuchlib'")
    execute(server.conninfo, "select pg_reload_conf()")
    with pytest.raises(psycopg.OperationalError):
        wait_until(lambda: bool(execute(server.conninfo, "select false")), "nobody can connect")
    # On a busy machine two seconds may not be enough, and it says so.
    wait_until(
        lambda: not any(each.failed for each in restore_all_leftovers(quick=True)), "it is restored"
    )
    assert is_as(server, before)()


def test_no_limit_of_sessions_cuts_the_way_back_short(pg18: Cluster, begin: Begin) -> None:
    limits = {
        "statement_timeout": "1ms",
        "lock_timeout": "1ms",
        "idle_session_timeout": "350ms",
        "idle_in_transaction_session_timeout": "1ms",
        "default_transaction_read_only": "on",
        "search_path": "nowhere",
    }
    before = state(pg18)
    settings = Settings.of_user(pg18.conninfo, may_apply=True)
    try:
        for _ in range(3):
            apply_limits(settings, limits)
            for _ in range(2):
                time.sleep(0.2)  # Together longer than a session may be idle.
            settings.reset(limits)
        apply_limits(settings, limits)
    finally:
        settings.restore_all()
    assert is_as(pg18, before)()
    begin(pg18.conninfo, **{**limits, "statement_timeout": "50ms"}).kill()
    wait_until(is_as(pg18, before), "the guardian puts it back")


def apply_limits(settings: Settings, limits: Mapping[str, str]) -> None:
    """Apply limits that are refused, rightly, when a client's first statement exceeds them, as it
    may on a busy machine."""
    for _ in range(20):
        try:
            settings.apply(limits)
        except SetupError as problem:
            assert problem.code == "locked-out"
        else:
            return
    raise AssertionError("no client's first statement took less than its limit")


def test_a_time_limit_that_may_end_any_connection(pg18: Cluster) -> None:
    before = state(pg18)
    settings = Settings.of_user(pg18.conninfo, may_apply=True)
    try:
        settings.apply({"transaction_timeout": "1ms"})
    except SetupError as problem:
        assert problem.code == "locked-out"
    settings.restore_all()
    assert is_as(pg18, before)()


def test_what_the_user_sets_meanwhile_is_left(server: Cluster, begin: Begin) -> None:
    settings = Settings.of_user(server.conninfo, may_apply=True)
    settings.apply({"max_wal_size": "4GB", "work_mem": "5MB"})
    execute(server.conninfo, "alter system set work_mem = '7MB'")
    execute(server.conninfo, "alter system set deadlock_timeout = '2s'")
    with pytest.raises(RunError, match="work_mem: another session set it to 7MB by ALTER SYSTEM"):
        settings.apply({"work_mem": "6MB"})
    with pytest.raises(RunError, match="work_mem: another session"):
        settings.reset(["work_mem"])
    done = settings.restore_all()
    assert done.restored == ["max_wal_size"]
    assert done.kept == {"work_mem": "7MB"}
    assert done.sentences() == snapshot(
        [
            "your server's settings are restored: max_wal_size",
            "work_mem was set to 7MB by another session meanwhile; that is kept",
            "the reload also applied changes that had not been loaded before: deadlock_timeout",
        ]
    )
    assert execute(server.conninfo, "show max_wal_size") == "2GB"
    assert execute(server.conninfo, "show work_mem") == "7MB"
    assert "deadlock_timeout = '2s'" in "".join(state(server)[0])


def test_one_server_by_socket_and_by_tcp_is_one_server(
    new_cluster: Callable[..., Cluster], begin: Begin, tmp_path: Path
) -> None:
    server = new_cluster()
    before = state(server)
    run = begin(server.conninfo, work_mem="5MB")
    for home in (Path(os.environ["PGDYNO_HOME"]), tmp_path):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PGDYNO_HOME", str(home))
            other = Settings.of_user(
                replace(server.conninfo_tcp, database="postgres"), may_apply=True
            )
            with pytest.raises(SetupError, match="another pgdyno is changing the settings"):
                other.apply({"max_wal_size": "4GB"})
    run.kill()
    wait_until(is_as(server, before), "one guardian puts back what one run changed")


def test_a_sweep_that_fails_says_how_to_mend_it(
    new_cluster: Callable[..., Cluster], begin: Begin
) -> None:
    server = new_cluster()
    before = state(server)
    run = begin(server.conninfo, checkpoint_timeout="20min")
    os.kill(guardian_of(run), signal.SIGKILL)
    run.kill()
    run.wait()
    (path,) = undo_files()
    server.stop()
    swept = pgdyno("server", "sweep")
    assert swept.returncode == 1
    assert swept.stdout.startswith("checkpoint_timeout at postgresql://")
    (left,) = restore_all_leftovers(quick=True)
    assert (left.code, left.path) == ("no-server", path)
    assert swept.stderr.startswith("error: 1 undo record left\n\nhint: pgdyno server sweep CONN")
    assert 'ALTER SYSTEM RESET "pgdyno"."undo"; SELECT pg_reload_conf();' in swept.stderr
    assert f"rm {path}" in swept.stderr
    server.start()
    assert pgdyno("server", "sweep", server.conninfo.uri_without_password).returncode == 0
    assert is_as(server, before)()
    assert pgdyno("server", "sweep").stdout == ""


def pgdyno(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pgdyno", *arguments], text=True, capture_output=True, check=False
    )


def test_another_server_in_its_place_is_left_alone(
    new_cluster: Callable[..., Cluster], begin: Begin
) -> None:
    first, second = new_cluster(), new_cluster()
    run = begin(first.conninfo, work_mem="5MB")
    os.kill(guardian_of(run), signal.SIGKILL)
    run.kill()
    run.wait()
    (path,) = undo_files()
    fields = json.loads(path.read_text())
    fields["conninfo"] |= {"host": second.conninfo.host, "port": second.conninfo.port}
    path.write_text(json.dumps(fields))
    before = state(second)
    assert restore_leftovers(second.conninfo) == []
    (left,) = restore_all_leftovers(quick=True)
    assert left.code == "server-elsewhere"
    assert state(second) == before
    assert restore_leftovers(first.conninfo)
    assert not list(undo_files())


def test_without_room_for_the_record_nothing_is_changed(
    pg18: Cluster, monkeypatch: pytest.MonkeyPatch, open_dir: Path
) -> None:
    before = state(pg18)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(open_dir)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode:
        pytest.skip("needs the right to mount")
    try:
        monkeypatch.setenv("PGDYNO_HOME", str(open_dir))
        (open_dir / "undo").mkdir()
        with suppress(OSError), (open_dir / "filler").open("wb", buffering=0) as filler:
            while filler.write(b"x" * 4096):
                pass
        settings = Settings.of_user(pg18.conninfo, may_apply=True)
        with pytest.raises(SetupError, match=r"undo record .* cannot be written: No space left"):
            settings.apply({"work_mem": "5MB"})
        assert settings.restore_all().sentences() == []
        subprocess.run(["mount", "-o", "remount,ro", str(open_dir)], check=True)
        with pytest.raises(SetupError, match="Read-only file system"):
            settings.apply({"work_mem": "5MB"})
        settings.restore_all()
    finally:
        subprocess.run(["umount", str(open_dir)], check=True)
    assert state(pg18) == before

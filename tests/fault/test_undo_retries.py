"""The guardian retries until settings are restored, and says what prevents it and what to do."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from msgspec.structs import replace
from undo_runs import Begin, end, execute, guardian_of, is_as, state

from patience import wait_until
from pgdyno.server import Cluster, restore_leftovers
from pgdyno.server.settings import undo_guardian
from pgdyno.server.settings._persistent_session import PersistentSession
from pgdyno.server.settings._undo import UndoFile, read_undo, undo_files

pytestmark = [pytest.mark.server, pytest.mark.alike, pytest.mark.usefixtures("own_home")]


@contextmanager
def _no_alter_system(server: Cluster) -> Iterator[None]:
    """Make ALTER SYSTEM fail by a file that the server may not write."""
    partial = server.data_dir / "postgresql.auto.conf.tmp"
    partial.touch(0o000)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        execute(server.conninfo, "alter system reset work_mem")
    yield
    partial.unlink()


@pytest.mark.parametrize("how", ["kill", "end"])
def test_a_file_that_the_server_may_not_write(
    server: Cluster, begin: Begin, stderr_of_runs: Path, how: str
) -> None:
    before = state(server)
    run = begin(server.conninfo, max_wal_size="4GB")
    guardian = guardian_of(run)
    with _no_alter_system(server):
        said = end(run, how)
        if how == "kill":
            wait_until(lambda: "hint:" in stderr_of_runs.read_text(), "the guardian reports it")
            said = stderr_of_runs.read_text()
            assert said.startswith("pgdyno was killed; max_wal_size: not yet restored: max_wal")
        assert 'could not open file "postgresql.auto.conf.tmp": Permission denied' in said
        assert "may not change it" not in said
        uri = shlex.quote(server.conninfo.uri_without_password)
        shown = uri if how == "kill" else "CONNINFO"
        assert f"run pgdyno server sweep {shown};" in said
        assert "ALTER SYSTEM SET \"max_wal_size\" = '2GB';" in said
        assert Path(f"/proc/{guardian}").exists()
    wait_until(is_as(server, before), "the guardian restores it")


def test_a_role_without_its_privileges_for_a_while(
    server: Cluster, begin: Begin, stderr_of_runs: Path
) -> None:
    before = state(server)
    execute(server.conninfo, "create role boss superuser login")
    run = begin(replace(server.conninfo, user="boss"), max_wal_size="4GB")
    execute(server.conninfo, "alter role boss nosuperuser")
    end(run, "kill")
    wait_until(lambda: "hint:" in stderr_of_runs.read_text(), "the guardian reports it")
    assert "the present value is not visible to the role boss" in stderr_of_runs.read_text()
    execute(server.conninfo, "alter role boss superuser")
    wait_until(is_as(server, before), "the guardian restores it")


def test_another_role_restores_while_the_guardian_retries(
    new_cluster: Callable[..., Cluster], begin: Begin
) -> None:
    server = new_cluster()
    before = state(server)
    execute(server.conninfo, "create role boss superuser login")
    run = begin(replace(server.conninfo, user="boss"), max_wal_size="4GB")
    guardian = guardian_of(run)
    execute(server.conninfo, "alter role boss nosuperuser")
    end(run, "kill")
    (said,) = restore_leftovers(server.conninfo)
    assert said.endswith("your server's settings are restored: max_wal_size")
    assert is_as(server, before)()
    wait_until(lambda: not Path(f"/proc/{guardian}").exists(), "the guardian ends")


def _take(path: Path, taken: list[UndoFile]) -> bool:
    if file := UndoFile.try_take(path):
        taken.append(file)
    return bool(taken)


def test_the_last_message_says_how_to_restore(
    new_cluster: Callable[..., Cluster],
    begin: Begin,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    server = new_cluster()
    run = begin(server.conninfo, max_wal_size="4GB")
    os.kill(guardian_of(run), 9)
    end(run, "kill")
    (path,) = undo_files()
    record, taken = read_undo(path), list[UndoFile]()
    wait_until(lambda: _take(path, taken), "the killed guardian has released the record")
    (file,) = taken
    monkeypatch.setattr(undo_guardian, "RETRY_S_MAX", 0.5)
    session = PersistentSession(server.conninfo, f"pgdyno guardian {record.run}")
    with _no_alter_system(server):
        undo_guardian._Restoring(record, None).run(session, file)
    session.close()
    file.close()
    message, hint = capfd.readouterr().err.splitlines()[-2:]
    assert message.startswith("max_wal_size: not restored within ")
    assert message.endswith('could not open file "postgresql.auto.conf.tmp": Permission denied')
    assert hint.startswith("hint: run pgdyno server sweep 'postgresql://")
    assert 'ALTER SYSTEM RESET "max_wal_size"; ALTER SYSTEM RESET "pgdyno"."undo";' in hint
    assert restore_leftovers(server.conninfo)

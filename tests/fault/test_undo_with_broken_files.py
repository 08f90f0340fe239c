"""Settings are restored although the server's configuration files cannot be parsed for a while."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from undo_runs import Begin, end, execute, guardian_of, is_as, state

from patience import wait_until
from pgdyno.server import Cluster
from pgdyno.server.settings._undo import undo_files

pytestmark = [pytest.mark.server, pytest.mark.alike, pytest.mark.usefixtures("own_home")]

ALTERED = "max_wal_size = '2GB'"
"""The former value, as ALTER SYSTEM writes it."""


def _replace(path: Path, text: str) -> None:
    """Write a file at once: a reload must not see the half of it."""
    new = path.with_suffix(".new")
    shutil.copy2(path, new)
    owner = path.stat()
    os.chown(new, owner.st_uid, owner.st_gid)
    new.write_text(text)
    new.replace(path)


def _syntax_error(server: Cluster) -> Callable[[], object]:
    conf = server.directory / "postgresql.conf"
    text = conf.read_text()
    _replace(conf, f"{text}this is = = not ' a line\n")
    return lambda: _replace(conf, text)


def _missing_include(server: Cluster) -> Callable[[], object]:
    conf = server.directory / "postgresql.conf"
    text = conf.read_text()
    _replace(conf, f"{text}include 'nosuch.conf'\n")
    return lambda: _replace(conf, text)


def _missing_file(server: Cluster) -> Callable[[], object]:
    conf = server.directory / "postgresql.conf"
    away = conf.with_suffix(".away")
    conf.rename(away)
    return lambda: away.rename(conf)


BREAKS = {
    "syntax": (_syntax_error, r"postgresql.conf, line \d+: syntax error"),
    "include": (
        _missing_include,
        r'postgresql.conf, line \d+: could not open file ".*nosuch.conf"',
    ),
    "missing": (_missing_file, r'could not open file ".*/postgresql.conf"'),
}


@pytest.mark.parametrize(
    ("broken", "how"),
    [("syntax", "kill"), ("syntax", "end"), ("include", "kill"), ("missing", "end")],
)
def test_files_that_cannot_be_parsed(
    server: Cluster, begin: Begin, stderr_of_runs: Path, broken: str, how: str
) -> None:
    before = state(server)
    run = begin(server.conninfo, max_wal_size="4GB")
    break_files, reason = BREAKS[broken]
    mend = break_files(server)
    guardian = guardian_of(run)
    said = end(run, how)
    (path,) = undo_files()
    wait_until(lambda: ALTERED in auto_conf(server), "the former value is written back")
    wait_until(
        lambda: re.search(reason, said or stderr_of_runs.read_text()) is not None,
        "what prevents it is reported",
    )
    tried = reloads(server)
    wait_until(lambda: reloads(server) >= tried + 2, "it is tried again")
    assert path.exists()
    assert Path(f"/proc/{guardian}").exists()
    assert execute(server.conninfo, "show max_wal_size") == "4GB"
    assert execute(server.conninfo, "show pgdyno.undo")
    mend()
    wait_until(is_as(server, before), "it is restored when the files can be parsed")
    killed = "pgdyno was killed; " if how == "kill" else ""
    last = f"{killed}your server's settings are restored: max_wal_size"
    wait_until(lambda: stderr_of_runs.read_text().splitlines()[-1:] == [last], "that is reported")


def reloads(server: Cluster) -> int:
    """How often it was asked to load its files, by its log."""
    return server.log_path.read_text(errors="replace").count("received SIGHUP")


def auto_conf(server: Cluster) -> str:
    return (server.data_dir / "postgresql.auto.conf").read_text()


def test_a_role_that_may_not_read_the_file_of_alter_system(
    new_cluster: Callable[..., Cluster], begin: Begin, stderr_of_runs: Path
) -> None:
    server = new_cluster()
    before = state(server)
    for statement in (
        "create role limited login",
        "grant select on pg_file_settings to limited",
        "grant execute on function pg_show_all_file_settings() to limited",
        "grant execute on function pg_reload_conf() to limited",
        "grant alter system on parameter max_wal_size to limited",
    ):
        execute(server.conninfo, statement)
    run = begin(replace(server.conninfo, user="limited"), max_wal_size="4GB")
    mend = _syntax_error(server)
    said = end(run, "end")
    assert re.search(r"cannot load its configuration files: .*postgresql.conf, line \d+: syn", said)
    assert list(undo_files())
    assert "max_wal_size = '4GB'" in auto_conf(server), "without the present value, no decision"
    mend()
    wait_until(is_as(server, before), "it is restored when the files can be parsed")
    last = "your server's settings are restored: max_wal_size\n"
    wait_until(lambda: stderr_of_runs.read_text() == last, "that alone is reported")

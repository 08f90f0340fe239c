"""Settings change by ALTER SYSTEM and go back, whoever asks and whatever happens in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest
from msgspec.structs import replace

from pgdyno.errors import SetupError, UsageError
from pgdyno.server import Cluster, Settings
from pgdyno.server.settings._undo import undo_files

pytestmark = pytest.mark.server


@pytest.fixture
def run(pg: Cluster) -> Iterator[Callable[[str], object]]:
    """Runs SQL as the superuser, on a new connection each time; the first value of the answer."""

    def execute(statement: str) -> object:
        with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as conn:
            cursor = conn.execute(statement.encode())
            row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None

    yield execute
    execute("alter system reset all")
    execute("select pg_reload_conf()")


@pytest.fixture
def theirs(pg: Cluster) -> Iterator[Settings]:
    """The server as if it were a user's, with an undo file."""
    settings = Settings.of_user(pg.conninfo, may_apply=True)
    yield settings
    settings.restore_all()


def auto_conf(pg: Cluster) -> str:
    return (pg.data_dir / "postgresql.auto.conf").read_text()


def test_a_new_value_is_in_force_when_apply_returns(pg: Cluster, run: Callable[[str], str]) -> None:
    settings = Settings(pg.conninfo)
    for value in ("off", "on", "local") * 3:
        settings.apply({"synchronous_commit": value})
        assert run("show synchronous_commit") == value
    settings.restore_all()
    assert run("show synchronous_commit") == "on"
    assert "synchronous_commit" not in auto_conf(pg)


@pytest.mark.parametrize("word", ["on", "TRUE", "pglz"])
def test_a_word_that_the_server_shows_as_another_one_is_in_force(
    pg: Cluster, run: Callable[[str], str], word: str
) -> None:
    settings = Settings(pg.conninfo)
    shown = ("pglz", "on")  # A switch up to 14.
    if pg.installation.major >= 19 and word != "pglz":  # The best method of the build.
        shown = ("zstd", "lz4", "pglz")
    for _ in range(2):  # Again, when nothing is to be changed.
        settings.apply({"wal_compression": word})
        assert run("show wal_compression") in shown
    settings.restore_all()
    assert run("show wal_compression") == "off"


def test_what_alter_system_held_before_comes_back_word_for_word(
    pg: Cluster, run: Callable[[str], object], theirs: Settings
) -> None:
    run("alter system set max_wal_size = '2GB'")
    run("select pg_reload_conf()")
    theirs.apply({"MAX_WAL_SIZE": "4GB", "wal_writer_delay": "100ms"})
    theirs.apply({"max_wal_size": "8GB"})
    assert run("show max_wal_size") == "8GB"
    theirs.reset(["wal_writer_delay"])
    assert run("show wal_writer_delay") == "200ms"
    assert run("show max_wal_size") == "8GB"
    theirs.restore_all()
    assert run("show max_wal_size") == "2GB"
    assert "max_wal_size = '2GB'" in auto_conf(pg)
    assert not list(undo_files())


def test_lists_and_quotes_survive(pg: Cluster, run: Callable[[str], object]) -> None:
    settings = Settings(pg.conninfo)
    settings.apply({"search_path": 'public, "Odd one"', "log_line_prefix": "it's %p \\ "})
    assert run("show search_path") == 'public, "Odd one"'
    assert run("show log_line_prefix") == "it's %p \\ "
    settings.restore_all()
    assert run("show search_path") == '"$user", public'


def test_restart_only_settings_wait_for_one(
    new_cluster: Callable[..., Cluster],
) -> None:
    cluster = new_cluster(18)
    settings = Settings(cluster.conninfo)
    wanted = {"shared_buffers": "32MB", "work_mem": "8MB"}
    assert settings.needs_restart(wanted) == {"shared_buffers"}
    settings.apply(wanted)
    described = settings.describe(wanted)
    assert described["shared_buffers"].pending_restart
    assert described["work_mem"].value == "8192"
    cluster.restart()
    assert settings.describe(["shared_buffers"])["shared_buffers"].value == "4096"
    settings.restore_all()
    cluster.restart()
    assert settings.describe(["shared_buffers"])["shared_buffers"].value == "16384"


def test_nothing_changes_without_permission_to_apply(pg: Cluster) -> None:
    before = auto_conf(pg)
    settings = Settings.of_user(pg.conninfo, may_apply=False)
    with pytest.raises(UsageError, match="changed only with --apply"):
        settings.apply({"fsync": "off"})
    assert settings.check({"FSYNC": "off"}) == {"fsync": "off"}
    settings.restore_all()
    assert auto_conf(pg) == before
    assert not list(undo_files())


def test_wrong_names_and_values_are_refused_before_anything_is_written(
    pg: Cluster, theirs: Settings
) -> None:
    before = auto_conf(pg)
    for wrong, message in (
        ({"work_mem": "8MB", "wal_compresion": "on"}, "has no such setting"),
        ({"work_mem": "8MB", "checkpoint_timeout": "5s"}, "5s is outside 30s to 1d"),
        ({"work_mem": "1kB"}, "work_mem: 1kB is outside 64kB to"),
        ({"block_size": "8192"}, "block_size: cannot be changed"),
    ):
        with pytest.raises(UsageError, match=message):
            theirs.apply(wrong)
    assert auto_conf(pg) == before


def test_what_outweighs_alter_system_is_named(pg: Cluster, run: Callable[[str], object]) -> None:
    run("alter role pgdyno set synchronous_commit = off")
    settings = Settings(pg.conninfo)
    try:
        with pytest.raises(SetupError, match="ALTER ROLE sets it to off, which overrides"):
            settings.apply({"synchronous_commit": "local"})
    finally:
        run("alter role pgdyno reset synchronous_commit")
        settings.restore_all()


def test_only_one_run_changes_a_server_s_settings(pg: Cluster, theirs: Settings) -> None:
    theirs.apply({"work_mem": "8MB"})
    other = Settings.of_user(pg.conninfo, may_apply=True)
    with pytest.raises(SetupError, match="another pgdyno is changing the settings"):
        other.apply({"work_mem": "16MB"})


def test_a_limited_role_needs_and_uses_grants(pg: Cluster, run: Callable[[str], object]) -> None:
    limited = replace(pg.conninfo, user="limited")
    settings = Settings(limited)
    steps = [
        ("GRANT EXECUTE ON FUNCTION pg_reload_conf()", "may not reload"),
        ("GRANT pg_read_all_settings TO limited", "the present value is not visible"),
        ("GRANT ALTER SYSTEM ON PARAMETER", "the role limited may not change it"),
    ]
    run("create role limited login")
    try:
        for grant, message in steps:
            with pytest.raises(SetupError, match=message) as caught:
                settings.apply({"max_wal_size": "3GB"})
            assert caught.value.hint is not None
            assert grant in caught.value.hint
            run(caught.value.hint.partition(": ")[2])
        settings.apply({"max_wal_size": "3GB"})
        assert run("show max_wal_size") == "3GB"
        settings.restore_all()
        assert run("show max_wal_size") == "1GB"
    finally:
        run("drop owned by limited")
        run("drop role limited")

"""Trials of settings that a session can be given by itself change nothing on a user's server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from engine_runs import Run, config
from inline_snapshot import snapshot
from msgspec.structs import replace

from patience import wait_until
from pgdyno.conduct import Session, open_session
from pgdyno.conduct.watch import Silent
from pgdyno.errors import UsageError
from pgdyno.server import Cluster, ConnInfo
from pgdyno.server.settings._session_settings import SessionSettings
from pgdyno.spec import Change, Spec, spec_from_fields

pytestmark = pytest.mark.server
SEEN = "insert into seen values (current_setting('synchronous_commit'), :client_id);"


@pytest.fixture
def seen(pg: Cluster) -> Any:
    """Has table ``seen``; asks what the load's sessions wrote into it since the last time."""
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as conn:
        conn.execute("create table seen (value text, client int)")
        conn.execute("grant all on seen to public")

        def wait_for(value: str, clients: int = 4) -> None:
            def all_have(look: int = 0) -> bool:
                found = conn.execute("select distinct value, client from seen").fetchall()
                if {row[0] for row in found} - {value}:
                    conn.execute("truncate seen")  # Written before they took it up.
                return {row[0] for row in found} == {value} and len(found) == clients

            conn.execute("truncate seen")
            wait_until(all_have, f"all {clients} sessions have {value}")

        yield wait_for
        conn.execute("drop table seen")


@pytest.mark.parametrize("keys", [{}, {"pool": {"max": 2}}, {"protocol": "prepared"}])
def test_running_sessions_take_up_settings(
    pg: Cluster, seen: Callable[..., None], keys: dict[str, Any]
) -> None:
    with Run(config(pg.conninfo, SEEN, **keys)) as run:
        seen("on")
        for value in ("off", "local", "off"):
            run.load.set_session(f"set synchronous_commit = {value}")
            seen(value)
        run.load.set_clients("g", 6)
        seen("off", clients=6)
        run.load.set_session("reset synchronous_commit")
        seen("on", clients=6)
        with pytest.raises(Exception, match="zero byte"):
            run.load.set_session("set a = '\0'")
    assert not run.errors
    run.assert_balanced()


def test_a_session_that_cannot_have_its_settings_does_nothing(pg18: Cluster) -> None:
    with Run(config(pg18.conninfo, "select 1;")) as run:
        run.wait_for(lambda r: r.total["done"] > 0)
        run.load.set_session("set synchronous_commit = nonsense")
        run.wait_for(lambda r: r.total["failed"] > 4)
        run.load.set_session("select 1")
        done = run.total["done"]
        run.wait_for(lambda r: r.total["done"] > done)
    run.assert_balanced()


def spec_for(conninfo: ConnInfo, folder: Path) -> Spec:
    script = folder / "seen.sql"
    script.write_text(SEEN)
    return spec_from_fields(
        {
            "name": "seen",
            "server": {"kind": "existing", "conninfo": conninfo.uri_without_password},
            "workload": {"script": [{"file": str(script)}]},
            "clients": [{"count": 4, "think": "20ms"}],
        }
    )


@pytest.fixture
def limited(pg: Cluster) -> Any:
    """A role that may nothing but log in."""
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as conn:
        conn.execute("create role limited login")
        yield replace(pg.conninfo, user="limited")
        conn.execute("drop owned by limited; drop role limited")


def test_no_right_and_no_apply_is_needed_for_them(
    pg: Cluster, limited: ConnInfo, seen: Callable[..., None], tmp_path: Path
) -> None:
    before = (pg.data_dir / "postgresql.auto.conf").read_text()
    told: list[str] = []

    class Notes(Silent):
        def note(self, text: str) -> None:
            told.append(text)

    with open_session(
        spec_for(limited, tmp_path),
        run=tmp_path / "r.db",
        command="run",
        spec_text="",
        watcher=Notes(),
    ) as session:
        _changes_are_seen(session, seen)
    assert (pg.data_dir / "postgresql.auto.conf").read_text() == before
    assert [each for each in told if "synchronous_commit" in each] == snapshot(
        ["set in the load's sessions only, with no change of your server: synchronous_commit"]
    )


def _changes_are_seen(session: Session, seen: Callable[..., None]) -> None:
    off = Change(settings={"synchronous_commit": "off"})
    session.start_load()
    session.provide(off)
    for _ in range(2):
        session.apply(off)
        seen("off")
        session.apply(Change())
        seen("on")
    session.apply_event({"SYNCHRONOUS_COMMIT": "local"})
    seen("local")
    with pytest.raises(UsageError, match="changed only with --apply"):
        session.apply(Change(settings={"checkpoint_timeout": "10min"}))
    session.stop_load()


def test_settings_that_the_server_needs_are_refused_at_once(pg: Cluster, tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match=r"^checkpoint_timeout: settings of your server"),
        open_session(
            spec_for(pg.conninfo, tmp_path),
            run=tmp_path / "r.db",
            command="compare",
            spec_text="",
            watcher=Silent(),
            settings=["synchronous_commit", "checkpoint_timeout"],
        ),
    ):
        pass
    assert not (tmp_path / "r.db").exists()


def test_which_settings_a_session_may_be_given(pg: Cluster, limited: ConnInfo) -> None:
    boss, nobody = SessionSettings(pg.conninfo), SessionSettings(limited)
    for name in ("synchronous_commit", "work_mem", "Statement_Timeout", "search_path"):
        assert boss.is_settable(name)
        assert nobody.is_settable(name)
    for name in ("commit_delay", "wal_compression", "deadlock_timeout"):
        assert boss.is_settable(name)
        assert not nobody.is_settable(name)
    for name in (
        "max_wal_size",
        "shared_buffers",
        "session_preload_libraries",
        "vacuum_cost_delay",
    ):
        assert not boss.is_settable(name)
    with pytest.raises(UsageError, match="synchronous_commit: invalid value"):
        boss.check({"synchronous_commit": "nonsense"})
    assert boss.statement({}) is None
    assert boss.statement({"search_path": "a, b"}) == "SET \"search_path\" = 'a', 'b'"
    assert boss.statement({}) == 'RESET "search_path"'

"""Client sessions as the server shows them: states, origins and ages."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from msgspec.structs import replace

from patience import wait_until
from pgdyno.conduct import Silent, open_session
from pgdyno.facts import client_sessions
from pgdyno.investigate.run import run_spec
from pgdyno.probe import Probes
from pgdyno.probe._link import connect, queries_for
from pgdyno.probe._origins import by_origin
from pgdyno.probe._probes import Pace
from pgdyno.record import Recorder, RunFile
from pgdyno.record.sessionages import STATES
from pgdyno.report import write_html
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.server import Cluster
from pgdyno.spec import spec_from_fields

pytestmark = pytest.mark.server


def test_sessions_are_counted_by_origin_and_state(pg: Cluster, tmp_path: Path) -> None:
    kwargs = pg.conninfo.kwargs()
    with contextlib.ExitStack() as stack:

        def connected(name: str) -> psycopg.Connection:
            return stack.enter_context(psycopg.connect(**{**kwargs, "application_name": name}))

        idle = [connected("resting") for _ in range(5)]
        assert len(idle) == 5
        connected("holding").execute("select 1")
        with contextlib.suppress(psycopg.Error):
            connected("failed").execute("select 1/0")
        spec = spec_from_fields(
            {
                "server": {"kind": "existing", "conninfo": pg.conninfo.uri_without_password},
                "workload": {"script": "select-only"},
                "clients": [
                    {"count": 2, "think": "20ms"},
                    {"name": "parked", "count": 12, "idle": True},
                ],
                "load": {"hold": "2s"},
            }
        )
        path = tmp_path / "run.db"
        with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
            run_spec(session)
    with RunFile(path) as run:
        found = {each.application: each for each in client_sessions.origins(run, None)}
        assert found["resting"].means["idle"] == 5
        assert found["resting"].unused == 5
        assert found["holding"].means["in_transaction"] == 1
        assert found["failed"].means["in_aborted"] == 1
        assert sum(found["holding"].ages["transaction_ages"]) == 1
        assert (found["pgdyno/clients"].most, found["pgdyno/parked"].most) == (2, 12)
        states = client_sessions.by_state(run, None)
        assert set(states) == set(STATES)
        assert not states["disabled"].any()
        made = client_sessions.churn(run, None)
        assert made is not None
        assert made.made >= 14
        text = "\n".join(line.text for line in summary_lines(run, 100))
        assert "sessions of" in text
        assert "resting, " in text
        page = write_html(run, tmp_path / "run.html").read_text()
    assert "Client sessions by state" in page
    assert "Client sessions by age, at the end" in page
    with contextlib.closing(sqlite3.connect(path)) as db:
        rows = db.execute("select at_ms, count(*) from metric_activity group by at_ms").fetchall()
    assert {count for _, count in rows} == {6}


def test_a_session_that_is_starting_is_not_taken_for_a_hidden_one(pg18: Cluster) -> None:
    """From version 18 on it is listed before it has a role; here it waits for a locked catalog."""
    kwargs = pg18.conninfo.kwargs() | {"application_name": "web"}
    starting = "select 1 from pg_stat_activity where state = 'starting'"
    with connect(pg18.conninfo) as probe, ThreadPoolExecutor(1) as thread:
        with psycopg.connect(**kwargs) as gate:
            gate.execute("lock table pg_db_role_setting in access exclusive mode")
            begun = thread.submit(psycopg.connect, **kwargs)
            wait_until(lambda: probe.execute(starting).fetchone() is not None, "it starts")
            origins = by_origin(probe.execute(queries_for(18)["client"].text.encode()))
        begun.result().close()
    assert origins
    assert not any(origin["hidden"] for origin in origins)


def load_of(connection: psycopg.Connection, name: str = "load") -> list[dict[str, object]]:
    major = connection.info.server_version // 10_000
    return connection.execute(queries_for(major)[name].text.encode()).fetchall()  # type: ignore[return-value]


def parallel(connection: psycopg.Connection) -> None:
    """Have each statement of the session executed by a parallel worker."""
    new = connection.info.server_version >= 160_000
    connection.execute(f"set {'debug_parallel_query' if new else 'force_parallel_mode'} = on")


def test_a_parallel_worker_that_has_ended_is_not_a_hidden_session(pg: Cluster) -> None:
    """While many of them come and go, their type is NULL in some looks at pg_stat_activity."""
    kwargs = pg.conninfo.kwargs()
    ended = threading.Event()

    def work() -> int:
        done = 0
        with psycopg.connect(**kwargs, autocommit=True) as connection:
            parallel(connection)
            while not ended.is_set():
                connection.execute("select count(*) from pg_class")
                done += 1
        return done

    with ThreadPoolExecutor(4) as pool, connect(pg.conninfo) as looking:
        workers = [pool.submit(work) for _ in range(4)]
        try:
            for _ in range(1500):
                assert load_of(looking)[0]["hidden_sessions"] == 0
                assert all(row["state"] is not None for row in load_of(looking, "client"))
        finally:
            ended.set()
        assert all(each.result() for each in workers)


def test_sessions_that_the_privileges_hide_are_counted(pg: Cluster) -> None:
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("create role sees_little login password 'probe'")
        try:
            little = replace(pg.conninfo, user="sees_little", password="probe")
            with connect(little) as looking, connect(pg.conninfo) as sees_all:
                hidden = load_of(looking)[0]["hidden_sessions"]
                assert isinstance(hidden, int)
                assert hidden >= 1
                assert load_of(sees_all)[0]["hidden_sessions"] == 0
        finally:
            connection.execute("drop role sees_little")


def test_the_probes_of_another_pgdyno_are_no_load(pg: Cluster, tmp_path: Path) -> None:
    made = [
        Recorder.create(tmp_path / f"{name}.db", name=name, command="check")
        for name in ("other", "own")
    ]
    other, own = (
        Probes(pg.conninfo, each, local=True, data_dir=pg.data_dir, pace=Pace(of_others=True))
        for each in made
    )

    def counted() -> tuple[int, int]:
        """Looks, and the transactions of probes by the last one."""
        writer = made[1]._writer
        with writer.together():
            rows = [*writer._db.execute("select own_transactions from metric_load order by at_ms")]
        return len(rows), rows[-1][0] if rows else 0

    other.start()
    own.start()
    try:
        before = other._own_transactions()
        wait_until(lambda: counted()[0] >= 2, "two looks", look=own.sample_now)
        wait_until(
            lambda: counted()[1] >= own._own_transactions() + 5,
            "transactions of the other's probes are counted with the own ones",
            look=own.sample_now,
        )
        assert counted()[1] <= own._own_transactions() + other._own_transactions() - before + 1
    finally:
        own.stop()
        other.stop()
        for each in made:
            each.close()

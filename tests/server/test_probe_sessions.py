"""Client sessions as the server shows them: states, origins and ages."""

from __future__ import annotations

import contextlib
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from patience import wait_until
from pgdyno.conduct import Silent, open_session
from pgdyno.diagnose.facts import client_sessions
from pgdyno.investigate.observe import observe
from pgdyno.probe import Probes
from pgdyno.probe._link import connect
from pgdyno.probe._origins import by_origin
from pgdyno.probe._probes import Pace
from pgdyno.probe._queries import queries_for
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
            observe(session)
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

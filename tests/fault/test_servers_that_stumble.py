"""A server that pauses, restarts, or loses a backend in mid-run: what `pgdyno run` makes of it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from patience import PATIENCE_S, wait_until
from pgdyno._engine import Histogram
from pgdyno.record import RunFile
from pgdyno.server import Cluster
from pgdyno.server.local.programs import send
from remains import children_of

pytestmark = [pytest.mark.server, pytest.mark.alike]

RATE = 200
PAUSE_S = 3.0
"""A silence is two seconds between answers to the probes, the last of which may be noted late."""


def _as_in_the_foreground() -> None:
    """The tests themselves may run in the background, where Ctrl-C is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Running:
    """``pgdyno run`` in a process of its own, with its result as JSON."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.path = folder / "run.db"
        words = ["run", *arguments, "-o", str(self.path), "--format", "json", "-q"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pgdyno", *words],
            cwd=folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=_as_in_the_foreground,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def done(self) -> int:
        """Transactions that the run file has as done until now."""
        try:
            with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as db:
                return int(db.execute("select coalesce(sum(done), 0) from interval").fetchone()[0])
        except sqlite3.Error:
            return 0

    def due(self) -> int:
        """Transactions that wait, by the last interval in the run file."""
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as db:
            query = (
                "select sum(backlog) from interval where at_ms = (select max(at_ms) from interval)"
            )
            return int(db.execute(query).fetchone()[0] or 0)

    def wait_for_more(self, count: int) -> None:
        """Wait until so many more transactions are recorded as done."""
        before = self.done()
        self.wait_for(lambda: self.done() >= before + count, "the run goes on")

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something while the run goes on."""

        def holds() -> bool:
            assert self._process.poll() is None, self._process.communicate()
            return condition()

        wait_until(holds, what)

    def result(self, status: int = 0) -> dict[str, Any]:
        """The result of a run that came to its end, its ledger added up."""
        out, err = self._process.communicate(timeout=PATIENCE_S)
        assert self._process.returncode == status, err
        assert "Traceback" not in err
        result: dict[str, Any] = json.loads(out)
        ledger = result["ledger"]
        parts = ("done", "failed", "skipped", "cancelled", "backlog")
        assert ledger["intended"] == sum(ledger[part] for part in parts)
        return result

    def count(self, column: str) -> int:
        """The sum of a column of the groups' intervals."""
        with closing(sqlite3.connect(self.path)) as db:
            query = f"select coalesce(sum({column}), 0) from group_interval"
            return int(db.execute(query).fetchone()[0])

    def responses(self) -> Histogram:
        """Response times of the whole run."""
        merged = Histogram()
        with closing(sqlite3.connect(self.path)) as db:
            for (encoded,) in db.execute("select response_hist from interval"):
                merged.add_encoded(encoded)
        return merged

    def wait_for_reconnects(self, count: int) -> None:
        """Wait until so many are recorded, then interrupt the run; its file is to be read."""
        wait_until(lambda: self.count("reconnects") >= count, "the clients come back")
        self.wait_for_more(1)
        self._process.send_signal(signal.SIGINT)
        _, err = self._process.communicate(timeout=PATIENCE_S)
        assert self._process.returncode == 130, err
        assert "Traceback" not in err
        assert self.count("reconnects") == count
        assert RunFile(self.path).ledger().balanced

    def codes(self) -> set[str]:
        """What the errors of the run were."""
        return {error.sqlstate for error in RunFile(self.path).errors()}

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Begins runs, none of which outlives the test."""
    runs: list[Running] = []

    def begin(*arguments: str) -> Running:
        runs.append(Running(tmp_path, *arguments))
        return runs[-1]

    yield begin
    for each in runs:
        each.kill()


def processes_of(cluster: Cluster) -> list[int]:
    """The postmaster and its children."""
    assert cluster.pid is not None
    return [cluster.pid, *children_of(cluster.pid)]


@contextmanager
def paused(cluster: Cluster) -> Iterator[None]:
    """The whole server, stopped with SIGSTOP while the block lasts."""
    assert cluster.pid is not None
    os.kill(cluster.pid, signal.SIGSTOP)  # From now on there are no new processes.
    pids = processes_of(cluster)
    send(pids, signal.SIGSTOP)
    try:
        yield
    finally:
        send(pids, signal.SIGCONT)


def backends(cluster: Cluster) -> list[int]:
    """Processes of the clients' sessions."""
    query = "select pid from pg_stat_activity where application_name = 'pgdyno'"
    with psycopg.connect(**cluster.conninfo.kwargs()) as connection:
        return [pid for (pid,) in connection.execute(query)]


def test_a_pause_is_in_the_responses_of_all_who_came_meanwhile(
    new_cluster: Callable[..., Cluster], run: Callable[..., Running]
) -> None:
    """The meter against coordinated omission: R x 2 s of those due in 3 s wait above 1 s."""
    cluster = new_cluster(18)
    uri = cluster.conninfo.uri_without_password
    begun = run(
        "select-only",
        uri,
        "-s",
        "1",
        "-c",
        "8",
        "-R",
        str(RATE),
        "--process",
        "constant",
        "-T",
        "9",
    )
    begun.wait_for_more(1)
    with paused(cluster):
        begun.wait_for(lambda: begun.due() >= RATE * PAUSE_S, "so many are due meanwhile")
    result = begun.result(status=4)
    # It is measured all the same, and told: the server was away for a large part of the run.
    assert result["distrust"][0].startswith("no client got an answer for ")
    assert result["incidents"]
    assert result["ledger"]["failed"] == 0
    assert result["errors"] == []
    # A slow machine only makes the pause longer than it was meant: what is asserted is the least.
    responses = begun.responses()
    assert responses.count == result["ledger"]["done"]
    assert responses.max > PAUSE_S * 0.95e9
    above = sum(
        responses.percentile(100 * rank / responses.count) > 1e9
        for rank in range(1, responses.count + 1)
    )
    assert above > 0.9 * RATE * (PAUSE_S - 1.0), "those that came in the pause's first seconds"


@pytest.mark.parametrize("major", [18, 15])
def test_a_restart_of_the_server(
    new_cluster: Callable[..., Cluster], run: Callable[..., Running], major: int
) -> None:
    cluster = new_cluster(major)
    begun = run(
        cluster.conninfo.uri_without_password, "-c", "4", "-s", "1", "--think", "20ms", "-T", "90"
    )
    begun.wait_for_more(1)
    values = cluster.conninfo.kwargs() | {"application_name": "test"}
    with (
        closing(psycopg.connect(**values, autocommit=True)) as watching,
        closing(psycopg.connect(**values)) as holding,
    ):
        holding.execute("lock table pgbench_branches")
        query = "select count(*) from pg_locks where not granted"
        wait_until(lambda: watching.execute(query).fetchone() == (4,), "each is at work")
        cluster.stop("immediate")
    cluster.start()
    begun.wait_for_reconnects(4)
    assert RunFile(begun.path).ledger().failed == 4
    assert "57P01" in begun.codes()
    assert begun.codes() <= {"57P01", "57P03", "connection-lost", "connect-failed"}


def test_a_backend_that_crashes(
    new_cluster: Callable[..., Cluster], run: Callable[..., Running]
) -> None:
    """The postmaster takes all other sessions down, and tells them so."""
    cluster = new_cluster(18)
    begun = run(
        cluster.conninfo.uri_without_password, "-c", "4", "-s", "1", "--think", "20ms", "-T", "90"
    )
    begun.wait_for_more(1)
    os.kill(backends(cluster)[0], signal.SIGKILL)
    begun.wait_for_reconnects(4)
    assert "57P02" in begun.codes()
    assert begun.codes() <= {"57P02", "57P03", "connection-lost", "connect-failed"}


def test_kill_9_leaves_no_connection_behind(
    new_cluster: Callable[..., Cluster], run: Callable[..., Running]
) -> None:
    cluster = new_cluster(18)
    begun = run(
        cluster.conninfo.uri_without_password, "-c", "6", "-s", "1", "--think", "20ms", "-T", "60"
    )
    begun.wait_for_more(1)
    assert len(backends(cluster)) == 6
    begun.kill()
    query = "select count(*) from pg_stat_activity where application_name like 'pgdyno%'"
    values = cluster.conninfo.kwargs() | {"application_name": "test"}
    with psycopg.connect(**values, autocommit=True) as connection:
        wait_until(lambda: connection.execute(query).fetchone() == (0,), "no session is left")


def test_more_clients_than_the_server_takes(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    """Told before a connection is made; what others take meanwhile is counted as it happens."""
    cluster = new_cluster(18, max_connections="20")
    uri = cluster.conninfo.uri_without_password

    def pgdyno(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pgdyno", "run", uri, *words],
            cwd=tmp_path, text=True, capture_output=True, timeout=300, check=False,
        )  # fmt: skip

    said = pgdyno("-c", "19", "-T", "1")
    assert said.returncode == 1
    assert "max_connections = 20" in said.stderr
    others = [psycopg.connect(**cluster.conninfo.kwargs()) for _ in range(10)]
    said = pgdyno(
        "-c", "10", "-s", "1", "--think", "20ms", "-T", "1", "--format", "json", "-o", "run.db"
    )
    for other in others:
        other.close()
    assert said.returncode == 4, said.stderr
    result = json.loads(said.stdout)
    connected = result["groups"][0]["clients_connected"]
    assert {str(connected), "10", "53300"} <= set(result["distrust"][0].replace(":", "").split())
    assert f"{connected} of 10" in said.stderr
    assert 0 < connected < result["groups"][0]["clients"] == 10
    shown = subprocess.run(
        [sys.executable, "-m", "pgdyno", "show", "run.db"],
        cwd=tmp_path, text=True, capture_output=True, check=True,
    )  # fmt: skip
    assert f"{connected} of 10 clients" in shown.stdout.splitlines()[0]
    assert {error["sqlstate"] for error in result["errors"]} == {"53300"}
    assert result["ledger"]["failed"] == 0

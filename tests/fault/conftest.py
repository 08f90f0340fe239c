"""Fixtures of the tests that change the settings of a user's server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import asdict
from undo_runs import Begin, execute

from patience import wait_until
from pgdyno.server import Cluster, ConnInfo

_CHANGING = """
import json, sys
from pgdyno.errors import PgdynoError
from pgdyno.server import ConnInfo, Settings
settings = Settings.of_user(ConnInfo(**json.loads(sys.argv[1])), may_apply=True)
settings.apply(json.loads(sys.argv[2]))
if sql := json.loads(sys.argv[3]):
    settings.sql.make(*sql)
print("changed", flush=True)
sys.stdin.readline()
try:
    print(*settings.restore_all().sentences(), sep="\\n", flush=True)
except PgdynoError as problem:
    print(f"error: {problem.message}\\nhint: {problem.hint}", flush=True)
"""


@pytest.fixture
def stderr_of_runs(tmp_path: Path) -> Path:
    """The file to which runs and their guardians write their messages."""
    return tmp_path / "stderr"


@pytest.fixture
def begin(stderr_of_runs: Path) -> Iterator[Begin]:
    """Runs that change settings or make a change by SQL, and restore all when they are sent a line.

    They are in process groups of their own.
    """
    runs: list[subprocess.Popen[str]] = []
    said = stderr_of_runs.open("a")

    def change(
        conninfo: ConnInfo, sql: Sequence[Sequence[str]] = (), **settings: str
    ) -> subprocess.Popen[str]:
        given = [json.dumps(each) for each in (asdict(conninfo), settings, sql)]
        run = subprocess.Popen(
            [sys.executable, "-c", _CHANGING, *given],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said.fileno(),
            start_new_session=True,
        )
        runs.append(run)
        assert run.stdout is not None
        assert run.stdout.readline() == "changed\n"
        return run

    yield change
    for run in runs:
        run.kill()
        run.communicate()
    said.close()


@pytest.fixture(params=[18, 15])
def server(request: pytest.FixtureRequest, new_cluster: Callable[..., Cluster]) -> Cluster:
    """A user's server, which had something by ALTER SYSTEM before."""
    cluster = new_cluster(request.param)
    execute(cluster.conninfo, "alter system set max_wal_size = '2GB'")
    execute(cluster.conninfo, "select pg_reload_conf()")
    # The postmaster reads its files some time later: what a test writes then must not be in them.
    wait_until(lambda: execute(cluster.conninfo, "show max_wal_size") == "2GB", "it is loaded")
    return cluster

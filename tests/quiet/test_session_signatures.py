"""Signatures of client sessions on real servers: idle ones that stay, herds, and open transactions;
each beside a load that has none of them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psycopg
import pytest
from signature_runs import carried_out

from patience import wait_until
from pgdyno.conduct import Silent
from pgdyno.diagnose import Finding
from pgdyno.server import Cluster, ConnInfo

pytestmark = pytest.mark.server
IDS = ("idle-connections", "login-storm", "held-connections")
IDLE, HELD, HERD = 200, 24, 150
"""Half of the herd is one still, if a sample comes when the other half has been counted."""
ROOM = "390"


def connected(conninfo: ConnInfo, name: str) -> psycopg.Connection:
    return psycopg.connect(**{**conninfo.kwargs(), "application_name": name}, autocommit=True)


@contextlib.contextmanager
def left_open(conninfo: ConnInfo, idle: int, held: int) -> Iterator[None]:
    """Connections that are idle, and some that are idle in a transaction."""
    with contextlib.ExitStack() as stack:
        for number in range(idle + held):
            conn = stack.enter_context(
                contextlib.closing(connected(conninfo, "leaky" if number < idle else "forgetful"))
            )
            if number >= idle:
                conn.execute("begin")
        yield


class Meanwhile(Silent):
    """Does something in a thread of its own, some seconds after the measurement has begun."""

    def __init__(self, act: Callable[[], None], seconds: float = 0.0) -> None:
        self._timer = threading.Timer(seconds, act)

    def phase(self, text: str, lasts_s: float | None = None) -> None:
        """Begin, if it is the measurement that does."""
        if text.startswith("measuring"):
            self._timer.start()

    def __enter__(self) -> Meanwhile:
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.join()


def herd(conninfo: ConnInfo, count: int) -> None:
    """So many connections made at once, however long this machine takes to begin them: all wait
    for a lock until the last one does."""
    waiting = (
        "select count(*) from pg_locks"
        " where relation = 'pg_db_role_setting'::regclass and not granted"
    )
    with ThreadPoolExecutor(count) as pool:
        with psycopg.connect(**conninfo.kwargs()) as gate:
            gate.execute("lock table pg_db_role_setting in access exclusive mode")
            made = [pool.submit(connected, conninfo, "herd") for _ in range(count)]
            wait_until(lambda: gate.execute(waiting).fetchone() == (count,), "all have come")
        for conn in made:
            conn.result().close()


def values(finding: Finding) -> dict[str, float]:
    return {e.name: e.value for e in finding.evidence if isinstance(e.value, int | float)}


def on(cluster: Cluster, folder: Path, hold: str, meanwhile: Meanwhile) -> Mapping[str, Finding]:
    server = {"kind": "existing", "conninfo": cluster.conninfo.uri_without_password}
    with meanwhile:
        return carried_out(
            folder, server=server, script="select-only", clients=2, hold=hold, watcher=meanwhile
        )


@pytest.mark.parametrize("major", [18, 15])
def test_sessions_that_nobody_ends_and_herds_are_found(
    new_cluster: Callable[..., Cluster], tmp_path: Path, major: int
) -> None:
    cluster = new_cluster(major, max_connections=ROOM)
    with left_open(cluster.conninfo, IDLE, HELD):
        coming = Meanwhile(partial(herd, cluster.conninfo, HERD), 3.0)
        findings = on(cluster, tmp_path, "12s", coming)
    assert {name: findings[name].status for name in IDS} == dict.fromkeys(IDS, "found")
    idle, storm, held = (findings[name] for name in IDS)
    assert values(idle)["connections idle for 10 s or longer"] == IDLE
    assert "leaky" in idle.sentence
    assert not idle.is_about_to_fail
    assert values(storm)["connections made in the busiest second"] >= HERD / 2
    assert max(n for name, n in values(held).items() if name.startswith("sessions idle")) == HELD
    assert "forgetful" in held.sentence


@pytest.mark.parametrize("major", [18, 15])
def test_sessions_that_are_used_or_few_are_cleared(
    new_cluster: Callable[..., Cluster], tmp_path: Path, major: int
) -> None:
    cluster = new_cluster(major, max_connections=ROOM)
    with left_open(cluster.conninfo, 30, 2):
        findings = on(cluster, tmp_path, "12s", Meanwhile(partial(herd, cluster.conninfo, 10), 3.0))
    assert {name: findings[name].status for name in IDS} == dict.fromkeys(IDS, "cleared")


def test_a_leak_is_found_before_the_connections_are_used_up(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = new_cluster(18, max_connections="270")
    over, open_ones = threading.Event(), []

    def leak() -> None:
        while not over.wait(0.3):
            open_ones.append(connected(cluster.conninfo, "leaky"))

    class Leaking(Meanwhile):
        def __exit__(self, *_: object) -> None:
            over.set()
            super().__exit__()
            for conn in open_ones:
                conn.close()

    findings = on(cluster, tmp_path, "24s", Leaking(leak))
    idle = findings["idle-connections"]
    assert idle.status == "found"
    assert idle.is_about_to_fail
    assert values(idle)["all used up in"] > 0


@pytest.mark.parametrize(("others", "status"), [(20, "found"), (2, "cleared")])
def test_refused_clients_are_found(
    new_cluster: Callable[..., Cluster], tmp_path: Path, others: int, status: str
) -> None:
    cluster = new_cluster(18, max_connections="30", superuser_reserved_connections="0")
    server = {"kind": "existing", "conninfo": cluster.conninfo.uri_without_password}
    with left_open(cluster.conninfo, others, 0):
        findings = carried_out(tmp_path, server=server, script="select-only", clients=9, hold="3s")
    found = findings["connection-slots"]
    assert found.status == status
    assert found.is_about_to_fail == (status == "found")
    assert ("refused" in found.sentence) == (status == "found")

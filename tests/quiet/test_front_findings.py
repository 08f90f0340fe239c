"""Findings about a front end that pgdyno started, and its changes under load: real parts, each
fault beside a load without it."""

from __future__ import annotations

import contextlib
import sqlite3
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, Gauge, start_http_server

from patience import wait_until
from pgdyno.conduct import Session, Silent, open_session
from pgdyno.diagnose import Diagnosis, Finding, diagnose
from pgdyno.front import FrontEnd, FrontSettings
from pgdyno.investigate._outcome import web_side
from pgdyno.remedy import assess
from pgdyno.remedy.circumstances import circumstances
from pgdyno.rules._pools import FOREIGN_POOL_ADVICE
from pgdyno.rules.front_queues import SERVER_ADVICE
from pgdyno.server import Cluster, ConnInfo, connect_plain
from pgdyno.server.replication._relay import Relay
from pgdyno.spec import Change, spec_from_fields
from pgdyno.trial.trust import distrust
from pgdyno.workload import load_workloads, prepare

pytestmark = pytest.mark.server

SLICE_S = 1.5
LOOKS_S = 3.2
"""For figures of another web server, which has no counts of what a few looks may miss."""
CLIENTS = 16
PAUSE_MS = 100
# Each order sleeps in the server and takes no core meanwhile, on any machine.
SLOW_ORDERS = f"""
create function pause() returns trigger language plpgsql as
    'begin perform pg_sleep({PAUSE_MS} / 1000.0); return new; end';
create trigger pause before insert on business_orders for each row execute function pause();
"""
PARTS = {"http", "connector", "front pool", "application", "collection"}


@contextlib.contextmanager
def loaded(
    folder: Path,
    front: dict[str, Any],
    *requests: str,
    before: str = "",
    server: dict[str, Any] | None = None,
) -> Iterator[Session]:
    """A front end under load, whose clients send these requests."""
    spec = spec_from_fields(
        {
            "name": "front",
            "front": front,
            "server": server or {"kind": "embedded"},
            "workload": {"script": [{"request": each} for each in requests], "scale": 1},
            "clients": [{"name": "web", "count": CLIENTS}],
            "load": {"seed": 1},
        }
    )
    path = folder / "run.db"
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        with connect_plain(session.target.conninfo) as connection:
            connection.execute(before.encode())
        session.start_load()
        session.wait(1.0)
        yield session


def slice_of(session: Session, change: Change | None = None) -> tuple[int, Diagnosis]:
    """A slice under a change, and its diagnosis. Its requests began under the change, however fast
    the machine is: each client has had one before."""
    if change is not None:
        session.provide(change)
        session.apply(change)
    answered = requests_of(session)
    wait_until(lambda: requests_of(session) >= answered + CLIENTS, "the clients are answered")
    return measured(session)


def measured(session: Session, seconds: float = SLICE_S) -> tuple[int, Diagnosis]:
    """A slice of the load as it is, and its diagnosis."""
    slice_id = session.slice(seconds, kind="baseline")
    return slice_id, diagnose(session.reader(), [slice_id])


def requests_of(session: Session) -> int:
    """Requests that the front end has answered so far."""
    application = session.target.application
    assert application is not None
    _, rows = application.read()
    return sum(page["requests"] for page in rows["metric_front_page"])


def finding(diagnosis: Diagnosis, name: str) -> Finding:
    return next(each for each in diagnosis.findings if each.id == name)


def values(of: Finding) -> dict[str, Any]:
    return {each.name: each.value for each in of.evidence}


def is_found(diagnosis: Diagnosis, name: str) -> bool:
    """True if it is found; otherwise what it says of itself, and what was found, is shown."""
    return _is(diagnosis, name, "found")


def is_cleared(diagnosis: Diagnosis, name: str) -> bool:
    """The same of one that is cleared."""
    return _is(diagnosis, name, "cleared")


def _is(diagnosis: Diagnosis, name: str, wanted: str) -> bool:
    it = finding(diagnosis, name)
    if it.status != wanted:
        print(f"{name} is {it.status}: {it.sentence}")
        for each in it.evidence:
            print(f"    {each.name} = {each.value} {each.unit} ({each.threshold})")
        found = [each for each in diagnosis.findings if each.status == "found"]
        print(*(f"found: {each.id}: {each.sentence}" for each in found), sep="\n")
    return it.status == wanted


def front(**keys: object) -> Change:
    return Change(spec={f"front.{name}": str(value) for name, value in keys.items()})


@pytest.fixture(autouse=True)
def _jar(front_jar: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDYNO_FRONT_JAR", str(front_jar))


def test_connections_that_are_not_accepted_are_found_and_let_in(tmp_path: Path) -> None:
    few = {"max_total": CLIENTS, "connections": 4}
    with loaded(tmp_path, few, "/order", before=SLOW_ORDERS) as session:
        _, left_out = measured(session)
        _, roomy = slice_of(session, front(connections=8192))
        doubts, fewer = (distrust(session.reader(), d.findings) for d in (left_out, roomy))
    found = finding(left_out, "front-accept-queue")
    assert is_found(left_out, "front-accept-queue")
    assert values(found)["connections accepted"] == pytest.approx(4, abs=0.5)
    assert all([*each.change.spec] == ["front.connections"] for each in found.proposals)
    assert is_cleared(left_out, "front-pool")
    assert any("left without an answer" in each for each in doubts)
    assert is_cleared(roomy, "front-accept-queue")
    assert not any("left without an answer" in each for each in fewer)


def test_batches_sent_row_by_row_are_found_and_rewritten(tmp_path: Path) -> None:
    unflushed = {"kind": "embedded", "settings": {"synchronous_commit": "off"}}
    with loaded(tmp_path, {"max_total": 4}, "/events", server=unflushed) as session:
        _, single = measured(session)
        _, rewritten = slice_of(session, front(rewrite_batched_inserts="true"))
    found = finding(single, "front-batches")
    # Where other programs have the cores, the statements take no tenth of the time.
    crowded = finding(single, "other-programs").status == "found"
    assert is_found(single, "front-batches") or crowded
    assert "reWriteBatchedInserts = false" in found.sentence or crowded
    for proposal in found.proposals:  # None where other programs keep all cores busy.
        assert [*proposal.change.spec] == ["front.rewrite_batched_inserts"]
        assert proposal.specific
    assert is_cleared(rewritten, "front-batches")


def test_limits_of_the_pool_and_the_connector_are_found_and_lifted_under_load(
    tmp_path: Path,
) -> None:
    with loaded(tmp_path, {"max_total": 2}, "/order", before=SLOW_ORDERS) as session:
        small_id, small = slice_of(session)
        large_id, large = slice_of(session, front(max_total=CLIENTS))
        _, few_threads = slice_of(session, front(max_total=CLIENTS, threads=2))
        again_id, again = slice_of(session, front(threads=200))
        _, leaking = _leak(session)
        run = session.reader()

        found = finding(small, "front-pool")
        assert is_found(small, "front-pool")
        assert values(found)["pool size"] == 2
        for proposal in found.proposals:  # None where other programs keep all cores busy.
            assert [*proposal.change.spec] == ["front.max_total"]
            assert proposal.predicted_ratio > 1
            assert proposal.specific
            assessed = assess(proposal.change, circumstances(session.spec))
            assert assessed.durability_class == "D0"
        assert small.budget is not None
        assert set(small.budget.parts_ms) >= PARTS
        assert sum(small.budget.parts_ms.values()) == pytest.approx(small.budget.response_ms)
        assert small.budget.share("front pool") > 0.5

        assert is_cleared(large, "front-pool")
        assert is_cleared(large, "front-leak")
        before, after = web_side(run, [small_id]), web_side(run, [large_id])
        assert before is not None
        assert after is not None
        assert before.front is not None
        assert after.front is not None
        assert (before.front.pool_max, after.front.pool_max) == (2, CLIENTS)
        assert after.requests_s > before.requests_s
        assert after.database is not None
        assert after.database.ms_per_request is not None
        assert after.database.ms_per_request >= 0.8 * PAUSE_MS

        threads = finding(few_threads, "front-threads")
        assert is_found(few_threads, "front-threads")
        assert all([*each.change.spec] == ["front.threads"] for each in threads.proposals)
        assert is_cleared(few_threads, "front-pool")
        assert is_cleared(large, "front-threads")

        # The pool is small again, without a restart.
        assert is_found(again, "front-pool")
        assert web_side(run, [again_id]).front.pool_max == 2  # type: ignore[union-attr]
        assert is_cleared(again, "front-threads")
        assert is_cleared(again, "front-cpu")
        assert is_cleared(again, "front-collection")

        leak = finding(leaking, "front-leak")
        assert is_found(leaking, "front-leak")
        assert "never returned" in leak.sentence
        assert large.statements[0].parts_ms["sleep"] >= PAUSE_MS / 2
    with contextlib.closing(sqlite3.connect(tmp_path / "run.db")) as db:
        named = "select count(*) from statement where text like '/* /order */ insert into%'"
        assert db.execute(named).fetchone()[0] > 0
        (pids,) = db.execute("select count(distinct json_extract(detail_json, '$.pid')) from event"
                             " where kind = 'front'").fetchone()  # fmt: skip
    assert pids == 1, "every change was one of the running application"


def _leak(session: Session) -> tuple[int, Diagnosis]:
    """A slice in which two of four connections were lent and never returned."""
    session.apply(front(max_total=4))
    application = session.target.application
    assert application is not None
    for _ in range(2):
        with urllib.request.urlopen(f"{application.url}product?leak=1") as answer:
            assert answer.status == 200
    return slice_of(session)


@pytest.mark.parametrize(
    ("heap", "name", "said"),
    [
        ("256m", "front-cpu", "most of it for /report"),
        ("16m", "front-collection", "garbage collection stops the application"),
    ],
)
def test_the_application_itself_is_found(tmp_path: Path, heap: str, name: str, said: str) -> None:
    table = {"max_total": CLIENTS, "heap": heap}
    with loaded(tmp_path, table, "/report?rounds=40") as session:
        _, computing = slice_of(session)
        found = finding(computing, name)
        # Where other programs have the cores, the application does not keep them busy.
        crowded = finding(computing, "other-programs").status == "found"
        assert is_found(computing, name) or crowded
        assert said in found.sentence or crowded
        for other in ("front-pool", "front-threads", "front-leak", "statements-per-request"):
            assert is_cleared(computing, other)


@pytest.fixture
def shop(pg18: Cluster) -> Iterator[ConnInfo]:
    """A database with the tables of the shop, whose orders sleep."""
    with psycopg.connect(**pg18.conninfo.kwargs(), autocommit=True) as conn:
        conn.execute("create database web_shop")
        made = replace(pg18.conninfo_tcp, database="web_shop", database_named=True)
        fields = {
            "server": {"kind": "existing"},
            "workload": {"script": "business", "scale": 1, "initialize": True},
        }
        spec = spec_from_fields(fields)
        prepare(made, load_workloads(spec).values(), spec.workload, lambda *_: None)
        with psycopg.connect(**made.kwargs(), autocommit=True) as own:
            own.execute(SLOW_ORDERS.encode())
        yield made
        conn.execute("drop database web_shop with (force)")


@pytest.mark.parametrize(("page", "wanted"), [("order", "found"), ("customer", "cleared")])
def test_statements_sent_one_after_the_other_are_found(
    tmp_path: Path, shop: ConnInfo, monkeypatch: pytest.MonkeyPatch, page: str, wanted: str
) -> None:
    relay = Relay((shop.host, shop.port), delay_ms=5)
    try:
        monkeypatch.setenv("PGPASSWORD", shop.password or "")
        server = {
            "kind": "existing",
            "conninfo": replace(shop, port=relay.port).uri_without_password,
            "control": f"host={shop.host} port={shop.port}",
        }
        front = {"max_total": CLIENTS}
        with loaded(tmp_path, front, f"/{page}", server=server) as session:
            _, sent = slice_of(session)
    finally:
        relay.close()
    assert _is(sent, "statements-per-request", wanted)
    assert f"statements per request of /{page}" in values(finding(sent, "statements-per-request"))
    # Most of the time is messages in both cases: of two statements, nobody would make one.
    assert sent.budget is not None
    assert sent.budget.share("between", "client") > 0.2


def test_of_a_web_server_of_the_users_the_waiting_side_is_named(
    tmp_path: Path,
    pg18: Cluster,
    shop: ConnInfo,
    new_front: Callable[[ConnInfo, FrontSettings], FrontEnd],
) -> None:
    web = new_front(shop, FrontSettings(max_total=2))
    behind = replace(pg18.conninfo, database=shop.database).uri_without_password
    found = []
    for page in ("order", ""):
        spec = spec_from_fields(
            {
                "http": {"url": f"{web.url}{page}"},
                "server": {"kind": "existing", "conninfo": behind},
                "clients": [{"name": "web", "count": CLIENTS}],
            }
        )
        path = tmp_path / f"run-{page}.db"
        with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
            session.start_load()
            session.wait(1.0)
            found.append(finding(measured(session)[1], "web-server"))
            if page:
                web.set("pool.max", CLIENTS)
                wait_until(lambda: web.read()["pool"]["active"] > CLIENTS / 2, "the pool grows")
                session.wait(1.0)
                found.append(finding(measured(session)[1], "web-server"))
    queued, busy, resting = found
    assert queued.status == "found", queued
    assert queued.advice == FOREIGN_POOL_ADVICE, queued
    assert values(queued)["sessions of the database"] == pytest.approx(2, abs=0.5)
    assert busy.advice != FOREIGN_POOL_ADVICE, busy
    assert resting.status == "found", resting
    assert resting.advice == SERVER_ADVICE, resting


GAUGES = {
    "hikaricp_connections_max": ("pool", "max"),
    "hikaricp_connections_active": ("pool", "active"),
    "hikaricp_connections_pending": ("pool", "waiting"),
    "tomcat_threads_config_max_threads": ("connector", "threads_max"),
    "tomcat_threads_busy_threads": ("connector", "busy"),
}
"""Names that Micrometer gives, and where the probe of our application has them."""


@pytest.fixture
def figures() -> Iterator[Callable[[FrontEnd], str]]:
    """Serves figures of a front end as Spring Boot does; returns the address."""
    with contextlib.ExitStack() as ends:

        def serve(front: FrontEnd) -> str:
            registry = CollectorRegistry()
            for name, (part, key) in GAUGES.items():
                gauge = Gauge(name, "-", registry=registry)
                gauge.set_function(lambda part=part, key=key: front.read()[part][key])
            server, thread = start_http_server(0, "127.0.0.1", registry)
            for end in (thread.join, server.server_close, server.shutdown):
                ends.callback(end)
            return f"http://127.0.0.1:{server.server_port}/actuator/prometheus"

        yield serve


def test_figures_of_a_web_server_of_the_users_name_its_pool_and_its_threads(
    tmp_path: Path,
    pg18: Cluster,
    shop: ConnInfo,
    new_front: Callable[[ConnInfo, FrontSettings], FrontEnd],
    figures: Callable[[FrontEnd], str],
) -> None:
    web = new_front(shop, FrontSettings(max_total=2))
    spec = spec_from_fields(
        {
            "http": {"url": f"{web.url}order", "metrics": figures(web)},
            "server": {
                "kind": "existing",
                "conninfo": replace(pg18.conninfo, database=shop.database).uri_without_password,
            },
            "clients": [{"name": "web", "count": CLIENTS}],
        }
    )

    def orders() -> int:
        return int(web.read()["pages"]["/order"]["requests"])

    path = tmp_path / "run.db"
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        session.start_load()
        found = []
        for limits in ({}, {"pool.max": CLIENTS}, {"connector.threads": 2}):
            for name, value in limits.items():
                web.set(name, value)
            answered = orders()
            wait_until(lambda least=answered + CLIENTS: orders() >= least, "all are answered")
            found.append(measured(session, LOOKS_S)[1])
    small, large, few_threads = found
    assert is_found(small, "front-pool")
    assert values(finding(small, "front-pool"))["pool size"] == 2
    assert not finding(small, "front-pool").proposals
    assert is_cleared(small, "web-server")
    assert is_cleared(small, "front-threads")
    assert is_cleared(large, "front-pool")
    assert is_cleared(large, "front-threads")
    assert is_found(few_threads, "front-threads")
    assert is_cleared(few_threads, "front-pool")

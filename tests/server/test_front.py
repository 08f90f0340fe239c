"""The front end on a real server: its pages, its three pools, its probe, and its ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace
from psycopg import sql

from patience import wait_until
from pgdyno.conduct import Silent, open_session
from pgdyno.drill._workloads import differences
from pgdyno.errors import RunError, SetupError
from pgdyno.front import POOLS, FrontEnd, FrontSettings, find_java
from pgdyno.front._application import accept_queue
from pgdyno.server import Cluster, ConnInfo, connect
from pgdyno.spec import spec_from_fields
from pgdyno.workload import load_workloads, prepare

pytestmark = pytest.mark.server

NewFront = Callable[[ConnInfo, FrontSettings], FrontEnd]
SHOP = "a shop"
OWNER = "owner of the shop"
PASSWORD = "a=b \\ c:#!é\U0001f511"
"""With everything that has a meaning in a properties file."""
ORDER = "order?customer=1"
"""What one who holds the row of customer 1 makes wait."""
TIMING = re.compile(r"pool;dur=\d+\.\d{3}, db;dur=\d+\.\d{3}, app;dur=\d+\.\d{3}")


@pytest.fixture(scope="module")
def shop(pg18: Cluster) -> Iterator[ConnInfo]:
    """A database with the tables of the shop, of a role with an unusual password."""
    names = {"shop": sql.Identifier(SHOP), "owner": sql.Identifier(OWNER)}
    with psycopg.connect(**pg18.conninfo_tcp.kwargs(), autocommit=True) as conn:
        conn.execute(
            sql.SQL("create role {owner} login password {password}").format(
                password=sql.Literal(PASSWORD), **names
            )
        )
        conn.execute(sql.SQL("create database {shop} owner {owner}").format(**names))
        made = replace(pg18.conninfo_tcp, database=SHOP, user=OWNER, password=PASSWORD)
        fields = {
            "server": {"kind": "existing"},
            "workload": {"script": "business", "scale": 1, "initialize": True},
        }
        spec = spec_from_fields(fields)
        prepare(made, load_workloads(spec).values(), spec.workload, lambda *_: None)
        yield made
        conn.execute(sql.SQL("drop database {shop} with (force)").format(**names))
        conn.execute(sql.SQL("drop role {owner}").format(**names))


@pytest.fixture(scope="module", params=POOLS)
def front(request: pytest.FixtureRequest, shop: ConnInfo, front_jar: Path) -> Iterator[FrontEnd]:
    """A front end with each of the pools, of two connections."""
    started = FrontEnd(find_java(), front_jar, shop, FrontSettings(request.param, max_total=2))
    yield started
    started.close()


def get(front: FrontEnd, path: str, method: str = "GET") -> tuple[int, dict[str, str], str]:
    """Status, headers and text of a page."""
    request = urllib.request.Request(f"{front.url}{path}", method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, dict(answer.headers), answer.read().decode()
    except urllib.error.HTTPError as problem:
        return problem.code, dict(problem.headers), problem.read().decode()


@contextmanager
def row_held(shop: ConnInfo) -> Iterator[None]:
    """Within the block every order of customer 1 waits in the server."""
    with psycopg.connect(**shop.kwargs()) as conn:
        conn.execute("select from business_customers where id = 1 for update")
        yield


@contextmanager
def orders_held(
    shop: ConnInfo, front: FrontEnd, number: int
) -> Iterator[list[Future[tuple[int, dict[str, str], str]]]]:
    """That many orders of customer 1, which are under way when the block ends."""
    with ThreadPoolExecutor(number) as clients, row_held(shop):
        yield [clients.submit(get, front, ORDER) for _ in range(number)]


def gauges(front: FrontEnd) -> tuple[int, int]:
    """Connections in use, and requests that wait for one."""
    pool = front.read()["pool"]
    return pool["active"], pool["waiting"]


def count(shop: ConnInfo, table: str) -> Any:
    with psycopg.connect(**shop.kwargs()) as conn:
        return conn.execute(f"select count(*) from {table}".encode()).fetchone()


@pytest.fixture
def statements_logged(pg18: Cluster) -> Iterator[Path]:
    """The server's log, which has all statements."""
    with psycopg.connect(**pg18.conninfo.kwargs(), autocommit=True) as conn:
        conn.execute("alter system set log_statement = 'all'")
        conn.execute("select pg_reload_conf()")
        yield pg18.log_path
        conn.execute("alter system reset log_statement")
        conn.execute("select pg_reload_conf()")


def test_statements_are_kept_prepared_as_the_driver_is_told(
    front: FrontEnd, statements_logged: Path
) -> None:
    def names() -> list[str]:
        """Names under which six requests execute their statement."""
        begun = statements_logged.stat().st_size
        for _ in range(6):
            assert get(front, "product?id=1")[0] == 200
        text = statements_logged.read_bytes()[begun:].decode(errors="replace")
        return re.findall(r"execute (\S+): /\* /product \*/", text)

    # Sessions read the changed setting between two statements.
    wait_until(lambda: len(names()) == 6, "the server logs statements")
    for _ in range(2):
        front.set("driver.prepare_threshold", 1)
        assert [name[:2] for name in names()] == ["S_"] * 6
        front.set("driver.prepare_threshold", 0)
        assert names() == ["<unnamed>"] * 6
    front.set("driver.prepare_threshold", 5)


def rows_sent(front: FrontEnd, shop: ConnInfo, log: Path) -> int:
    """Statements in which the driver sends 100 events."""
    begun, (events,) = log.stat().st_size, count(shop, "business_events")
    rows = front.read()["pages"]["/events"]["batched_rows"]
    assert get(front, "events?device=1000")[0] == 200
    assert front.read()["pages"]["/events"]["batched_rows"] == rows + 100
    assert count(shop, "business_events") == (events + 100,)
    with connect(shop) as conn:
        assert differences(conn)["events"] == 0
    text = log.read_bytes()[begun:].decode(errors="replace")
    return len(re.findall(r"execute \S+: /\* /events \*/ insert into business_events", text))


def test_rows_of_a_batch_are_sent_as_the_driver_is_told(
    front: FrontEnd, shop: ConnInfo, statements_logged: Path
) -> None:
    """Of 100 rows the driver makes statements of 64, 32 and 4."""
    # Sessions read the changed setting between two statements.
    wait_until(lambda: rows_sent(front, shop, statements_logged) > 0, "the server logs statements")
    for _ in range(2):
        front.set("driver.rewrite_batched_inserts", 1)
        assert [rows_sent(front, shop, statements_logged) for _ in range(3)] == [3] * 3
        front.set("driver.rewrite_batched_inserts", 0)
        assert [rows_sent(front, shop, statements_logged) for _ in range(3)] == [100] * 3
    assert front.read()["pool"]["max"] == 2
    assert front.read()["pool"]["active"] == 0


def test_each_connection_is_replaced_when_the_pool_is_renewed(front: FrontEnd) -> None:
    def created(requests: int) -> int:
        for _ in range(requests):
            assert get(front, "product?id=1")[0] == 200
        pool = front.read()["pool"]
        assert pool["max"] == 2
        return int(pool["created"])

    filled = at_first = created(4)
    for renewals in (1, 2):
        front.renew()
        before, filled = filled, created(8)
        # Those that nobody asks for are replaced later, also after the next renewal, and the pool
        # may not have been full at first.
        assert before < filled <= at_first + 2 * renewals + 1
    assert front.read()["pool"]["active"] == 0


def test_a_front_end_begins_with_rewritten_batches(
    new_front: Callable[[ConnInfo, FrontSettings], FrontEnd],
    shop: ConnInfo,
    statements_logged: Path,
) -> None:
    front = new_front(shop, FrontSettings(rewrite_batched_inserts=True))
    assert rows_sent(front, shop, statements_logged) == 3


def test_each_page_answers_and_is_counted(front: FrontEnd, shop: ConnInfo) -> None:
    before, orders = front.read(), count(shop, "business_orders")
    for path in front.pages:
        status, headers, text = get(front, path.removeprefix("/"))
        assert status == 200, text
        assert TIMING.fullmatch(headers["Server-Timing"])
    assert count(shop, "business_orders") == (orders[0] + 1,)
    after = front.read()
    for path in front.pages:
        assert after["pages"][path]["requests"] == before["pages"][path]["requests"] + 1
        assert after["pages"][path]["failed"] == before["pages"][path]["failed"]
    risen = {
        path: after["pages"][path]["statements"] - before["pages"][path]["statements"]
        for path in front.pages
    }
    assert risen.pop("/order") in (28, 32)
    assert risen == {
        "/": 0,
        "/products": 1,
        "/product": 1,
        "/customer": 2,
        "/report": 1,
        "/pay": 1,
        "/events": 2,
    }
    assert after["pool"]["borrowed"] == before["pool"]["borrowed"] + 7
    assert after["at_ns"] > before["at_ns"]


def test_a_payment_takes_an_order(front: FrontEnd, shop: ConnInfo) -> None:
    get(front, "order?customer=7&items=6", "POST")
    paid = count(shop, "business_payments")
    assert "1 orders paid" in get(front, "pay?customer=7", "POST")[2]
    assert count(shop, "business_payments") == (paid[0] + 1,)


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("product?id=x", "GET", 400),
        ("product?id=0", "GET", 400),
        ("order?items=8", "POST", 400),
        ("nothing", "GET", 404),
        ("product", "DELETE", 405),
    ],
)
def test_what_is_asked_wrongly_is_refused(
    front: FrontEnd, path: str, method: str, status: int
) -> None:
    assert get(front, path, method)[0] == status


def refused_while_all_are_in_use(shop: ConnInfo, front: FrontEnd, wait_ms: int | None) -> None:
    before = front.read()["pool"]
    with orders_held(shop, front, before["max"]):
        wait_until(lambda: gauges(front)[0] == before["max"], "all connections are in use")
        if wait_ms is not None:
            front.set("pool.wait_ms", wait_ms)
        status, _, text = get(front, "product?id=1")
    assert (status, "no connection" in text) == (503, True)
    assert front.read()["pool"]["refused"] == before["refused"] + 1


def test_a_request_that_waits_too_long_is_refused(front: FrontEnd, shop: ConnInfo) -> None:
    if "Hikari" in front.parts["pool"]:
        # It looks at a changed limit a moment later; what waits already waits on.
        front.set("pool.wait_ms", 20_000)
        assert front.read()["pool"]["wait_ms_max"] == 20_000
        return
    refused_while_all_are_in_use(shop, front, 300)
    front.set("pool.wait_ms", 30_000)


def test_the_limit_of_a_wait_may_be_there_from_the_start(
    shop: ConnInfo, new_front: NewFront
) -> None:
    front = new_front(shop, FrontSettings("hikari", max_total=1, max_wait_ms=1500))
    assert get(front, "product?id=1")[0] == 200, "its connection is made, and waited for no more"
    refused_while_all_are_in_use(shop, front, None)


def test_what_a_request_left_open_is_not_the_next_ones(front: FrontEnd, shop: ConnInfo) -> None:
    """Nothing of a transaction that failed is seen, and its connection is used again."""
    orders = count(shop, "business_orders")
    with psycopg.connect(**shop.kwargs(), autocommit=True) as conn:
        conn.execute("alter table business_customers add check (id <> 9) not valid")
        try:
            assert get(front, "order?customer=9")[0] == 500
            assert count(shop, "business_orders") == orders
            assert get(front, "order?customer=8")[0] == 200
        finally:
            conn.execute(
                "alter table business_customers drop constraint business_customers_id_check"
            )
    assert count(shop, "business_orders") == (orders[0] + 1,)


def test_limits_of_the_connector_change_at_run_time(front: FrontEnd) -> None:
    try:
        assert front.set("connector.threads", 3)["connector"]["threads_max"] == 3
        assert (
            front.set("connector.keepalive_requests", 7)["connector"]["keepalive_requests_max"] == 7
        )
        front.set("connector.keepalive_requests", 1)
        assert get(front, "product")[1]["Connection"] == "close"
    finally:
        front.set("connector.threads", 200)
        front.set("connector.keepalive_requests", 100)


def test_connections_beyond_the_most_wait_in_the_kernels_queue(front: FrontEnd) -> None:
    address = ("127.0.0.1", front.port)
    assert accept_queue(front.port) == 0
    try:
        front.set("connector.connections", 2)
        with ExitStack() as stack:
            made = [stack.enter_context(socket.create_connection(address)) for _ in range(6)]
            # The acceptor may have waited for one before.
            wait_until(lambda: accept_queue(front.port) in {3, 4}, "2 or 3 are accepted")
            front.set("connector.connections", 8192)
            # Tomcat's acceptor sees the limit once a connection ends.
            made[0].close()
            wait_until(lambda: accept_queue(front.port) == 0, "all are accepted")
    finally:
        front.set("connector.connections", 8192)


def test_a_port_without_a_listener_has_no_queue() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert accept_queue(unused.getsockname()[1]) is None


def test_a_limit_that_there_is_not_is_named(front: FrontEnd) -> None:
    with pytest.raises(SetupError, match=r"refused set pool\.depth 3"):
        front.set("pool.depth", 3)


def test_a_larger_pool_lets_more_requests_in(front: FrontEnd, shop: ConnInfo) -> None:
    with orders_held(shop, front, 6) as orders:
        wait_until(lambda: gauges(front) == (2, 4), "2 requests have a connection, 4 wait")
    assert [order.result()[0] for order in orders] == [200] * 6
    pool = front.set("pool.max", 6)["pool"]
    assert (pool["max"], pool["idle_max"]) == (6, 6)
    with orders_held(shop, front, 6) as orders:
        # HikariCP has a queue of its first size for those to make, and may make one late.
        wait_until(lambda: gauges(front)[0] > 2, "more requests have a connection")
    assert [order.result()[0] for order in orders] == [200] * 6
    front.set("pool.max", 2)
    wait_until(lambda: sum(gauges(front)) + front.read()["pool"]["idle"] <= 2, "2 are left")


def test_a_port_in_use_is_named(shop: ConnInfo, new_front: NewFront) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(SetupError, match=f"cannot listen on 127.0.0.1:{port}") as raised:
            new_front(shop, FrontSettings(port=port))
    assert raised.value.code == "front-port"


def test_a_server_that_refuses_is_named(
    shop: ConnInfo, new_front: NewFront, nothing_left: None
) -> None:
    with pytest.raises(SetupError, match=r"did not start.*password authentication failed"):
        new_front(replace(shop, password="wrong"), FrontSettings())


def is_stopped(pid: int) -> bool:
    threads = [*Path(f"/proc/{pid}/task").iterdir()]
    stats = [(each / "stat").read_text() for each in threads]
    return {each.rpartition(")")[2].split()[0] for each in stats} == {"T"}


def test_a_front_end_that_hangs_or_dies_is_named(
    shop: ConnInfo, new_front: NewFront, nothing_left: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    front = new_front(shop, FrontSettings())
    assert front._probe is not None
    front._probe._socket.settimeout(0.2)
    os.kill(front.pid, signal.SIGSTOP)
    # On a busy machine the signal arrives after the next question would have been answered.
    wait_until(lambda: is_stopped(front.pid), "all its threads are stopped")
    with monkeypatch.context() as patch:
        patch.setattr("pgdyno.front._process._END_KNOWN_S_MAX", 0.2)
        with pytest.raises(RunError, match="does not answer"):
            front.read()
    os.kill(front.pid, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{front.pid}").exists(), "it has ended")
    with pytest.raises(RunError, match="was ended by SIGKILL"):
        front.read()
    front.close()


def test_without_java_only_the_front_end_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    spec = spec_from_fields({"front": {}, "workload": {"script": [{"request": "/pay"}]}})
    path = tmp_path / "run.db"
    with (
        pytest.raises(SetupError) as refused,
        open_session(spec, run=path, command="run", spec_text="", watcher=Silent()),
    ):
        pass
    assert refused.value.code == "front-java"
    assert "openjdk-17-jdk-headless" in str(refused.value.hint)
    assert not path.exists()

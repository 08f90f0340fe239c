"""PgBouncer's pool made smaller under load, while it still grows."""

from __future__ import annotations

import threading

import psycopg
import pytest

from patience import wait_until
from pgdyno.pooler import Gateway
from pgdyno.server import Cluster
from pgdyno.server.local.programs import find_program
from pgdyno.spec import spec_from_fields

pytestmark = pytest.mark.server


def _server_connections(gateway: Gateway) -> int:
    (row,) = gateway.queues()
    return int(row["servers_active"] + row["servers_idle"])


def test_a_pool_that_shrinks_under_load_while_it_still_grows_does_not_stall(pg18: Cluster) -> None:
    if find_program("pgbouncer") is None:
        pytest.skip("no pgbouncer on this machine")
    settings = {"pool_mode": "transaction", "default_pool_size": "2"}
    table = {"kind": "pgbouncer", "settings": settings}
    groups = [{"name": "web", "count": 24}]
    fields = {"pooler": table, "clients": groups, "load": {"protocol": "extended"}}
    small = spec_from_fields(fields)
    settings["default_pool_size"] = "20"
    large = spec_from_fields(fields)
    gateway, over, failed = Gateway(pg18.conninfo), threading.Event(), []

    def work() -> None:
        try:
            with psycopg.connect(**gateway.entrance.kwargs(), prepare_threshold=None) as conn:
                while not over.is_set():
                    conn.execute("select pg_sleep(0.01)")
                    conn.commit()
        except psycopg.Error as problem:
            failed.append(problem)

    gateway.arrange(small)
    workers = [threading.Thread(target=work) for _ in range(24)]
    try:
        for worker in workers:
            worker.start()
        for _ in range(5):
            gateway.follow(large)
            gateway.follow(small)
        wait_until(
            lambda: _server_connections(gateway) <= 2, "the pool is as small as it should be"
        )
    finally:
        over.set()
        for worker in workers:
            worker.join()
        logs = gateway.logs()
        gateway.close()
    assert failed == []
    assert "failing" not in logs

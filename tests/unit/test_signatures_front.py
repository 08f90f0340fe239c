"""Findings about a web front end on run files made by hand: which of its layers is the limit, each
beside a load where it is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import CPU, IDLE, WAL_SYNC, WEB, Load, concluded, diagnosed
from inline_snapshot import snapshot
from msgspec import Struct
from msgspec.structs import replace

SLEEP = ("Timeout", "PgSleep")


class Front(Struct, frozen=True):
    """A front end, per second: 16 clients of a page that sleeps in the database."""

    pool: int = 2
    requests: float = 30.0
    pool_ms: float = 467.0
    database_ms: float = 65.0
    application_ms: float = 1.0
    statements: float = 2.0
    batched_rows: float = 0.0
    cores: float = 0.2

    def rows(self) -> dict[str, Any]:
        return {"metric_front": self._front, "metric_jvm": self._machine,
                "metric_front_page": self._pages}  # fmt: skip

    def _front(self, edge: int) -> Sequence[Mapping[str, Any]]:
        waiting = round(self.requests * self.pool_ms / 1000)
        return [{"pool_max": self.pool, "pool_active": self.pool, "pool_idle": 0,
                 "pool_waiting": waiting, "pool_created": self.pool, "pool_refused": 0,
                 "pool_borrowed": self.requests * edge, "threads_max": 200, "threads_busy": 16,
                 "connector_queue": 0, "connections_open": 16, "connections_max": 8192,
                 "accept_queue": 0,
                 "pool_wait_ms": self.requests * self.pool_ms * edge}]  # fmt: skip

    def _machine(self, edge: int) -> Sequence[Mapping[str, Any]]:
        return [{"heap_bytes": 1 << 26, "heap_bytes_max": 1 << 28, "collections": edge,
                 "collection_ms": 2.0 * edge, "compile_ms": 0.0,
                 "cpu_ms": 1000 * self.cores * edge, "threads_live": 30}]  # fmt: skip

    def _pages(self, edge: int) -> Sequence[Mapping[str, Any]]:
        return [self.page(edge, "/order", self.requests, self.database_ms)]

    def page(self, edge: int, path: str, requests: float, database_ms: float) -> dict[str, Any]:
        done, took = requests * edge, self.pool_ms + database_ms + self.application_ms
        times = {"took_ms": took, "pool_ms": self.pool_ms, "database_ms": database_ms}
        counts = {"requests": done, "failed": 0, "kept": 0, "statements": self.statements * done,
                  "batched_rows": self.batched_rows * done}  # fmt: skip
        return {"page": path, **counts, **{name: ms * done for name, ms in times.items()}}


def load(of: Front, **more: Any) -> Load:
    """16 clients of the front end, whose sessions sleep for most of their time."""
    fields: dict[str, Any] = {
        "clients": 16,
        "tps": of.requests,
        "service_ms": 16_000 / of.requests,
        "on_server": float(of.pool),
        "sessions": {CPU: 0.2, SLEEP: 1.6, IDLE: 0.1},
        "busy": 0.3,
        "front": {"pool": "dbcp2", "max_total": of.pool},
        "script_ms": [("GET /order", 16_000 / of.requests)],
        "rows": of.rows(),
    }
    return Load(**(fields | more))


SMALL = Front()
LARGE = Front(pool=16, requests=240.0, pool_ms=0.1)


def test_a_pool_that_is_too_small_is_found_and_a_larger_one_proposed(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, load(SMALL))["front-pool"]
    assert found.status == "found", found.sentence
    assert found.sentence == snapshot(
        "requests wait 467 of 534 ms for one of 2 connections of the application's pool (Commons"
        " DBCP2, maxTotal) while the server's machine is 70 % idle"
    )
    assert found.proposals[0].change.spec == {"front.max_total": "16"}
    large = load(LARGE, sessions={CPU: 0.8, SLEEP: 14.0, IDLE: 0.4})
    assert diagnosed(tmp_path, large)["front-pool"].status == "cleared"


@pytest.mark.parametrize("server", [0.1, 0.4, 0.6], ids=lambda part: f"server-{part}")
def test_a_pool_is_a_limit_where_other_work_has_the_cores(tmp_path: Path, server: float) -> None:
    busy = load(SMALL, busy=1.0, server=server)
    found = diagnosed(tmp_path, busy)["front-pool"]
    assert found.status == "found", found.sentence
    assert found.sentence.endswith("other work takes the cores that more of them would need")
    assert not found.proposals


def test_a_pool_is_none_where_the_load_has_all_cores_itself(tmp_path: Path) -> None:
    own = load(replace(SMALL, cores=0.3), busy=1.0, server=0.8, sessions={CPU: 1.8, IDLE: 0.1})
    cleared = diagnosed(tmp_path, own)["front-pool"]
    assert cleared.status == "cleared", cleared.sentence
    assert cleared.sentence == snapshot(
        "requests wait 467 of 534 ms for one of 2 connections of the application's pool (Commons"
        " DBCP2, maxTotal), but the database would not do more for more of them"
    )


CROWDED = Front(
    pool=64, requests=3000.0, pool_ms=0.1, database_ms=20.0, cores=0.05, statements=20.0
)


def test_a_pool_that_lets_in_too_many_sessions_is_found_and_a_smaller_one_proposed(
    tmp_path: Path,
) -> None:
    crowd = {"clients": 64, "busy": 1.0, "server": 0.95, "queued": 60.0, "on_server": 64.0}
    large = load(CROWDED, **crowd, sessions={CPU: 58.0, IDLE: 2.0})
    found = diagnosed(tmp_path, large)["connections"]
    assert found.status == "found", found.sentence
    assert found.sentence == snapshot(
        "59 sessions compete for 2 cores, which the application's pool lets in (Commons DBCP2,"
        " maxTotal = 64)"
    )
    sizes = [int(each.change.spec["front.max_total"]) for each in found.proposals]
    assert sizes
    assert 8 <= min(sizes) <= max(sizes) <= 16
    calm = load(LARGE, sessions={CPU: 0.8, SLEEP: 14.0, IDLE: 0.4})
    assert diagnosed(tmp_path, calm)["connections"].status == "cleared"


CHATTY = Front(pool=16, requests=80.0, pool_ms=0.1, database_ms=190.0, statements=30.0)
MESSAGES = {CPU: 2.0, IDLE: 12.0}


@pytest.mark.parametrize(
    ("front", "status"), [(CHATTY, "found"), (replace(CHATTY, statements=3.0), "cleared")]
)
def test_many_statements_of_a_request_are_found_and_few_are_none(
    tmp_path: Path, front: Front, status: str
) -> None:
    said = diagnosed(tmp_path, load(front, sessions=MESSAGES))["statements-per-request"]
    assert said.status == status, said.sentence
    assert said.sentence.startswith(f"a request of /order sends {front.statements:g} statements")


def test_many_statements_whose_time_is_the_servers_are_none(tmp_path: Path) -> None:
    working = load(CHATTY, sessions={CPU: 0.5, SLEEP: 14.0, IDLE: 0.5})
    said = diagnosed(tmp_path, working)["statements-per-request"]
    assert said.status == "cleared", said.sentence


def test_of_a_front_end_that_waits_for_its_database_nothing_is_found(tmp_path: Path) -> None:
    said = diagnosed(tmp_path, load(LARGE, sessions={CPU: 0.8, SLEEP: 14.0, IDLE: 0.4}))
    limits = ("front-pool", "front-threads", "front-leak", "front-cpu", "front-collection")
    assert {name: said[name].status for name in limits} == dict.fromkeys(limits, "cleared")


def test_each_kind_of_request_has_a_budget_of_its_own(tmp_path: Path) -> None:
    both = replace(LARGE, requests=200.0)

    def pages(edge: int) -> Sequence[Mapping[str, Any]]:
        return [both.page(edge, "/order", 100, 80.0), both.page(edge, "/pay", 100, 30.0)]

    pair = load(
        both,
        tps=100.0,
        service_ms=112.4,
        statement="COMMIT",
        sessions={WAL_SYNC: 2.0},
        sessions_of={
            "/* /order */ select pg_sleep(?)": {SLEEP: 7.0},
            "/* /pay */ select pg_sleep(?)": {SLEEP: 2.0},
        },
        script_ms=[("GET /order?items=7", 81.2), ("POST /pay", 31.2)],
        rows=both.rows() | {"metric_front_page": pages},
    )
    order, pay = concluded(tmp_path, pair).statements
    assert (order.total.statement, pay.total.statement) == ("GET /order?items=7", "POST /pay")
    for each, asleep_ms, left_ms in ((order, 70, 10), (pay, 20, 10)):
        assert sum(each.parts_ms.values()) == pytest.approx(each.ms)
        assert each.parts_ms["sleep"] == pytest.approx(asleep_ms, rel=0.02)
        assert each.parts_ms["application"] == pytest.approx(1.0, rel=0.3)
        commit_ms = each.parts_ms["flush"] + each.parts_ms.get("between", 0.0)
        assert commit_ms == pytest.approx(left_ms, rel=0.1)
    assert order.events["sleep"] == ["Timeout:PgSleep"]


@pytest.mark.parametrize(("executions", "status"), [(0, "found"), (5, "cleared")])
def test_a_driver_that_keeps_no_statement_prepared_is_found(
    tmp_path: Path, executions: int, status: str
) -> None:
    quick = Front(pool=16, requests=1000, pool_ms=0.1, database_ms=2.2, application_ms=0.4)
    computing = load(
        replace(quick, statements=45.0),
        clients=3,
        service_ms=3.0,
        script_ms=[("GET /order", 3.0)],
        change={"spec": {"front.prepare_threshold": str(executions)}},
        sessions={CPU: 1.8},
        busy=1.0,
        server=0.6,
    )
    said = diagnosed(tmp_path, computing)["parse-plan"]
    assert said.status == status, said.sentence
    changes = [each.change.spec for each in said.proposals]
    assert changes == ([] if executions else [{"front.prepare_threshold": "5"}])
    assert ("prepareThreshold = 0" in said.sentence) == (executions == 0)


def batching(rows: float, *, rewritten: str = "false") -> Load:
    """A load whose requests insert so many rows in batches, on cores that are busy with it."""
    quick = Front(pool=16, requests=100, pool_ms=0.1, database_ms=25.0, application_ms=4.0)
    return load(
        replace(quick, statements=2.0, batched_rows=rows),
        clients=3,
        service_ms=30.0,
        script_ms=[("GET /events", 30.0)],
        change={"spec": {"front.rewrite_batched_inserts": rewritten}},
        sessions={CPU: 1.8},
        busy=1.0,
        server=0.6,
    )


@pytest.mark.parametrize(
    ("rows", "rewritten", "status", "said_of_it"),
    [
        (1000.0, "false", "found", "the application inserts 100,000 rows/s in batches"),
        (
            100.0,
            "false",
            "cleared",
            "% of the time without queues is statements for rows of batches",
        ),
        (100.0, "true", "cleared", "the driver inserts many rows with one statement"),
        (0.0, "false", "cleared", "the application inserts nothing in batches"),
    ],
)
def test_batches_that_the_driver_sends_row_by_row_are_found(
    tmp_path: Path, rows: float, rewritten: str, status: str, said_of_it: str
) -> None:
    said = diagnosed(tmp_path, batching(rows, rewritten=rewritten))["front-batches"]
    assert said.status == status, said.sentence
    assert said_of_it in said.sentence
    changes = [each.change.spec for each in said.proposals]
    assert changes == [{"front.rewrite_batched_inserts": "true"}] * (status == "found")


def foreign(**gauges: float | None) -> Load:
    """16 clients of a web server of the user's, 30 requests a second, by its own figures."""
    known = {"pool_max": 2, "pool_active": 2, "pool_waiting": 14, "threads_max": 200}
    row = known | {"threads_busy": 16} | gauges
    return load(
        SMALL,
        front=None,
        http={"url": WEB},
        rows={"metric_front": lambda edge: [row]},
    )


def test_the_figures_of_a_web_server_of_the_users_name_its_pool(tmp_path: Path) -> None:
    said = diagnosed(tmp_path, foreign())
    pool = said["front-pool"]
    assert pool.status == "found", pool.sentence
    assert pool.sentence == snapshot(
        "by the web server's own figures, requests wait 467 of 534 ms for one of 2 connections of"
        " its pool while the server's machine is 70 % idle"
    )
    assert not pool.proposals
    assert said["web-server"].status == said["front-threads"].status == "cleared"
    wide = diagnosed(tmp_path, foreign(pool_max=16, pool_active=2, pool_waiting=0))
    assert wide["front-pool"].status == "cleared"
    assert wide["web-server"].status == "found"


def test_the_figures_of_a_web_server_of_the_users_name_its_threads(tmp_path: Path) -> None:
    few = {"threads_max": 4, "threads_busy": 4, "pool_max": 16, "pool_active": 4}
    said = diagnosed(tmp_path, foreign(**few, pool_waiting=0))
    threads = said["front-threads"]
    assert threads.status == "found", threads.sentence
    assert threads.sentence == snapshot(
        "4 of 4 threads of the web server are busy, by its own figures, with 16 requests under"
        " way: the others wait for a thread"
    )
    behind_pool = diagnosed(tmp_path, foreign(threads_max=4, threads_busy=4, pool_waiting=2))
    assert behind_pool["front-threads"].status == "cleared"


def test_a_web_server_that_does_not_tell_is_not_judged(tmp_path: Path) -> None:
    said = diagnosed(tmp_path, foreign(pool_waiting=None, threads_busy=None))
    assert said["front-pool"].status == said["front-threads"].status == "skipped"
    assert said["web-server"].status == "found"

"""Findings about the application behind a web front end, on made-up run files and at their
thresholds: its own CPU time, garbage collection, connections that it keeps, its threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import CPU, IDLE, Load, diagnosed
from inline_snapshot import snapshot
from msgspec.structs import replace
from test_signatures_front import LARGE, Front, load

# Half of a request's 66 ms is the application's own.
COMPUTING = replace(LARGE, database_ms=33.0, application_ms=33.0)
# Requests that find a connection at once, and a thread not at all.
QUICK = Front(pool=16, requests=200.0, pool_ms=0.1, database_ms=9.0, application_ms=0.4)


def changed(of: Front, table: str, columns: Mapping[str, Callable[[int], float]]) -> dict[str, Any]:
    """Rows of the front end, with these columns of one table changed: functions of the second."""

    def rows(second: int) -> Sequence[Mapping[str, Any]]:
        new = {name: value(second) for name, value in columns.items()}
        return [{**row, **new} for row in of.rows()[table](second)]

    return of.rows() | {table: rows}


def computing(of: Front, rows: Mapping[str, Any] | None = None) -> Load:
    """A load whose sessions work for the time that its requests spend in the database."""
    sessions = {CPU: 0.9 * of.requests * of.database_ms / 1000, IDLE: 0.5}
    return load(of, sessions=sessions, busy=0.6, rows=of.rows() if rows is None else rows)


@pytest.mark.parametrize(
    ("cores", "own_ms", "status"),
    [(0.61, 14.0, "found"), (0.59, 14.0, "cleared"), (0.61, 13.0, "cleared")],
    ids=["computes", "few cores", "little of the response time"],
)
def test_an_application_that_computes(
    tmp_path: Path, cores: float, own_ms: float, status: str
) -> None:
    """Of two cores 30 %, and of the response time 20 %, which are 13.3 ms."""
    of = replace(COMPUTING, cores=cores, application_ms=own_ms)
    said = diagnosed(tmp_path, computing(of))["front-cpu"]
    assert said.status == status, said.sentence
    if status == "found":
        assert said.sentence == snapshot(
            "the application itself takes 14 of 67 ms and 0.61 of 2 cores, most of it for /order"
        )


@pytest.mark.parametrize(("pauses_ms", "status"), [(101.0, "found"), (99.0, "cleared")])
def test_garbage_collection_of_a_tenth_of_the_time(
    tmp_path: Path, pauses_ms: float, status: str
) -> None:
    rows = changed(COMPUTING, "metric_jvm", {"collection_ms": lambda second: pauses_ms * second})
    said = diagnosed(tmp_path, computing(COMPUTING, rows))["front-collection"]
    assert said.status == status, said.sentence
    assert (
        said.sentence
        == snapshot(
            {
                "found": (
                    "garbage collection stops the application for 10 % of the time; 25 % of its"
                    " heap is in use on average"
                ),
                "cleared": "garbage collection stops the application for 9.9 % of the time",
            }
        )[status]
    )


@pytest.mark.parametrize(
    ("kept", "lent", "status"),
    [(1, 15, "found"), (1, 8, "found"), (0, 16, "cleared")],
    ids=["nearly all are lent", "one is kept", "all are lent"],
)
def test_connections_that_are_never_returned(
    tmp_path: Path, kept: int, lent: int, status: str
) -> None:
    columns = {
        "metric_front_page": {"kept": lambda second: kept},
        "metric_front": {"pool_active": lambda second: lent},
    }
    rows = {table: changed(LARGE, table, new)[table] for table, new in columns.items()}
    said = diagnosed(tmp_path, computing(LARGE, LARGE.rows() | rows))["front-leak"]
    assert said.status == status, said.sentence
    assert said.is_about_to_fail == (status == "found" and lent == 15)
    if status == "found":
        assert (
            said.sentence
            == snapshot(
                {
                    15: (
                        "1 connection of 16 of the application's pool were never returned:"
                        " requests wait 0.15 % of their time for one"
                    ),
                    8: (
                        "1 connection of 16 of the application's pool were never returned:"
                        " requests wait 0.15 % of their time for one"
                    ),
                }
            )[lent]
        )


def queued(threads: int, queue: int, of: Front = QUICK) -> Load:
    """So many requests wait for a thread of the connector."""
    columns = {"threads_max": threads, "threads_busy": min(threads, 2), "connector_queue": queue}
    rows = changed(
        of, "metric_front", {name: lambda _, value=value: value for name, value in columns.items()}
    )
    sessions = {CPU: 1.0, IDLE: 0.6}
    return load(of, sessions=sessions, rows=rows, front={"max_total": 16, "threads": threads})


@pytest.mark.parametrize(
    ("threads", "queue", "status"),
    [(2, 14, "found"), (2, 0, "cleared"), (3, 14, "cleared")],
    ids=["all are busy", "nobody waits", "one has nothing to do"],
)
def test_few_threads_of_the_web_server(
    tmp_path: Path, threads: int, queue: int, status: str
) -> None:
    said = diagnosed(tmp_path, queued(threads, queue))["front-threads"]
    assert said.status == status, said.sentence
    larger = [each.change.spec for each in said.proposals]
    assert bool(larger) == (status == "found")
    assert all(int(spec["front.threads"]) > threads for spec in larger)


def accepting(most: int, accepted: int, waiting: int) -> Load:
    """So many connections of clients wait to be accepted by the connector."""
    columns = {
        "connections_max": most,
        "connections_open": accepted,
        "accept_queue": waiting,
        "threads_busy": min(accepted, 4),
    }
    rows = changed(
        QUICK,
        "metric_front",
        {name: lambda _, value=value: value for name, value in columns.items()},
    )
    return load(QUICK, sessions={CPU: 0.4, IDLE: 1.2}, rows=rows, front={"max_total": 16})


@pytest.mark.parametrize(
    ("most", "accepted", "waiting", "status"),
    [(4, 4, 12, "found"), (4, 4, 0, "cleared"), (8192, 16, 3, "cleared")],
    ids=["others wait", "nobody waits", "there is room"],
)
def test_a_web_server_that_accepts_no_more_connections(
    tmp_path: Path, most: int, accepted: int, waiting: int, status: str
) -> None:
    said = diagnosed(tmp_path, accepting(most, accepted, waiting))["front-accept-queue"]
    assert said.status == status, said.sentence
    assert said.is_about_to_fail == (status == "found")
    if status == "found":
        assert said.sentence == snapshot(
            "12 connections wait to be accepted by the web server, which has 4 (maxConnections ="
            " 4): neither it nor the database shows them"
        )
    larger = [int(each.change.spec["front.connections"]) for each in said.proposals]
    assert all(connections >= 16 for connections in larger)
    assert bool(larger) == (status == "found")


def test_an_accept_queue_that_the_kernel_does_not_tell_is_not_judged(tmp_path: Path) -> None:
    rows = changed(QUICK, "metric_front", {"accept_queue": lambda _: float("nan")})
    said = diagnosed(tmp_path, load(QUICK, rows=rows))["front-accept-queue"]
    assert said.status == "skipped"


def test_threads_that_wait_for_a_connection_are_no_limit(tmp_path: Path) -> None:
    behind_pool = replace(QUICK, pool=1, pool_ms=6.0, database_ms=4.0)
    said = diagnosed(tmp_path, queued(2, 14, behind_pool))["front-threads"]
    assert said.status == "cleared", said.sentence
    assert said.sentence == snapshot(
        "requests wait 70 of 80 ms for one of 2 threads, most of which wait for a connection"
    )

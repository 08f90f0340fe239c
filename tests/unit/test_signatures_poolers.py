"""Signatures of poolers, on made-up run files: clients at their limit, pools of all pairs, prepared
statements that are lost, settings without effect."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import Load, diagnosed
from record_samples import error_row
from test_signatures_sessions import Rows, sessions

from pgdyno.probe._origins import by_origin


def queue(clients: int, unaccepted: int) -> dict[str, Rows]:
    row = {
        "pool": "processes", "clients": clients, "clients_waiting": 0, "servers_active": clients,
        "servers_idle": 0, "listen_queue": unaccepted,
    }  # fmt: skip
    return {"metric_pooler": lambda second: [row]}


def pooler(kind: str, **settings: str) -> Mapping[str, Any]:
    return {"kind": kind, "settings": settings}


@pytest.mark.parametrize(
    ("clients", "unaccepted", "status"),
    [(8, 1, "found"), (8, 0, "cleared"), (7, 5, "cleared")],
    ids=["one waits", "nobody waits", "there is room"],
)
@pytest.mark.parametrize(
    ("kind", "limit"), [("pgpool", "num_init_children"), ("haproxy", "maxconn")]
)
def test_clients_in_the_listen_queue(
    tmp_path: Path, kind: str, limit: str, clients: int, unaccepted: int, status: str
) -> None:
    load = Load(pooler=pooler(kind, **{limit: "8"}), rows=queue(clients, unaccepted))
    found = diagnosed(tmp_path, load)["pooler-client-limit"]
    assert found.status == status, found.sentence
    assert found.is_about_to_fail == (status == "found")


def test_clients_that_a_pooler_refuses(tmp_path: Path) -> None:
    refused = error_row(sqlstate="08P01", message="no more connections allowed (max_client_conn)")
    load = Load(pooler=pooler("pgbouncer", max_client_conn="4"), rows=queue(4, 0), errors=[refused])
    found = diagnosed(tmp_path, load)["pooler-client-limit"]
    assert found.status == "found"
    assert "PgBouncer refused" in found.sentence
    assert "(max_client_conn = 4)" in found.sentence


def test_without_a_pooler_there_is_no_limit_of_one(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, Load())
    assert found["pooler-client-limit"].status == "cleared"
    assert found["pooler-pairs"].status == "cleared"
    assert found["unreaped-connections"].status == "cleared"


@pytest.mark.parametrize(
    ("connections", "status"), [(98, "found"), (97, "cleared"), (None, "skipped")]
)
def test_pools_of_all_pairs(tmp_path: Path, connections: int | None, status: str) -> None:
    facts: dict[str, Any] = {"entrance_uri": "postgresql://shop@/shop"}
    if connections is not None:
        facts["pooler_pairs"] = {"connections": connections, "free": 97, "count": 3}
    assert diagnosed(tmp_path, Load(server_facts=facts))["pooler-pairs"].status == status


@pytest.mark.parametrize(
    ("sqlstate", "advice", "status"),
    [
        ("26000", "it was prepared", "found"),
        ("42P05", "it was prepared", "found"),
        ("26000", "", "cleared"),
        ("40001", "it was prepared", "cleared"),
    ],
)
def test_statements_that_were_prepared_in_another_session(
    tmp_path: Path, sqlstate: str, advice: str, status: str
) -> None:
    lost = error_row(sqlstate=sqlstate, advice=advice)
    found = diagnosed(tmp_path, Load(errors=[lost]))["unkept-statements"]
    assert found.status == status, found.sentence


@pytest.mark.parametrize(
    ("count", "bucket", "status"),
    [(5, 1, "found"), (4, 1, "cleared"), (40, 0, "cleared")],
    ids=["five", "four", "in use"],
)
def test_connections_that_a_setting_does_not_end(
    tmp_path: Path, count: int, bucket: int, status: str
) -> None:
    """The time of connection_life_time does not run while a client is attached."""
    rows: dict[str, Rows] = {
        "metric_origin": lambda second: by_origin([sessions("idle", count, bucket)])
    }
    load = Load(pooler=pooler("pgpool", connection_life_time="1"), rows=rows)
    found = diagnosed(tmp_path, load)["unreaped-connections"]
    assert found.status == status, found.sentence
    assert "connection_life_time" in found.sentence

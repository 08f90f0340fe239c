"""Findings of what stands between clients and server, and of a standby, on real servers.

Sleeps and delays are the same on every machine; nothing here depends on its speed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from signature_runs import carried_out, status

from pgdyno.diagnose import Finding
from pgdyno.facts.situation import SPARE_SHARE
from pgdyno.server import Cluster, ConnInfo
from pgdyno.server.replication._relay import Relay
from pooler_fixtures import PgBouncer

pytestmark = pytest.mark.server
MakePgBouncer = Callable[..., PgBouncer]


@pytest.fixture
def sleeping(tmp_path: Path) -> Path:
    """Transactions that take far longer than a queue for a busy core, and no core."""
    path = tmp_path / "sleeping.sql"
    path.write_text("begin;\nselect pg_sleep(0.15);\nend;\n")
    return path


def entered(
    monkeypatch: pytest.MonkeyPatch, cluster: Cluster, entrance: ConnInfo
) -> dict[str, Any]:
    """The spec's table of a server that its clients reach through ``entrance``."""
    direct = cluster.conninfo
    monkeypatch.setenv("PGPASSWORD", entrance.password or "")
    control = f"host={direct.host} port={direct.port}"
    conninfo = entrance.uri_without_password
    return {"kind": "existing", "conninfo": conninfo, "control": control}


def values(finding: Finding) -> Mapping[str, Any]:
    return {each.name: each.value for each in finding.evidence}


@pytest.mark.parametrize("version", [18, 15])
def test_standby_behind_a_delay_is_named(
    tmp_path: Path, version: int, installation_of: Callable[[int], object]
) -> None:
    installation_of(version)
    # Far longer than the flushes on a busy disk.
    table = {"count": 1, "mode": "on", "delay": "50ms"}
    found = carried_out(tmp_path, version=version, clients=4, scale=4, hold="3s", standby=table)
    finding = found["sync-replication"]
    assert finding.status == "found", status(found)
    assert values(finding)["pgdyno_standby_1: until written"] > 50
    assert values(finding)["pgdyno_standby_1: network's round trip, about"] > 50
    proposed = {each.remedy_id: each.predicted_ratio for each in finding.proposals}
    assert proposed["synchronous-commit-local"] > 1.5


def test_asynchronous_standby_is_not_waited_for(tmp_path: Path) -> None:
    table = {"count": 1, "mode": "async", "delay": "50ms"}
    found = carried_out(tmp_path, clients=4, scale=4, hold="2s", standby=table)
    assert found["sync-replication"].status == "cleared", status(found)


def test_round_trips_of_a_slow_link_are_counted(
    tmp_path: Path, pg18: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "chatty.sql"
    script.write_text("begin;\nselect 1;\nselect 2;\nend;\n")
    tcp = pg18.conninfo_tcp
    relay = Relay((tcp.host, tcp.port), delay_ms=30)
    try:
        server = entered(monkeypatch, pg18, replace(tcp, port=relay.port))
        found = carried_out(tmp_path, script=script, server=server, hold="5s")
    finally:
        relay.close()
    finding = found["round-trips"]
    assert finding.status == "found", status(found)
    number = re.search(r"in ([0-9.]+) round trips of", finding.sentence)
    assert number is not None
    assert float(number[1]) == pytest.approx(4, abs=0.6)
    assert values(finding)["a round trip, at most"] >= 60


def test_sleep_in_the_server_is_no_round_trip_and_one_client_is_few(
    tmp_path: Path, sleeping: Path
) -> None:
    found = carried_out(tmp_path, script=sleeping, clients=1, hold="2s")
    assert found["round-trips"].status == "cleared", status(found)
    assert found["pooler"].status == "cleared", status(found)
    few = found["few-clients"]
    if few.status == "cleared":  # Others may keep the machine's cores busy.
        assert float(values(few)["host CPU idle"] or 0.0) < SPARE_SHARE, status(found)
    else:
        assert few.proposals[0].predicted_ratio > 1.5


@pytest.mark.parametrize(("sessions", "expected"), [(2, "found"), (8, "cleared")])
def test_sessions_of_a_pooler_are_counted(
    tmp_path: Path,
    new_cluster: Callable[..., Cluster],
    pgbouncer: MakePgBouncer,
    monkeypatch: pytest.MonkeyPatch,
    sleeping: Path,
    sessions: int,
    expected: str,
) -> None:
    cluster = new_cluster()
    pooler = pgbouncer(cluster, pool_mode="transaction", default_pool_size=sessions)
    server = entered(monkeypatch, cluster, pooler.conninfo)
    found = carried_out(tmp_path, server=server, script=sleeping, hold="3s", protocol="simple")
    finding = found["pooler"]
    assert finding.status == expected, status(found)
    assert values(finding)["connections of the clients"] == 8
    assert values(finding)["sessions on the server"] == pytest.approx(sessions, abs=0.2)
    few = found["few-clients"]
    assert few.status == "cleared" or values(few)["cores"] >= 8, status(found)

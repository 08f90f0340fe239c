"""Servers that are brought to an age: under load, refusing writes, recovering, and refused."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import psycopg
import pytest

from pgdyno.conduct import Silent, carry_out, open_session
from pgdyno.errors import SetupError, UsageError
from pgdyno.investigate.run import run_spec
from pgdyno.record import RunFile
from pgdyno.results import load, schemas
from pgdyno.results.age import AgeResult
from pgdyno.scenario.age import check_kept, live_at_age, prepared_spec, request_of
from pgdyno.server import Cluster, Installation, connect_plain
from pgdyno.server.local.aging import fast_forward, read_ages
from pgdyno.spec import Spec, spec_from_fields
from pgdyno.spec.age import PIN_SETTINGS, STOP_AGE, Ids

pytestmark = pytest.mark.server
SCENARIO = Path(__file__).parents[2] / "scenarios" / "wraparound-day.toml"
MIXED: dict[str, Any] = {
    "workload": {"script": "mixed"},
    "clients": [{"count": 2, "think": "20ms"}],
    "load": {"hold": "1s"},
}


def spec_of(installation: Installation, **more: Any) -> Spec:
    server = {"bindir": str(installation.bindir), "settings": {"autovacuum_naptime": "1s"}}
    return spec_from_fields({"name": "old", "server": server, **MIXED, **more})


def lived(spec: Spec, path: Path, ids: Ids, age: float) -> AgeResult:
    spec = prepared_spec(spec, ids)
    request = request_of(spec, (ids, int(age)), before_ms=300, recovery_ms=120_000)
    with open_session(spec, run=path, command="age", spec_text="", watcher=Silent()) as session:
        result = live_at_age(session, request)
    jsonschema.validate(json.loads(json.dumps(result.to_json())), schemas()["age"])
    with RunFile(path) as run:
        assert load(run) == result
        assert run.ledger().balanced
    return result


@pytest.mark.parametrize("major", [15, 18])
def test_the_failsafe_is_seen_and_all_rows_are_there(
    installation_of: Callable[[int], Installation], tmp_path: Path, major: int
) -> None:
    result = lived(spec_of(installation_of(major)), tmp_path / "run.db", "xid", 1.7e9)
    assert 1_700_000_000 <= result.age < 1_700_000_000 + 100_000
    assert result.age_before < 1_000_000
    assert result.recovery is not None
    assert result.recovery.seconds is not None
    assert result.recovery.age < 200_000_000
    periods = (result.under_age, result.recovery.period)
    assert any("public.test_table" in each.failsafe_tables for each in periods)
    assert result.under_age.refused == 0
    assert result.under_age.writes_done > 0
    assert [each.complete for each in result.tables] == [True]
    assert result.tables[0].inserted
    assert [each.passed for each in result.checks] == [True]
    check_kept(result)


@pytest.mark.parametrize("major", [15, 18])
def test_writes_are_refused_and_accepted_again(
    installation_of: Callable[[int], Installation], tmp_path: Path, major: int
) -> None:
    result = lived(spec_of(installation_of(major)), tmp_path / "run.db", "xid", 2.146e9)
    assert result.age > STOP_AGE
    assert result.under_age.refused > 0
    assert result.under_age.reads_done > 0
    assert result.under_age.warnings > 0
    assert result.recovery is not None
    assert result.recovery.seconds is not None
    assert result.recovery.writes_seconds is not None
    assert [each.complete for each in result.tables] == [True]
    assert [each.passed for each in result.checks] == [True]


@pytest.mark.parametrize("major", [15, 18])
def test_multixacts_grow_old_too(
    installation_of: Callable[[int], Installation], tmp_path: Path, major: int
) -> None:
    result = lived(spec_of(installation_of(major)), tmp_path / "run.db", "mxid", 1.7e9)
    assert result.of == "mxid"
    assert result.age >= 1_700_000_000
    assert result.recovery is not None
    assert result.recovery.seconds is not None
    assert [each.complete for each in result.tables] == [True]
    assert [each.passed for each in result.checks] == [True]


def test_an_age_that_forces_nothing_needs_no_recovery(
    installation_of: Callable[[int], Installation], tmp_path: Path
) -> None:
    result = lived(spec_of(installation_of(18)), tmp_path / "run.db", "xid", 1e8)
    assert result.recovery is None
    assert "no vacuum is forced at this age" in result.sentence
    with RunFile(tmp_path / "run.db") as run:
        (event,) = run.events("age")
        young, old = run.slices()
    assert event.duration_ms == pytest.approx(1000 * result.seconds, abs=1)
    assert young.ended_ms is not None
    assert young.ended_ms <= event.at_ms <= event.at_ms + event.duration_ms <= old.started_ms


def test_a_run_begins_on_a_server_of_the_age_of_its_spec(
    installation_of: Callable[[int], Installation], tmp_path: Path
) -> None:
    server = {"bindir": str(installation_of(18).bindir), "xid_age": 1.9e9}
    spec = spec_from_fields({"name": "old", **MIXED, "server": server})
    path = tmp_path / "run.db"
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        carry_out(session)
    with RunFile(path) as run:
        (event,) = run.events("age")
        assert event.detail["after"] >= 1_900_000_000
        assert run.series("metric_age")["xid_age"].max() >= 1_900_000_000
        assert run.ledger().done > 0


def started(
    new_cluster: Callable[..., Cluster], ids: Ids, **settings: str
) -> tuple[Cluster, psycopg.Connection]:
    cluster = new_cluster(18, **PIN_SETTINGS[ids], **settings)
    return cluster, connect_plain(cluster.conninfo)


def test_an_age_can_only_be_raised(new_cluster: Callable[..., Cluster]) -> None:
    cluster, conn = started(new_cluster, "xid")
    conn.close()
    first = fast_forward(cluster, "xid", 1_000_000_000)
    assert first.after >= 1_000_000_000
    with pytest.raises(UsageError, match="its age can only be raised") as refused:
        fast_forward(cluster, "xid", 900_000_000)
    assert refused.value.code == "age-reached"
    second = fast_forward(cluster, "xid", 1_500_000_000)
    assert second.after >= 1_500_000_000


def test_what_holds_the_age_is_named(new_cluster: Callable[..., Cluster]) -> None:
    cluster, conn = started(new_cluster, "xid", max_prepared_transactions="5")
    with conn:
        conn.execute("create table t (a int)")
        conn.execute("begin")
        conn.execute("insert into t values (1)")
        conn.execute("prepare transaction 'left behind'")
        conn.execute("select pg_create_physical_replication_slot('a_standby')")
        before = read_ages(conn)
    named = 'the prepared transaction "left behind", the replication slot "a_standby" holds it'
    with pytest.raises(SetupError, match=named):
        fast_forward(cluster, "xid", 1_000_000_000)
    with connect_plain(cluster.conninfo) as conn:
        assert read_ages(conn).xid <= before.xid + 10
        assert conn.execute("select count(*) from pg_replication_slots").fetchone() == (1,)


@pytest.mark.long
def test_the_day_of_the_wraparound(
    installation_of: Callable[[int], Installation], tmp_path: Path
) -> None:
    """The first chapter of the scenario on a smaller scale."""
    fields = tomllib.loads(SCENARIO.read_text())
    fields["server"] |= {"bindir": str(installation_of(18).bindir), "xid_age": 2.146e9}
    del fields["story"], fields["govern"]
    fields["clients"][0]["count"] = 2
    fields["load"] |= {"hold": "20s", "exit_on_abort": False}
    fields["events"][0]["at"] = "2s"
    path = tmp_path / "run.db"
    spec = spec_from_fields(fields)
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        result = run_spec(session)
    finding = next(each for each in result.findings if each.id == "transaction-ids")
    assert finding.status == "found"
    assert "transactions an ID: the oldest transaction ID was 2,146," in finding.sentence
    inserts = next(each for each in result.statements if each.statement.startswith("insert"))
    assert inserts.failed > 0
    assert inserts.done > 0
    assert result.vacuum is not None

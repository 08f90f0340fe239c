"""The three commands on real servers, from arguments to run file: ledger, schemas, safety."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import psycopg
import pytest
from msgspec.structs import replace

from pgdyno.compare.change import compare
from pgdyno.conduct import Silent, open_session
from pgdyno.errors import PgdynoError
from pgdyno.investigate.loop import investigate
from pgdyno.investigate.run import run_spec
from pgdyno.record import RunFile, throughput_tps
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.report.words.sentences import setting_of_run
from pgdyno.results import recorded_json
from pgdyno.results.compare import CompareResult
from pgdyno.results.investigate import InvestigateResult
from pgdyno.results.run import RunResult
from pgdyno.server import Cluster, ConnInfo
from pgdyno.spec import Change, Spec, spec_from_fields

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def check_result(result: RunResult | CompareResult | InvestigateResult, command: str) -> None:
    """What is printed fits the published schema, and the run file gives the same back."""
    schema = json.loads((REFERENCE / f"result-{command}.schema.json").read_text())
    jsonschema.validate(json.loads(json.dumps(result.to_json())), schema)
    with RunFile(Path(result.run_file)) as run:
        assert recorded_json(run) == result.to_json()


def spec_of(**fields: Any) -> Spec:
    return spec_from_fields({"load": {"hold": "1s"}, **fields})


def on(cluster: Cluster, **fields: Any) -> Spec:
    """A spec for a server that is there."""
    uri = cluster.conninfo.uri_without_password
    return spec_of(server={"kind": "existing", "conninfo": uri}, **fields)


def run(spec: Spec, path: Path, command: str = "run", **options: Any) -> Any:
    return open_session(spec, run=path, command=command, spec_text="", watcher=Silent(), **options)


# One of a hundred transactions of ``mixed`` is invalid: so many have some, however slow they are.
COUNTED = {"load": {"transactions": 250, "hold": "5min", "seed": 1}}


@pytest.mark.alike
@pytest.mark.parametrize(
    ("script", "load"),
    [("tpcb-like", {}), ("simple-update", {}), ("select-only", {}), ("mixed", COUNTED)],
)
def test_a_run_of_each_workload(
    pg: Cluster, tmp_path: Path, script: str, load: dict[str, Any]
) -> None:
    spec = on(pg, workload={"script": script}, clients=[{"count": 4, "think": "20ms"}], **load)
    with run(spec, tmp_path / "run.db") as session:
        result = run_spec(session)
    check_result(result, "run")
    ledger = result.ledger
    parts = ("done", "failed", "skipped", "cancelled", "backlog")
    assert ledger.intended == sum(getattr(ledger, part) for part in parts)
    assert ledger.done > 0
    assert ledger.failed == 0
    expected = {error.sqlstate for error in result.errors if error.expected}
    assert expected == ({"42601"} if script == "mixed" else set())
    assert RunFile(tmp_path / "run.db").run.status == "done"


def test_the_ramp_is_apart_from_the_measurement(pg18: Cluster, tmp_path: Path) -> None:
    spec = on(
        pg18,
        clients=[{"count": 6, "pool": {"max": 2}, "think": "20ms"}],
        load={"ramp": "2s", "hold": "2s"},
    )
    with run(spec, tmp_path / "run.db") as session:
        run_spec(session)
    recorded = RunFile(tmp_path / "run.db")
    assert [part.kind for part in recorded.slices()] == ["ramp", "run"]
    ramp, hold = recorded.slices()
    clients = [interval.clients for interval in recorded.intervals([ramp.id])]
    assert clients == sorted(clients)
    assert {interval.clients for interval in recorded.intervals([hold.id])} == {6}
    assert max(interval.connections for interval in recorded.intervals([hold.id])) == 2


def test_events_happen_at_their_time(pg18: Cluster, tmp_path: Path) -> None:
    spec = on(
        pg18,
        clients=[{"count": 2, "think": "20ms"}],
        events=[{"at": "400ms", "sql": "select 4711"}, {"at": "800ms", "sql": "select 1/0"}],
    )
    with run(spec, tmp_path / "run.db") as session:
        before_ms = session.recorder.at_ms()
        run_spec(session)
    events = {event.label: event for event in RunFile(tmp_path / "run.db").events()}
    done, failed = events["select 4711"], events["failed: select 1/0"]
    assert (done.kind, failed.kind) == ("sql", "warning")
    assert failed.detail["message"] == "division by zero"
    assert done.at_ms - before_ms >= 400
    assert failed.at_ms - before_ms >= 800


def paced(folder: Path) -> dict[str, Any]:
    """A workload for what does not depend on how much is done; the cores are free for others."""
    script = folder / "paced.sql"
    script.write_text("select 1;\n\\sleep 20 ms\n")
    return {"script": [{"file": str(script)}]}


@pytest.mark.parametrize(
    "settings",
    [
        {"commit_delay": "100"},
        pytest.param({"wal_buffers": "1MB"}, id="restarts", marks=pytest.mark.long),
    ],
)
@pytest.mark.usefixtures("short_slices")
def test_comparing_settings_on_a_server_of_ours(tmp_path: Path, settings: dict[str, str]) -> None:
    spec = spec_of(workload=paced(tmp_path), clients=[{"count": 2}])
    with run(spec, tmp_path / "run.db", "compare") as session:
        result = compare(
            session,
            Change(settings=settings),
            title="a setting",
            budget_s=1,
            slice_s=0.3,
            pairs_max=6,
        )
    check_result(result, "compare")
    assert result.effect.pairs == 6
    recorded = RunFile(tmp_path / "run.db")
    assert recorded.ledger().balanced, "restarts lose nothing from the ledger"
    pairs: dict[int | None, list[str | None]] = {}
    for part in recorded.slices("trial"):
        assert bool(part.change) == (part.side == "b")
        # On a busy machine nothing may be done in one, and its pair is measured again.
        pairs.setdefault(part.pair, []).append(None if part.void else part.side)
    sound = [sorted(map(str, sides)) for sides in pairs.values() if None not in sides]
    assert sound == [["a", "b"]] * 6


@pytest.mark.long
def test_comparing_a_pool_and_a_key_of_the_spec(tmp_path: Path) -> None:
    spec = spec_of(workload=paced(tmp_path), clients=[{"count": 4}])
    with run(spec, tmp_path / "run.db", "compare") as session:
        result = compare(
            session,
            Change(pool_max={"clients": 1}, spec={"load.protocol": "simple"}),
            title="pool of 1, simple",
            budget_s=1,
            slice_s=0.3,
            pairs_max=6,
        )
    check_result(result, "compare")
    recorded = RunFile(tmp_path / "run.db")
    assert recorded.ledger().balanced
    for part in recorded.slices("trial"):
        connections = max(interval.connections for interval in recorded.intervals([part.id]))
        assert connections == (1 if part.side == "b" else 4) or part.void


@pytest.mark.long
def test_investigating_keeps_the_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgdyno.investigate._baseline.CURVE_S_MIN", 2.0)
    clients = {"name": "web", "count": 8, "pool": {"max": 1}}
    spec = spec_of(clients=[clients], load={"hold": "2s", "ramp": "2s"})
    with run(spec, tmp_path / "run.db", "investigate") as session:
        result = investigate(session, budget_s=40, allow="D0", may_apply=False)
    check_result(result, "investigate")
    for step in result.steps:
        if step.remedy.durability_class != "D0":
            assert step.decision in ("offered", "rejected")
    assert "synchronous_commit" not in result.kept.get("settings", {})
    recorded = RunFile(tmp_path / "run.db")
    assert recorded.ledger().balanced
    assert recorded.trials()[0].kind == "noise"
    if result.kept:
        check_total(result, recorded)
    else:
        baseline = [part.id for part in recorded.slices("baseline")]
        assert result.baseline_tps == round(throughput_tps(recorded, baseline), 2)
        assert result.final_tps == result.baseline_tps
    check_ramps(result, recorded)


def check_ramps(result: InvestigateResult, recorded: RunFile) -> None:
    """Clients come one after the other: at first, and at the end with all that was kept."""
    first, *again = recorded.slices("ramp")
    assert not first.change
    same_clients = result.kept and "clients" not in result.kept
    assert [part.change for part in again] == ([result.kept] if same_clients else [])
    size = result.kept.get("pool_max", {}).get("web", 1)
    for part, most in zip((first, *again), (1, size), strict=False):
        intervals = recorded.intervals([part.id])
        clients = [interval.clients for interval in intervals]
        assert clients == sorted(clients)
        assert max(interval.connections for interval in intervals) <= most


def check_total(result: InvestigateResult, recorded: RunFile) -> None:
    """The figures are those of one trial of the spec as it was against everything kept."""
    if result.total is None:
        assert result.total_absent
        assert result.final_tps is None
        return
    trial = next(each for each in recorded.trials() if each.id == result.total.trial)
    assert trial.change == result.kept
    assert not any(part.change for part in recorded.slices(trial_id=trial.id) if part.side == "a")
    assert result.baseline_tps == round(trial.baseline_tps or 0.0, 2)
    assert result.final_tps == round(trial.changed_tps or 0.0, 2)


RATE = {"count": 8, "arrival": {"rate": 100, "process": "constant"}}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (Change(pool_max={"clients": 2}), "both sides held the rate"),
        (Change(rate={"clients": 2.0}), "each side held its own rate"),
    ],
)
@pytest.mark.long
def test_comparing_at_a_rate(pg18: Cluster, tmp_path: Path, change: Change, says: str) -> None:
    spec = on(pg18, workload={"script": "select-only"}, clients=[RATE])
    with run(spec, tmp_path / "run.db", "compare") as session:
        result = compare(session, change, title="it", budget_s=1, slice_s=0.2, pairs_max=6)
    check_result(result, "compare")
    recorded = RunFile(tmp_path / "run.db")
    assert recorded.ledger().balanced
    trial = recorded.trials()[-1]
    assert trial.compared == result.compared == result.noise_floor.of
    text = " ".join(line.text for line in summary_lines(recorded, 100))
    # A machine that is busy otherwise may not hold the rate, which is then what is compared.
    assert says in result.sentence or result.compared == "throughput"
    assert ("identical slices differ in p99 by" in text) == (result.compared == "latency_p99")
    if change.rate and says in result.sentence:
        assert result.effect.throughput_ratio > 1


@pytest.mark.long
def test_investigating_at_a_rate(tmp_path: Path) -> None:
    spec = spec_of(clients=[{**RATE, "name": "web", "pool": {"max": 1}}])
    with run(spec, tmp_path / "run.db", "investigate") as session:
        result = investigate(session, budget_s=25, allow="D0", may_apply=False)
    check_result(result, "investigate")
    recorded = RunFile(tmp_path / "run.db")
    assert recorded.ledger().balanced
    by_p99 = [step for step in result.steps if step.compared == "latency_p99"]
    if result.steps:
        assert result.noise_floor.of == result.steps[-1].compared
    lines = [line.text for line in summary_lines(recorded, 200)]
    said = [line for line in lines if "at the held rate" in line]
    assert len(said) == len(by_p99)
    assert all("at full load" in line and "measured p99 " in line for line in said)


def settings_of(cluster: Cluster) -> dict[str, tuple[str, str]]:
    with psycopg.connect(**cluster.conninfo.kwargs()) as connection:
        rows = connection.execute("select name, setting, source from pg_settings").fetchall()
    return {name: (setting, source) for name, setting, source in rows}


def test_without_apply_no_setting_of_the_users_server_changes(
    pg18: Cluster, tmp_path: Path
) -> None:
    before = settings_of(pg18)
    spec = on(pg18, clients=[{"name": "web", "count": 8, "pool": {"max": 1}}])
    with run(spec, tmp_path / "run.db", "investigate") as session:
        result = investigate(session, budget_s=30, allow="D3", may_apply=False)
    assert settings_of(pg18) == before
    assert not (pg18.data_dir / "postgresql.auto.conf").read_text().count("=")
    for step in result.steps:
        assert not step.remedy.change.get("settings")


@pytest.mark.usefixtures("short_slices")
def test_with_apply_settings_go_back(new_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    cluster = new_cluster()
    with psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("alter system set commit_delay = 7")
        connection.execute("select pg_reload_conf()")
    spec = on(cluster, workload=paced(tmp_path), clients=[{"count": 2}])
    with run(spec, tmp_path / "run.db", "compare", may_apply=True) as session:
        before = settings_of(cluster)
        compare(
            session,
            Change(settings={"commit_delay": "100", "synchronous_commit": "off"}),
            title="two settings",
            budget_s=1,
            slice_s=0.3,
            pairs_max=6,
        )
    assert settings_of(cluster) == before


def test_settings_that_need_a_restart_are_refused_on_the_users_server(
    pg18: Cluster, tmp_path: Path
) -> None:
    spec = on(pg18, clients=[{"count": 2, "think": "20ms"}])
    with (
        pytest.raises(PgdynoError, match="restart"),
        run(spec, tmp_path / "run.db", "compare", may_apply=True) as session,
    ):
        compare(
            session,
            Change(settings={"wal_buffers": "1MB"}),
            title="wal_buffers = 1MB",
            budget_s=1,
            slice_s=0.3,
        )
    assert RunFile(tmp_path / "run.db").run.status == "failed"


@pytest.mark.alike
@pytest.mark.parametrize("major", [18, 15])
def test_the_named_database_is_used_where_it_has_the_tables(
    new_cluster: Callable[..., Cluster], tmp_path: Path, major: int
) -> None:
    """With pgbench's tables there; and none is made there when it has none."""
    cluster = new_cluster(major)
    with psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("create database shop")
    shop = replace(cluster.conninfo, database="shop")
    uri = shop.uri_without_password
    spec = spec_of(
        server={"kind": "existing", "conninfo": uri}, clients=[{"count": 2, "think": "20ms"}]
    )
    with run(spec, tmp_path / "run.db") as session:
        assert run_spec(session).database == "pgdyno"
    assert "database pgdyno, because shop lacks the tables" in _head(tmp_path / "run.db")
    with psycopg.connect(**{**cluster.conninfo.kwargs(), "dbname": "shop"}) as connection:
        count = connection.execute(
            "select count(*) from pg_class where relnamespace = 'public'::regnamespace"
        ).fetchone()
    assert count == (0,)
    _pgbench_tables(shop, cluster, scale=2)
    before = _stored(shop)
    with run(spec, tmp_path / "shop.db") as session:
        assert run_spec(session).database == "shop"
    assert "database shop" in _head(tmp_path / "shop.db")
    assert "tpcb-like at scale 2" in _head(tmp_path / "shop.db")
    files, rows = _stored(shop)
    assert files == before[0]
    assert rows > before[1] > 0


def _head(path: Path) -> list[str]:
    return setting_of_run(RunFile(path).run)


def _pgbench_tables(conninfo: ConnInfo, cluster: Cluster, scale: int) -> None:
    """Made by pgbench, with one row of history."""
    where = ["-h", conninfo.host, "-p", str(conninfo.port), "-U", conninfo.user]
    command = [cluster.installation.binary("pgbench"), "-i", "-q", "-s", str(scale), *where]
    subprocess.run(
        [*command, conninfo.database],
        check=True,
        capture_output=True,
        env={**os.environ, "PGPASSWORD": conninfo.password or ""},
    )
    with psycopg.connect(**conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("insert into pgbench_history values (1, 1, 1, 1, now())")


def _stored(conninfo: ConnInfo) -> tuple[list[tuple[Any, ...]], int]:
    """The files of pgbench's tables, and the rows of their history."""
    with psycopg.connect(**conninfo.kwargs()) as connection:
        files = connection.execute(
            "select relname, oid, relfilenode from pg_class"
            " where relname like 'pgbench%' order by relname"
        ).fetchall()
        row = connection.execute("select count(*) from pgbench_history").fetchone()
    assert row is not None
    return files, int(row[0])

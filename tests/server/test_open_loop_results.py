"""Results of open loops and client groups, from the command line to JSON, on a real server."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema
import psycopg
import pytest

from pgdyno.cli import _status
from pgdyno.record import RunFile, read_acks
from pgdyno.server import Cluster

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "result-run.schema.json"
Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """``pgdyno run`` on a server of its own; its JSON, checked against the published schema."""
    monkeypatch.chdir(tmp_path)

    def carry_out(*arguments: str) -> dict[str, Any]:
        monkeypatch.setattr(
            sys, "argv", ["pgdyno", "run", *arguments, "-q", "--format", "json", "-o", "run.db"]
        )
        capfd.readouterr()
        status = _status()
        captured = capfd.readouterr()
        # A machine that is busy otherwise may make the generator the limit, which is said.
        assert status in (0, 4), captured.err
        result: dict[str, Any] = json.loads(captured.out)
        jsonschema.validate(result, json.loads(SCHEMA.read_text()))
        return result

    return carry_out


def adds_up(ledger: dict[str, int]) -> bool:
    ended = sum(ledger[name] for name in ("done", "failed", "skipped", "cancelled", "backlog"))
    return ledger["intended"] == ended


def test_a_rate_far_beyond_the_server_is_said_in_a_line(run: Run) -> None:
    result = run("tpcb-like", "-R", "200000", "-c", "2", "-T", "1", "--queue-max", "50")
    (group,) = result["groups"]
    assert adds_up(result["ledger"])
    assert group["loop"] == "open"
    assert not group["rate_held"]
    assert group["asked_tps"] > group["throughput_tps"]
    assert group["waiting_at_end"] <= 50
    assert group["ledger"]["skipped"] > 0
    assert group["sentence"].startswith("intended ")
    assert "the queue of 50 was full" in group["sentence"]


def test_groups_have_their_own_scripts_and_rates(run: Run, tmp_path: Path) -> None:
    (tmp_path / "setup.sql").write_text("create table tick (n int);\ninsert into tick values (0);")
    (tmp_path / "tick.sql").write_text("update tick set n = n + 1;\n")
    (tmp_path / "two.toml").write_text(
        """
        [workload]
        script = "select-only"
        setup = "setup.sql"
        [[clients]]
        name = "reads"
        count = 2
        arrival = { rate = 50, process = "constant", steps = [{ at = "500ms", rate = 100 }] }
        latency_limit = "5s"
        [[clients]]
        name = "ticks"
        count = 1
        think = "20ms"
        script = [{ file = "tick.sql" }]
        [load]
        hold = "2s"
        """
    )
    result = run("two.toml")
    reads, ticks = result["groups"]
    assert [reads["loop"], ticks["loop"]] == ["open", "closed"]
    assert ticks["asked_tps"] is None
    with closing(sqlite3.connect(tmp_path / "run.db")) as db:
        # The slice begins after the load, on a busy machine much later.
        due = "select sum(intended) from interval where client_group = 'reads'"
        assert db.execute(due).fetchone()[0] >= 150
    assert ticks["ledger"]["done"] > 0
    statements = {(s["group"], s["statement"]) for s in result["statements"]}
    assert ("ticks", "update tick set n = n + 1") in statements
    assert {group for group, _ in statements} == {"reads", "ticks"}
    done = sum(group["ledger"]["done"] for group in result["groups"])
    assert result["latency_ms"]["response"]["count"] == done
    whole = result["ledger_measured"]
    assert whole["over"] == "measured"
    for column, value in whole.items():
        if column != "over":
            assert value == sum(group["ledger"][column] for group in result["groups"])
    assert result["ledger"]["over"] == "run"
    assert result["generator"]["reactor"] in ("mio", "io_uring")


def test_a_number_of_transactions_ends_the_run(run: Run, tmp_path: Path) -> None:
    result = run("select-only", "-c", "3", "-t", "40")
    assert result["ledger"]["done"] == 120
    assert result["ledger"]["intended"] == 120
    assert result["latency_ms"]["response"]["count"] == 120, "all of them are measured"
    with RunFile(tmp_path / "run.db") as file:
        measured_s = file.seconds([part.id for part in file.slices()])
    if measured_s < 0.9:  # unless the machine stood still meanwhile
        assert result["verdict"]["finding"] is None
        assert result["verdict"]["sentence"].startswith("no verdict: 0.")
        assert result["findings"] == []


def test_a_setup_that_fails_names_file_and_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("setup.sql").write_text("select 1;\nselect nothing_of_the_sort;\n")
    Path("own.toml").write_text('[workload]\nsetup = "setup.sql"\n')
    monkeypatch.setattr(sys, "argv", ["pgdyno", "run", "own.toml", "-q"])
    assert _status() == 1
    assert 'setup.sql:2: column "nothing_of_the_sort" does not exist' in capfd.readouterr().err


def test_connections_by_the_transaction(run: Run, pg18: Cluster) -> None:
    server = pg18.conninfo.uri_without_password
    result = run("select-only", server, "-C", "-c", "2", "-t", "10")
    (group,) = result["groups"]
    connections, latency = group["connections"], group["latency_ms"]
    assert result["ledger"]["done"] == 20
    assert connections["connects"] == 20, "the first ones too"
    assert connections["connect_ms"]["total"]["count"] == connections["connects"]
    assert latency["connect"]["max"] > 0
    assert latency["connect"]["max"] <= latency["wait"]["max"] <= latency["response"]["max"]
    assert latency["response"]["p99.99"] is None, "twenty cannot tell"


def test_a_ledger_and_binary_values(run: Run, pg18: Cluster, tmp_path: Path) -> None:
    server = pg18.conninfo.uri_without_password
    options = ("--acks", "acks", "--parameters", "binary", "--max-tries", "1")
    result = run("tpcb-like", server, "-c", "2", "-t", "15", *options)
    ledger = read_acks(tmp_path / "acks")
    assert ledger.problems() == []
    assert len(ledger.records) == result["ledger"]["intended"] == 30
    assert ledger.columns["done"] == result["ledger"]["done"]
    assert result["errors"] == [] or result["ledger"]["failed"] > 0
    assert RunFile(tmp_path / "run.db").run.spec["load"]["parameters"] == "binary"


def test_groups_that_park_hold_open_and_connect_anew(
    run: Run, pg18: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "states.sql").write_text(
        "select count(*) filter (where state = 'idle in transaction') as held from"
        " pg_stat_activity where application_name like 'pgdyno%' \\gset\n"
        "insert into seen values (:held);\n"
    )
    (tmp_path / "one.sql").write_text("select 1;\n")
    (tmp_path / "setup.sql").write_text("create table if not exists seen (held int);")
    (tmp_path / "three.toml").write_text(
        f"""
        [server]
        kind = "existing"
        conninfo = "{pg18.conninfo.uri_without_password}"
        [workload]
        setup = "setup.sql"
        [[clients]]
        name = "parked"
        count = 5
        idle = true
        [[clients]]
        name = "screens"
        count = 2
        hold_open = "100ms"
        script = [{{ file = "one.sql" }}]
        [[clients]]
        name = "anew"
        count = 1
        think = "5ms"
        connection = {{ reconnect_every = 3 }}
        script = [{{ file = "states.sql" }}]
        [load]
        hold = "1500ms"
        """
    )
    result = run("three.toml")
    parked, screens, anew = result["groups"]
    assert parked["loop"] == "idle"
    assert parked["connections"]["open"] == 5
    assert parked["ledger"]["intended"] == 0
    # Nothing that is held open for 100 ms is done in less.
    assert screens["latency_ms"]["service"]["p50"] >= 100
    assert screens["connections"]["open"] == 2
    done = anew["ledger"]["done"]
    assert abs(anew["connections"]["connects"] - done / 3) <= 3
    uri = pg18.conninfo.kwargs() | {"dbname": "pgdyno"}
    with psycopg.connect(**uri, autocommit=True) as connection:
        row = connection.execute("select max(held), count(*) from seen").fetchone()
        connection.execute("drop table seen")
    assert row is not None
    assert row[0] == 2
    assert row[1] >= done

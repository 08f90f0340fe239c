"""Results of open loops and client groups, from the command line to JSON, on a real server."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pgdyno.cli import _status

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
    assert group["asked_tps"] > 10 * group["throughput_tps"]
    assert group["waiting_at_end"] <= 50
    assert group["ledger"]["skipped"] > 0
    assert group["sentence"].startswith("asked ")
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
    assert reads["ledger"]["intended"] >= 150
    assert ticks["ledger"]["done"] > 0
    statements = {(s["group"], s["statement"]) for s in result["statements"]}
    assert ("ticks", "update tick set n = n + 1") in statements
    assert {group for group, _ in statements} == {"reads", "ticks"}
    done = sum(group["ledger"]["done"] for group in result["groups"])
    assert result["latency_ms"]["response"]["count"] == done
    assert result["generator"]["reactor"] in ("mio", "io_uring")


def test_a_number_of_transactions_ends_the_run(run: Run) -> None:
    result = run("select-only", "-c", "3", "-t", "40")
    assert result["ledger"]["done"] == 120
    assert result["ledger"]["intended"] == 120


def test_a_setup_that_fails_names_file_and_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("setup.sql").write_text("select 1;\nselect nothing_of_the_sort;\n")
    Path("own.toml").write_text('[workload]\nsetup = "setup.sql"\n')
    monkeypatch.setattr(sys, "argv", ["pgdyno", "run", "own.toml", "-q"])
    assert _status() == 1
    assert 'setup.sql:2: column "nothing_of_the_sort" does not exist' in capfd.readouterr().err

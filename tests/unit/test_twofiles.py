"""Comparison of two run files: differences, the figures of both, and no verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import drill_runs
import jsonschema
import price_runs
import pytest
import report_runs

from pgdyno import numbers
from pgdyno.cli import _status
from pgdyno.errors import UsageError
from pgdyno.record import RunFile
from pgdyno.report.summary import RunSummary
from pgdyno.report.terminal.diff import diff_lines
from pgdyno.report.words.diff import NOT_PAIRS, diff, pair
from pgdyno.results.diff import LoadFigures

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs/reference/result-diff.schema.json").read_text()
)
MAKERS = {
    "run": report_runs.plain_run,
    "comparison": report_runs.comparison_run,
    "investigation": report_runs.investigation_run,
    "price": price_runs.price_run,
    "long": lambda path: report_runs.long_run(path, 60),
}


def told(a: Path, b: Path) -> tuple[dict[str, Any], str]:
    found = diff(RunFile(a), RunFile(b))
    result = json.loads(json.dumps(found.to_json()))
    jsonschema.validate(result, SCHEMA)
    return result, "\n".join(line.text for line in diff_lines(found, 120))


@pytest.mark.parametrize("kind", list(MAKERS))
def test_kinds_of_runs_stand_beside_a_plain_one(kind: str, tmp_path: Path) -> None:
    a = report_runs.plain_run(tmp_path / "a.db")
    b = MAKERS[kind](tmp_path / "b.db")
    result, text = told(a, b)
    assert result["figures"]["throughput_tps"]["a"] > 0
    before = RunSummary(RunFile(b)).before
    assert before is not None
    ours = result["figures"]["throughput_tps"]["b"]
    assert ours == pytest.approx(before.throughput_tps, rel=0.02)
    assert NOT_PAIRS in " ".join(text.split())
    assert not any(word in text for word in ("better", "worse", "faster", "slower"))


def test_what_differs_is_said_by_key_and_what_is_alike_too(tmp_path: Path) -> None:
    clients = [{**report_runs.SPEC["clients"][0], "count": 8}]
    script = [{"file": "a.sql", "text": "select 1;\nselect 2;\n"}]
    spec = {**report_runs.SPEC, "clients": clients, "workload": {"script": script, "scale": 20}}
    settings = {**report_runs.SERVER["settings"], "max_wal_size": "8GB"}
    a = report_runs.plain_run(tmp_path / "a.db")
    b = report_runs.plain_run(
        tmp_path / "b.db",
        spec=spec,
        server={**report_runs.SERVER, "settings": settings},
        host={**report_runs.HOST, "cores": 64},
    )
    result, text = told(a, b)
    spec_keys = {each["key"]: (each["a"], each["b"]) for each in result["differs"]["spec"]}
    assert spec_keys["clients.web.count"] == (16, 8)
    assert result["differs"]["settings"] == [{"key": "max_wal_size", "a": "1GB", "b": "8GB"}]
    assert result["differs"]["host"] == [{"key": "cores", "a": 2, "b": 64}]
    assert "the machines differ" in result["cautions"]
    assert "a text of 2 lines" in text  # The other one has no script of its own.
    assert "same        server and engine" in text


def test_of_two_texts_the_lines_that_differ_are_shown(tmp_path: Path) -> None:
    beginning = "select 'a long line of which only the end differs', "
    texts = (
        f"select 1;\n{beginning}1;\nselect 3;\nselect 4;\n",
        f"select 1;\n{beginning}2;\nselect 3;\nselect 4;\nselect 5;\n",
    )
    paths = []
    for name, text in zip("ab", texts, strict=True):
        spec = {**report_runs.SPEC, "workload": {"script": [{"file": "a.sql", "text": text}]}}
        paths.append(report_runs.plain_run(tmp_path / f"{name}.db", spec=spec))
    _, text = told(*paths)
    rows = [line.split("  ") for line in text.splitlines() if ", line " in line]
    assert [[cell.strip() for cell in row if cell.strip()] for row in rows] == [
        ["spec workload.script[1].text, line 2", "…ffers', 1;", "…ffers', 2;"],
        ["spec workload.script[1].text, line 5", "—", "select 5;"],
    ]


def test_two_runs_alike_differ_in_nothing(tmp_path: Path) -> None:
    a, b = (report_runs.plain_run(tmp_path / f"{name}.db") for name in "ab")
    result, text = told(a, b)
    assert not any(result["differs"].values())
    assert "same        spec, settings, server, host and engine" in text
    assert result["figures"]["throughput_tps"]["ratio"] == 1
    assert {each["mean_ms"]["ratio"] for each in result["figures"]["statements"]} == {1}


def test_drills_stand_beside_drills(tmp_path: Path) -> None:
    a = drill_runs.lossy_run(tmp_path / "a.db")
    b = drill_runs.harmless_run(tmp_path / "b.db")
    result, text = told(a, b)
    assert result["figures"]["drill"]["lost_max"]["a"] > 0
    assert "lost max" in text
    plain = report_runs.plain_run(tmp_path / "c.db")
    with pytest.raises(UsageError, match=r"is a drill and .* is not"):
        diff(RunFile(a), RunFile(plain))


def test_nonsense_is_refused(tmp_path: Path) -> None:
    a = report_runs.plain_run(tmp_path / "a.db")
    (tmp_path / "link.db").symlink_to(a)
    with pytest.raises(UsageError, match="are the same file"):
        diff(RunFile(a), RunFile(tmp_path / "link.db"))
    empty = [report_runs.empty_run(tmp_path / f"{name}.db") for name in "xy"]
    with pytest.raises(UsageError, match="has a finished transaction"):
        diff(*(RunFile(path) for path in empty))
    result, _ = told(a, empty[0])
    assert result["figures"]["throughput_tps"]["b"] is None
    assert any("planned end" in said for said in result["cautions"])


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_status_is_good(
    form: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paths = [str(report_runs.plain_run(tmp_path / f"{name}.db")) for name in "ab"]
    monkeypatch.setattr("sys.argv", ["pgdyno", "diff", *paths, "--format", form])
    assert _status() == 0
    out = capsys.readouterr().out
    if form == "json":
        jsonschema.validate(json.loads(out), SCHEMA)
    else:
        assert "B / A" in out


def test_what_is_small_or_not_known_is_read_at_once(tmp_path: Path) -> None:
    """A ratio of 0.00x would say nothing, nor a dash without its reason."""
    assert numbers.ratio(0.00048) == "0.00048x"
    assert numbers.ratio(0.87) == "0.87x"
    found = diff(*(RunFile(report_runs.plain_run(tmp_path / f"{name}.db")) for name in "ab"))
    assert isinstance(found.figures, LoadFigures)
    text = "\n".join(line.text for line in diff_lines(found, 120))
    assert "too few transactions" not in text
    unknown = found.figures.latency_ms.response | {"p99": pair(None, 4.0)}
    latency = found.figures.latency_ms.model_copy(update={"response": unknown})
    figures = found.figures.model_copy(update={"latency_ms": latency})
    text = "\n".join(
        line.text for line in diff_lines(found.model_copy(update={"figures": figures}), 120)
    )
    assert "— too few transactions: p50 needs 20 of them, p99 1,000" in text


def with_statement(path: Path, *, wal_bytes: int, took_ms: float) -> Path:
    """Ten seconds of load in which a statement was executed twice beside it."""
    writer = report_runs.Writer(path, 10, command="run")
    with writer.slice("run"):
        writer.wal_bytes = wal_bytes
        for _ in range(10):
            writer.second(report_runs.POOLED)
        for at_ms in (2_000, 6_000):
            writer.event("sql", "select count(*) from t", at_ms=at_ms, duration_ms=took_ms)
    return writer.finish()


def test_the_work_of_both_servers_stands_beside_their_speed(tmp_path: Path) -> None:
    a = with_statement(tmp_path / "a.db", wal_bytes=10**9, took_ms=5)
    b = with_statement(tmp_path / "b.db", wal_bytes=10**9, took_ms=20)
    result, text = told(a, b)
    work = result["figures"]["work"]
    assert work["wal_bytes_s"]["a"] == work["wal_bytes_s"]["b"] > 0
    assert work["generator_cores"]["ratio"] == 1
    assert "server_cores" not in work, "not recorded"
    assert result["figures"]["beside"] == {
        "select count(*) from t": {"a": 5.0, "b": 20.0, "ratio": 4.0}
    }
    assert "WAL per transaction" in text
    assert "select count(*) from t" in text

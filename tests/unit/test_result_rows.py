"""``pgdyno show --format csv``: the rows of the command that made the run file."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import drill_runs
import price_runs
import pytest
import report_runs
import result_samples

from pgdyno.cli import _status
from pgdyno.record import RunFile
from pgdyno.report.rows import result_rows
from pgdyno.results import store

Shown = Callable[[Path], tuple[int, str, str]]


@pytest.fixture
def shown(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shown:
    """Exit status, stdout and stderr of ``pgdyno show --format csv``."""

    def show(run: Path) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["pgdyno", "show", str(run), "--format", "csv"])
        return _status(), *capfd.readouterr()

    return show


def investigation_run(path: Path) -> Path:
    """An investigation of one step."""
    step = {
        "finding": "client-pool",
        "remedy": {"id": "pool-size", "title": "pool", "change": {}, "durability_class": "D0"},
        "specific": True, "predicted_ratio": 1.9, "predicted_interval": [1.5, 2.4],
        "predicted_response_ratio": None,
        "tolerance": None, "set_by": {},
        "effect": {"throughput_ratio": 2.1, "ci95": [2.0, 2.2], "pairs": 6},
        "latency_p99_ratio": 0.5, "compared": "throughput",
        "failures": result_samples.NONE_FAILED, "postponed": [], "against": [],
        "verdict": "better", "pairs_needed": None, "decision": "kept", "proof": None,
    }  # fmt: skip
    writer = report_runs.Writer(path, 1, command="investigate")
    store(writer.recorder, result_samples.investigate_result(steps=[step]))
    return writer.finish()


@pytest.mark.parametrize(
    ("make", "count", "columns"),
    [
        (report_runs.plain_run, 60, {"at_s", "done", "throughput_tps", "response_ms_p99"}),
        (report_runs.comparison_run, None, {"trial", "pair", "side", "throughput_tps", "void"}),
        (investigation_run, 1, {"step", "finding", "change", "decision"}),
        (price_runs.price_run, None, {"candidate", "throughput_ratio", "fault", "lost_max"}),
        (drill_runs.lossy_run, 20, {"outcome"}),
    ],
)
def test_the_rows_of_each_command(
    shown: Shown,
    tmp_path: Path,
    make: Callable[[Path], Path],
    count: int | None,
    columns: set[str],
) -> None:
    path = make(tmp_path / "run.db")
    status, out, said = shown(path)
    assert (status, said) == (0, "")
    rows = [*csv.DictReader(io.StringIO(out))]
    assert columns <= rows[0].keys()
    assert None not in rows[0], "a row is longer than the head"
    with RunFile(path) as run:
        assert len(rows) == len(list(result_rows(run))) > 0
    assert count in (None, len(rows))


def test_a_run_that_broke_off_has_the_rows_of_what_was_measured(
    shown: Shown, tmp_path: Path
) -> None:
    writer = report_runs.Writer(tmp_path / "run.db", 2, command="run")
    for _ in range(2):
        writer.second(report_runs.FREE)
    status, out, _ = shown(writer.finish("failed", "the server went away"))
    assert status == 0
    assert [float(row["at_s"]) for row in csv.DictReader(io.StringIO(out))] == [0, 1]


def test_rows_of_a_result_that_is_not_there_are_refused(shown: Shown, tmp_path: Path) -> None:
    path = report_runs.Writer(tmp_path / "run.db", 1, command="price").finish("interrupted")
    status, out, said = shown(path)
    assert (status, out) == (1, "")
    assert said == (
        f"error: {path} contains no result of pgdyno price to print as CSV\n"
        "\nhint: --format json prints what was measured\n"
    )

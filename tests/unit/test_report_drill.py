"""What the terminal summary and the page of a drill say, from its run file alone."""

from __future__ import annotations

from pathlib import Path

import drill_runs
import pytest

from pgdyno.errors import UsageError
from pgdyno.record import Recorder, RunFile
from pgdyno.report.page import html
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.report.views.drill import VIEW


def said(path: Path, width: int = 120) -> str:
    with RunFile(path) as run:
        return "\n".join(line.text for line in summary_lines(run, width))


def test_a_lossy_drill_in_the_terminal(tmp_path: Path) -> None:
    text = said(drill_runs.lossy_run(tmp_path / "run.db"))
    assert "1 of 20 cuts came up corrupt; the server refused to start after 1 of 20 cuts" in text
    assert "the commits of the last 600ms may be lost" in text
    assert "18 lost, 1 refused to start, 1 corrupt" in text
    assert "amcheck failed in 1 of 20 cuts: pgbench_accounts_pkey" in text
    assert "checksums: data checksums are off" in text
    assert "lost commits: median 1,331 on 18.6 and 7.5 on 15.20: a difference" in text


def test_a_harmless_drill_says_what_that_proves(tmp_path: Path) -> None:
    text = said(drill_runs.harmless_run(tmp_path / "run.db"))
    assert "0 of 20 cuts lost anything: at most 14 % of such crashes would" in text
    assert "passed      ledger, amcheck" in text


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_long_drill_fits_the_screen(tmp_path: Path, width: int) -> None:
    drill = drill_runs.sample_drill([number % 7 for number in range(300)])
    text = said(drill_runs.write_drill(tmp_path / "run.db", drill), width)
    assert len(text.splitlines()) <= VIEW.lines_max
    assert "more lines in the report" in text
    assert max(map(len, text.splitlines())) <= width


def test_the_page_of_a_drill(tmp_path: Path) -> None:
    with RunFile(drill_runs.lossy_run(tmp_path / "run.db")) as run:
        page = html.render(run)
    for words in (
        "The fault and its outcome",
        "Acknowledged commits lost, per cut",
        "documented bound",
        "Comparison with another server",
        "PostgreSQL 15.20",
        "all 24 server processes are gone",
        "data checksums are off",
        "--fault kill --cuts 20 --seed 7",
    ):
        assert words in page, words


def test_page_and_verdict_have_one_median(tmp_path: Path) -> None:
    path = drill_runs.write_drill(tmp_path / "run.db", drill_runs.sample_drill([200, 400]))
    assert "median 300 and" in " ".join(said(path).split())
    with RunFile(path) as run:
        assert "Median 300, at most 400" in html.render(run)


def test_where_no_ledger_could_be_compared_no_acknowledgements_are_counted(tmp_path: Path) -> None:
    cut = drill_runs.sample_cut(1, drill_runs.random.Random(3), 0, outcome="refused")
    drill = drill_runs.sample_drill([], cuts=(cut,))
    with RunFile(drill_runs.write_drill(tmp_path / "run.db", drill)) as run:
        page = html.render(run)
    assert "the ledger could not be compared" in page
    assert "of 0 acknowledged" not in page


def test_what_differs_between_two_servers_comes_before_the_cuts(tmp_path: Path) -> None:
    text = said(drill_runs.lossy_run(tmp_path / "run.db"))
    assert text.index("compared ") < text.index("cut  ")
    verdicts = [line for line in text.splitlines() if "difference (p" in line]
    assert "a difference" in verdicts[0]


def test_a_sham_is_not_mistaken_for_a_clean_drill(tmp_path: Path) -> None:
    drill = drill_runs.sample_drill([0, 0], sham=True)
    cuts = tuple(
        drill_runs.sample_cut(cut.number, drill_runs.random.Random(3), 0, outcome="no-fault")
        for cut in drill.cuts
    )
    drill = drill_runs.sample_drill([], sham=True, cuts=cuts)
    path = drill_runs.write_drill(tmp_path / "run.db", drill)
    assert "the fault did not happen in any of 2 cuts: nothing is known" in said(path)
    with RunFile(path) as run:
        page = html.render(run)
    assert "The fault did not happen." in page
    assert "lost anything" not in page


def test_a_drill_that_broke_off_before_it_began(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with Recorder.create(path, name="drill", command="drill") as recorder:
        recorder.finish("failed", "no space left")
    assert "no space left" in said(path)
    with RunFile(path) as run, pytest.raises(UsageError, match="no space left"):
        html.render(run)

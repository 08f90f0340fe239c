"""What the terminal summary and the page of a drill say, from its run file alone."""

from __future__ import annotations

from pathlib import Path

import drill_runs
import pytest
from inline_snapshot import snapshot

from pgdyno.errors import UsageError
from pgdyno.record import Recorder, RunFile
from pgdyno.report.page import html
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.report.views.drill import VIEW


def said(path: Path, width: int = 120) -> str:
    with RunFile(path) as run:
        return "\n".join(line.text for line in summary_lines(run, width))


def without_cuts(text: str) -> str:
    """Return the text without the lines of single cuts."""
    return "\n".join(line for line in text.splitlines() if not line[:1].isdigit())


def test_a_lossy_drill_in_the_terminal(tmp_path: Path) -> None:
    text = said(drill_runs.lossy_run(tmp_path / "run.db"), 98)
    assert without_cuts(text) == snapshot("""\
PostgreSQL 18.6, started by pgdyno · 2 cores, 24 GB, ext4 · tpcb-like at scale 20 · 16 clients
through a pool of 2

drill       SIGKILL of all of the server's processes at once, PostgreSQL 18.6, 20 times; seed 7
verdict     1 of 20 cuts came up corrupt; the server refused to start after 1 of 20 cuts; 18 of 20
            cuts lost acknowledged commits: at most 2,207, acknowledged up to 110 ms before the
            fault; median 1,331 and 66.5 ms
documented  with synchronous_commit = off the commits of the last 600ms may be lost, three times
            wal_writer_delay; less if 1MB of WAL is written sooner
settings    synchronous_commit = off, wal_writer_delay = 200ms, wal_writer_flush_after = 1MB,
            fsync = on, full_page_writes = on
outcomes    18 lost, 1 refused to start, 1 corrupt
recovery    median 329 ms, at most 392 ms
proof       of cut 1: all 24 server processes are gone
compared    lost commits: median 1,331 on 18.6 and 7.5 on 15.20: a difference (p = 1.6e-06)
compared    lost commits reach back: median 66.5 ms on 18.6 and 0.375 ms on 15.20: a difference (p
            = 1.6e-06)
compared    recovery: median 329 ms on 18.6 and 323 ms on 15.20: no difference seen (p = 0.76)
compared    corrupt or refused to start: 2 of 20 on 18.6 and 0 of 20 on 15.20: no difference seen
            (p = 0.49)

cut                after           outcome  acked   lost
cut               oldest lost  unknown  ghosts  recovery  decided by
   … and 13 more lines in the report

failed      amcheck failed in 1 of 20 cuts: pgbench_accounts_pkey
not made    checksums: data checksums are off\
""")


def test_a_harmless_drill_says_what_that_proves(tmp_path: Path) -> None:
    text = said(drill_runs.harmless_run(tmp_path / "run.db"), 98)
    assert without_cuts(text) == snapshot("""\
PostgreSQL 18.6, started by pgdyno · 2 cores, 24 GB, ext4 · tpcb-like at scale 20 · 16 clients
through a pool of 2

drill       SIGKILL of all of the server's processes at once, PostgreSQL 18.6, 20 times; seed 7
verdict     0 of 20 cuts lost anything: at most 14 % of such crashes would, with 95 % confidence
documented  a commit is acknowledged once its WAL is on disk: none may be lost
settings    synchronous_commit = on, wal_writer_delay = 200ms, wal_writer_flush_after = 1MB, fsync
            = on, full_page_writes = on
outcomes    20 clean
recovery    median 323 ms, at most 392 ms
proof       of cut 1: all 24 server processes are gone

cut                after  outcome  acked  unknown  ghosts  recovery

passed      ledger, amcheck
not made    checksums: data checksums are off\
""")


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
    text = said(drill_runs.lossy_run(tmp_path / "run.db"), 98)
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

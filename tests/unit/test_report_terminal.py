"""Summaries for the terminal: what they say, how they fit, when they are plain."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import report_runs
import result_samples
from inline_snapshot import snapshot
from rich.console import Console

from pgdyno.record import RunFile
from pgdyno.report import stdout_console, terminal_summary
from pgdyno.report.summary import RunSummary
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.report.views.investigate import LINES_MAX
from pgdyno.results import store


def summary(path: Path, width: int = 98) -> str:
    return "\n".join(line.text for line in summary_lines(RunFile(path), width))


def test_investigation(tmp_path: Path) -> None:
    assert summary(report_runs.investigation_run(tmp_path / "run.db")) == snapshot("""\
PostgreSQL 18.6, started by pgdyno · 2 cores, 24 GB, ext4 · tpcb-like at scale 20 · 16 clients
through a pool of 2

noise   identical slices differ by [0.97, 1.03]; six pairs show effects of about 4.5 % or more

1  client pool limit    clients wait 5.4 of 6.3 ms for one of 2 connections while the server is 38
                        % idle
   pool 2 → 16                      predicted 1.9x   measured 2.14x [2.06, 2.23]   p99 -53 %
      kept   proved: as predicted, within 1.38x to 3.61x
2  commit flush         62 % of the response time is spent waiting for the WAL to reach the disk
   commit_delay = 100us             predicted 1.1x   measured 1.01x [0.97, 1.05]
      rejected: no difference
   synchronous_commit = off  D1     predicted 1.7x   measured 1.64x [1.57, 1.70]   p99 -38 %
      offered: commits acknowledged within the last three times wal_writer_delay (600 ms) may be
      lost in a crash; the database remains consistent
      measured price: kill: lost at most 16 commits, the oldest 1.5 ms old, in 5 cuts (median 4,
      0.6 ms), within the documented 600 ms; not drilled with the fault power: needs root
taken back one at a time: pool 2 → 16 still earns 2.14x
next limit: commit flush; 62 % of the response time is spent waiting for the WAL to reach the
disk; no other change within D0 is predicted to gain more than 3 %
to apply  -- client pool of web: at most 16 connections (HikariCP maximumPoolSize=16, DBCP
          maxTotal=16, PgBouncer default_pool_size=16)
to undo   -- client pool of web: at most 2 connections (HikariCP maximumPoolSize=2, DBCP
          maxTotal=2, PgBouncer default_pool_size=2)

2,480 → 5,310 tps (2.14x [2.06, 2.23]) · p99 29.9 → 14.0 ms (0.47x [0.43, 0.51]) · 2 min 11 s
mean        4.00 ms: 70 % the WAL flush (IO:WalSync), 20 % other waits (IPC:Odd; unexplained), 10
            % CPU
of this     50 % begin, 2.00 ms: 70 % the WAL flush
            50 % end, 2.00 ms: 70 % the WAL flush
note        sessions at work were seen 12 times only: shares of waits are rough\
""")


def test_a_shorter_response_is_predicted_and_shown_with_its_price(tmp_path: Path) -> None:
    writer = report_runs.Writer(tmp_path / "run.db", 60, command="investigate")
    free, fewer = report_runs.FREE, {"clients": {"web": 8}}
    known = {"finding": "buffer-mapping", "remedy": "client-count", "durability_class": "D0"}
    shorter = {"predicted_ratio": 1.0, "predicted_response_ratio": 0.5}
    decided = {"step": 1, "verdict": "no difference", "decision": "kept"}
    report_runs.write_trial(writer, report_runs.Tried("noise", "identical slices", free, free))
    columns = known | shorter | decided
    tried = report_runs.Tried("remedy", "clients 16 → 8", free, free, fewer, columns=columns)
    report_runs.write_trial(writer, tried)
    text = " ".join(summary(writer.finish()).split())
    assert "clients 16 → 8 predicted 1.0x, response time 0.50x measured" in text
    assert "waits in the application, where the response time does not count it" in text


def test_comparison(tmp_path: Path) -> None:
    assert summary(report_runs.comparison_run(tmp_path / "run.db")) == snapshot("""\
PostgreSQL 18.6, started by pgdyno · 2 cores, 24 GB, ext4 · tpcb-like at scale 20 · 16 clients
through a pool of 2

noise       identical slices differ by [0.96, 1.04] in 6 pairs
change      synchronous_commit = off
durability  D1: commits acknowledged within the last three times wal_writer_delay (600 ms) may be
            lost in a crash; the database remains consistent
price       nothing else; it can be limited to a transaction, a role or a database, so that
            commits that must not be lost still wait
throughput  1.64x [1.57, 1.70]   5,310 → 8,700 tps   6 pairs
p99         0.62x [0.58, 0.67]   14.0 → 8.66 ms
failures    0 of 100,762 with the change; 0 of 66,415 without

better: 1.64x the throughput, far beyond the noise\
""")


def test_single_run(tmp_path: Path) -> None:
    path = report_runs.plain_run(tmp_path / "run.db")
    assert summary(path).replace(str(path), "run.db") == snapshot("""\
PostgreSQL 18.6, started by pgdyno · 2 cores, 24 GB, ext4 · tpcb-like at scale 20 · 16 clients
through a pool of 2

throughput  2,391 tps over 50 s
steadiness  steady from the start
changes     none was found in the 42 of 50 s that could be searched
drops       at 0:41 throughput nearly stopped for 2 s, 117 tps where the median is 2,471;
            overlapped with checkpoint (timed)
knee        at about 10 clients (95 % interval 8 to 12), throughput stops growing in step with
            clients: by the fitted curve, each further client adds less than half of what the
            first adds

latency, ms          p50    p95    p99  p99.9  p99.99    max  samples
  response          6.36   21.6   29.9   29.9     152    253  119,558
   wait             5.54   15.8   20.8   20.8    20.8   20.8  119,558
     for a client  0.020  0.058  0.077  0.077   0.077  0.077  119,558
     for a pool     5.51   15.7   20.8   20.8    20.8   20.8  119,558
   service         0.819   2.34   3.08   15.7    46.7   61.6  119,558
mean        4.00 ms: 70 % the WAL flush (IO:WalSync), 20 % other waits (IPC:Odd; unexplained), 10
            % CPU
of this     50 % begin, 2.00 ms: 70 % the WAL flush
            50 % end, 2.00 ms: 70 % the WAL flush
note        sessions at work were seen 12 times only: shares of waits are rough

statements, ms (2 more)                         share     done   mean    p50    p99  p99.9
  END                                            44 %  119,558  0.415  0.344   1.29   6.62
  UPDATE pgbench_accounts SET abalance =…        17 %  119,558  0.158  0.131  0.492   2.52
  UPDATE pgbench_branches SET bbalance =…        13 %  119,558  0.118  0.098  0.369   1.89
  UPDATE pgbench_tellers SET tbalance =…         11 %  119,558  0.109  0.090  0.338   1.73
  SELECT abalance FROM pgbench_accounts WHERE…  7.3 %  119,558  0.069  0.057  0.215   1.11
costliest   50 % of the statements' time, as the clients measure it: end; it reads no rows, its
            time is that of the commit

ledger      134,701 intended = 134,681 done + 15 failed + 5 backlog, over the whole run
errors      15 × 23505 duplicate key value violates unique constraint "history_pkey"; 5 × 40P01
            deadlock detected (retried)
            ERROR 23505: duplicate key value violates unique constraint "history_pkey"
              at client 4, group web, built-in tpcb-like line 7: UPDATE pgbench_accounts SET
                abalance = abalance + $1 WHERE aid = $2
              DETAIL:  Key (tid)=(4) already exists.
generator   9.00 µs of CPU per transaction, 99 % sent within 0.193 ms of the earliest possible
            time

limit       client pool limit: clients wait 5.4 of 6.3 ms for one of 2 connections while the
            server is 38 % idle
advice      hold a connection for the transaction only
found       stall to zero: throughput fell below a fifth for 2 s while a checkpoint synced its
            files
might help  pool 16 (predicted 1.9x)
cleared     CPU saturated, hot row, client limited
skipped     checkpoint storm
run file    run.db\
""")


def test_a_run_that_broke_off_says_so_and_invents_nothing(tmp_path: Path) -> None:
    path = report_runs.empty_run(tmp_path / "run.db")
    assert summary(path).replace(str(path), "run.db") == snapshot("""\
PostgreSQL 18.6, started by pgdyno · 2 cores, 24 GB, ext4 · tpcb-like at scale 20 · 16 clients
through a pool of 2

errors      none

verdict     the run failed before a verdict
run file    run.db

status      failed: the server went away\
""")


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_lines_fit_the_terminal(tmp_path: Path, width: int) -> None:
    for make in (report_runs.plain_run, report_runs.investigation_run, report_runs.comparison_run):
        path = make(tmp_path / f"{make.__name__}.db")
        text = summary(path, width).replace(str(path), "run.db")
        assert max(len(line) for line in text.splitlines()) <= width


def test_many_trials_stay_under_forty_lines(tmp_path: Path) -> None:
    writer = report_runs.Writer(tmp_path / "run.db", 400, command="investigate")
    for number in range(60):
        decision = "kept" if number % 20 == 0 else "rejected"
        tried = report_runs.Tried(
            "remedy", f"setting_{number} = on", report_runs.FREE, report_runs.FREE,
            {"settings": {f"setting_{number}": "on"}},
            columns={"finding": f"finding-{number % 7}", "decision": decision, "step": number + 1},
            pairs=2,
        )  # fmt: skip
        report_runs.write_trial(writer, tried)
    lines = summary_lines(RunFile(writer.finish()), 80)
    assert len(lines) <= LINES_MAX
    text = "\n".join(line.text for line in lines)
    assert "more lines in the report" in text
    assert "tps" in lines[-1].text


def test_what_is_not_trusted_says_so(tmp_path: Path) -> None:
    writer = report_runs.Writer(tmp_path / "run.db", 3, command="run")
    writer.second(report_runs.FREE)
    reasons = ["the load generator was the limit"]
    result = result_samples.run_result(trustworthy=False, distrust=reasons)
    store(writer.recorder, result)
    assert "not trusted the load generator was the limit" in summary(writer.finish())


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [
        ({}, False),
        ({"PG_COLOR": "always"}, True),
        ({"PG_COLOR": "never"}, False),
        ({"PG_COLOR": "always", "NO_COLOR": "1"}, False),
    ],
)
def test_colours_are_the_users_choice(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    environment: dict[str, str],
    coloured: bool,
) -> None:
    for name in ("PG_COLOR", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    terminal_summary(RunFile(report_runs.plain_run(tmp_path / "run.db")), stdout_console())
    assert ("\x1b[" in capsys.readouterr().out) == coloured


def test_text_of_the_server_is_not_taken_for_markup(tmp_path: Path) -> None:
    writer = report_runs.Writer(tmp_path / "run.db", 3, command="run")
    writer.second(report_runs.FREE)
    strange = report_runs.finding("odd", "found", "[bold]not markup[/bold] :smile:", rank=1)
    writer.recorder.add_finding(strange)
    out = io.StringIO()
    terminal_summary(RunFile(writer.finish()), Console(file=out, force_terminal=True))
    assert "[bold]not markup[/bold] :smile:" in out.getvalue()


@pytest.mark.parametrize(
    ("altered", "line"),
    [
        (["work_mem"], "ALTER SYSTEM RESET synchronous_commit;"),
        (["synchronous_commit"], "ALTER SYSTEM SET synchronous_commit = 'on';"),
        (None, "ALTER SYSTEM SET synchronous_commit = 'on';"),
    ],
)
def test_only_what_alter_system_had_set_is_set_again(
    tmp_path: Path, altered: list[str] | None, line: str
) -> None:
    server = {"settings": {"synchronous_commit": "on"}, "altered": altered}
    spec = report_runs.SPEC | {"server": {"kind": "existing", "conninfo": "host=db"}}
    writer = report_runs.Writer(tmp_path / "run.db", 60, command="investigate", spec=spec,
                                server=server)  # fmt: skip
    decided = {"remedy": "async-commit", "step": 1, "verdict": "better", "decision": "kept"}
    change = {"settings": {"synchronous_commit": "off"}}
    free = report_runs.FREE
    tried = report_runs.Tried("remedy", "async", free, free, change, columns=decided)
    report_runs.write_trial(writer, tried)
    shown = RunSummary(RunFile(writer.finish()))
    assert shown.kept.lines_to_undo(shown.before_all)[0] == line


def test_the_lines_to_undo_a_change_of_the_web_front_end_have_its_value_before(
    tmp_path: Path,
) -> None:
    front = {"pool": "tomcat-jdbc", "max_wait": "2s", "keepalive_requests": -1}
    spec = report_runs.SPEC | {"front": front}
    writer = report_runs.Writer(tmp_path / "run.db", 60, command="investigate", spec=spec)
    keys = {"max_total": "20", "max_wait": "5s", "threads": "50", "prepare_threshold": "1"}
    change = {"spec": {f"front.{name}": value for name, value in keys.items()}}
    decided = {"remedy": "front-pool", "step": 1, "verdict": "better", "decision": "kept"}
    free = report_runs.FREE
    tried = report_runs.Tried("remedy", "front", free, free, change, columns=decided)
    report_runs.write_trial(writer, tried)
    shown = RunSummary(RunFile(writer.finish()))
    assert shown.kept.lines_to_undo(shown.before_all) == snapshot(
        [
            "-- web application: max_total = 100 (Commons DBCP2 maxTotal, Tomcat JDBC maxActive,"
            " HikariCP maximumPoolSize)",
            "-- web application: max_wait = 2s (Commons DBCP2 maxWaitMillis, Tomcat JDBC maxWait,"
            " HikariCP connectionTimeout)",
            "-- web application: maxThreads = 200",
            "-- web application: prepareThreshold = 5",
        ]
    )

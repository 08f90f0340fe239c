"""Client groups that did nothing, failed, could not connect or fell behind, in synthetic files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from record_samples import add_second, at, error_row, group_row, new_recorder, script_row

from pgdyno._engine import Histogram
from pgdyno.facts.failures import not_comparable
from pgdyno.facts.groups import group_accounts, open_loop_sentence
from pgdyno.facts.periods import too_short
from pgdyno.record import RunFile
from pgdyno.record.incidents import incidents
from pgdyno.record.void import IncidentCause, VoidReason, void_reason
from pgdyno.report.summary import RunSummary
from pgdyno.trial.result import run_result
from pgdyno.trial.trust import distrust

READS = script_row("reads", "one.sql", intended=5000, done=5000)
Counts = dict[str, Any]
Written = Callable[..., RunFile]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Writes a run with group "reads", in order, and "payments", given second by second."""

    def write(*slices: list[Counts], scripts: str = "select 1;", **spec: Any) -> RunFile:
        payments = {"name": "payments", "count": 1, "script": [{"text": scripts}]} | spec
        clients = [{"name": "reads", "count": 4}, payments]
        recorder = new_recorder(tmp_path / "run.db", spec={"clients": clients})
        at_s, kind = 0, "run" if len(slices) == 1 else "trial"
        for seconds in slices:
            slice_id = recorder.open_slice(kind, ns=at(recorder, at_s))
            for counts in seconds:
                _add(recorder, at_s, dict(counts))
                at_s += 1
            recorder.close_slice(slice_id, ns=at(recorder, at_s))
        recorder.finish("done")
        return RunFile(recorder.path)

    return write


def _add(recorder: Any, at_s: int, counts: Counts) -> None:
    sqlstate, connected = counts.pop("sqlstate", None), counts.pop("connected", 1)
    errors = [error_row(group="payments", script="pay.sql", sqlstate=sqlstate, count=1)]
    refused = counts.pop("refused", 0)
    if refused:
        errors = [error_row(group="payments", script="", statement="connect", sqlstate="53300")]
    groups = [
        group_row("reads", clients=4, connections=4),
        group_row("payments", clients=1, connections=connected, connect_failures=refused),
    ]
    rows = [READS, script_row("payments", "pay.sql", **counts)]
    wanted = sqlstate or refused
    add_second(recorder, at_s, rows, groups=groups, errors=errors if wanted else [])


def well(count: int) -> list[Counts]:
    return [{"intended": 20, "done": 20} for _ in range(count)]


def waiting(count: int, before: int = 0) -> list[Counts]:
    """Seconds in which 20 transactions come due and none is done."""
    return [{"intended": 20, "backlog": before + 20 * (n + 1)} for n in range(count)]


def reason(run: RunFile) -> VoidReason | None:
    return void_reason(run, run.slices()[-1], run.run.spec)


def test_a_group_that_did_nothing_voids_the_slice(written: Written) -> None:
    assert reason(written(waiting(3))) == VoidReason(
        IncidentCause.NOTHING_DONE,
        snapshot("nothing was done by client group payments, and 60 transactions were due"),
    )


def test_a_group_that_always_failed_voids_the_slice(written: Written) -> None:
    failing = [{"intended": 20, "failed": 20, "sqlstate": "42P01"}] * 3
    assert reason(written(failing)) == VoidReason(
        IncidentCause.FAILURES,
        snapshot("no transaction of client group payments succeeded: 42P01 "),
    )


@pytest.mark.parametrize(
    ("seconds", "scripts", "void"),
    [
        (well(3), "select 1;", False),
        ([{}] * 3, "select 1;", False),
        ([{}, {}, {"intended": 1, "backlog": 1}], "select 1;", False),
        ([{"intended": 1, "backlog": 1}, *[{"backlog": 1}] * 2], "select 1;", True),
        ([{"intended": 1, "backlog": 1}, *[{"backlog": 1}] * 2], "\\sleep 5 s", False),
        ([{"intended": 1, "backlog": 1}, *[{"backlog": 1}] * 2], "select pg_sleep(9);", False),
        ([{"intended": 9, "backlog": 9}, *[{"backlog": 9}] * 2], "select pg_sleep(9);", True),
        ([{"intended": 5, "skipped": 5}] * 3, "select 1;", True),
    ],
)
def test_a_transaction_that_just_began_or_takes_so_long_is_not_missing(
    written: Written, seconds: list[Counts], scripts: str, void: bool
) -> None:
    assert bool(reason(written(seconds, scripts=scripts))) is void


def test_transactions_that_took_as_long_before_do_not_void_a_slice(written: Written) -> None:
    histogram = Histogram()
    histogram.record(5_000_000_000)
    before = {"done": 1, "intended": 2, "backlog": 1, "response": histogram.encode()}
    assert reason(written([before], [{"backlog": 1}] * 3)) is None


@pytest.mark.parametrize(("failed", "trusted"), [(0, True), (381, False)])
def test_failures_are_limited_for_each_group(written: Written, failed: int, trusted: bool) -> None:
    failing = {"intended": failed, "failed": failed, "sqlstate": "42P01"} if failed else {}
    reasons = distrust(written([*well(19), failing]), [])
    assert any("of client group payments failed: 381 of 761 (50 %)" in r for r in reasons) is (
        not trusted
    )
    assert trusted is not any("failed" in each for each in reasons)


def test_sides_whose_groups_fail_differently_are_not_comparable(written: Written) -> None:
    failing = {"intended": 20, "failed": 20, "sqlstate": "42P01"}
    run = written(well(3), [*well(2), failing], well(3))
    assert not_comparable(run, [1], [3]) is None
    why = not_comparable(run, [1], [2])
    assert why is not None
    assert why.startswith("failures of client group payments differ: 20 of 60 (33 %)")


@pytest.mark.parametrize(
    ("seconds", "sentence", "behind"),
    [
        (well(4), "reached the intended 20/s", False),
        ([*well(1), *waiting(3)], "intended 20/s, reached 5/s; 59 transactions waited", True),
        (
            [*well(1), *[{"intended": 20, "failed": 20, "sqlstate": "42P01"}] * 3],
            "intended 20/s, reached 5/s; 60 failed",
            False,
        ),
    ],
)
def test_what_failed_or_waited_is_no_rate_that_was_reached(
    written: Written, seconds: list[Counts], sentence: str, behind: bool
) -> None:
    run = written(seconds, arrival={"rate": 20})
    account = group_accounts(run)[1]
    assert open_loop_sentence(account).startswith(sentence)
    assert account.rate_held is sentence.startswith("reached")
    named = [f"payments: {open_loop_sentence(account)}"]
    assert RunSummary(run).behind == (named if behind else [])


@pytest.mark.parametrize("ends", [True, False])
def test_a_group_that_cannot_connect_voids_the_slice(written: Written, ends: bool) -> None:
    """Clients that connect for each transaction, refused for a while or until the end."""
    away = {"backlog": 1, "connected": 0, "refused": 1}
    seconds = [*well(6), away, {**away, "refused": 0}, away, *(well(3) if ends else [])]
    why = reason(written(seconds, connection="per-transaction"))
    assert why is not None
    assert why.cause is IncidentCause.NO_CONNECTIONS
    assert f" {25 if ends else 33} % " in why.sentence


def test_a_gap_of_the_probes_that_never_ends_counts(tmp_path: Path) -> None:
    recorder = new_recorder(tmp_path / "run.db")
    slice_id = recorder.open_slice("run", ns=at(recorder, 0))
    for number in range(10):
        row = script_row("web", intended=5, done=5)
        add_second(recorder, number, [row], groups=[group_row("web", clients=1, connections=1)])
    detail = {"probe": "server", "reason": "terminated", "state": "away"}
    recorder.add_event("probe", "server away", detail, ns=at(recorder, 7))
    recorder.close_slice(slice_id, ns=at(recorder, 10))
    recorder.flush()
    with RunFile(recorder.path) as run:
        said = "the server's views were not read for 30 % of the measured time: terminated"
        assert said in distrust(run, [])
        assert not incidents(run), "the clients were served"


@pytest.mark.parametrize(("seconds", "enough"), [(0, False), (1, True), (3, True)])
def test_a_run_that_is_too_short_has_no_verdict(
    written: Written, seconds: int, enough: bool
) -> None:
    run = written(well(seconds))
    assert (too_short(run, [1]) is None) is enough
    if not enough:
        verdict = run_result(run, [1], None).verdict
        assert verdict.sentence == "no verdict: 0 s measured, 1 s is needed"

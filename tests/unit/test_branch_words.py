"""Branches in a spec, and their result on the terminal, on the page and as CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import report_runs
from inline_snapshot import snapshot
from report_runs import Level
from result_samples import branch_figures, branch_result

from pgdyno.errors import UsageError
from pgdyno.record import RunFile
from pgdyno.report.page.html import render
from pgdyno.report.rows import result_rows
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.results.branch import BranchResult
from pgdyno.scenario._branch_matching import nearest
from pgdyno.scenario.branch import sentence_of
from pgdyno.scenario.branch_variants import repeated, variants_of
from pgdyno.spec import spec_from_fields
from pgdyno.spec.branches import first_event_ms

LEVEL = Level(tps=900, service_ms=4, pool_wait_ms=0)
TWO = [{"name": "a"}, {"name": "b", "vary": {"clients.count": 4}}]


def run_with(path: Path, result: BranchResult | None) -> RunFile:
    """A run file with a measurement of a branch, and the result."""
    return report_runs.run_of_slice(path, result, "branch", "branch", {})


def test_branches_on_the_terminal(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run.db", branch_result())
    text = "\n".join(line.text for line in summary_lines(run, 200))
    assert "0.47x [0.40, 0.55]" in text
    assert "1.50x [1.20, 1.80]" in text
    assert [line for line in text.splitlines() if "vacuum" in line or " rows " in line] == snapshot(
        [
            "freeze  vacuum freeze t at 2 s, which took 1.2 s (ended in 1 measurement)",
            "plain   vacuum t at 2 s, which never ended within the measurement",
            (
                "state   286 MB on xfs, after 15 s under load: 10 rows in 1 table, 8 files with"
                " SHA-256 aaaaaaaaaaaaaaaa…; cloned, blocks shared"
            ),
            (
                "start   2 measurements, with the rows and pages of the saved state; restored"
                " in 0.1 s and ready after 0.4 s (medians)"
            ),
        ]
    )


def test_branches_on_the_page_and_as_rows(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run.db", branch_result())
    assert "Measurements, each from the saved state" in render(run)
    assert [(row["branch"], row["round"], row["rows"]) for row in result_rows(run)] == [
        ("freeze", 1, 10), ("plain", 1, 10),
    ]  # fmt: skip


def test_a_run_that_did_not_end_has_a_summary(tmp_path: Path) -> None:
    run = run_with(tmp_path / "run.db", None)
    assert summary_lines(run, 200)
    assert "Measurements, each" not in render(run)


def test_the_answer_compares_each_branch_with_the_first() -> None:
    said = sentence_of(branch_result())
    assert said.startswith("against freeze, plain: better: 1.50x [1.20, 1.80] in 6 pairs; all 2")
    assert said.endswith("measurements began with the same 10 rows and the same pages")


@pytest.mark.parametrize(
    ("wanted", "clients", "measured"),
    [
        (400, 4, {4, 2, 3}),
        (330, 3, {4, 2, 3}),
        (90, 1, {4, 2, 1}),
        (800, 8, set()),
        (900, 8, set()),
    ],
    ids=["half", "nearest", "fewest", "all", "more"],
)
def test_clients_are_matched_by_the_throughput_that_they_make(
    wanted: float, clients: int, measured: set[int]
) -> None:
    asked: set[int] = set()

    def measure(count: int) -> float:
        asked.add(count)
        return 100.0 * count

    points = {8: 800.0}
    assert nearest(8, wanted, points, measure) == clients
    assert asked == measured
    assert points == {8: 800.0, **{count: 100.0 * count for count in measured}}
    assert nearest(1, wanted, {}, measure) == 1


def test_a_matched_branch_says_what_its_clients_were_chosen_by(tmp_path: Path) -> None:
    match = {"branch": "freeze", "throughput_tps": 900.0, "clients": 5, "of_clients": 8}
    match |= {"points": [{"clients": 4, "throughput_tps": 810.0}]}
    few = branch_figures("few", match=match, effect=None)
    result = branch_result(branches=[branch_figures("freeze"), few])
    run = run_with(tmp_path / "run.db", result)
    assert [line.text for line in summary_lines(run, 200) if " 900 tps " in line.text] == snapshot(
        [
            (
                "few     5 of 8 clients come nearest to the 900 tps of freeze from its first event on; vacuum freeze t at 2 s, which took 1.2 s (ended in 1 measurement)"
            )
        ]
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"branches": TWO[:1]}, "at least two are needed"),
        ({"branches": [TWO[0], TWO[0]]}, "branches must have distinct names"),
        ({"server": {"kind": "existing"}}, "which it never does to a server that it did not start"),
        ({"standby": {"count": 1}}, "standby cannot be used with branches"),
        ({"story": [{"title": "a", "run": True}]}, "story cannot be used with branches"),
        ({"events": [{"at": "0s", "sql": "select 1"}]}, "events cannot be used with branches"),
        ({"branches": [*TWO, {"name": "c", "events": [{"at": "9min", "sql": "x"}]}]},
         "branch c: the event at 9min is not before the end of load.hold"),
        ({"branches": [*TWO, {"name": "c", "events": [{"at": "0s", "clients": {"web": 2}}]}]},
         'branch c: there is no client group "web"'),
        ({"branches": [*TWO, {"name": "c", "events": [{"at": "0s"}]}]},
         "an event of a branch needs either sql or clients"),
        ({"branches": [{"name": "a", "match": "b"}, TWO[1]]}, 'no branch before it is named "b"'),
        ({"branches": [TWO[0], {**TWO[1], "match": "a"}]}, "match finds the clients"),
        ({"branching": {"rounds": 2}}, "greater than or equal to 3"),
    ],
)  # fmt: skip
def test_branches_that_cannot_be_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        spec_from_fields({"branches": TWO, **fields})


@pytest.mark.parametrize("key", ["disk.wal", "standby.count", "server.checksums"])
def test_what_all_branches_share_cannot_differ(key: str) -> None:
    spec = spec_from_fields({"branches": [*TWO, {"name": "c", "vary": {key: "1"}}]})
    with pytest.raises(UsageError, match="begin with the same data directory") as found:
        variants_of(spec)
    assert found.value.code == "branch-key"


def test_clients_of_open_loops_cannot_be_matched() -> None:
    fields = {"branches": [TWO[0], {"name": "c", "match": "a"}], "clients": [{"count": 4}]}
    assert variants_of(spec_from_fields(fields))
    fields["clients"] = [{"count": 4, "arrival": {"rate": 10}}]
    with pytest.raises(UsageError, match="needs closed loops") as found:
        variants_of(spec_from_fields(fields))
    assert found.value.code == "branch-match"


def test_a_spec_with_branches_is_one_of_pgdyno_branch() -> None:
    late = {"name": "c", "events": [{"at": "3s", "sql": "a"}, {"at": "2s", "sql": "b"}]}
    spec = spec_from_fields({"branches": [*TWO, late]})
    assert spec.command == "branch"
    assert first_event_ms(spec.branches) == 2000
    assert [each.title for each in variants_of(spec)] == ["", "clients.count = 4", ""]
    more = repeated(spec, before_ms=None, rounds=9)
    assert (more.branching.rounds, more.branching.before_ms) == (9, 0)

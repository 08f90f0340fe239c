"""The ledgers of the groups add up to the one of all of them over the same stretch, as printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from record_samples import add_second, at, group_row, new_recorder, script_row

from pgdyno.facts.groups import group_accounts
from pgdyno.record import RunFile
from pgdyno.report.words import accounts
from pgdyno.trial.result import run_result

SPEC = {"name": "two", "clients": [{"name": "a", "count": 3}, {"name": "b", "count": 2}]}
COUNTS = st.integers(0, 50)
SECOND = st.fixed_dictionaries(
    dict.fromkeys(("done", "failed", "skipped", "cancelled", "backlog"), COUNTS)
)


def recorded(path: Path, seconds: list[dict[str, dict[str, int]]], measured: range) -> RunFile:
    """A run of two groups whose seconds ``measured`` are its one slice."""
    left = {"a": 0, "b": 0}
    recorder = new_recorder(path, spec=SPEC)
    slice_id = None
    for number, groups in enumerate(seconds):
        if number == measured.start:
            slice_id = recorder.open_slice("run", ns=at(recorder, number))
        if slice_id is not None and number == measured.stop:
            recorder.close_slice(slice_id, ns=at(recorder, number))
        rows = []
        for name, counts in groups.items():
            ended = sum(counts[key] for key in ("done", "failed", "skipped", "cancelled"))
            intended = ended + counts["backlog"] - left[name]
            left[name] = counts["backlog"]
            rows.append(script_row(name, f"{name}.sql", intended=intended, **counts))
        clients = [group_row("a", clients=3), group_row("b", clients=2)]
        add_second(recorder, number, rows, groups=clients)
    recorder.finish("done")
    return RunFile(path)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.fixed_dictionaries({"a": SECOND, "b": SECOND}), min_size=4, max_size=7))
def test_columns_add_up(
    tmp_path_factory: pytest.TempPathFactory, seconds: list[dict[str, dict[str, int]]]
) -> None:
    path = tmp_path_factory.mktemp("run") / "run.db"
    with recorded(path, seconds, range(1, len(seconds) - 1)) as run:
        result = run_result(run, [1], None).to_json()
    whole = result["ledger_measured"]
    for column, value in whole.items():
        if column != "over":
            assert value == sum(group["ledger"][column] for group in result["groups"])
    ended = sum(whole[name] for name in ("done", "failed", "skipped", "cancelled", "backlog"))
    assert whole["intended"] + whole["carried_in"] == ended
    assert (result["ledger"]["over"], whole["over"]) == ("run", "measured")
    assert result["ledger"]["carried_in"] == 0


def test_the_table_of_groups_has_their_sum(tmp_path: Path) -> None:
    second = dict.fromkeys(("done", "failed", "skipped", "cancelled", "backlog"), 4)
    seconds = [{"a": second, "b": {**second, "failed": 7}}] * 4
    with recorded(tmp_path / "run.db", seconds, range(1, 3)) as run:
        table = accounts.groups_table(run, [1])
        assert table is not None
        assert table.caption == "Client groups, over the measured slices"
        column = table.head.index("failed")
        assert [row[column] for row in table.rows] == ["8", "14", "22"]
        assert table.rows[-1][0] == "all"
        ledger = run.ledger([1])
        assert "carried in" in accounts.ledger_identity(ledger)
        assert ledger.balanced


@pytest.mark.parametrize(
    ("connections", "connects", "reconnects", "connected"),
    [(0, 2, 0, 2), (2, 0, 0, 2), (0, 0, 0, 0), (1, 5, 4, 1), (0, 9, 0, 3)],
)
def test_clients_that_connected_and_ended_within_an_interval_count(
    tmp_path: Path, connections: int, connects: int, reconnects: int, connected: int
) -> None:
    recorder = new_recorder(tmp_path / "run.db", spec=SPEC)
    row = group_row(
        "a", clients=3, connections=connections, connects=connects, reconnects=reconnects
    )
    add_second(recorder, 0, [script_row("a", "a.sql", intended=4, done=4)], groups=[row])
    recorder.finish("done")
    with RunFile(recorder.path) as run:
        assert [each.clients_connected for each in group_accounts(run)] == [connected]

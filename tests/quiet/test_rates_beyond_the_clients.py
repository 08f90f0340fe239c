"""Rates that so few clients cannot carry, and rates that the server cannot, on real servers."""

from __future__ import annotations

from pathlib import Path

import pytest
from signature_runs import carried_out, status

from pgdyno.facts.sessions import SPARE_SHARE
from pgdyno.record.finding import Finding

pytestmark = pytest.mark.server
SLEEPING = "begin;\nselect pg_sleep(0.02);\nend;\n"
QUEUEING = (
    "begin;\nupdate pgbench_branches set bbalance = bbalance + 1 where bid = 1;\n"
    "select pg_sleep(0.02);\nend;\n"
)


def carried(tmp_path: Path, script: str, clients: int, when_busy: str) -> dict[str, Finding]:
    """Findings on a rate of 400 per second."""
    path = tmp_path / "script.sql"
    path.write_text(script)
    arrival = {"rate": 400, "when_busy": when_busy}
    return carried_out(
        tmp_path, script=path, clients=clients, arrival=arrival, ramp="0s", hold="3s"
    )


def numbers(finding: Finding) -> dict[str, float]:
    return {e.name: e.value for e in finding.evidence if isinstance(e.value, int | float)}


@pytest.mark.parametrize("when_busy", ["queue", "skip"])
def test_four_clients_of_20_ms_carry_no_400_per_second(tmp_path: Path, when_busy: str) -> None:
    found = carried(tmp_path, SLEEPING, 4, when_busy)
    busy = found["busy-clients"]
    assert numbers(busy)["most that they carry, clients / time"] < 200
    if busy.status == "cleared":  # Others may keep the machine's cores busy.
        assert numbers(busy)["host CPU idle"] < SPARE_SHARE, status(found)
    else:
        assert busy.share > 0.3
        assert busy.proposals[0].change.clients["web"] > 8


def test_transactions_that_queue_for_a_row_need_no_more_clients(tmp_path: Path) -> None:
    found = carried(tmp_path, QUEUEING, 8, "queue")
    assert found["hot-row"].status == "found", status(found)
    assert found["busy-clients"].status == "cleared", status(found)


def test_clients_enough_for_the_rate_are_not_busy(tmp_path: Path) -> None:
    found = carried(tmp_path, SLEEPING, 40, "skip")
    assert found["busy-clients"].status == "cleared", status(found)

"""Sessions that wait for each other, for a core or for their clients, on real servers.

What the loads wait for is made by sleeping, so that nothing here depends on the machine's speed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from signature_runs import carried_out, status

from pgdyno.record import RunFile
from pgdyno.record.fileformat import CLIENT_BACKEND
from pgdyno.spec.change import Change

pytestmark = pytest.mark.server


@pytest.fixture
def one_row(tmp_path: Path) -> tuple[Path, Path]:
    """A setup, and transactions that hold its only row for a tenth of a second."""
    setup, script = tmp_path / "setup.sql", tmp_path / "one-row.sql"
    setup.write_text("create table one (n int);\ninsert into one values (0);\n")
    script.write_text("begin;\nupdate one set n = n + 1;\nselect pg_sleep(0.1);\nend;\n")
    return setup, script


def test_half_of_the_clients_do_the_same_work_on_one_row(
    tmp_path: Path, one_row: tuple[Path, Path]
) -> None:
    setup, script = one_row
    done, found = {}, {}
    for clients in (8, 4):
        folder = tmp_path / str(clients)
        folder.mkdir()
        found[clients] = carried_out(folder, script=script, setup=setup, clients=clients, hold="4s")
        with RunFile(folder / "run.db") as run:
            (slice_,) = run.slices("run")
            done[clients] = run.ledger([slice_.id]).done
    finding = found[8]["hot-row"]
    assert finding.status == "found", status(found[8])
    (proposal,) = [each for each in finding.proposals if each.remedy_id == "client-count"]
    assert proposal.change == Change(clients={"web": 4})
    assert proposal.predicted_ratio == pytest.approx(1.0, abs=0.05)
    assert proposal.predicted_response_ratio == pytest.approx(0.5, abs=0.05)
    # Half of it if each client did its own; one of the two may have met a busier machine.
    assert done[4] / done[8] > 0.6


def test_clients_that_do_not_wait_for_each_other_are_all_needed(tmp_path: Path) -> None:
    script = tmp_path / "apart.sql"
    script.write_text("begin;\nselect pg_sleep(0.03);\nend;\n")
    found = carried_out(tmp_path, script=script, clients=8, hold="3s")
    proposed = [each.remedy_id for finding in found.values() for each in finding.proposals]
    assert "client-count" not in proposed, status(found)


def test_pauses_within_a_transaction_are_no_longer_than_the_script_asks_for(
    tmp_path: Path,
) -> None:
    """Beside sessions that wait for a core: whatever these take, it is not the clients'."""
    script = tmp_path / "pausing.sql"
    script.write_text("begin;\nselect 1;\n\\sleep 1 ms\nselect 2;\nend;\n")
    found = carried_out(tmp_path, script=script, clients=32, hold="3s")
    values = {each.name: each.value for each in found["client-pauses"].evidence}
    assert values["the script asks for pauses of"] == 1.0
    assert float(values["pauses within a transaction"] or 0.0) <= 1.0
    if not Path("/proc/self/schedstat").exists():
        pytest.skip("this kernel has no clock of the queue for a core")
    with RunFile(tmp_path / "run.db") as run:
        slice_ids = [each.id for each in run.slices("run")]
        queued_ms = run.delta(
            "metric_process", "run_queue_delay_ms", slice_ids, where={"role": CLIENT_BACKEND}
        )
    assert queued_ms is not None
    assert queued_ms > 0

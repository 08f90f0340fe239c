"""Sessions that show ClientRead: they wait for their client, or were woken and wait for a core.

The server sets a wait event back only when the session runs again. Whose time it is, the clients'
clocks and the kernel's tell.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from diagnose_runs import CPU, IDLE, WAL_SYNC, Load, concluded
from inline_snapshot import snapshot
from msgspec.structs import replace

from pgdyno.diagnose import UNEXPLAINED

# Sixteen clients on two busy cores, seven statements each: few of those in a transaction run.
BUSY = Load(
    clients=16,
    tps=6200,
    service_ms=2.58,
    sessions={CPU: 1.2, WAL_SYNC: 1.9, IDLE: 11.0},
    busy=0.97,
    server_facts={"uri": "postgresql://app@/shop?host=/run/postgresql&port=5432"},
)
SHORT = [(f"update t{n}", 0.36) for n in range(7)]
"""Statements between which the client passes 0.06 of 2.58 ms."""
PAUSED = [(f"update t{n}", 0.215) for n in range(7)]
"""Statements between which the client passes 1.08 of 2.58 ms."""
SLEEPS = "begin;\nselect 1;\n\\sleep 1 ms\nend;\n"


def parts_of(tmp_path: Path, load: Load) -> dict[str, float]:
    """Return the part of the response time of each part of the budget."""
    budget = concluded(tmp_path, load).budget
    assert budget is not None
    assert sum(budget.parts_ms.values()) == pytest.approx(budget.response_ms, rel=1e-6)
    return {part: budget.share(part) for part in budget.parts_ms}


def test_sessions_without_a_core_by_the_kernel_s_clock_do_not_wait_for_their_client(
    tmp_path: Path,
) -> None:
    before = parts_of(tmp_path, BUSY)
    assert before["client"] == pytest.approx(11 / 16, abs=0.02)
    known = parts_of(tmp_path, replace(BUSY, ready=10.0))
    assert known["ready"] == pytest.approx(10 / 16, abs=0.02)
    assert known["client"] < 0.2


def test_a_short_time_of_the_clients_leaves_the_rest_to_the_queue_for_a_core(
    tmp_path: Path,
) -> None:
    parts = parts_of(tmp_path, replace(BUSY, ready=10.0, script_ms=SHORT))
    assert parts["client"] == pytest.approx(0.06 / 2.58, abs=0.02)
    assert parts["ready"] == pytest.approx(10 / 16, abs=0.02)


def test_clients_that_pause_within_a_transaction_keep_their_time(tmp_path: Path) -> None:
    """The kernel's clock also runs while a session is woken from the flush: no client's time."""
    pausing = replace(BUSY, script_ms=PAUSED)
    for load in (replace(pausing, busy=0.4), replace(pausing, ready=10.0)):
        assert parts_of(tmp_path, load)["client"] == pytest.approx(1.08 / 2.58, abs=0.02)


def test_clients_that_pause_beside_idle_cores_keep_their_time(tmp_path: Path) -> None:
    idle = replace(BUSY, tps=620, service_ms=25.8, busy=0.1, ready=0.1)
    assert parts_of(tmp_path, idle)["client"] == pytest.approx(11 / 16, abs=0.02)


def test_a_pause_that_the_script_asks_for_is_explained_however_short(tmp_path: Path) -> None:
    asked = concluded(tmp_path, replace(BUSY, script_ms=PAUSED, script_text=SLEEPS))
    assert asked.verdict.finding == "client-pauses"
    assert asked.verdict.sentence == snapshot(
        "clients pause for 1 of 2.6 ms between the statements of a transaction, as the script"
        " asks: the server waits for them"
    )
    unasked = concluded(tmp_path, replace(BUSY, script_ms=PAUSED))
    assert unasked.verdict.finding == UNEXPLAINED


def test_what_a_pause_takes_beyond_what_the_script_asks_for_is_lateness(tmp_path: Path) -> None:
    late = [(f"update t{n}", 0.1) for n in range(7)]
    parts = parts_of(tmp_path, replace(BUSY, script_ms=late, script_text=SLEEPS))
    assert parts["client"] == pytest.approx(1.0 / 2.58, abs=0.02)
    assert parts["late"] == pytest.approx(0.88 / 2.58, abs=0.02)

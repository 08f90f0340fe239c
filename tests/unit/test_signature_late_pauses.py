"""Lateness after the pauses of a script is the load generator's time, and named as that."""

from __future__ import annotations

from pathlib import Path

import pytest
from diagnose_runs import CPU, Load, concluded, diagnosed
from inline_snapshot import snapshot
from msgspec.structs import replace

SCRIPT = "select 1;\n\\sleep 5 ms\nselect 2;"
# A transaction of 12 ms: two statements of 1 ms, and a pause of 5 ms that takes 10.
LATE = Load(
    clients=16,
    tps=1333,
    service_ms=12.0,
    sessions={CPU: 1.6},
    script_ms=[("select 1", 1.0), ("select 2", 1.0)],
    script_text=SCRIPT,
    busy=0.98,
    queued=3.0,
)


def test_lateness_is_named_with_its_cause(tmp_path: Path) -> None:
    found = concluded(tmp_path, LATE)
    (finding,) = (each for each in found.findings if each.id == "late-pauses")
    assert finding.status == "found"
    assert finding.sentence == snapshot(
        "clients wake 5 ms later from the pauses of their script than it asks for, 42 % of the"
        " response time: hardly a core is idle for the load generator, which runs beside the server"
    )
    assert "another machine" in finding.advice
    (part,) = (each for each in found.parts if each.part == "late")
    assert (part.status, part.findings) == ("explained", ("late-pauses",))
    others = {each.id for each in found.findings if each.status == "found"}
    assert set(finding.causes) <= others


def test_lateness_beside_idle_cores_is_the_generator_s(tmp_path: Path) -> None:
    idle = replace(LATE, busy=0.5, queued=1.5)
    finding = diagnosed(tmp_path, idle)["late-pauses"]
    assert finding.sentence == snapshot(
        "clients wake 5 ms later from the pauses of their script than it asks for, 42 % of the"
        " response time: this is the load generator's time and not the server's"
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"tps": 2200, "service_ms": 7.2},  # a pause of 5 ms takes 5.2
        {"script_text": "select 1;\nselect 2;"},  # work of the client, of which nothing was asked
        {"script_text": "\\set n random(1, 9)\n\\sleep :n ms"},
    ],
)
def test_punctual_clients_and_unknown_pauses_are_not_late(
    tmp_path: Path, changed: dict[str, object]
) -> None:
    found = diagnosed(tmp_path, replace(LATE, **changed))  # type: ignore[arg-type]
    assert found["late-pauses"].status == "cleared"

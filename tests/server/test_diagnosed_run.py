"""From a load to its diagnosis, by way of the run file: what holds on any machine, whatever the
machine makes of the load. What is found where it should be is asked in ``tests/quiet``."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from pgdyno.conduct import Silent, open_session
from pgdyno.diagnose import diagnose
from pgdyno.investigate.run import run_spec
from pgdyno.record import RunFile
from pgdyno.rules.rule import rules_of_loads
from pgdyno.server import Cluster
from pgdyno.spec import spec_from_fields

pytestmark = pytest.mark.server
SCHEMA = Path(__file__).parents[2] / "docs/reference/result-run.schema.json"
CLIENTS, TRANSACTIONS = 4, 60
# So many transactions with pauses take longer than the shortest period that is diagnosed.
PAUSE = "25ms"


def test_a_run_is_recorded_and_diagnosed(pg: Cluster, tmp_path: Path) -> None:
    spec = spec_from_fields(
        {
            "name": "diagnosed",
            "server": {"kind": "existing", "conninfo": pg.conninfo.uri_without_password},
            "workload": {"script": "tpcb-like", "scale": 1},
            "clients": [{"name": "web", "count": CLIENTS, "think": PAUSE}],
            "load": {"transactions": TRANSACTIONS, "hold": "10min"},
        }
    )
    path = tmp_path / "run.db"
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        printed = json.loads(json.dumps(run_spec(session).to_json()))
    jsonschema.validate(printed, json.loads(SCHEMA.read_text()))
    with RunFile(path) as run:
        ledger = run.ledger()
        assert ledger.balanced
        assert (ledger.intended, ledger.done) == (CLIENTS * TRANSACTIONS,) * 2
        stored = {row.id: row.status for row in run.findings()}
        again = diagnose(run, [part.id for part in run.slices()])
    assert again.budget is not None
    assert sum(again.budget.parts_ms.values()) == pytest.approx(again.budget.response_ms, rel=1e-6)
    shares = [part["share"] for part in printed["latency_budget"]["parts"]]
    assert sum(shares) == pytest.approx(1.0, abs=0.01)
    assert sorted(stored) == [rule.id for rule in rules_of_loads()]
    assert {each["id"]: each["status"] for each in printed["findings"]} == stored
    assert {each.id: each.status for each in again.findings} == stored
    for finding in again.findings:
        assert finding.status in ("found", "cleared", "skipped")
        if finding.status == "skipped":
            assert finding.sentence.startswith("not checked: ")
        else:
            assert finding.sentence
            assert finding.evidence, finding.id

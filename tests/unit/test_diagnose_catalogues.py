"""Dead rows of system catalogues: who keeps them, on made-up run files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import Load, diagnosed
from inline_snapshot import snapshot
from upkeep_runs import XIDS_S, ages, churn

ID = "catalogue-bloat"
SESSION = {"xmin_holder": "backend", "xmin_holder_name": "4711", "xmin_held_ms": 60_000.0}


def catalogue(**given: Any) -> Any:
    """Rows of metric_catalogue: temporary tables leave a thousand rows each second."""

    def rows(edge: int) -> Sequence[Mapping[str, Any]]:
        row = {
            "relation": "pg_catalog.pg_attribute", "n_tup_upd": 0, "n_tup_del": 1000 * edge,
            "n_live_tup": 3000, "n_dead_tup": 1000 * edge, "vacuum_count": 0,
            "autovacuum_count": edge,
        }  # fmt: skip
        return [row | given, row | {"relation": "pg_catalog.pg_class", "n_dead_tup": 90 * edge}]

    return rows


def slot(age: int, per_s: int = XIDS_S) -> Any:
    """Rows of metric_slot of a logical slot."""
    row = {"slot_name": "lost", "slot_type": "logical", "active": 0}
    return lambda edge: [row | {"catalog_xmin_age": age + per_s * edge}]


def load(rows: Mapping[str, Any]) -> Load:
    return churn(rows={"metric_catalogue": catalogue(), **rows})


@pytest.mark.parametrize(
    ("rows", "holder"),
    [
        ({"metric_slot": slot(5000)}, 'the replication slot "lost" (logical, inactive)'),
        ({"metric_age": ages(SESSION)}, "the session of process 4711"),
    ],
    ids=["a slot", "a session"],
)
def test_dead_rows_of_catalogues_that_somebody_keeps(
    tmp_path: Path, rows: Mapping[str, Any], holder: str
) -> None:
    finding = diagnosed(tmp_path, load(rows))[ID]
    assert (finding.status, finding.severity) == ("found", "costs"), finding.sentence
    values = {each.name: each.value for each in finding.evidence}
    assert values["holder of an old xmin"] == holder
    assert values["dead rows of pg_catalog.pg_attribute"] == 10_000
    assert "dead rows of pg_catalog.pg_class" not in values


def test_the_sentence_on_catalogues(tmp_path: Path) -> None:
    finding = diagnosed(tmp_path, load({"metric_slot": slot(5000)}))[ID]
    assert finding.sentence == snapshot(
        'the replication slot "lost" (logical, inactive) has kept dead rows of catalogues'
        " for 10 s: 10,000 in pg_catalog.pg_attribute, 3.3 times its live ones"
    )
    assert finding.advice == snapshot(
        "let its consumer go on, or, if there is none any more, drop it: SELECT"
        " pg_drop_replication_slot('lost'); VACUUM these catalogues afterwards; and make fewer"
        " temporary tables: one for a session, with ON COMMIT DELETE ROWS, or none (a common"
        " table expression, an array)"
    )


@pytest.mark.parametrize(
    "rows",
    [
        {},
        {"metric_slot": slot(100, per_s=0)},
        {"metric_slot": slot(5000), "metric_catalogue": catalogue(n_dead_tup=900)},
        {"metric_slot": slot(5000), "metric_catalogue": catalogue(n_tup_del=7)},
        {"metric_slot": slot(5000), "metric_catalogue": catalogue(n_live_tup=90_000)},
    ],
    ids=["nobody", "a slot that goes on", "few dead rows", "old ones", "more live ones"],
)
def test_catalogues_that_nobody_keeps_from_vacuum(tmp_path: Path, rows: Mapping[str, Any]) -> None:
    finding = diagnosed(tmp_path, load(rows))[ID]
    assert finding.status == "cleared", finding.sentence

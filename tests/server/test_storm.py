"""``pgdyno storm`` on real servers: shapes, errors by cause, and what is made of the run file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import psycopg
import pytest

from pgdyno.conduct import Silent, open_session
from pgdyno.errors import SetupError
from pgdyno.record import RunFile
from pgdyno.report.page.html import render
from pgdyno.report.rows import result_rows
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.results import load, schemas
from pgdyno.results.storm import StormResult
from pgdyno.search._storm_load import SHAPES
from pgdyno.search.storm import StormRequest, find_storm, prepared_spec
from pgdyno.server import Cluster
from pgdyno.spec import spec_from_fields
from pooler_fixtures import existing

pytestmark = pytest.mark.server
SELECT = {"script": "select-only", "scale": 1}


def found_on(
    server: Mapping[str, Any], path: Path, *, shape: str = "herd", clients: int = 24,
    within_s: float = 30, budget_s: float = 600, **more: Any,
) -> StormResult:  # fmt: skip
    fields = {"name": "storm", "server": server, "workload": SELECT, **more}
    spec, group = prepared_spec(
        spec_from_fields(fields), shape=shape, group=None, clients_max=clients, connecting_max=None
    )
    request = StormRequest(shape, group, clients, within_s, budget_s)
    with open_session(spec, run=path, command="storm", spec_text="", watcher=Silent()) as session:
        result = find_storm(session, request)
    jsonschema.validate(json.loads(json.dumps(result.to_json())), schemas()["storm"])
    with RunFile(path) as run:
        assert load(run) == result
        assert run.ledger().balanced
    return result


@pytest.mark.parametrize(
    "shape",
    [
        each if each == "retry" else pytest.param(each, marks=pytest.mark.long)
        for each in sorted(SHAPES)
    ],
)
def test_a_storm_that_is_survived(pg18: Cluster, tmp_path: Path, shape: str) -> None:
    result = found_on(existing(pg18), tmp_path / "run.db", shape=shape)
    assert result.largest is not None
    assert result.largest.clients == 24
    assert result.largest.connected == 24
    assert result.failed is None
    ended = [each for each in result.largest.errors if each.sqlstate == "57P01"]
    assert bool(ended) == (shape == "retry")
    assert bool(result.variants) == (shape != "leak")
    assert all(each.survived == each.storms for each in result.variants)
    with RunFile(tmp_path / "run.db") as run:
        assert {each.kind for each in run.slices()} == {"storm"}
        assert not any(each.void for each in run.slices())
        assert "survived" in "\n".join(line.text for line in summary_lines(run, 120))
        assert "Storms, in their order" in render(run)
        assert len(list(result_rows(run))) == len(result.points)
    with psycopg.connect(**pg18.conninfo.kwargs()) as connection:
        left = "select count(*) from pg_stat_activity where application_name = 'pgdyno'"
        assert connection.execute(left).fetchone() == (0,)


@pytest.mark.long
def test_refused_connections_are_errors_by_cause(tmp_path: Path) -> None:
    server = {"kind": "embedded", "settings": {"max_connections": "30"}}
    result = found_on(server, tmp_path / "run.db", clients=64, within_s=3)
    assert result.failed is not None
    assert result.largest is not None
    assert result.largest.clients < 30 <= result.failed
    failed = [each for each in result.points if each.clients == result.failed]
    assert all(each.errors[0].sqlstate == "53300" for each in failed)
    queue = next(each for each in result.variants if "a queue" in each.title)
    assert queue.survived == queue.storms
    (without,) = [each for each in result.variants if not each.title]
    assert without.survived == 0


def test_a_server_of_pgdyno_has_room_for_the_storm() -> None:
    fields = {"name": "storm", "workload": SELECT}
    spec, _ = prepared_spec(
        spec_from_fields(fields), shape="herd", group=None, clients_max=500, connecting_max=None
    )
    assert int(spec.server.settings["max_connections"]) > 500
    assert spec.load.connecting_max == 500


def test_too_few_open_files_are_told() -> None:
    with pytest.raises(SetupError) as caught:
        prepared_spec(
            spec_from_fields({"name": "storm", "workload": SELECT}),
            shape="herd", group=None, clients_max=100_000_000, connecting_max=None,
        )  # fmt: skip
    assert caught.value.code == "open-files"

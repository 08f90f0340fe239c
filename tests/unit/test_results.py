"""Results as types: in the run file and back, and in their published schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import drill_runs
import jsonschema
import price_runs
import pytest
import report_runs
from pydantic import ValidationError

from pgdyno.record import RunFile
from pgdyno.results import load, schemas, store
from pgdyno.results.common import Failures, Latency
from pgdyno.results.drill import DrillResult
from pgdyno.results.price import PriceResult


def test_a_price_list_comes_back_as_it_was_stored(tmp_path: Path) -> None:
    rows = [price_runs.row(candidate) for candidate in price_runs.ladder()]
    result = PriceResult.model_validate(price_runs.price_result(rows))
    writer = report_runs.Writer(tmp_path / "run.db", 2, command="price")
    store(writer.recorder, result)
    run = RunFile(writer.finish())
    assert load(run) == result
    assert run.run.result == result.to_json()
    assert set(result.to_json()) == set(price_runs.price_result(rows)), "keys not given are absent"


def test_a_drill_comes_back_as_it_was_stored(tmp_path: Path) -> None:
    drill = drill_runs.sample_drill([3, 0])
    result = load(RunFile(drill_runs.write_drill(tmp_path / "run.db", drill)))
    assert isinstance(result, DrillResult)
    assert result == DrillResult.model_validate(dict(drill))
    assert result.against is None
    jsonschema.validate(json.loads(json.dumps(result.to_json())), schemas()["drill"])


@pytest.mark.parametrize("result", [{}, {"trustworthy": True}, {"schema_version": 1}])
def test_a_result_that_cannot_be_read_is_none(tmp_path: Path, result: dict[str, Any]) -> None:
    writer = report_runs.Writer(tmp_path / "run.db", 2, command="compare")
    writer.recorder.update_run(result=result)
    assert load(RunFile(writer.finish())) is None


def test_results_are_strict_and_frozen() -> None:
    failures = Failures(count=1, share=0.5, by_sqlstate={}, sqlstate=None, message=None)
    with pytest.raises(ValidationError):
        Failures.model_validate({**failures.to_json(), "more": 1})
    with pytest.raises(ValidationError):
        failures.count = 2


def test_keys_that_are_no_names_keep_their_spelling() -> None:
    told = {"p50": 1.0, "p90": 1.0, "p95": 1.0, "p99": None, "p99.9": None, "p99.99": None,
            "max": 2.0, "mean": 1.0, "count": 9}  # fmt: skip
    latency = Latency.model_validate(told)
    assert latency.p99_9 is None
    assert latency.to_json() == told


def test_published_schemas_are_schemas_that_allow_no_other_keys() -> None:
    for command, schema in schemas().items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["title"].startswith("pgdyno "), command
        for name, part in {"": schema, **schema["$defs"]}.items():
            if "enum" not in part:
                assert part["additionalProperties"] is False, (command, name)

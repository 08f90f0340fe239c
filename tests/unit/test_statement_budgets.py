"""The latency budget of each statement, and what a budget lacks, on run files made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from diagnose_runs import CPU, WAL_SYNC, Load, concluded
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from msgspec.structs import replace

from pgdyno.facts.scripts import asked_ms
from pgdyno.facts.shapes import shape
from pgdyno.trial.result import budget_of

UPDATE = "update pgbench_branches set bbalance = bbalance + $1 where bid = $2"
LOAD = Load(
    clients=4, tps=1000, service_ms=4.0, statements_ms=3.9, sessions={CPU: 0.4, WAL_SYNC: 3.0}
)


@pytest.mark.parametrize(
    ("script", "server"),
    [
        ("update t set a = a + :delta where id = :id", UPDATE.replace("pgbench_branches", "x")),
        ("update t set a = a + :delta where id = :id", "update t set a = a + ? where id = $2"),
    ],
)
def test_shapes_of_different_statements_differ_and_of_one_agree(script: str, server: str) -> None:
    assert (shape(script) == shape(server)) is ("t set a" in server)


@given(st.integers(-(10**6), 10**6), st.integers(0, 10**6))
def test_values_in_a_text_do_not_matter(delta: int, row: int) -> None:
    sent = f"UPDATE t SET a = a + {delta}\n WHERE id = {row};"
    assert shape(sent) == shape("update t set a = a + :delta where id = :id")


def test_a_cast_is_no_variable() -> None:
    assert shape("select :x::int") == shape("select $1::int") == "select ?::int"


def test_the_parts_of_a_statement_add_up_and_have_their_wait_events(tmp_path: Path) -> None:
    (only,) = concluded(tmp_path, replace(LOAD, statement=UPDATE)).statements
    assert sum(only.parts_ms.values()) == pytest.approx(only.ms)
    assert only.events["flush"] == ["IO:WalSync"]
    assert only.parts_ms["flush"] == pytest.approx(3.0, rel=0.02)
    assert next(iter(only.parts_ms)) == "flush"


SCRIPT = replace(
    LOAD, statements_ms=None, statement=UPDATE, script_ms=[("begin", 1.0), (UPDATE, 2.9)]
)


@pytest.mark.parametrize("sessions", [{CPU: 0.4, WAL_SYNC: 2.0}, {WAL_SYNC: 2.0}, {}])
def test_statements_together_never_exceed_the_transaction(
    tmp_path: Path, sessions: dict[tuple[str, str], float]
) -> None:
    found = concluded(tmp_path, replace(SCRIPT, sessions=sessions))
    assert found.budget is not None
    assert len(found.statements) == 2
    together: dict[str, float] = {}
    for each in found.statements:
        assert sum(each.parts_ms.values()) == pytest.approx(each.ms)
        for part, ms in each.parts_ms.items():
            together[part] = together.get(part, 0.0) + ms * each.executions_per_transaction
    together.pop("too few samples", None)
    for part, ms in together.items():
        assert ms <= {str(name): of for name, of in found.budget.parts_ms.items()}[part] + 1e-6


def test_a_statement_that_was_not_seen_computing_has_no_cpu_time(tmp_path: Path) -> None:
    statements = concluded(tmp_path, replace(SCRIPT, sessions={CPU: 0.4, WAL_SYNC: 2.0})).statements
    begin = next(each for each in statements if each.total.statement == "begin")
    assert set(begin.parts_ms) == {"between"}


def test_cpu_time_without_samples_is_given_to_no_statement(tmp_path: Path) -> None:
    statements = concluded(
        tmp_path, replace(SCRIPT, sessions={WAL_SYNC: 2.0}, queued=4.0)
    ).statements
    for each in statements:
        assert {"running", "ready"}.isdisjoint(each.parts_ms)
        assert each.parts_ms["too few samples"] > 0


def test_of_a_statement_in_few_samples_no_part_is_told(tmp_path: Path) -> None:
    rare = replace(SCRIPT, tps=2, script_ms=[("begin", 1.0), (UPDATE, 2.9)], sessions={CPU: 0.02})
    for each in concluded(tmp_path, rare).statements:
        assert each.parts_ms == pytest.approx({"too few samples": each.ms})


def test_statements_of_a_pipeline_have_no_time_of_their_own(tmp_path: Path) -> None:
    pipeline = [(text, 4.0) for text in ("begin", UPDATE, "select 1", "commit")]
    scripts = {"a pipeline": "\\startpipeline\nselect 1;\n\\endpipeline", "none": ""}
    for kind, script in scripts.items():
        found = concluded(tmp_path, replace(SCRIPT, script_ms=pipeline, script_text=script))
        assert not found.statements
        assert (
            found.missing
            == snapshot(
                {
                    "a pipeline": [
                        (
                            "statements of a pipeline are answered together: none has a time of"
                            " its own, and pauses of the client between statements are not known"
                        ),
                        "parsing and planning are part of the CPU time",
                    ],
                    "none": [
                        "pauses of the client between statements are not known",
                        "parsing and planning are part of the CPU time",
                    ],
                }
            )[kind]
        )


@pytest.mark.parametrize(
    ("script", "asked"),
    [
        ("select 1;\n\\sleep 20 ms\n", 20.0),
        ("\\sleep 500us\nselect 1;\n\\sleep 1", 1000.5),
        ("select 1;", 0.0),
        ("\\sleep :n ms", None),
        ("\\if :n\n\\sleep 20 ms\n\\endif", None),
    ],
)
def test_what_a_script_asks_to_sleep(script: str, asked: float | None) -> None:
    assert asked_ms(script) == asked


def test_a_pause_is_no_longer_than_the_script_asks_for(tmp_path: Path) -> None:
    load = replace(LOAD, tps=100, service_ms=36.0, statements_ms=10.0, sessions={WAL_SYNC: 0.5})
    pauses = {}
    for script in ("", "select 1;\n\\sleep 20 ms"):
        budget = concluded(tmp_path, replace(load, script_text=script)).budget
        assert budget is not None
        assert sum(budget.parts_ms.values()) == pytest.approx(budget.response_ms)
        pauses[script] = (budget.parts_ms["pause"], budget.parts_ms["late"])
    unknown, known = pauses.values()
    assert unknown == pytest.approx((26.0, 0.0), rel=0.02)
    assert known == pytest.approx((20.0, unknown[0] - 20.0))


def test_results_have_the_budget_and_what_it_lacks(tmp_path: Path) -> None:
    budget = budget_of(concluded(tmp_path, replace(LOAD, statement="", busy=None)))
    assert budget is not None
    assert sum(part.ms for part in budget.parts) == pytest.approx(budget.response_ms, rel=0.01)
    assert sum(part.share for part in budget.parts) == pytest.approx(1.0, abs=0.01)
    assert any("not observed" in sentence for sentence in budget.missing)
    behind = replace(LOAD, server_facts={"entrance_uri": "postgresql://pooler/"})
    found = budget_of(concluded(tmp_path, behind))
    assert found is not None
    assert found.missing == snapshot(
        (
            "a pooler stands between clients and server: its queue is part of network and messages",
            "parsing and planning are part of the CPU time",
        )
    )

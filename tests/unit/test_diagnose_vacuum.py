"""Signatures of vacuum: too slow, too late, switched off, in the way; and healthy churn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import CPU, concluded, diagnosed
from inline_snapshot import snapshot
from msgspec.structs import replace
from upkeep_runs import ages, churn, pages, table_facts, workers

from pgdyno.facts.autovacuum import Autovacuum, options_of
from pgdyno.facts.situation import Situation

VACUUM = ("autovacuum-slow", "autovacuum-threshold", "autovacuum-off", "vacuum-load")
SLOWER = [1000.0 - 60 * second for second in range(10)]
OFTEN = {"autovacuum_naptime": "1s", "autovacuum_vacuum_scale_factor": "0.001"}
SESSION = {"xmin_holder": "backend", "xmin_holder_name": "4711", "xmin_held_ms": 60_000.0}


def dying(**given: Any) -> Any:
    """A load whose dead rows cost more and more."""
    rows = {
        "metric_autovacuum": table_facts(),
        "metric_database": pages(40, 120),
        **given.pop("rows", {}),
    }
    return churn(tps_by_second=SLOWER, rows=rows, **given)


def test_workers_that_sleep_while_a_table_is_due_are_too_slow(tmp_path: Path) -> None:
    load = dying(settings=OFTEN, rows={"wait_sample": workers(1.9, 0.1)})
    found = diagnosed(tmp_path, load)
    finding = found["autovacuum-slow"]
    assert finding.status == "found"
    assert finding.sentence == snapshot(
        "autovacuum does not keep up: public.orders has 15,000 dead rows, 14.3 times its"
        " threshold, and was due for 9 s; its workers are asleep for their cost delay for 95 % of"
        " the time; a transaction accesses 2.3 times as many pages at the end of the run as at its"
        " beginning, and 43 % of its time is explained by that"
    )
    [proposal] = finding.proposals
    assert proposal.change.settings == {"autovacuum_vacuum_cost_limit": "2000"}
    assert proposal.specific
    assert {found[name].status for name in VACUUM[1:]} == {"cleared"}


def test_dead_rows_own_their_part_of_the_queue_for_a_core(tmp_path: Path) -> None:
    """Neighbours keep the server from most of the cores, but do not use more than it does."""
    busy = {"sessions": {CPU: 3.8}, "service_ms": 5.7, "busy": 1.0, "server": 0.45, "queued": 8.0}
    load = dying(settings=OFTEN, rows={"wait_sample": workers(1.9, 0.1)}, **busy)
    found = concluded(tmp_path, load)
    assert found.verdict.finding == "autovacuum-slow", found.verdict.sentence
    (ready,) = (part for part in found.parts if part.part == "ready")
    assert ready.findings == ("autovacuum-slow",)
    assert 0.0 < ready.unexplained < ready.share


def test_the_other_programs_queue_for_a_core_is_not_the_dead_rows(tmp_path: Path) -> None:
    programs = {("ours", "pgdyno"): 0.1, ("other", "cc1"): 1.5}
    busy = {"sessions": {CPU: 3.8}, "service_ms": 5.7, "busy": 1.0, "server": 0.15, "queued": 8.0}
    load = dying(settings=OFTEN, rows={"wait_sample": workers(1.9, 0.1)}, programs=programs, **busy)
    found = diagnosed(tmp_path, load)
    assert "ready" in found["other-programs"].parts
    assert "ready" not in found["autovacuum-slow"].parts


def test_a_delay_longer_than_the_default_is_put_back(tmp_path: Path) -> None:
    settings = OFTEN | {"autovacuum_vacuum_cost_delay": "100ms"}
    load = dying(settings=settings, rows={"wait_sample": workers(1.9, 0.1)})
    [proposal] = diagnosed(tmp_path, load)["autovacuum-slow"].proposals
    assert proposal.change.settings == {"autovacuum_vacuum_cost_delay": "2ms"}


@pytest.mark.parametrize(
    "rows",
    [
        {"wait_sample": workers(0.1, 0.9)},
        {"wait_sample": workers(1.9, 0.1), "metric_age": ages(SESSION)},
    ],
    ids=["they work", "an old xmin is held"],
)
def test_other_reasons_why_a_table_is_due(tmp_path: Path, rows: Any) -> None:
    found = diagnosed(tmp_path, dying(settings=OFTEN, rows=rows))
    assert found["autovacuum-slow"].status == "cleared"
    assert (found["xmin-pinned"].status == "found") == ("metric_age" in rows)


def test_a_run_shorter_than_naptime_says_so(tmp_path: Path) -> None:
    finding = diagnosed(tmp_path, churn(rows={"metric_autovacuum": table_facts()}))
    assert finding["autovacuum-slow"].sentence == snapshot(
        "not checked: the run is shorter than 3 times autovacuum_naptime, 180 s, within which a"
        " table that is due is vacuumed"
    )


@pytest.mark.parametrize(
    ("settings", "facts", "what"),
    [
        ({"autovacuum": "off"}, {}, "autovacuum is off"),
        ({"track_counts": "off"}, {}, "track_counts is off"),
        ({}, {"options": "autovacuum_enabled=false"}, "autovacuum of public.orders is off"),
    ],
)
def test_autovacuum_that_is_off(
    tmp_path: Path, settings: Mapping[str, str], facts: Mapping[str, Any], what: str
) -> None:
    rows = {"metric_autovacuum": table_facts(**facts)}
    found = diagnosed(tmp_path, dying(settings=settings, rows=rows))
    finding = found["autovacuum-off"]
    assert finding.status == "found"
    assert what in finding.sentence
    assert 0.2 < finding.share < 0.5
    assert [p.change.settings for p in finding.proposals] == (
        [{"autovacuum": "on"}] if "autovacuum" in settings else []
    )
    assert ("ALTER TABLE public.orders RESET" in finding.advice) == bool(facts)
    assert found["autovacuum-threshold"].status == "cleared"


def test_a_threshold_that_is_not_reached_while_dead_rows_cost_time(tmp_path: Path) -> None:
    rows = {"metric_autovacuum": table_facts(reltuples=10_000)}
    load = dying(rows=rows, settings={"autovacuum_vacuum_scale_factor": "20"})
    finding = diagnosed(tmp_path, load)["autovacuum-threshold"]
    assert finding.status == "found"
    assert finding.sentence == snapshot(
        "public.orders is vacuumed at 200,050 dead rows, which it has in 2 min 03 s at 1,500"
        " rows/s; a transaction accesses 2.3 times as many pages at the end of the run as at its"
        " beginning, and 43 % of its time is explained by that"
    )
    [proposal] = finding.proposals
    assert proposal.change.table_options["public.orders"]["autovacuum_vacuum_threshold"] == "20005"
    assert finding.advice == snapshot(
        "ALTER TABLE public.orders SET (autovacuum_vacuum_scale_factor = 0,"
        " autovacuum_vacuum_threshold = 20005)"
    )


def test_few_dead_rows_are_not_the_reason_for_more_pages(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, dying())["autovacuum-threshold"].status == "cleared"


@pytest.mark.parametrize(("version", "due"), [(170_005, "4e+08"), (180_001, "1e+08")])
def test_a_share_of_a_very_large_table(tmp_path: Path, version: int, due: str) -> None:
    load = churn(
        rows={"metric_autovacuum": table_facts(reltuples=2e9)},
        server_facts={"version_num": version},
    )
    finding = diagnosed(tmp_path, load)["autovacuum-threshold"]
    assert finding.status == "found"
    numbers = {each.name: each.value for each in finding.evidence}
    assert f"{numbers['threshold of autovacuum']:.0e}" == due
    assert finding.share == 0.0


ALTER = {
    "lock_type": "relation",
    "relation": "public.orders",
    "blocker": "vacuum orders",
    "wait_ms_max": 1500.0,
    "waiting": 15,
    "links": [{}],
}
"""A queue of three sessions behind ALTER TABLE, which waits for a vacuum."""


def vacuumed(
    seconds: Sequence[int], slow_tps: float, queue: Mapping[str, Any] | None = None, **given: Any
) -> Any:
    held = {} if queue is None else {"queues": [queue]}
    by_second = {second: {"vacuum": "public.orders"} | held for second in seconds}
    tps = [slow_tps if second in seconds else 1000.0 + second for second in range(10)]

    def flags(edge: int) -> Sequence[Mapping[str, Any]]:
        row = {"pid": 1, "relation": "public.orders", "phase": "scanning heap", "automatic": 1}
        return [{**row, **given}] if edge in seconds else []

    return churn(
        rows={"metric_autovacuum": table_facts(), "metric_vacuum": flags},
        tps_by_second=tps,
        by_second=by_second,
    )


def test_a_vacuum_that_slows_the_load(tmp_path: Path) -> None:
    finding = diagnosed(tmp_path, vacuumed(range(5), 600.0))["vacuum-load"]
    assert finding.status == "found"
    assert finding.sentence == snapshot(
        "throughput is 40 % lower during autovacuum of public.orders: 600 tps, otherwise 1,007"
    )
    assert finding.share == pytest.approx(0.2, abs=0.01)
    [proposal] = finding.proposals
    assert proposal.change.settings == {"autovacuum_vacuum_cost_limit": "100"}


def test_a_vacuum_against_wraparound_is_called_that(tmp_path: Path) -> None:
    finding = diagnosed(tmp_path, vacuumed(range(5), 600.0, to_prevent_wraparound=1))["vacuum-load"]
    assert finding.sentence == snapshot(
        "throughput is 40 % lower during autovacuum to prevent wraparound of public.orders: 600"
        " tps, otherwise 1,007"
    )
    assert not finding.proposals


@pytest.mark.parametrize(
    ("seconds", "tps", "status"),
    [((), 600.0, "cleared"), (range(5), 980.0, "cleared"), (range(2), 600.0, "skipped")],
)
def test_vacuums_that_do_not(
    tmp_path: Path, seconds: Sequence[int], tps: float, status: str
) -> None:
    assert diagnosed(tmp_path, vacuumed(seconds, tps))["vacuum-load"].status == status


@pytest.mark.parametrize(("per_s", "status"), [(3, "skipped"), (0.1, "cleared")])
def test_vacuums_that_are_counted_and_not_seen(tmp_path: Path, per_s: float, status: str) -> None:
    load = vacuumed((), 600.0)
    counted = {name: {**rates, "vacuum_count": per_s} for name, rates in load.tables.items()}
    assert counted
    assert diagnosed(tmp_path, replace(load, tables=counted))["vacuum-load"].status == status


@pytest.mark.parametrize(
    ("more", "status"),
    [({}, "skipped"), ({"wait_ms_max": 12.0}, "found"), ({"waiting": 1}, "found")],
    ids=["held", "taking turns", "a queue of few"],
)
def test_a_queue_for_a_lock_is_not_the_vacuums_load(
    tmp_path: Path, more: Mapping[str, Any], status: str
) -> None:
    load = replace(vacuumed(range(5), 1.0, ALTER | more), sessions={CPU: 4.0})
    assert diagnosed(tmp_path, load)["vacuum-load"].status == status


BLOCKED = "autovacuum-blocked"


def locked(share: float, **given: Any) -> Any:
    """Rows of metric_table_lock in this part of the samples."""
    row = {
        "relation": "public.orders", "mode": "ShareUpdateExclusiveLock", "statement_id": None,
        "backend_type": "client backend", "holders": 1,
    }  # fmt: skip
    return lambda edge: [row | given] if edge % 10 < 10 * share else []


def attempted(*seconds: int) -> Any:
    """Rows of metric_vacuum of autovacuums, one process for each second."""
    row = {"relation": "public.orders", "phase": "scanning heap", "automatic": 1}
    return lambda edge: [row | {"pid": 100 + edge}] if edge in seconds else []


CANCELS = {
    "lock_type": "relation", "relation": "public.orders", "mode": "ShareRowExclusiveLock",
    "blocker_type": "autovacuum worker", "blocker": "autovacuum: VACUUM public.orders",
    "waits_with": "lock table orders in share row exclusive mode", "waiting": 1, "first": 1,
}  # fmt: skip


def test_autovacuum_that_never_gets_its_lock(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, dying(settings=OFTEN, rows={"metric_table_lock": locked(0.8)}))
    finding = found[BLOCKED]
    assert finding.status == "found", finding.sentence
    values = {each.name: each.value for each in finding.evidence}
    assert values["autovacuums of it that were seen"] == 0
    assert values["samples in which others had it locked against autovacuum"] > 0.5
    assert values["mode held or wanted"] == "ShareUpdateExclusiveLock"
    assert finding.sentence == snapshot(
        "autovacuum does not get its lock on public.orders, which others hold in 80 % of the"
        " samples, most often in ShareUpdateExclusiveLock, executing: a session whose"
        " statement is not visible; it has 15,000 dead rows, 14.3 times its threshold, and was"
        " due for 9 s; a transaction accesses 2.3 times as many pages at the end of the run as"
        " at its beginning, and 43 % of its time is explained by that"
    )
    assert finding.advice == snapshot(
        "hold the lock for shorter times and leave pauses of more than autovacuum_naptime"
        " between, use a mode that does not conflict with ShareUpdateExclusiveLock (ROW"
        " EXCLUSIVE or weaker); or execute VACUUM on it, which waits for its lock and is not"
        " cancelled"
    )


def test_autovacuum_that_is_cancelled_by_those_who_wait_for_it(tmp_path: Path) -> None:
    rows = {"metric_vacuum": attempted(2, 5), "wait_sample": workers(1.9, 0.1)}
    found = diagnosed(tmp_path, dying(settings=OFTEN, rows=rows, queues=[CANCELS]))
    finding = found[BLOCKED]
    assert finding.status == "found", finding.sentence
    assert found["autovacuum-slow"].status == "cleared"
    values = {each.name: each.value for each in finding.evidence}
    assert values["of these ended"] == 2
    assert values["statement"] == CANCELS["waits_with"]
    assert finding.sentence == snapshot(
        "2 autovacuums of public.orders ended without being counted, as those do that are"
        " cancelled, while a session waited for ShareRowExclusiveLock to execute: lock table"
        " orders in share row exclusive mode; it has 15,000 dead rows, 14.3 times its"
        " threshold, and was due for 9 s; a transaction accesses 2.3 times as many pages at"
        " the end of the run as at its beginning, and 43 % of its time is explained by that"
    )


@pytest.mark.parametrize(
    ("rows", "queues", "settings"),
    [
        ({"metric_table_lock": locked(0.3)}, [], OFTEN),
        ({"metric_table_lock": locked(0.8, backend_type="autovacuum worker")}, [], OFTEN),
        ({"metric_table_lock": locked(0.8, relation="public.others")}, [], OFTEN),
        ({"metric_vacuum": attempted(2, 5)}, [], OFTEN),
        ({"metric_vacuum": attempted(10)}, [CANCELS], OFTEN),
        ({"metric_table_lock": locked(0.8)}, [], OFTEN | {"autovacuum": "off"}),
    ],
    ids=["seldom", "its own", "another table", "nobody waits", "it goes on", "it is off"],
)
def test_autovacuum_that_nobody_keeps_out(
    tmp_path: Path, rows: Any, queues: Any, settings: Mapping[str, str]
) -> None:
    found = diagnosed(tmp_path, dying(settings=settings, rows=rows, queues=queues))
    assert found[BLOCKED].status == "cleared", found[BLOCKED].sentence


def test_a_short_run_does_not_clear_what_keeps_autovacuum_out(tmp_path: Path) -> None:
    rows = {"metric_autovacuum": table_facts(), "metric_table_lock": locked(0.8)}
    assert diagnosed(tmp_path, churn(rows=rows))[BLOCKED].status == "skipped"


def test_healthy_churn_is_told_nothing(tmp_path: Path) -> None:
    load = churn(rows={"metric_autovacuum": table_facts()}, sessions={CPU: 2.0})
    found = diagnosed(tmp_path, load)
    assert {found[name].status for name in VACUUM} <= {"cleared", "skipped"}


def test_options_of_a_table_come_before_settings(tmp_path: Path) -> None:
    from diagnose_runs import written

    options = options_of("fillfactor=90 autovacuum_vacuum_threshold=7")
    assert options == {"fillfactor": "90", "autovacuum_vacuum_threshold": "7"}
    with written(tmp_path, churn()) as run:
        autovacuum = Autovacuum(Situation(run, [part.id for part in run.slices()]))
        assert autovacuum.due_rows(1000, options) == 207
        assert autovacuum.due_rows(1000, {}) == 250

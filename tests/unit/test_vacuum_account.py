"""Vacuum in the result of a run: tables, the course of each vacuum, what the load did meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import Load, diagnosed, written
from inline_snapshot import snapshot
from msgspec.structs import replace
from upkeep_runs import churn

from pgdyno.report.words import vacuums as words
from pgdyno.results.run_parts import Vacuums
from pgdyno.trial._parts import vacuums_of

PAGES_S = 100
TOTAL = 2000


def progress(seconds: Sequence[int], **given: Any) -> Any:
    """Rows of metric_vacuum of one vacuum that scans ``PAGES_S``, seen in these seconds."""

    def rows(edge: int) -> Sequence[dict[str, Any]]:
        if edge not in seconds:
            return []
        row = {
            "pid": 7, "relation": "public.orders", "phase": "scanning heap", "automatic": 1,
            "to_prevent_wraparound": 0, "heap_blks_total": TOTAL,
            "heap_blks_scanned": PAGES_S * (1 + edge - seconds[0]), "heap_blks_vacuumed": 0,
            "index_vacuum_count": 0, "dead_full": 0.25, "delay_ms": 400.0 * (edge - seconds[0]),
        }  # fmt: skip
        return [row | given]

    return rows


def upkeep(**given: Any) -> Any:
    """Rows of metric_autovacuum."""
    return lambda _: [{"relation": "public.orders", "reltuples": 1e6, "mxid_age": 0} | given]


def vacuumed(seconds: Sequence[int], slower: float = 1.0, **given: Any) -> Load:
    """A load that is ``slower`` in these seconds; ``given`` are columns of the vacuum."""
    tps = [1000.0 + second for second in range(10)]
    for second in seconds:
        tps[second] *= slower
    mxid_age = given.pop("mxid_age", 0)
    version_num = given.pop("version_num", 180006)
    rows = {
        "metric_vacuum": progress(seconds, **given),
        "metric_autovacuum": upkeep(mxid_age=mxid_age),
        "metric_multixact": lambda _: [{"member_files": 2, "members_max": 104_704}],
    }
    facts = {"version_num": version_num}
    return churn(rows=rows, tps_by_second=tps, server_facts=facts)


def account(tmp_path: Path, load: Load) -> Vacuums:
    run = written(tmp_path, load)
    found = vacuums_of(run, [each.id for each in run.slices()])
    assert found is not None
    return found


def test_the_course_of_a_vacuum(tmp_path: Path) -> None:
    found = account(tmp_path, vacuumed(range(5), 0.5))
    [vacuum] = found.vacuums
    assert (vacuum.relation, vacuum.count, vacuum.automatic) == ("public.orders", 1, True)
    assert [(each.phase, each.seconds) for each in vacuum.phases] == [("scanning heap", 5)]
    assert vacuum.scanned_share == pytest.approx(0.25)
    assert vacuum.pages_per_s == pytest.approx(PAGES_S, rel=0.05)
    assert vacuum.asleep_share == pytest.approx(0.4, rel=0.05)
    assert vacuum.memory_share == 0.25
    assert vacuum.left_s is None
    assert not vacuum.failsafe


def test_the_load_during_a_vacuum_against_the_load_without(tmp_path: Path) -> None:
    found = account(tmp_path, vacuumed(range(5), 0.5))
    effect = found.vacuums[0].effect
    assert (effect.seconds_during, effect.seconds_without) == (5, 5)
    assert effect.throughput_ratio == pytest.approx(0.5, abs=0.02)
    assert effect.throughput_ci95 is not None
    assert effect.throughput_ci95[1] < 1.0
    assert effect == found.effect
    assert "throughput 0.50x [" in words.effect_words(effect)


def test_few_seconds_are_not_compared(tmp_path: Path) -> None:
    effect = account(tmp_path, vacuumed(range(2))).effect
    assert effect.throughput_ratio is None
    assert words.effect_words(effect) == snapshot(
        "too few seconds to compare, 2 with and 8 without"
    )


HELD: dict[str, Any] = {"wait_ms_max": 1500.0, "waiting": 15, "lock_type": "relation"}


def test_seconds_that_a_queue_for_a_lock_held_are_left_out(tmp_path: Path) -> None:
    by_second = {second: {"queues": [HELD]} for second in (4, 5)}
    load = replace(vacuumed(range(6), 0.5), by_second=by_second)
    effect = account(tmp_path, load).effect
    # From the beginning of the longest wait, 1.5 s before, to a second after.
    assert (effect.seconds_during, effect.seconds_without, effect.seconds_held) == (3, 3, 4)
    assert effect.throughput_ratio is None
    assert words.effect_words(effect) == snapshot(
        "too few seconds to compare, 3 with and 3 without; 4 s left out, in which a queue for"
        " a lock held the load"
    )


def test_a_ratio_that_tells_nothing_is_not_given(tmp_path: Path) -> None:
    load = vacuumed(range(5))
    tps = [1000.0, 1.0, 900.0, 2.0, 1100.0, *(1000.0 + second for second in range(5))]
    effect = account(tmp_path, replace(load, tps_by_second=tps)).effect
    assert (effect.seconds_during, effect.seconds_without) == (5, 5)
    assert effect.throughput_ratio is None
    assert words.effect_words(effect) == snapshot(
        "seconds too different among themselves to compare, 5 with and 5 without"
    )


def test_a_vacuum_that_runs_at_the_end_has_time_left(tmp_path: Path) -> None:
    found = account(tmp_path, vacuumed(range(5, 10)))
    assert found.vacuums[0].left_s == pytest.approx((TOTAL - 500) / PAGES_S, rel=0.05)
    assert words.sentences(found)["vacuum"] == snapshot(
        "autovacuum of public.orders (5 s); autovacuum of public.orders was not over: its scan"
        " would have taken 15 s further; throughput 1.00x [1.00, 1.01], p99 1.00x [1.00, 1.00] in"
        " these 5 s, over that of the 5 s without a vacuum"
    )


def test_tables_and_multixacts_at_the_end(tmp_path: Path) -> None:
    found = account(tmp_path, vacuumed((), mxid_age=77))
    [table] = found.tables
    assert (table.relation, table.mxid_age) == ("public.orders", 77)
    assert table.dead > 0
    assert found.members == 104_704
    assert found.members_share == pytest.approx(104_704 / 2**32, rel=0.01)
    assert found.vacuums == ()
    assert len(words.tables(found)) == 1


def test_members_have_no_limit_in_19(tmp_path: Path) -> None:
    found = account(tmp_path, vacuumed((), version_num=190000))
    assert (found.members, found.members_share) == (104_704, None)
    assert "104,704 members" in " ".join(words.page_sentences(found))


def test_columns_without_figures_are_left_out(tmp_path: Path) -> None:
    found = account(tmp_path, vacuumed(range(5), delay_ms=None))
    assert {each.caption: each.head for each in words.tables(found)} == snapshot(
        {
            "Vacuums that were seen": [
                "vacuum",
                "count",
                "seconds",
                "phases",
                "scanned",
                "pages/s",
                "index passes",
                "memory",
            ],
            "The load during vacuums, with 95 % intervals": (
                "while it ran",
                "seconds",
                "without any",
                "throughput",
                "p99",
            ),
            "Tables at the end": [
                "table",
                "live",
                "dead",
                "dead share",
                "vacuums",
                "multixact age",
            ],
        }
    )


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({}, "cleared"),
        ({"mxid_age": 1_700_000_000}, "found"),
        ({"mxid_age": 1_700_000_000, "relation": "public.orders (TOAST)"}, "cleared"),
        ({"mxid_age": 1_500_000_000}, "cleared"),
    ],
)
def test_the_failsafe_of_a_table(tmp_path: Path, given: dict[str, Any], status: str) -> None:
    finding = diagnosed(tmp_path, vacuumed(range(5), **given))["vacuum-failsafe"]
    assert finding.status == status
    if status == "found":
        assert finding.sentence == snapshot(
            "vacuum of public.orders ran in the failsafe, without cost delay and without indexes:"
            " older than 1,600,000,000 transaction IDs, or 1,600,000,000 multixacts"
        )


def test_the_failsafe_is_named_in_the_course(tmp_path: Path) -> None:
    found = account(tmp_path, vacuumed(range(5), mxid_age=1_700_000_000))
    assert found.vacuums[0].failsafe
    assert words.title(found.vacuums[0]) == snapshot("autovacuum of public.orders, in the failsafe")

"""The plan of a table from its rates: thresholds, freezing, costs, fillfactor, by version."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from msgspec.structs import replace

from pgdyno.results.vacuum_plan import PlannedTable, VacuumPlanResult
from pgdyno.vacuumplan._advising import (
    AutovacuumSettings,
    TableRates,
    all_in_force,
    plan_table,
    rounded,
)
from pgdyno.vacuumplan.as_sql import as_sql

SERVER = AutovacuumSettings(18, {}, 2.0, 1e6)
TABLE = TableRates("public.t", 1e8, 1_000_000, 8_192_000_000, 1.0, 0, 0, 0, 0, 0, 1000)


def options(planned: PlannedTable) -> dict[str, float]:
    return {each.name: float(each.value) for each in planned.options}


def test_a_large_table_is_vacuumed_in_time_instead_of_at_a_fifth_dead() -> None:
    planned = plan_table(SERVER, replace(TABLE, updated=100_000, deleted=20_000), 0)
    found = options(planned)
    assert found["autovacuum_vacuum_scale_factor"] == 0
    assert found["autovacuum_vacuum_threshold"] == 240_000
    assert planned.planned_every_h == 2.0
    assert planned.now_every_h == pytest.approx((50 + 0.2e8) / 120_000)
    assert planned.statement is not None
    assert planned.statement.startswith("ALTER TABLE public.t SET (")


def test_a_small_table_never_has_more_dead_rows_than_by_default() -> None:
    busy = replace(TABLE, rows=10_000, pages=100, updated=5_000_000)
    assert plan_table(SERVER, busy, 0).statement is None
    late = replace(busy, options={"autovacuum_vacuum_threshold": "1000000"})
    assert options(plan_table(SERVER, late, 0))["autovacuum_vacuum_threshold"] == 2_050


SMALL = replace(TABLE, rows=1_500, pages=20, size_bytes=163_840, hours=20 / 3600, updated=1_500)


def test_a_small_table_keeps_a_trigger_below_the_least_planned_one() -> None:
    planned = plan_table(SERVER, SMALL, 0)
    assert planned.statement is None
    assert planned.planned_every_h == planned.now_every_h


def test_what_autovacuum_cannot_do_more_often_is_no_plan() -> None:
    """Both triggers are reached within one autovacuum_naptime."""
    often = replace(SMALL, updated=150_000, options={"autovacuum_vacuum_threshold": "10000"})
    assert plan_table(SERVER, often, 0).statement is None
    later = replace(often, options={"autovacuum_vacuum_threshold": "1000000000"})
    planned = plan_table(SERVER, later, 0)
    assert options(planned)["autovacuum_vacuum_threshold"] == 350
    assert planned.planned_every_h == 60 / 3600
    assert planned.options[-1].reason == snapshot(
        "27,000,000 dead rows an hour: a vacuum each time that autovacuum looks, every 1 min; more than 50 and a fifth of the rows would be more dead ones than by default"
    )


def test_a_growing_table_that_is_vacuumed_often_enough_keeps_its_trigger() -> None:
    assert plan_table(SERVER, replace(TABLE, rows=20_000, inserted=3_340_000), 0).statement is None


def test_rows_that_are_frozen_do_not_count_for_the_trigger_of_inserts() -> None:
    table = replace(TABLE, inserted=1_000_000)
    now = plan_table(SERVER, replace(table, unfrozen=0.01), 0)
    assert now.now_every_h == pytest.approx((1000 + 0.2e6) / 1e6)
    assert now.statement is None


def test_a_plan_for_thousand_tables_without_gain_is_a_line() -> None:
    tables = tuple(
        plan_table(SERVER, replace(SMALL, relation=f"public.t{n}"), n) for n in range(1000)
    )
    text = as_sql(result(tables))
    assert "1,000 tables" in text
    assert "ALTER" not in text
    assert len(text.splitlines()) < 20


def result(tables: tuple[PlannedTable, ...]) -> VacuumPlanResult:
    return VacuumPlanResult(
        schema_version=1,
        server="",
        version="18.0",
        database="d",
        since="looks",
        over_s=60.0,
        every_h=2.0,
        xids_h=None,
        to_forced_vacuum_h=None,
        freeze_max_age=None,
        tables=tables,
        not_planned=(),
        settings=(),
        warnings=(),
    )


def test_a_trigger_that_is_near_the_planned_one_stays() -> None:
    table = replace(TABLE, rows=500_000, deleted=5_000_000)
    assert plan_table(SERVER, table, 0).statement is None
    assert plan_table(SERVER, table, 0).planned_every_h == pytest.approx(100_050 / 5_000_000)


def test_hot_updates_leave_nothing_for_a_vacuum() -> None:
    hot = replace(TABLE, updated=1_000_000, hot=1_000_000)
    assert plan_table(SERVER, hot, 0).statement is None


def test_a_table_that_only_grows_is_frozen_by_its_first_vacuum() -> None:
    found = options(plan_table(SERVER, replace(TABLE, inserted=1_000_000), 0))
    assert found["autovacuum_vacuum_insert_threshold"] == 2_000_000
    assert found["autovacuum_vacuum_insert_scale_factor"] == 0
    assert found["autovacuum_freeze_min_age"] == 0
    assert "autovacuum_vacuum_threshold" not in found


def test_tables_are_staggered() -> None:
    table = replace(TABLE, deleted=1_000_000)
    found = [
        options(plan_table(SERVER, table, rank))["autovacuum_vacuum_threshold"] for rank in range(8)
    ]
    assert len(set(found)) == 8
    assert max(found) <= 1.5 * min(found)


def test_the_limit_of_version_18_for_thresholds_is_not_raised() -> None:
    table = replace(TABLE, rows=1e10, pages=10, deleted=200_000_000)
    assert "autovacuum_vacuum_threshold" in options(plan_table(replace(SERVER, major=17), table, 0))
    assert plan_table(SERVER, table, 0).statement is None


def test_forced_freezing_of_large_tables_is_staggered_where_it_is_near() -> None:
    table = replace(TABLE, inserted=10_000)
    near = options(plan_table(SERVER, table, 1))
    assert 140e6 <= near["autovacuum_freeze_max_age"] < 200e6
    for server in (replace(SERVER, xids_h=100.0), replace(SERVER, xids_h=None)):
        assert "autovacuum_freeze_max_age" not in options(plan_table(server, table, 1))


def test_a_cost_limit_that_a_vacuum_cannot_keep_to_is_raised() -> None:
    slow = AutovacuumSettings(18, {"autovacuum_vacuum_cost_delay": 20.0}, 2.0, None)
    table = replace(TABLE, pages=100_000_000, rows=1e9, deleted=100_000_000)
    assert options(plan_table(slow, table, 0))["autovacuum_vacuum_cost_limit"] > 200
    assert "autovacuum_vacuum_cost_limit" not in options(
        plan_table(SERVER, replace(TABLE, deleted=10_000), 0)
    )


def test_room_is_advised_only_where_updates_found_none() -> None:
    moved = replace(TABLE, updated=10_000, hot=2_000, newpage=6_000)
    assert options(plan_table(SERVER, moved, 0))["fillfactor"] == 80
    indexed = replace(moved, newpage=0)
    assert "fillfactor" not in options(plan_table(SERVER, indexed, 0))
    old = plan_table(replace(SERVER, major=15), replace(moved, newpage=None), 0)
    assert "fillfactor" not in options(old)
    assert old.unsure == snapshot(
        (
            "fillfactor: 20 % of the updates are HOT; version 15 does not count why, and room helps only updates that change no indexed column",
        )
    )


def test_what_is_set_already_is_not_set_again() -> None:
    table = replace(TABLE, deleted=120_000)
    planned = plan_table(SERVER, table, 0)
    own = {each.name: str(each.value) for each in planned.options}
    assert plan_table(SERVER, replace(table, options=own), 0).statement is None


def test_a_busy_table_without_autovacuum_gets_it_back() -> None:
    off = replace(TABLE, deleted=120_000, options={"autovacuum_enabled": "off"})
    planned = plan_table(SERVER, off, 0)
    assert planned.now_every_h is None
    assert planned.statement is not None
    assert "autovacuum_enabled = on" in planned.statement


@given(
    st.integers(0, 10**9),
    st.integers(0, 10**9),
    st.floats(1, 1e10),
    st.integers(0, 50),
    st.dictionaries(
        st.sampled_from(["autovacuum_vacuum_threshold", "autovacuum_vacuum_insert_threshold"]),
        st.integers(0, 2**31 - 1).map(str),
    ),
    st.sampled_from([15, 18]),
)
def test_no_plan_vacuums_a_table_later_than_the_present_settings(
    inserted: int, deleted: int, rows: float, rank: int, own: dict[str, str], major: int
) -> None:
    table = replace(TABLE, rows=rows, inserted=inserted, deleted=deleted, options=own)
    server = replace(SERVER, major=major)
    planned = plan_table(server, table, rank)
    found = options(planned)
    now = all_in_force(server, table)
    for kind in ("vacuum", "vacuum_insert"):
        name, factor = f"autovacuum_{kind}_threshold", f"autovacuum_{kind}_scale_factor"
        if name in found:
            assert found[name] <= now[name] + now[factor] * rows
    if any(name.endswith("_threshold") for name in found):
        assert (planned.planned_every_h or 0.0) < (planned.now_every_h or math.inf)


def test_values_are_rounded_to_three_digits() -> None:
    assert [rounded(each) for each in (0, 7, 1234, 98_765)] == [0, 7, 1230, 98_800]

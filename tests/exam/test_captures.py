"""The exam of captures: its loads, its grades, its table. No server."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import to_builtins

from exam.captures.grading import figures, plans_alike, rows_alike
from exam.captures.measuring import Counts, Executed, Slice, between
from exam.captures.model import Times, loads
from exam.captures.page import lines_of, page, table
from exam.captures.plans import Names, shape_of_node
from pgdyno.spec import spec_from_fields

ONE = Slice(tps=100.0, cpu_ms=1.0, wal_bytes=500.0, hot_share=0.9)


def row(pairs: list[tuple[Slice, Slice]], **more: Any) -> dict[str, Any]:
    source = {"a": Executed("select 1", 90, 1, 10), "b": Executed("update t", 10, 1, 90)}
    graded = {
        "figures": figures(pairs),
        "rows": rows_alike(source, source, source),
        "plans": plans_alike(source, {"a": ("Result", "Result"), "b": ("x", "x")}, source),
    }
    return {
        "load": "shop",
        "took_s": 60.0,
        "times": to_builtins(Times()),
        "grown_s": 0.0,
        **to_builtins(graded),
        "finding": {"source": "hot-row", "clone": "hot-row", "alike": True},
        "failures": {"done": 1000, "failed": 0, "errors": []},
        "statements": {
            "source": 2,
            "captured": 2,
            "executed": 2,
            "calls_captured": 1.0,
            "left_out": [],
        },
        "gaps": [],
        "other_programs_cores": 0.0,
        **more,
    }


def test_the_loads_have_specs() -> None:
    for load in loads():
        if not load.is_application:
            spec_from_fields({"clients": [{"count": load.clients}], **load.fields}, where=load.name)


def test_a_slice_is_what_was_done_of_a_transaction() -> None:
    before = Counts(0.0, 10, 1.0, 1000, 5, 5)
    after = Counts(2.0, 210, 1.4, 201_000, 105, 55)
    assert between(before, after, 2.0) == Slice(100.0, pytest.approx(2.0), 1000.0, 0.5)
    idle = between(before, before, 2.0)
    assert (idle.tps, idle.hot_share) == (0.0, None)


def test_figures_are_medians_of_pairs() -> None:
    slow = Slice(tps=50.0, cpu_ms=2.0, wal_bytes=500.0, hot_share=0.8)
    throughput, cpu, wal, hot = figures([(ONE, ONE), (ONE, slow), (slow, slow)])
    assert (throughput.difference, throughput.low, throughput.high) == (1.0, 0.5, 1.0)
    assert all(each.alike for each in (throughput, cpu, wal, hot))
    throughput, cpu, wal, hot = figures([(ONE, slow), (ONE, slow), (ONE, ONE)])
    assert (throughput.alike, cpu.alike, wal.alike, hot.alike) == (False, False, True, False)
    bursts = [Slice(100.0, 1.0, size, 0.9) for size in (1000.0, 1000.0, 4000.0)]
    wal = figures([*zip(bursts, reversed(bursts), strict=True)])[2]
    assert (wal.source, wal.difference, wal.low, wal.high) == (2000.0, 1.0, 0.25, 4.0)
    without = Slice(100.0, 1.0, 500.0, None)
    assert figures([(without, without)])[3].alike
    assert not figures([(without, ONE)])[3].alike


def test_rows_count_by_calls_and_plans_by_time() -> None:
    source = {
        "often": Executed("select 1", 96, 1.0, 4.0),
        "rare": Executed("select 2", 4, 10.0, 96.0),
    }
    clone = {"often": Executed("select 1", 50, 1.05, 1.0), "rare": Executed("", 1, 5.0, 1.0)}
    rows = rows_alike(source, clone, {"rare": source["rare"]})
    assert rows.own_share == pytest.approx(0.04)
    assert (rows.alike_statements, rows.share, rows.alike) == (1, pytest.approx(0.96), True)
    assert not rows_alike(source, {"rare": source["rare"]}, source).alike
    plans = plans_alike(source, {"often": ("Seq Scan", "Seq Scan")}, source)
    assert (plans.share, plans.alike) == (pytest.approx(0.04), False)
    assert [each.clone for each in plans.unlike] == ["not captured"]


def test_a_shape_has_neither_names_of_partitions_nor_of_indexes() -> None:
    names = Names({"public.t_1": "public.t"}, {"t_1_pkey": "btree (id)"})
    scan = {"Node Type": "Index Scan", "Schema": "public", "Relation Name": "t_1"}
    plan = {"Node Type": "Limit", "Plans": [{**scan, "Index Name": "t_1_pkey"}]}
    assert shape_of_node(plan, names) == "Limit [Index Scan public.t btree (id)]"


def test_the_page_has_a_line_for_each_load() -> None:
    slow = Slice(tps=50.0, cpu_ms=1.0, wal_bytes=500.0, hot_share=0.9)
    rows = [
        row([(ONE, ONE)]),
        row([(ONE, slow)], load="slow", times=to_builtins(Times(60.0)), grown_s=30.0),
        {"load": "none", "missing": "why", "times": to_builtins(Times()), "grown_s": 0.0},
    ]
    marked = table(rows)[2:]
    assert "**" not in marked[0]
    assert "| **0.50 [0.50, 0.50]** |" in marked[1]
    assert marked[2].startswith("| none | why |")
    assert lines_of(rows[0])[0] == "shop (60 s): alike"
    result = {"machine": {"date": "2026-11-30", "cores": 2}, "loads": rows}
    text = page(result)
    assert "1 of 3 loads are alike in all respects" in text
    assert "- 4 slices of 4 s for each side, a capture of 10 s: shop, none\n" in text
    assert "a capture of 60 s, which 30 s of load precede: slow\n" in text


def test_changes_are_added_to_the_page() -> None:
    def gain(ratio: float) -> dict[str, float]:
        return {"ratio": ratio, "low": ratio - 0.05, "high": ratio + 0.05}

    changes = [
        {"change": "synchronous_commit=off", "original": gain(1.3), "clone": gain(1.28)},
        {"change": "full_page_writes=off", "original": gain(1.0), "clone": gain(1.31)},
        {"change": "wal_compression=on", "original": None, "clone": gain(1.0)},
    ]
    alike = [(Slice(100, 1, 1000, None), Slice(100, 1, 1000, None))]
    result = {
        "machine": {"date": "2026-11-01", "cores": 2},
        "loads": [row(alike, load="shop", changes=changes)],
    }
    text = page(result)
    assert "| shop | `synchronous_commit=off` | 1.30 [1.25, 1.35] | 1.28 [1.23, 1.33] |" in text
    assert "| 1.00 [0.95, 1.05] | **1.31 [1.26, 1.36]** |" in text
    assert "| no verdict | **1.00 [0.95, 1.05]** |" in text
    assert "intervals of 1 of 3 changes overlap, and the gains are in another order." in text

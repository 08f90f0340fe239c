"""Signatures that judge by nodes of the plans of the load's statements and by what the catalogs say
of their tables, on made-up run files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import WEB, Load, diagnosed
from msgspec.structs import replace
from test_signatures_plans import BUSY, INDEX, PLACE, SCAN, SELECT, looked_at

from pgdyno.spec import Change

MAKE = "create index pgdyno_usable on public.item ((kind)::numeric)"
TRIED = Change(sql={"make": (MAKE,)})


def with_rows(load: Load, table: str, *rows: Mapping[str, Any]) -> Load:
    """The load with rows of a look."""

    def of(second: int) -> Sequence[Mapping[str, Any]]:
        return rows if second == 1 else []

    return replace(load, rows={**load.rows, table: of})


def unusable(load: Load, reason: str, *, make: str = "", compared: str = "kind") -> Load:
    row = {**PLACE, "relation": "public.item", "index_name": "public.item_kind", "detail": ""}
    more = {"reason": reason, "make": make, "compared": compared}
    return with_rows(load, "unusable_index", {**row, **more})


@pytest.mark.parametrize(("ms", "status"), [(0.1, "found"), (1.98, "cleared")])
def test_an_index_that_a_condition_hides(tmp_path: Path, ms: float, status: str) -> None:
    load = unusable(looked_at(BUSY, (TRIED, ms)), "cast", make=MAKE)
    found = diagnosed(tmp_path, load)["unusable-index"]
    assert found.status == status
    assert not found.proposals


def test_an_index_that_a_condition_hides_without_a_trial(tmp_path: Path) -> None:
    load = unusable(looked_at(BUSY), "expression")
    assert diagnosed(tmp_path, load)["unusable-index"].status == "found"
    short = {**SCAN, "Plan": {**SCAN["Plan"], "Actual Total Time": 0.01}}
    load = unusable(looked_at(BUSY, plan=short), "expression")
    assert diagnosed(tmp_path, load)["unusable-index"].status == "cleared"
    assert diagnosed(tmp_path, BUSY)["unusable-index"].status == "skipped"


def test_an_invalid_index_is_the_reason(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, unusable(looked_at(BUSY, (INDEX, 0.1)), "invalid"))
    cause = found["missing-index"]
    assert cause.commands == ("REINDEX INDEX CONCURRENTLY public.item_kind",)
    assert [each.change for each in cause.proposals] == [INDEX]
    assert found["unusable-index"].status == "cleared"


def scanned(number: int, *, rows: int, ms: float) -> dict[str, Any]:
    return {
        "Node Type": "Index Scan",
        "Schema": "public",
        "Relation Name": f"item_{number}",
        "Alias": f"item_{number}",
        "Plan Rows": 1,
        "Total Cost": 8.0,
        "Actual Rows": rows,
        "Actual Loops": 1,
        "Actual Total Time": ms,
        "Index Cond": f"(item_{number}.kind = 5)",
    }


@pytest.mark.parametrize(
    ("empty", "ms", "status"), [(20, 0.08, "found"), (20, 0.0001, "cleared"), (5, 0.3, "cleared")]
)
def test_partitions_without_rows(tmp_path: Path, empty: int, ms: float, status: str) -> None:
    nodes = [scanned(0, rows=3, ms=0.1), *(scanned(n + 1, rows=0, ms=ms) for n in range(empty))]
    append = {"Node Type": "Append", "Plan Rows": 3, "Total Cost": 99.0, "Actual Rows": 3,
              "Actual Loops": 1, "Actual Total Time": 1.9, "Plans": nodes}  # fmt: skip
    partitions = [
        {"relation": f"public.item_{n}", "root": "public.item", "key": "RANGE (id)",
         "partitions": 40}
        for n in range(empty + 1)
    ]  # fmt: skip
    load = looked_at(BUSY, plan={**SCAN, "Plan": append})
    found = diagnosed(tmp_path, with_rows(load, "table_partition", *partitions))
    cause = found["unpruned-partitions"]
    assert cause.status == status
    if status == "found":
        said = {each.name: each.value for each in cause.evidence}
        assert (said["partitions read"], said["of them without a row"]) == (empty + 1, empty)
        assert said["reason"] == "no condition"


def test_partitions_are_not_judged_without_plans(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, BUSY)["unpruned-partitions"].status == "skipped"
    assert diagnosed(tmp_path, looked_at(BUSY))["unpruned-partitions"].status == "cleared"


WORKERS = {
    **SCAN,
    "Plan": {
        "Node Type": "Gather",
        "Plan Rows": 10,
        "Total Cost": 950.0,
        "Workers Planned": 2,
        "Workers Launched": 2,
        "Actual Rows": 10,
        "Actual Loops": 1,
        "Actual Total Time": 1.9,
        "Plans": [SCAN["Plan"]],
    },
}
ALONE = Change(settings={"max_parallel_workers_per_gather": "0"})


@pytest.mark.parametrize(("ms", "status"), [(0.1, "found"), (2.5, "cleared")])
def test_parallel_workers(tmp_path: Path, ms: float, status: str) -> None:
    found = diagnosed(tmp_path, looked_at(BUSY, (ALONE, ms), plan=WORKERS))["parallel-workers"]
    assert found.status == status
    assert [each.change for each in found.proposals] == ([ALONE] if status == "found" else [])


def test_parallel_workers_are_judged_by_a_trial(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, BUSY)["parallel-workers"].status == "skipped"
    load = looked_at(BUSY, plan=WORKERS)
    assert diagnosed(tmp_path, load)["parallel-workers"].status == "skipped"
    assert diagnosed(tmp_path, looked_at(BUSY))["parallel-workers"].status == "cleared"
    reset = Change(settings={"parallel_setup_cost": "1000"})
    unusual = [("parallel_setup_cost", "0", "1000")]
    load = looked_at(BUSY, (ALONE, 0.1), (reset, 0.1), plan=WORKERS, unusual=unusual)
    found = diagnosed(tmp_path, load)
    assert found["parallel-workers"].status == "skipped"
    assert found["costly-settings"].status == "found"


LARGER = Change(settings={"work_mem": "16MB"})
MEMORY = {"memory_bytes": 16 << 30}


@pytest.mark.parametrize(("ms", "status"), [(0.5, "found"), (2.2, "cleared")])
def test_a_larger_work_mem_that_was_tried(tmp_path: Path, ms: float, status: str) -> None:
    load = replace(looked_at(BUSY, (LARGER, ms)), host_facts=MEMORY)
    found = diagnosed(tmp_path, load)["temp-files"]
    assert found.status == status
    assert [each.change for each in found.proposals] == ([LARGER] if status == "found" else [])


def test_a_small_work_mem_is_for_the_rule_of_what_it_writes_to_disk(tmp_path: Path) -> None:
    reset = Change(settings={"work_mem": "4MB"})
    small = [("work_mem", "64kB", "4MB")]
    spilling = looked_at(BUSY, (LARGER, 0.4), (reset, 0.4), unusual=small)
    found = diagnosed(tmp_path, spilling)
    assert found["temp-files"].rank == 1
    assert found["costly-settings"].status == "skipped"


def test_a_work_mem_for_which_there_is_no_memory(tmp_path: Path) -> None:
    load = replace(looked_at(BUSY, (LARGER, 0.5)), host_facts={"memory_bytes": 64 << 20})
    found = diagnosed(tmp_path, load)["temp-files"]
    assert (found.status, found.proposals) == ("found", ())


ANALYZE = Change(sql={"make": ("analyze public.item",)})
ITEM = {"relation": "public.item", "has_statistics": 1, "repairs": ""}
OFF = {**SCAN, "Plan": {**SCAN["Plan"], "Plan Rows": 1, "Actual Rows": 5000}}


@pytest.mark.parametrize(("ms", "status"), [(0.1, "found"), (1.98, "cleared")])
def test_estimates_that_were_tried(tmp_path: Path, ms: float, status: str) -> None:
    load = with_rows(looked_at(BUSY, (ANALYZE, ms), plan=OFF), "table_statistics", ITEM)
    found = diagnosed(tmp_path, load)["wrong-estimates"]
    assert found.status == status
    assert found.commands == (("ANALYZE public.item",) if status == "found" else ())


def test_estimates_are_not_judged_without_a_trial(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, BUSY)["wrong-estimates"].status == "skipped"
    load = with_rows(looked_at(BUSY, plan=OFF), "table_statistics", ITEM)
    assert diagnosed(tmp_path, load)["wrong-estimates"].status == "skipped"


def test_a_table_without_statistics_on_another_server(tmp_path: Path) -> None:
    plan = {**SCAN, "Plan": {k: v for k, v in SCAN["Plan"].items() if "Actual" not in k}}
    load = looked_at(BUSY, plan=plan, analyzed=False)
    repairs = "alter table public.item alter column kind set statistics -1"
    lacking = {"relation": "public.item", "has_statistics": 0, "repairs": repairs}
    found = diagnosed(tmp_path, with_rows(load, "table_statistics", lacking))["wrong-estimates"]
    assert (found.status, found.severity, found.rank) == ("found", "minor", None)
    assert found.commands == (
        "ALTER TABLE public.item alter column kind set statistics -1",
        "ANALYZE public.item",
    )
    load = with_rows(load, "table_statistics", ITEM)
    assert diagnosed(tmp_path, load)["wrong-estimates"].status == "skipped"


@pytest.mark.parametrize(("fetches", "status"), [(9000, "found"), (100, "cleared")])
def test_index_only_scans_that_fetch(tmp_path: Path, fetches: int, status: str) -> None:
    scan = {
        "Node Type": "Index Only Scan",
        "Schema": "public",
        "Relation Name": "item",
        "Alias": "item",
        "Index Name": "item_kind",
        "Plan Rows": 9000,
        "Total Cost": 900.0,
        "Actual Rows": 9000,
        "Actual Loops": 1,
        "Actual Total Time": 1.9,
        "Heap Fetches": fetches,
    }
    found = diagnosed(tmp_path, looked_at(BUSY, plan={**SCAN, "Plan": scan}))["heap-fetches"]
    assert found.status == status
    assert found.commands == (("VACUUM public.item",) if status == "found" else ())
    assert diagnosed(tmp_path, BUSY)["heap-fetches"].status == "skipped"


def paged(*, skipped: int, ms: float) -> dict[str, Any]:
    """A statement that returns ten rows behind those that it skips for so long."""
    scan = {**scanned(0, rows=skipped + 10, ms=1.9), "Actual Startup Time": 0.01}
    limit = {
        "Node Type": "Limit",
        "Plan Rows": 10,
        "Total Cost": 950.0,
        "Actual Rows": 10,
        "Actual Loops": 1,
        "Actual Startup Time": 0.01 + ms,
        "Actual Total Time": 1.91,
        "Plans": [scan],
    }
    return {**SCAN, "Plan": limit}


@pytest.mark.parametrize(
    ("skipped", "ms", "status"),
    [(40_000, 1.8, "found"), (10, 0.002, "cleared"), (0, 0.0, "cleared")],
)
def test_rows_that_are_skipped(tmp_path: Path, skipped: int, ms: float, status: str) -> None:
    found = diagnosed(tmp_path, looked_at(BUSY, plan=paged(skipped=skipped, ms=ms)))
    cause = found["skipped-rows"]
    assert cause.status == status
    if status == "found":
        said = {each.name: each.value for each in cause.evidence}
        assert (said["rows skipped"], said["rows returned"]) == (skipped, 10)
        assert found["server-cpu"].weight < cause.weight


def test_rows_that_are_skipped_are_not_judged_without_plans(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, BUSY)["skipped-rows"].status == "skipped"
    unexecuted = looked_at(BUSY, analyzed=False, plan=None)
    assert diagnosed(tmp_path, unexecuted)["skipped-rows"].status == "skipped"


def late(*, kept: int, ms: float) -> Mapping[str, Any]:
    """A plan whose condition on a subquery removes most of 60,000 rows in so many milliseconds."""
    scan = {**SCAN["Plan"], "Actual Rows": 60_000, "Rows Removed by Filter": 0}
    scan.pop("Filter")
    fence = {
        "Node Type": "CTE Scan",
        "Alias": "x",
        "Filter": "(x.id = $1)",
        "Actual Rows": kept,
        "Rows Removed by Filter": 60_000 - kept,
        "Actual Loops": 1,
        "Actual Total Time": ms,
        "Plans": [scan],
    }
    return {**SCAN, "Plan": fence}


@pytest.mark.parametrize(
    ("kept", "ms", "status"), [(1, 1.9, "found"), (1, 0.002, "cleared"), (50_000, 1.9, "cleared")]
)
def test_conditions_behind_a_subquery(tmp_path: Path, kept: int, ms: float, status: str) -> None:
    found = diagnosed(tmp_path, looked_at(BUSY, plan=late(kept=kept, ms=ms)))
    cause = found["late-conditions"]
    assert cause.status == status
    if status == "found":
        said = {each.name: each.value for each in cause.evidence}
        assert (said["rows read by the subquery"], said["rows kept"]) == (60_000, kept)
        assert found["server-cpu"].weight < cause.weight


@pytest.mark.parametrize(
    ("condition", "status"),
    [
        ("(x.id = $1)", "found"),
        ("((x.place % '1000'::bigint) = 0)", "cleared"),
        ("((x.note = 'x.place'::text) AND (x.id < $1))", "found"),
    ],
)
def test_conditions_on_window_functions_need_all_rows(
    tmp_path: Path, condition: str, status: str
) -> None:
    fence = late(kept=1, ms=1.9)["Plan"]
    output = ["item.id", "item.note", "row_number() OVER w1"]
    window = {"Node Type": "WindowAgg", "Output": output, "Plans": fence["Plans"]}
    subquery = {**fence, "Node Type": "Subquery Scan", "Filter": condition, "Plans": [window]}
    load = looked_at(BUSY, plan={**SCAN, "Plan": subquery})
    assert diagnosed(tmp_path, load)["late-conditions"].status == status


def test_conditions_behind_a_subquery_are_not_judged_without_plans(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, BUSY)["late-conditions"].status == "skipped"
    unexecuted = looked_at(BUSY, analyzed=False, plan=None)
    assert diagnosed(tmp_path, unexecuted)["late-conditions"].status == "skipped"


DROP = 'drop index public."Item_note"'
UNREAD = {"relation": "public.item", "index_name": "public.Item_note", "make": DROP,
          "size_bytes": 8192}  # fmt: skip
DROPPED = Change(sql={"make": (DROP,)})


@pytest.mark.parametrize(("ms", "commands"), [(0.9, 1), (1.98, 0)])
def test_unread_indexes_that_were_dropped(tmp_path: Path, ms: float, commands: int) -> None:
    load = with_rows(looked_at(BUSY, (DROPPED, ms)), "suspect", UNREAD | {"suspicion": "unread"})
    found = diagnosed(tmp_path, load)
    cause = found["unused-indexes"]
    wanted = ('DROP INDEX CONCURRENTLY public."Item_note"',)
    assert cause.commands == wanted[:commands]
    assert (cause.weight > found["server-cpu"].weight) == bool(commands)


def test_entries_of_updates_that_are_not_hot_are_theirs(tmp_path: Path) -> None:
    update = "update item set total = total + 1 where kind = :kind"
    kept = [{"relation": "public.item", "index_name": f"i{n}", "idx_scan": n} for n in (0, 9)]
    load = replace(
        BUSY,
        statements={update: 1000},
        statement=update,
        tables={"public.item": {"n_tup_upd": 1000.0, "n_tup_hot_upd": 0.0,
                                "n_tup_newpage_upd": 950.0}},
        counters={"metric_index": [
            {**each, "method": "btree", "enforces": 0, "has_expression": 0,
             "table_columns": "note"} for each in kept]},
    )  # fmt: skip
    asked = with_rows(looked_at(load, (DROPPED, 1.2)), "suspect", UNREAD | {"suspicion": "unread"})
    found = diagnosed(tmp_path, asked)
    cause, consequence = found["full-pages"], found["unused-indexes"]
    assert (cause.status, consequence.status) == ("found", "found")
    assert cause.weight > consequence.weight > 0
    inserted = with_rows(
        looked_at(replace(load, statements={SELECT: 1000}, statement=SELECT), (DROPPED, 1.2)),
        "suspect",
        UNREAD | {"suspicion": "unread"},
    )
    found = diagnosed(tmp_path, inserted)
    assert found["full-pages"].weight < found["unused-indexes"].weight


BUILT = Change(sql={"make": ("reindex index public.item_words",)})
LISTED = {
    "relation": "public.item",
    "index_name": "public.item_words",
    "suspicion": "pending list",
    "size_bytes": 1 << 20,
    "make": "reindex index public.item_words",
}


@pytest.mark.parametrize(("ms", "status"), [(0.9, "found"), (1.98, "cleared")])
def test_pending_entries_of_an_index(tmp_path: Path, ms: float, status: str) -> None:
    load = with_rows(looked_at(BUSY, (BUILT, ms)), "suspect", LISTED)
    found = diagnosed(tmp_path, load)["pending-list"]
    assert found.status == status
    wanted = ("SELECT gin_clean_pending_list('public.item_words')",)
    assert found.commands == (wanted if status == "found" else ())


def test_pending_entries_are_judged_by_a_trial(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, BUSY)["pending-list"].status == "skipped"
    assert diagnosed(tmp_path, looked_at(BUSY))["pending-list"].status == "cleared"
    load = with_rows(looked_at(BUSY), "suspect", LISTED)
    assert diagnosed(tmp_path, load)["pending-list"].status == "skipped"


WRITTEN = Change(sql={"make": ("cluster public.item using item_pkey",)})
EMPTY = {
    "relation": "public.item",
    "index_name": "",
    "suspicion": "bloated",
    "size_bytes": 1 << 23,
    "make": "cluster public.item using item_pkey",
}


@pytest.mark.parametrize(("ms", "status"), [(0.9, "found"), (1.98, "cleared")])
def test_a_table_that_is_mostly_empty(tmp_path: Path, ms: float, status: str) -> None:
    load = with_rows(looked_at(BUSY, (WRITTEN, ms)), "suspect", EMPTY)
    found = diagnosed(tmp_path, load)["bloated-table"]
    assert found.status == status
    assert found.commands == (("VACUUM FULL public.item",) if status == "found" else ())


def test_a_table_that_is_mostly_empty_is_judged_by_a_trial(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, BUSY)["bloated-table"].status == "skipped"
    assert diagnosed(tmp_path, looked_at(BUSY))["bloated-table"].status == "cleared"
    load = with_rows(looked_at(BUSY), "suspect", EMPTY)
    assert diagnosed(tmp_path, load)["bloated-table"].status == "skipped"
    load = with_rows(looked_at(BUSY, (WRITTEN, 1.5), log_error=0.4), "suspect", EMPTY)
    assert diagnosed(tmp_path, load)["bloated-table"].status == "skipped"


ORDERED = {
    "Plan": {
        "Node Type": "Limit",
        "Plans": [
            {
                "Node Type": "Sort",
                "Sort Key": ["item.at DESC"],
                "Plans": [{**SCAN["Plan"], "Actual Rows": 60000}],
                "Actual Total Time": 1.9,
            }
        ],
        "Actual Total Time": 1.9,
    },
    "Planning Time": 0.05,
    "Execution Time": 1.95,
}
OF_TABLE = {
    "relation": "public.item",
    "method": "btree",
    "idx_scan": 0,
    "enforces": 1,
    "has_expression": 0,
}


def with_index(load: Load, *columns: str) -> Load:
    row = {**OF_TABLE, "index_name": "item_index", "table_columns": ",".join(columns)}
    return replace(load, counters={"metric_index": [row]})


@pytest.mark.parametrize("plan", [SCAN, ORDERED])
def test_a_search_for_which_no_index_was_tried(tmp_path: Path, plan: Mapping[str, Any]) -> None:
    load = with_index(looked_at(BUSY, plan=plan), "id")
    found = diagnosed(tmp_path, load)["missing-index"]
    assert (found.status, found.proposals) == ("found", ())


@pytest.mark.parametrize(("plan", "column"), [(SCAN, "kind"), (ORDERED, "kind")])
def test_a_search_for_which_an_index_may_be_there(
    tmp_path: Path, plan: Mapping[str, Any], column: str
) -> None:
    load = with_index(looked_at(BUSY, plan=plan), "id", column)
    assert diagnosed(tmp_path, load)["missing-index"].status == "skipped"


@pytest.mark.parametrize(("rows", "status"), [(90_000_000.0, "skipped"), (50_000.0, "cleared")])
def test_a_table_that_no_plan_reads_as_a_whole(tmp_path: Path, rows: float, status: str) -> None:
    """It is read within a function, or by the check of a foreign key."""
    short = {**SCAN, "Plan": {**SCAN["Plan"], "Actual Total Time": 0.01}}
    counted = {"public.child": {"seq_scan": 20.0, "seq_tup_read": rows}}
    load = replace(with_index(looked_at(BUSY, plan=short), "id"), tables=counted)
    assert diagnosed(tmp_path, load)["missing-index"].status == status


@pytest.mark.parametrize(
    ("supposed_cost", "status"), [(8.3, "found"), (900.0, "skipped"), (1500.0, "skipped")]
)
def test_an_index_that_the_planner_supposes(
    tmp_path: Path, supposed_cost: float, status: str
) -> None:
    """On a user's server times go with costs, within three times."""
    row = {**PLACE, "change": json.dumps(INDEX.to_json()), "cost": 1500.0,
           "supposed_cost": supposed_cost}  # fmt: skip
    load = with_rows(looked_at(BUSY, plan=SCAN, analyzed=False), "supposed_index", row)
    scanned = {"public.item": {"seq_scan": 20.0, "seq_tup_read": 50_000.0}}
    found = diagnosed(tmp_path, replace(load, tables=scanned))["missing-index"]
    assert found.status == status
    if status == "found":
        assert [each.change for each in found.proposals] == [INDEX]
        assert "0.55 % of a statement's cost with it (HypoPG)" in found.sentence


def test_no_index_gives_an_order_without_columns(tmp_path: Path) -> None:
    limit = ORDERED["Plan"]
    sort = {**limit["Plans"][0], "Sort Key": ["(random())"]}
    plan = {**ORDERED, "Plan": {**limit, "Plans": [sort]}}
    found = diagnosed(tmp_path, with_index(looked_at(BUSY, plan=plan), "id"))["missing-index"]
    assert found.status == "cleared"


def test_a_search_that_takes_little(tmp_path: Path) -> None:
    short = {**SCAN, "Plan": {**SCAN["Plan"], "Actual Total Time": 0.01}}
    load = with_index(looked_at(BUSY, plan=short), "id")
    assert diagnosed(tmp_path, load)["missing-index"].status == "cleared"


@pytest.mark.parametrize(
    "text",
    ["using gin (body)", "using btree (lower(kind))", "kind", "using btree (at DESC, id)", "a; b"],
)
def test_indexes_of_any_kind(tmp_path: Path, text: str) -> None:
    change = Change(indexes={"public.item": text})
    found = diagnosed(tmp_path, looked_at(BUSY, (change, 0.1)))["missing-index"]
    assert (found.status, [each.change for each in found.proposals]) == ("found", [change])


def test_flushes_may_wait_for_a_core(tmp_path: Path) -> None:
    """What a sync takes beyond the device's own flush may go with the work, if no core is idle."""
    ends = []
    for name, busy in (("idle", 0.6), ("busy", 1.0)):
        load = replace(
            looked_at(replace(BUSY, busy=busy), (INDEX, 0.05)),
            sessions={("", ""): 1.0, ("IO", "WalSync"): 0.9},
            wal={"wal_sync": 500.0, "wal_sync_time_ms": 900.0},
            tps=900,
        )
        disk = {"device": "sda", "holds": "data,wal", "flushes": 500.0, "flush_ms": 25.0}
        load = replace(load, counters={"metric_disk": [disk]})
        (folder := tmp_path / name).mkdir()
        (proposal,) = diagnosed(folder, load)["missing-index"].proposals
        assert proposal.predicted_interval is not None
        ends.append(proposal.predicted_interval[1])
    assert ends[1] > 2 * ends[0]


def test_a_short_statement_is_shorter_among_others(tmp_path: Path) -> None:
    """Of 0.06 ms by itself 0.02 may remain; of 0.5 ms, 0.46."""
    ratios = []
    for ms in (0.06, 0.5):
        (folder := tmp_path / f"{ms}").mkdir()
        load = looked_at(BUSY, (INDEX, ms))
        (proposal,) = diagnosed(folder, load)["missing-index"].proposals
        assert proposal.predicted_interval is not None
        ratios.append(proposal.predicted_interval[1] / proposal.predicted_ratio)
    assert ratios[0] > 1.5 > ratios[1]


@pytest.mark.parametrize(
    ("kind", "output", "status"),
    [
        ("Result", ["1"], "found"),
        ("Result", ["pg_sleep('1'::double precision)"], "cleared"),
        ("Seq Scan", ["total"], "cleared"),
    ],
)
def test_queries_that_read_nothing(
    tmp_path: Path, kind: str, output: list[str], status: str
) -> None:
    plan = {**SCAN, "Plan": {"Node Type": kind, "Output": output, "Actual Total Time": 1.0}}
    found = diagnosed(tmp_path, looked_at(BUSY, plan=plan))
    assert found["needless-statements"].status == status
    if status == "found":
        assert found["server-cpu"].weight < found["needless-statements"].weight


@pytest.mark.parametrize(
    ("statement", "status"),
    [("savepoint s", "found"), ("discard all", "found"), ("commit", "cleared")],
)
def test_statements_without_rows(tmp_path: Path, statement: str, status: str) -> None:
    load = replace(BUSY, statements={statement: 1000}, statement=statement)
    assert diagnosed(tmp_path, load)["needless-statements"].status == status


@pytest.mark.parametrize(
    ("statement", "status"),
    [
        ("create temp table seen on commit drop as select 1", "found"),
        ("truncate item", "found"),
        ("select create from item", "cleared"),
    ],
)
def test_statements_that_change_the_schema(tmp_path: Path, statement: str, status: str) -> None:
    load = replace(BUSY, statements={statement: 1000}, statement=statement)
    found = diagnosed(tmp_path, load)
    assert found["schema-changes"].status == status
    if status == "found":
        assert found["server-cpu"].weight < found["schema-changes"].weight


@pytest.mark.parametrize(("also", "commits"), [("select 1", True), ("insert into t", False)])
def test_tables_are_dropped_by_commit(tmp_path: Path, also: str, commits: bool) -> None:
    """Of a script that writes nothing else, COMMIT is a change of the schema."""
    texts = ["create temp table seen on commit drop as select 1", also, "commit"]
    load = replace(BUSY, script_ms=[(text, 0.6) for text in texts])
    said = [each.name for each in diagnosed(tmp_path, load)["schema-changes"].evidence]
    assert ("commit" in said) is commits


@pytest.mark.parametrize(
    ("times", "tps", "status"), [(20, 1000, "found"), (20, 50, "cleared"), (1, 1000, "cleared")]
)
def test_a_statement_that_is_repeated(tmp_path: Path, times: int, tps: int, status: str) -> None:
    """Of statements that take long, it is not their number that does."""
    texts = [f"select * from item where id = :id{number}" for number in range(times)]
    load = replace(BUSY, tps=tps, statements=dict.fromkeys(texts, tps))
    assert diagnosed(tmp_path, load)["repeated-statements"].status == status


def test_a_statement_in_a_loop_is_repeated(tmp_path: Path) -> None:
    load = replace(BUSY, tps=1000, statements={"select * from item where id = :id": 20_000})
    found = diagnosed(tmp_path, load)["repeated-statements"]
    assert (found.status, found.evidence[1].value) == ("found", 20.0)


def test_requests_repeat_no_statement(tmp_path: Path) -> None:
    load = replace(BUSY, http={"url": WEB}, statements={"GET /": 1000})
    assert diagnosed(tmp_path, load)["repeated-statements"].status == "skipped"


def test_prepared_statements_are_not_proposed_where_they_are_forgotten(tmp_path: Path) -> None:
    change = Change(spec={"load.protocol": "prepared"})
    for statement, proposed in (("discard all", []), ("select 1 from item", [change])):
        (folder := tmp_path / statement[:6]).mkdir()
        load = replace(BUSY, protocol="simple", statements={statement: 1000}, statement=statement)
        found = diagnosed(folder, looked_at(load, (change, 0.5), generic=None))["parse-plan"]
        assert [each.change for each in found.proposals] == proposed


def test_scans_that_need_all_rows_are_no_use_of_an_index(tmp_path: Path) -> None:
    """An estimate by the rows of scans is replaced by the plans: the CPU time has no other name."""
    scan = {**SCAN["Plan"], "Actual Rows": 60_000, "Rows Removed by Filter": 0}
    scan.pop("Filter")
    tables = {"public.item": {"seq_scan": 1000.0, "seq_tup_read": 6e7}}
    count = {**scan, "Node Type": "Aggregate", "Actual Rows": 1, "Plans": [scan]}
    load = replace(looked_at(BUSY, plan={**SCAN, "Plan": count}), tables=tables)
    found = diagnosed(tmp_path, load)
    assert (found["missing-index"].status, found["server-cpu"].rank) == ("cleared", 1)


@pytest.mark.parametrize(
    ("change", "table", "row", "signature", "status"),
    [
        (ANALYZE, "table_statistics", ITEM, "wrong-estimates", "cleared"),
        (WRITTEN, "suspect", EMPTY, "bloated-table", "found"),
    ],
)
def test_the_same_plan_is_quicker_only_where_what_it_reads_is_written_again(
    tmp_path: Path,
    change: Change,
    table: str,
    row: Mapping[str, Any],
    signature: str,
    status: str,
) -> None:
    load = looked_at(BUSY, (change, 1.0), plan=OFF if change is ANALYZE else SCAN)
    (trial,) = load.rows["statement_trial"](1)
    same = with_rows(with_rows(load, table, row), "statement_trial", {**trial, "is_replanned": 0})
    assert diagnosed(tmp_path, same)[signature].status == status

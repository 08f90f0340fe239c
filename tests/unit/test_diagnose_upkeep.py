"""Signatures of what holds back vacuum and WAL: each found where it is, and its look-alikes not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from diagnose_runs import diagnosed
from inline_snapshot import snapshot
from record_samples import error_row
from upkeep_runs import MB, WAL_S, ages, churn, pages

SLOWER = [1000.0 - 60 * second for second in range(10)]
SESSION = {
    "xmin_holder": "backend",
    "xmin_holder_name": "4711",
    "xmin_held_ms": 600_000.0,
    "xmin_holder_about": "idle in transaction, nightly report",
}
DISK = ({"holds": "data,wal", "size_bytes": 100 << 30, "free_bytes": 40 << 30,
         "wal_dir_bytes": 0, "filesystem": "ext4"},)  # fmt: skip


def test_a_session_that_keeps_its_snapshot_is_named_with_what_it_costs(tmp_path: Path) -> None:
    rows = {"metric_age": ages(SESSION), "metric_database": pages(40, 120)}
    finding = diagnosed(tmp_path, churn(rows=rows, tps_by_second=SLOWER))["xmin-pinned"]
    assert finding.status == "found"
    assert finding.sentence == snapshot(
        "the session of process 4711 (idle in transaction, nightly report) has held back vacuum"
        " for 10 min: none of the rows made dead since, 2,000/s, can be removed; a transaction"
        " accesses 2.3 times as many pages at the end of the run as at its beginning, and 43 % of"
        " its time is explained by that"
    )
    assert 0.25 < finding.share < 0.45
    assert "pg_terminate_backend(4711)" in finding.advice


def test_a_holder_costs_nothing_where_page_accesses_do_not_grow(tmp_path: Path) -> None:
    rows = {"metric_age": ages(SESSION)}
    finding = diagnosed(tmp_path, churn(rows=rows, tps_by_second=SLOWER))["xmin-pinned"]
    assert finding.status == "found"
    assert finding.share == 0.0
    assert finding.sentence == snapshot(
        "the session of process 4711 (idle in transaction, nightly report) has held back vacuum"
        " for 10 min: none of the rows made dead since, 2,000/s, can be removed"
    )


def test_short_transactions_of_one_session_hold_nothing(tmp_path: Path) -> None:
    def rows(edge: int) -> Sequence[Mapping[str, Any]]:
        [row] = ages(SESSION)(edge)
        return [{**row, "xmin_age": 3, "xmin_held_ms": 2.0}]

    found = diagnosed(tmp_path, churn(rows={"metric_age": rows}))
    assert found["xmin-pinned"].status == "cleared"


def test_autovacuum_does_not_hold_itself_back(tmp_path: Path) -> None:
    worker = SESSION | {"xmin_holder_about": "active, autovacuum worker"}
    found = diagnosed(tmp_path, churn(rows={"metric_age": ages(worker)}))
    assert found["xmin-pinned"].status == "cleared"


@pytest.mark.parametrize(
    ("kind", "name", "advice"),
    [
        ("prepared", "order 66", "ROLLBACK PREPARED 'order 66'"),
        ("slot", "reports", "pg_drop_replication_slot('reports')"),
        ("standby", "replica", "hot_standby_feedback = off"),
    ],
)
def test_each_kind_of_holder_has_its_advice(
    tmp_path: Path, kind: str, name: str, advice: str
) -> None:
    holder = {"xmin_holder": kind, "xmin_holder_name": name, "xmin_holder_about": "streaming"}
    finding = diagnosed(tmp_path, churn(rows={"metric_age": ages(holder)}))["xmin-pinned"]
    assert finding.status == "found"
    assert f'"{name}"' in finding.sentence
    assert advice in finding.advice


def test_healthy_churn_is_told_nothing(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, churn(settings={"archive_mode": "on"}, rows=ARCHIVED))
    for name in ("xmin-pinned", "slot-holds-wal", "archiver-behind"):
        assert found[name].status == "cleared", found[name]


def slot(*, active: int = 0, moves: bool = False, **given: Any) -> Any:
    def rows(edge: int) -> Sequence[Mapping[str, Any]]:
        at = 400 * MB + (WAL_S * edge if moves else 0)
        row = {"slot_name": "lost", "slot_type": "logical", "active": active}
        return [{**row, "wal_status": "reserved", "restart_lsn_bytes": at, **given}]

    return rows


def archiver(failed: str | None = None, archived: int = 27) -> Any:
    """An archiver that fails at a segment, or that archives at the pace of the load."""

    def rows(edge: int) -> Sequence[Mapping[str, Any]]:
        segment = archived + (WAL_S * edge // (16 * MB) if failed is None else 0)
        row = {
            "archived_count": segment,
            "failed_count": edge if failed else 0,
            "last_archived_wal": f"0000000100000000{segment:08X}",
            "last_archived_unix_ms": 1000,
        }
        if failed:
            row |= {"last_failed_wal": failed, "last_failed_unix_ms": 2000 + edge}
        return [row]

    return rows


ARCHIVED = {"metric_archiver": archiver(archived=31)}


def test_a_slot_without_a_consumer_is_found_with_the_time_that_is_left(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, churn(rows={"metric_slot": slot()}, space=DISK))
    finding = found["slot-holds-wal"]
    assert finding.status == "found"
    assert finding.sentence == snapshot(
        'the logical replication slot "lost" has no consumer and keeps 152 MB of WAL: at 4 MB/s'
        " the disk is full in 2 h 51 min, and the server ends with a PANIC"
    )
    assert finding.is_about_to_fail
    assert finding.rank == 1
    assert found["archiver-behind"].status == "cleared"


def test_a_slot_that_may_lose_its_wal_does_not_fill_the_disk(tmp_path: Path) -> None:
    rows = {"metric_slot": slot(safe_wal_bytes=800 * MB)}
    finding = diagnosed(tmp_path, churn(rows=rows, space=DISK))["slot-holds-wal"]
    assert finding.status == "found"
    assert not finding.is_about_to_fail
    assert finding.sentence == snapshot(
        'the logical replication slot "lost" has no consumer and keeps 152 MB of WAL:'
        " max_slot_wal_keep_size removes it in 3 min 20 s at this rate, and its consumer must then"
        " be built again"
    )


@pytest.mark.parametrize(
    "rows",
    [slot(active=1, moves=True), slot(moves=True), slot(wal_status="lost")],
    ids=["in step", "moves without being seen", "lost"],
)
def test_slots_that_keep_nothing_are_not_found(tmp_path: Path, rows: Any) -> None:
    finding = diagnosed(tmp_path, churn(rows={"metric_slot": rows}))["slot-holds-wal"]
    assert finding.status == "cleared"


def test_a_slot_in_use_that_falls_behind_is_found(tmp_path: Path) -> None:
    finding = diagnosed(tmp_path, churn(rows={"metric_slot": slot(active=1)}))["slot-holds-wal"]
    assert finding.sentence == snapshot(
        'the logical replication slot "lost" falls behind and keeps 152 MB of WAL: at 4 MB/s the'
        " disk fills until the server ends"
    )


def test_a_failing_archiver_is_found(tmp_path: Path) -> None:
    rows = {"metric_archiver": archiver("00000001000000000000001C")}
    found = diagnosed(tmp_path, churn(rows=rows, settings={"archive_mode": "on"}, space=DISK))
    finding = found["archiver-behind"]
    assert finding.status == "found"
    assert finding.sentence == snapshot(
        "the archiver fails at WAL segment 00000001000000000000001C; 104 MB of WAL wait for it"
        " and cannot be removed: at 4 MB/s the disk is full in 2 h 51 min, and the server ends"
        " with a PANIC"
    )
    assert finding.is_about_to_fail
    assert found["slot-holds-wal"].status == "cleared"


def test_a_slow_archiver_is_found(tmp_path: Path) -> None:
    def rows(edge: int) -> Sequence[Mapping[str, Any]]:
        return [{**archiver(archived=24)(0)[0], "archived_count": 24}]

    load = churn(rows={"metric_archiver": rows}, settings={"archive_mode": "on"})
    assert diagnosed(tmp_path, load)["archiver-behind"].sentence == snapshot(
        "the archiver is slower than the load writes WAL; 152 MB of WAL wait for it and cannot be"
        " removed: at 4 MB/s the disk fills until the server ends"
    )


def aged(xid_age: int, **given: Any) -> Any:
    return churn(rows={"metric_age": ages(None, xid_age=xid_age)}, **given)


def test_young_transaction_ids_are_told_with_their_time(tmp_path: Path) -> None:
    finding = diagnosed(tmp_path, aged(20_000_000))["transaction-ids"]
    assert finding.status == "cleared"
    assert finding.sentence == snapshot(
        "the oldest transaction ID is 20,010,000 old; at 1,000/s autovacuum must freeze the"
        " oldest tables in 2 days 2 h"
    )


def test_old_transaction_ids_are_found_before_they_are_an_emergency(tmp_path: Path) -> None:
    finding = diagnosed(tmp_path, aged(1_100_000_000))["transaction-ids"]
    assert finding.status == "found"
    assert "database shop" in finding.sentence
    assert not finding.is_about_to_fail


def test_a_slot_that_keeps_them_old_is_named(tmp_path: Path) -> None:
    rows = {
        "metric_age": ages(None, xid_age=1_700_000_000),
        "metric_slot": slot(catalog_xmin_age=1_699_999_000),
    }
    finding = diagnosed(tmp_path, churn(rows=rows))["transaction-ids"]
    assert finding.sentence == snapshot(
        "the oldest transaction ID of database shop is 1,700,010,000 old, 79 % of the age at"
        " which the server stops writing, which it reaches in 5 days 3 h at 1,000/s; the"
        ' replication slot "lost" keeps it from being frozen'
    )
    assert finding.causes == ("slot-holds-wal",)


def test_the_slot_by_which_pgdyno_keeps_an_age_is_no_finding(tmp_path: Path) -> None:
    rows = {"metric_slot": slot(slot_name="pgdyno_age")}
    assert diagnosed(tmp_path, churn(rows=rows))["slot-holds-wal"].status == "cleared"


def test_a_session_that_keeps_them_old_is_named(tmp_path: Path) -> None:
    rows = {"metric_age": ages(SESSION, xid_age=1_700_000_000, xmin_age=1_690_000_000)}
    finding = diagnosed(tmp_path, churn(rows=rows))["transaction-ids"]
    assert finding.sentence == snapshot(
        "the oldest transaction ID of database shop is 1,700,010,000 old, 79 % of the age at"
        " which the server stops writing, which it reaches in 5 days 3 h at 1,000/s; the session"
        " of process 4711 (idle in transaction, nightly report) keeps it from being frozen"
    )
    assert finding.causes == ("xmin-pinned",)


def test_the_cause_of_a_disk_that_fills_comes_before_it(tmp_path: Path) -> None:
    full = {**DISK[0], "free_bytes": 400 * MB, "wal_dir_bytes": 3 << 30, "wal_fills": WAL_S,
            "fills": WAL_S}  # fmt: skip
    found = diagnosed(tmp_path, churn(rows={"metric_slot": slot()}, space=(full,)))
    assert found["slot-holds-wal"].rank == 1
    assert found["disk-filling"].rank == 2
    assert found["disk-filling"].causes == ("slot-holds-wal",)


@pytest.mark.parametrize("xid_age", [1_700_000_000, 2_140_000_000])
def test_transaction_ids_near_the_stop_come_first(tmp_path: Path, xid_age: int) -> None:
    finding = diagnosed(tmp_path, aged(xid_age))["transaction-ids"]
    assert finding.is_about_to_fail
    assert finding.rank == 1
    assert (
        finding.sentence
        == snapshot(
            {
                1700000000: (
                    "the oldest transaction ID of database shop is 1,700,010,000 old, 79 % of"
                    " the age at which the server stops writing, which it reaches in 5 days 3 h"
                    " at 1,000/s"
                ),
                2140000000: (
                    "the oldest transaction ID of database shop is 2,140,010,000 old, 100 % of"
                    " the age at which the server stops writing, which it reaches in 1 h 15 min"
                    " at 1,000/s; it warns of that in its log"
                ),
            }
        )[xid_age]
    )


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("database is not accepting commands to avoid wraparound data loss", "found"),
        ("index row size 5000 exceeds btree version 4 maximum 2704", "cleared"),
    ],
)
def test_refused_transactions_are_found_though_the_age_is_young_again(
    tmp_path: Path, message: str, status: str
) -> None:
    def rows(edge: int) -> Sequence[Mapping[str, Any]]:
        age = 2_146_000_000 if edge < 5 else 700
        return [{"database": "shop", "xid_age": age, "mxid_age": 5}]

    errors = [error_row(sqlstate="54000", message=message, count=3)]
    load = churn(rows={"metric_age": rows}, errors=errors)
    finding = diagnosed(tmp_path, load)["transaction-ids"]
    assert finding.status == status
    if status == "found":
        assert finding.is_about_to_fail
        assert finding.sentence == snapshot(
            "the server refused 30 transactions an ID: the oldest transaction ID was"
            " 2,146,000,000 old"
        )


def test_an_age_allowed_by_the_settings_is_no_failsafe(tmp_path: Path) -> None:
    load = aged(1_650_000_000, settings={"autovacuum_freeze_max_age": "2000000000"})
    assert not diagnosed(tmp_path, load)["transaction-ids"].is_about_to_fail


@pytest.mark.parametrize(
    ("age", "version_num", "fails", "warned"),
    [
        (2_040_000_000, 180006, False, False),
        (2_050_000_000, 180006, True, False),
        (2_110_000_000, 180006, True, True),
        (2_040_000_000, 190000, False, False),
        (2_050_000_000, 190000, True, True),
    ],
)
def test_an_age_near_the_stop_is_no_minor_matter_whatever_the_settings_allow(
    tmp_path: Path, age: int, version_num: int, fails: bool, warned: bool
) -> None:
    load = aged(age, settings={"autovacuum_freeze_max_age": "2000000000"},
                server_facts={"version_num": version_num})  # fmt: skip
    finding = diagnosed(tmp_path, load)["transaction-ids"]
    assert finding.is_about_to_fail == fails
    [warnings_in] = [
        each.value
        for each in finding.evidence
        if each.name == "oldest transaction ID, the server's warnings in"
    ]
    assert (warnings_in == 0) == warned


def test_multixacts_are_found_too(tmp_path: Path) -> None:
    def rows(edge: int) -> Sequence[Mapping[str, Any]]:
        return [{"database": "shop", "xid_age": 5000, "mxid_age": 1_700_000_000 + 50_000 * edge}]

    finding = diagnosed(tmp_path, churn(rows={"metric_age": rows}))["transaction-ids"]
    assert finding.is_about_to_fail
    assert finding.sentence == snapshot(
        "the oldest multixact of database shop is 1,700,500,000 old, 79 % of the age at which the"
        " server stops writing, which it reaches in 2 h 28 min at 50,000/s"
    )


def connected(used: int) -> Any:
    row = {"used": used, "ours": 12, "others_idle": used - 20, "usable": 97}
    return churn(rows={"metric_connection": lambda edge: [row]})


@pytest.mark.parametrize(
    ("used", "status", "fails"),
    [(60, "cleared", False), (90, "found", False), (95, "found", True)],
)
def test_connections_in_use(tmp_path: Path, used: int, status: str, fails: bool) -> None:
    finding = diagnosed(tmp_path, connected(used))["connection-slots"]
    assert (finding.status, finding.is_about_to_fail) == (status, fails)
    assert (
        finding.sentence
        == snapshot(
            {
                60: "60 of 97 connections are in use",
                90: (
                    "90 of 97 connections are in use: 12 by this load and 78 by others, of which"
                    " 70 are idle"
                ),
                95: (
                    "95 of 97 connections are in use: 12 by this load and 83 by others, of which"
                    " 75 are idle"
                ),
            }
        )[used]
    )


@pytest.mark.parametrize("gids", [["order 66"], ["a", "b", "c"], [None]])
def test_a_prepared_transaction_that_stays_is_found(tmp_path: Path, gids: list[Any]) -> None:
    def rows(edge: int) -> Sequence[Mapping[str, Any]]:
        gid = gids[edge % len(gids)]
        return [{"count": len(gids), "gid": gid, "held_ms": 9000.0, "xid_age": 40}]

    finding = diagnosed(tmp_path, churn(rows={"metric_prepared": rows}))["prepared-transactions"]
    assert finding.status == ("found" if gids == ["order 66"] else "cleared")


@pytest.mark.parametrize(
    ("start", "per_s", "status", "fails"),
    [
        (2_100_000_000, 10, "found", True),
        (1_900_000_000, 10, "found", False),
        (1_200_000_000, 50_000, "found", True),  # 5 h
        (1_200_000_000, 10, "cleared", False),
    ],
)
def test_a_sequence_that_ends(
    tmp_path: Path, start: int, per_s: int, status: str, fails: bool
) -> None:
    def rows(edge: int) -> Sequence[Mapping[str, Any]]:
        value = start + per_s * edge
        return [{"sequence": "public.ids", "last_value": value, "last_possible": 2**31 - 1}]

    finding = diagnosed(tmp_path, churn(rows={"metric_sequence": rows}))["sequence-end"]
    assert (finding.status, finding.is_about_to_fail) == (status, fails)


def test_a_slot_made_within_the_run_is_found_too(tmp_path: Path) -> None:
    def rows(edge: int) -> Sequence[Mapping[str, Any]]:
        return slot()(edge) if edge > 4 else []

    assert (
        diagnosed(tmp_path, churn(rows={"metric_slot": rows}))["slot-holds-wal"].status == "found"
    )


def test_a_role_that_sees_only_itself_does_not_say_that_nobody_is_there(tmp_path: Path) -> None:
    load = connected(60)
    load.server_facts = {**load.server_facts, "monitor": False}
    found = diagnosed(tmp_path, load)
    for name in ("xmin-pinned", "connection-slots"):
        assert (
            found[name].sentence
            == snapshot(
                {
                    "xmin-pinned": (
                        "not checked: this role may not see the snapshots of other roles'"
                        " sessions (pg_monitor may)"
                    ),
                    "connection-slots": (
                        "not checked: this role may not see the sessions of other roles"
                        " (pg_monitor may)"
                    ),
                }
            )[name]
        )
        assert found[name].status == "skipped"


def test_what_was_not_sampled_is_not_checked(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, churn(rows={"metric_age": lambda edge: []}))
    for name in ("xmin-pinned", "transaction-ids", "connection-slots", "prepared-transactions"):
        assert found[name].sentence.startswith("not checked: "), found[name]

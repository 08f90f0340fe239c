"""Remedies for tables and autovacuum: storage parameters, unlogged tables (see CREATE TABLE)."""

from __future__ import annotations

from pgdyno.remedy._remedy import Remedy

_PACE = ("autovacuum_vacuum_cost_limit", "autovacuum_vacuum_cost_delay")

REMEDIES = (
    Remedy(
        id="fillfactor",
        summary="leave free space in a table's pages for HOT updates",
        kind="table",
        durability_class="D0",
        bound="nothing is lost",
        price=(
            "the table grows by the free space; existing pages get it only when they are rewritten"
            " (VACUUM FULL locks the table)"
        ),
        table_options=("fillfactor",),
        acts_on_existing_rows=False,
    ),
    Remedy(
        id="unlogged-tables",
        summary="write no WAL for the tables",
        kind="rewrite",
        durability_class="D3",
        bound=(
            "any crash, also of the server alone, leaves the tables empty; standbys and base"
            " backups do not contain their rows"
        ),
        price="only for tables that can be recreated from external data",
        keys=("workload.unlogged",),
        when=lambda case: case.becomes(lambda server: server.unlogged),
        faults=("kill",),
        manual_lines=(
            "-- for each table: ALTER TABLE name SET UNLOGGED;  (rewrites it under a lock)",
        ),
    ),
    Remedy(
        id="autovacuum-pace",
        summary="reduce the pace of autovacuum",
        kind="reload",
        durability_class="D0",
        bound="nothing is lost",
        price=(
            "a vacuum takes longer, so tables contain more dead rows; too slow a pace causes bloat"
            " and delays the freezing of transaction IDs"
        ),
        settings=_PACE,
        table_options=_PACE,
    ),
)

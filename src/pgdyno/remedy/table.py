"""Options of single tables and of autovacuum; tables without WAL (see CREATE TABLE)."""

from __future__ import annotations

from pgdyno.remedy._remedy import Remedy

_PACE = ("autovacuum_vacuum_cost_limit", "autovacuum_vacuum_cost_delay")

REMEDIES = (
    Remedy(
        id="fillfactor",
        summary="leave room in a table's pages, so that updates stay on the page (HOT)",
        kind="table",
        durability_class="D0",
        bound="nothing is lost",
        price=(
            "the table grows by the room left free; pages that are full already gain it only as"
            " they are rewritten (VACUUM FULL locks the table)"
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
            "any crash, of the server alone too, leaves the tables empty; a standby or a base"
            " backup never has their rows"
        ),
        price="only for data that can be made again from elsewhere",
        keys=("workload.unlogged",),
        when=lambda case: case.newly(lambda server: server.unlogged),
        faults=("kill",),
        steps=("-- for each table: ALTER TABLE name SET UNLOGGED;  (rewrites it under a lock)",),
    ),
    Remedy(
        id="autovacuum-pace",
        summary="let autovacuum work in smaller portions",
        kind="reload",
        durability_class="D0",
        bound="nothing is lost",
        price=(
            "a vacuum takes longer, so more dead rows are about; too slow a pace lets tables bloat"
            " and transaction IDs age"
        ),
        settings=_PACE,
        table_options=_PACE,
    ),
)

"""Tables and indexes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from pgdyno.remedy._remedy import Case, Remedy
from pgdyno.spec.server_settings import AUTOVACUUM, DEFAULTS, ActiveSettings, naptime_s

_LIMIT, _DELAY = _PACE = ("autovacuum_vacuum_cost_limit", "autovacuum_vacuum_cost_delay")
_THRESHOLDS = (
    "autovacuum_vacuum_scale_factor",
    "autovacuum_vacuum_threshold",
    "autovacuum_vacuum_max_threshold",
)
VACUUMS = 5
"""Rounds of autovacuum that a slice spans at least: bloat builds up between them."""


def _cost_per_ms(settings: ActiveSettings, options: Mapping[str, str]) -> float:
    """Return the cost that a vacuum may spend per millisecond; infinite without a delay."""
    known = ActiveSettings({_DELAY: DEFAULTS[_DELAY], **AUTOVACUUM}).under(settings.values)
    known = known.under(options)
    limit, delay_ms = known.number(_LIMIT), known.duration_ms(_DELAY)
    if limit is None or limit < 0:
        limit = known.number("vacuum_cost_limit")
    return limit / delay_ms if limit is not None and delay_ms and delay_ms > 0 else math.inf


def _paces(case: Case) -> Iterator[tuple[float, float]]:
    """Yield the pace of vacuum before and after the change, for the server and for each table."""
    before = _cost_per_ms(case.before.settings, {})
    yield before, _cost_per_ms(case.after.settings, {})
    for options in case.change.table_options.values():
        yield before, _cost_per_ms(case.after.settings, options)


def _slower(case: Case) -> bool:
    return any(after < before for before, after in _paces(case))


def _faster(case: Case) -> bool:
    return any(after > before for before, after in _paces(case))


def _several_vacuums_s(case: Case) -> float:
    """Return the time of several rounds of autovacuum, in seconds."""
    return VACUUMS * naptime_s(case.before.settings)


REMEDIES = (
    # Remedies for tables and autovacuum: storage parameters, unlogged tables (see CREATE TABLE).
    Remedy(
        id="fillfactor",
        summary="leave free space in a table's pages for HOT updates",
        kind="table",
        durability_class="D0",
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
        id="partitions",
        summary="divide large tables into partitions, or make one table of them again",
        kind="rewrite",
        durability_class="D0",
        price=(
            "a statement without the partitioning column looks into every partition, and plans take"
            " longer; in exchange, partitions are vacuumed at the same time, each more quickly"
        ),
        keys=("workload.init.partitions",),
        manual_lines=("-- create another table, PARTITION BY HASH (column), and copy the rows",),
    ),
    Remedy(
        id="autovacuum-pace",
        summary="reduce the pace of autovacuum",
        kind="reload",
        durability_class="D0",
        price=(
            "a vacuum takes longer, so tables contain more dead rows; too slow a pace causes bloat"
            " and delays the freezing of transaction IDs"
        ),
        settings=_PACE,
        table_options=_PACE,
        when=_slower,
        postpones=("vacuum",),
        effect_after=_several_vacuums_s,
    ),
    Remedy(
        id="autovacuum-faster",
        summary="let autovacuum do more between its pauses",
        kind="reload",
        durability_class="D0",
        price="vacuums read, write and use CPU time at a higher rate while they run",
        settings=_PACE,
        table_options=_PACE,
        when=_faster,
        postpones=("vacuum",),
        effect_after=_several_vacuums_s,
    ),
    Remedy(
        id="autovacuum-threshold",
        summary="vacuum tables at another number of dead rows",
        kind="table",
        durability_class="D0",
        price="more vacuums of the same table, each of which reads its indexes as a whole",
        settings=_THRESHOLDS,
        table_options=_THRESHOLDS,
        postpones=("vacuum",),
        effect_after=_several_vacuums_s,
    ),
    # Indexes that the load's tables have in addition.
    Remedy(
        id="create-index",
        summary="find rows by an index instead of reading the whole table",
        kind="index",
        durability_class="D0",
        price=(
            "disk space; each insert writes to the index, and so does each update of its columns,"
            " which is no longer HOT"
        ),
        indexes=True,
    ),
)

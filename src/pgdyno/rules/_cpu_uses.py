"""Known uses of the server's CPU time, as parts of it; what is left is the load's own work.

Each is estimated from a counter and the CPU time of one unit of it, calibrated on 2 cores with
PostgreSQL 15 and 18 (CPU time per transaction of the server's processes by /proc, with and without
the fault). The estimates are on the low side: rows with many columns, and plans of joins, take
more. The uses together are limited to ``ALL_MAX``, and one below ``USE_MIN`` is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from msgspec.structs import replace

from pgdyno.facts.budget import Part
from pgdyno.facts.client_sessions import SHORT_LIVED_MAX, transactions_per_connection
from pgdyno.facts.denied_time import is_crowded_out, is_stolen, is_throttled
from pgdyno.facts.discarded_rows import late_conditions, skipped_rows
from pgdyno.facts.functions import timed_foreign_keys, timed_functions
from pgdyno.facts.index_use import hidden_indexes, timed_use, untried_searches
from pgdyno.facts.needless_statements import (
    needless_statements,
    part_of,
    repeated_statements,
    schema_statements,
)
from pgdyno.facts.other_load import foreign_load
from pgdyno.facts.partitions import read_partitions
from pgdyno.facts.plans import (
    TimedChange,
    changes_jit,
    is_analyzed,
    is_of_kept_plan,
    is_of_spilling,
    is_without_workers,
    large_results_part,
    timed_indexes,
    timed_protocol,
    timed_settings,
    was_looked_at,
    work_parts,
)
from pgdyno.facts.sessions import SPARE_SHARE
from pgdyno.facts.setting_costs import (
    STATEMENT_CPU_S,
    STATEMENT_CPU_S_MIN,
    compile_cores,
    costly_settings_of,
    own_work_cores,
    unexplained_cores,
)
from pgdyno.facts.situation import Situation
from pgdyno.facts.slices import Facts
from pgdyno.facts.statistics import timed_statistics
from pgdyno.facts.suspects import timed_suspects
from pgdyno.facts.tables import missed_updates, scanned_tables, updated_columns
from pgdyno.record import Suspicion
from pgdyno.record.fileformat import CLIENT_BACKENDS, EXITED, PARALLEL_WORKER
from pgdyno.record.finding import Skip
from pgdyno.rules._contention import is_crowd_the_cause
from pgdyno.spec.sql_text import names_table
from pgdyno.stats.prediction import Prediction, between

ROW_CPU_S = 30e-9
"""A row of a sequential scan that a condition discards: 14 million rows of pgbench_accounts a
second took 0.44 cores."""
ENTRY_CPU_S = 6e-6
"""An entry into an index, its WAL included: an update of pgbench_accounts took 26 us where it was
HOT, 34 with two indexes and 56 with five."""
PLAN_CPU_S = {"simple": 10e-6, "extended": 6e-6}
"""Parsing and planning one statement: select-only took 18 us prepared, 24 extended, 28 simple."""
BATCHED_ROW_CPU_S = 2e-6
"""A row of a batch that has a statement of its own, beyond one of a statement of many."""
USE_MIN = 0.05
ALL_MAX = 0.95


@lru_cache(maxsize=1)
def cpu_uses(s: Situation) -> Mapping[str, float]:
    """Return id of the finding → part of the server's CPU time, at least ``USE_MIN`` each."""
    cores = backend_cores(s)
    if cores <= 0:
        return {}
    found = {name: used / cores for name, used in _cores(s).items() if used >= USE_MIN * cores}
    all_of_them = sum(found.values())
    return {name: part / max(1.0, all_of_them / ALL_MAX) for name, part in found.items()}


def own_part(s: Situation, use: str) -> float:
    """Return the part of the sessions' CPU time that a use takes by its own estimate, 0 to 1,
    without what keeps the uses together below ``ALL_MAX``."""
    cores = backend_cores(s)
    return min(1.0, _cores(s)[use] / cores) if cores > 0 else 0.0


def unexplained_part(s: Situation) -> float:
    """Return the part of the sessions' CPU time that no use of it explains, where there is a sign
    that statements are compiled."""
    cores = backend_cores(s)
    named = sum(used for name, used in _cores(s).items() if name != "jit")
    return unexplained_cores(s, cores, named) / cores if cores > 0 else 0.0


def cpu_parts(s: Situation) -> tuple[Part, ...]:
    """Return the parts of the latency budget that go with the CPU time that is used: the queue for
    a core too, unless too many sessions, a quota, the hypervisor or other programs make it."""
    denied = is_stolen(s) or is_throttled(s) or is_crowded_out(s)
    return ("running",) if denied or is_crowd_the_cause(s) else ("running", "ready")


def response_share(s: Situation, use: str) -> float:
    """Return the share of the response time that a use of the CPU takes, a backlog apart."""
    return cpu_uses(s).get(use, 0.0) * s.budget.own_share(*cpu_parts(s))


def ratio_without(
    s: Situation, part: float, *, parallel: float = 1.0, data: float = 1.0
) -> Prediction:
    """Return the predicted ratio of throughput without ``part`` of the sessions' CPU time: that of
    the load generator, and of the server's other processes, remains. ``parallel`` and ``data`` are
    the factors of the waits for parallel workers and for data files; what CPU time these take is
    within ``part``."""
    sessions = backend_cores(s)
    used = max(s.own_cores or 0.0, sessions)
    left = 1.0 - part * sessions / used if used > 0 else 1.0
    counted = 1.0 - s.loop.data_cpu * (1.0 - min(1.0, data))
    return s.loop.ratio(cpu=min(1.0, left / counted), parallel=parallel, data=data)


def ratio_of_short(s: Situation, part: float) -> Prediction:
    """Return the predicted ratio where statements become short ones by losing ``part`` of the CPU
    time; it leaves ``STATEMENT_CPU_S``, the most that such a statement takes, to each of them.

    What theirs will take, from ``STATEMENT_CPU_S_MIN`` on, is not known before.
    """
    cores = backend_cores(s)
    reserve = (STATEMENT_CPU_S - STATEMENT_CPU_S_MIN) * s.statements_per_s
    least = min(1.0, part + reserve / cores) if cores > 0 else part
    return between(ratio_without(s, part), ratio_without(s, least))


def ratio_of_own_work(s: Situation, left: float) -> Prediction:
    """Return the predicted ratio with the part ``left`` of the waits for data files, where all CPU
    time goes with them that the statements and the rows they read are not known to take.

    A read or a write takes CPU time itself, and being woken after it does; ``ClosedLoop.data_cpu``
    is the least of both. What the statements are known to take is without being woken.
    """
    loop = replace(s.loop, server_woken_s=0.0)
    stays_s = loop.cpu_s * (1.0 - loop.data_cpu * (1.0 - min(1.0, left)))
    own_s = (own_work_cores(s) + s.generator_cores) / s.throughput_tps
    cpu = 1.0 - (1.0 - min(1.0, own_s / stays_s)) * (1.0 - min(1.0, left)) if stays_s > 0 else 1.0
    return loop.ratio(data=left, cpu=cpu)


def _batched_rows_s(s: Situation) -> float:
    """Return the rows per second that the application of a front end inserts in batches; 0 if its
    counts were not recorded."""
    try:
        return s.front_load.batched_rows_s
    except Skip:
        return 0.0


def _repeats_per_s(s: Situation) -> float:
    if s.is_http:
        return 0.0
    return sum(each.repeats_per_s for each in repeated_statements(s))


def _others_cores(s: Situation) -> float:
    """Return the cores that sessions of others use; 0 where it is little, or where cores are idle,
    so that they take them from nobody."""
    cpu = s.cpu_if_recorded
    if cpu is None or cpu.idle_share >= SPARE_SHARE:
        return 0.0
    load = foreign_load(s.run, s.slice_ids)
    return load.cores if load is not None and load.takes_cores else 0.0


def backend_cores(s: Facts) -> float:
    """Return the cores that client sessions and their workers use; as sampled if not recorded.

    Of sessions that end after a few transactions, what was used after their last sample counts,
    with the processes' own end.
    """
    used, each = s.process_cores(*CLIENT_BACKENDS), transactions_per_connection(s)
    if used is None:
        return min(s.sessions("cpu"), s.cores)
    if each is not None and each <= SHORT_LIVED_MAX:
        used += s.process_cores(EXITED) or 0.0
    return used + (s.process_cores(PARALLEL_WORKER) or 0.0)


@lru_cache(maxsize=1)
def _cores(s: Situation) -> Mapping[str, float]:
    """Return the cores that each use takes, by its estimate."""
    costly = sum(each.cores for each in costly_settings_of(s))
    found = {
        "costly-settings": costly,
        "parse-plan": PLAN_CPU_S.get(s.protocol, 0.0) * s.statements_per_s,
        "repeated-statements": STATEMENT_CPU_S_MIN * _repeats_per_s(s),
        "other-load": _others_cores(s),
    }
    if s.front is not None and not s.front.rewrites_batches:
        found["front-batches"] = _batched_rows_s(s) * BATCHED_ROW_CPU_S
    try:
        scanned = sum(table.scanned_rows for table in scanned_tables(s))
        found["missing-index"] = scanned * ROW_CPU_S
        for missed in missed_updates(s):
            name = missed.finding
            found[name] = found.get(name, 0.0) + missed.entries_per_s * ENTRY_CPU_S
    except Skip:
        pass
    found["jit"] = compile_cores(s, backend_cores(s), sum(found.values()))
    return found | {use: part * backend_cores(s) for use, part in _timed(s).items()}


def _timed(s: Situation) -> dict[str, float]:
    """Return the parts of the sessions' CPU time that uses of it were measured to take, by
    statements executed without them; they replace the estimates."""
    found = {
        "large-results": large_results_part(s),
        "needless-statements": part_of(s, needless_statements),
        "schema-changes": part_of(s, schema_statements),
    }
    if is_analyzed(s):
        found["missing-index"] = _untried_part(s)
    for use, change in _tried(s):
        found[use] = max(found.get(use, 0.0), change.saved)
    if was_looked_at(s):
        for use, part in _of_unread_indexes(s):
            found[use] = max(found.get(use, 0.0), part)
    return found


def _of_unread_indexes(s: Situation) -> Iterator[tuple[str, float]]:
    """Yield the parts that entries into indexes that no scan reads take. Where most of that is of
    updates that are not HOT, it is theirs, with as much for each other index of the table: a HOT
    update makes an entry in none."""
    try:
        missed = {each.table.name: each for each in missed_updates(s)}
    except Skip:
        missed = {}
    for timed, unread in timed_suspects(s, Suspicion.UNREAD):
        updated = missed.get(unread[0].relation)
        if updated is not None and _is_of_updates(timed, updated.table.name):
            part = timed.saved * max(1.0, updated.indexes / len(unread))
            yield updated.finding, min(1.0, part)
        else:
            yield "unused-indexes", timed.saved


def _is_of_updates(timed: TimedChange, table: str) -> bool:
    """Return whether most of what a change saves is saved of updates of a table."""
    saved_ms = 0.0
    for each in timed.statements:
        written = updated_columns(each.total.statement)
        if written is not None and names_table(written[0], table):
            saved_ms += each.saved_ms
    return saved_ms > timed.saved_ms / 2


def _untried_part(s: Situation) -> float:
    """Return the part of the sessions' work that is the largest search for few of many rows for
    which no index was tried."""
    untried, work = untried_searches(s), s.budget.share(*work_parts(s))
    return untried[0].share / work if untried and work else 0.0


def _tried(s: Situation) -> Iterator[tuple[str, TimedChange]]:
    """Yield the changes that were tried beside the load, each with the use of the CPU that it
    ends."""
    if (prepared := timed_protocol(s)) is not None:
        yield "parse-plan", prepared
    for each in timed_indexes(s):
        yield "missing-index", each
    for each in timed_settings(s):
        if (use := _use_of(s, each)) != "costly-settings" or each.is_worthwhile:
            yield use, each  # Else the estimates by counters stay.
    if was_looked_at(s):
        yield from _tried_statements(s)


def _use_of(s: Situation, timed: TimedChange) -> str:
    """Return the use of the CPU that a change of settings ends."""
    if changes_jit(timed):
        return "jit"
    if is_of_kept_plan(s, timed):
        return "kept-plan"
    if is_without_workers(timed):
        return "parallel-workers"
    return "temp-files" if is_of_spilling(s, timed) else "costly-settings"


def _tried_statements(s: Situation) -> Iterator[tuple[str, TimedChange]]:
    """Yield the changes of what statements do, as ``_tried``: those that were tried in a
    transaction, and the statements without a part of them that was timed."""
    for each, _ in timed_use(s, hidden_indexes(s)):
        yield "unusable-index", each
    for each, _ in timed_suspects(s, Suspicion.PENDING):
        yield "pending-list", each
    for each, _ in timed_suspects(s, Suspicion.BLOATED):
        yield "bloated-table", each
    for each, _ in timed_statistics(s):
        yield "wrong-estimates", each
    for parted in read_partitions(s):
        if parted.timed is not None:
            yield "unpruned-partitions", parted.timed
    for skips in skipped_rows(s):
        yield "skipped-rows", skips.timed
    for late in late_conditions(s):
        yield "late-conditions", late.timed
    for key in timed_foreign_keys(s):
        yield "foreign-key-time", key.timed
    if s.run.counted_statements(s.slice_ids):
        for function in timed_functions(s, of_triggers=True):
            yield "trigger-time", function.timed
        for function in timed_functions(s, of_triggers=False):
            yield "function-time", function.timed

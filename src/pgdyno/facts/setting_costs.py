"""CPU time that settings cost: for each statement, image or byte, by counters and a time of each,
and for just-in-time compilation (JIT) of short statements.

The times are calibrated on 2 cores: select-only took 20 us of CPU time per statement, 22 with
log_statement = all and 26 with log_min_duration_statement = 0; a WAL buffer that was full took
0.2 ms with wal_buffers = 32kB; pglz takes 80 us for a page. A statement by primary key took 8
to 10 us more with plan_cache_mode = force_custom_plan, on a busy machine; 6 us are counted, as for
``parse-plan``.

The server compiles a plan whose estimated cost exceeds jit_above_cost, again at each execution
(jit-decision.html in PostgreSQL's manual). The extension pg_stat_statements counts the time of it
from PostgreSQL 15. Without it no counter shows it, and EXPLAIN is not for a run under load. Then it
takes two signs: sessions have the compiler loaded (``jit_share`` of their processes), or
jit_above_cost is below its default; and a statement takes far more CPU time than the rows that it
reads. Calibrated on PostgreSQL 15: compiling took 1.8 ms for a statement that takes 18 us, and
42 ms with all optimisation. Counted are statements of which compiling takes at least ``JIT_SHARE``:
what it saves is a part of the time of expressions and tuples.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from pgdyno.facts.slices import Facts
from pgdyno.record import StatementCount
from pgdyno.record.fileformat import CLIENT_BACKEND, CLIENT_BACKENDS
from pgdyno.spec.server_settings import DEFAULTS

LOG_CPU_S = 4e-6
PLAN_AGAIN_CPU_S = 6e-6
PGLZ_PAGE_CPU_S = 80e-6
BUFFER_FULL_CPU_S = 200e-6
WAL_BUFFERS_MIN_BYTES = 1 << 20
"""The default is 4 MB with 128 MB of shared_buffers; a smaller one was set."""
_ALWAYS_LOGGED = {
    "log_statement": ("all", "mod"),
    "log_min_duration_statement": ("0",),
    "log_duration": ("on",),
    "log_min_duration_sample": ("0",),
}
_PLANNED = re.compile(r"\s*(?:select|insert|update|delete|merge|with|values)\b", re.IGNORECASE)
JIT_SHARE = 0.2
"""Part of a statement's time that compiling takes, from which on it costs more than it saves."""
UNEXPLAINED_S = 0.5e-3
"""CPU time of a statement beyond what it is known to do, above which it may be compiled."""
STATEMENT_CPU_S = 100e-6
"""Most that a short statement takes by itself, with reserve."""
STATEMENT_CPU_S_MIN = 18e-6
"""Least: a prepared select-only transaction (see ``PLAN_CPU_S`` of ``_cpu_uses``)."""
RETURNED_ROW_CPU_S = 200e-9
LOADED_SHARE = 0.25
"""Of the four busiest sessions."""


class Costly(Struct, frozen=True):
    """A setting, and the cores that it costs."""

    setting: str
    value: str
    cores: float
    why: str


def costly_settings_of(s: Facts) -> list[Costly]:
    """Return the settings that cost CPU time under this load, the dearest first."""
    found = [*_logging(s), *_planning(s), *_compression(s), *_wal_buffers(s)]
    return sorted(found, key=lambda each: -each.cores)


def _logging(s: Facts) -> Iterator[Costly]:
    for name, values in _ALWAYS_LOGGED.items():
        value = s.settings.text(name) or DEFAULTS[name]
        if value.lower() in values:
            cores = s.statements_per_s * LOG_CPU_S
            yield Costly(name, value, cores, "each statement is written to the server's log")


def _planning(s: Facts) -> Iterator[Costly]:
    """Prepared statements only: others are planned each time whatever the setting."""
    value = (s.settings.text("plan_cache_mode") or "auto").lower()
    if value == "force_custom_plan" and s.protocol == "prepared":
        planned = sum(each.done for each in s.statements if _PLANNED.match(each.statement))
        cores = planned / s.seconds * PLAN_AGAIN_CPU_S
        yield Costly(
            "plan_cache_mode", value, cores, "each execution of a prepared statement is planned"
        )


def _compression(s: Facts) -> Iterator[Costly]:
    value, wal = (s.settings.text("wal_compression") or "off").lower(), s.wal_if_recorded
    if value in ("pglz", "on") and wal is not None:
        cores = (wal.full_page_images or 0.0) / s.seconds * PGLZ_PAGE_CPU_S
        yield Costly("wal_compression", value, cores, "full-page images are compressed with pglz")


def _wal_buffers(s: Facts) -> Iterator[Costly]:
    size, wal = s.settings.size_bytes("wal_buffers"), s.wal_if_recorded
    if size is not None and 0 <= size < WAL_BUFFERS_MIN_BYTES and wal is not None:
        cores = (wal.buffers_full or 0.0) / s.seconds * BUFFER_FULL_CPU_S
        value = str(s.settings.text("wal_buffers"))
        yield Costly("wal_buffers", value, cores, "sessions write WAL to make room in its buffers")


def loaded_share(s: Facts) -> float | None:
    """Return the part of the client sessions that have the compiler loaded; None if not seen."""
    series = s.run.series("metric_process", s.slice_ids, where={"role": CLIENT_BACKEND})
    seen = [float(share) for share in series["jit_share"] if share == share]  # without NaN
    return max(seen, default=None)


def is_possible(s: Facts) -> bool:
    """Return whether the server can compile and may: jit is on, by default or by a setting."""
    return s.can("jit") and s.settings.is_on("jit") is not False


def below_default(s: Facts) -> bool:
    """Return whether jit_above_cost is lower than its default."""
    cost = s.settings.number("jit_above_cost")
    return cost is not None and 0 <= cost < float(DEFAULTS["jit_above_cost"])


def compiled_statements_of(s: Facts) -> list[StatementCount] | None:
    """Return the statements that compiling takes ``JIT_SHARE`` of, those first of which it takes
    most; None if pg_stat_statements did not count it."""
    counted = s.run.statement_counts(s.slice_ids)
    if all(each.jit_ms is None for each in counted):
        return None
    compiled = [each for each in counted if each.compiled_ms >= JIT_SHARE * each.exec_ms > 0]
    return sorted(compiled, key=lambda each: -each.compiled_ms)


def own_work_cores(s: Facts) -> float:
    """Return the least cores that the statements take, by their number and the rows they read."""
    return s.statements_per_s * STATEMENT_CPU_S_MIN + _rows_cores(s)


def _rows_cores(s: Facts) -> float:
    returned = s.run.delta("metric_database", "tup_returned", s.slice_ids) or 0.0
    return returned / s.seconds * RETURNED_ROW_CPU_S


def compile_cores(s: Facts, used: float, named: float) -> float:
    """Return the cores that compiling takes: of those ``used``, ``named`` are for other uses."""
    if not is_possible(s) or not s.statements_per_s:
        return 0.0
    compiled = compiled_statements_of(s)
    if compiled is not None:
        # A session that compiles waits for a core as often as the others do.
        compiling = sum(each.compiled_ms for each in compiled) / 1000 / s.seconds
        at_work = used + (s.process_queue(*CLIENT_BACKENDS) or 0.0)
        return used * min(1.0, compiling / at_work) if at_work > 0 else 0.0
    rest = unexplained_cores(s, used, named)
    return rest if rest >= UNEXPLAINED_S * s.statements_per_s else 0.0


def unexplained_cores(s: Facts, used: float, named: float) -> float:
    """Return the cores beyond what statements are known to take, if there is a sign of compiling:
    of those ``used``, ``named`` are for other uses."""
    loaded = loaded_share(s)
    if loaded < LOADED_SHARE if loaded is not None else not below_default(s):
        return 0.0
    return max(0.0, used - named - _rows_cores(s) - s.statements_per_s * STATEMENT_CPU_S)

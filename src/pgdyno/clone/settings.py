"""Settings of a server that matter to its load, and those of them that another server can have.

None of them is a text: no file, host or library can be named. A capture file may come from anybody,
so that its settings are looked at again before a server gets them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from pgdyno.numbers import listed
from pgdyno.server import Installation
from pgdyno.server.local.startup import accepts
from pgdyno.spec.server_settings import ActiveSettings, switch_of
from pgdyno.spec.units import format_size

MEMORY_SHARE_MAX = 4
"""Part of the machine's memory, a quarter, that shared_buffers of a clone may take."""
_MATTERS = "|".join(
    (
        # Memory, reads and writes.
        r"shared_buffers|temp_buffers|(?:maintenance_|logical_decoding_)?work_mem",
        r"hash_mem_multiplier|effective_cache_size|backend_flush_after|bgwriter_\w+",
        r"(?:effective|maintenance)_io_concurrency|synchronize_seqscans|default_toast_compression",
        r"io_(?:method|workers|min_workers|max_workers|(?:max_)?combine_limit|max_concurrency)",
        # The WAL, commits and checkpoints.
        r"wal_(?:level|sync_method|log_hints|compression|init_zero|recycle|buffers|skip_threshold)",
        r"wal_writer_(?:delay|flush_after)|fsync|full_page_writes|synchronous_commit",
        r"commit_(?:delay|siblings)|checkpoint_\w+|(?:max|min)_wal_size|max_wal_senders",
        r"track_commit_timestamp",
        # The planner, parallel queries and compilation.
        r"enable_\w+|(?:seq_page|random_page|cpu_\w+|parallel_\w+)_cost|geqo\w*",
        r"default_statistics_target|constraint_exclusion|cursor_tuple_fraction|plan_cache_mode",
        r"(?:from|join)_collapse_limit|recursive_worktable_factor|parallel_leader_participation",
        r"(?:max|min)_parallel_\w+|max_worker_processes",
        r"jit|jit_(?:(?:inline_|optimize_)?above_cost|expressions|tuple_deforming)",
        # Vacuum, locks and transactions.
        r"autovacuum\w*|vacuum_\w+|deadlock_timeout|max_locks_per_transaction|max_pred_locks_\w+",
        r"default_transaction_isolation",
        # Times that are measured, and statements that are logged: both cost time.
        r"track_(?:io_timing|wal_io_timing|cost_delay_timing|functions)",
        r"log_(?:duration|statement|min_duration_statement|min_duration_sample|lock_waits)",
        r"log_(?:statement_sample_rate|transaction_sample_rate|statement_stats|temp_files)",
    )
)
_VALUE = r"-?\w[\w.+ -]*"
_UNITS = {"kB": ("MB", 1024), "MB": ("GB", 1024), "ms": ("s", 1000), "s": ("min", 60)}
"""Unit → the next larger one, and how many make one of it."""


def matters(name: str) -> bool:
    """Return whether a setting is one that matters to a load."""
    return re.fullmatch(_MATTERS, name) is not None


def value_in_words(number: str, unit: str | None) -> str:
    """Return a value of pg_settings with its unit, in the largest one that has it whole."""
    found = re.fullmatch(r"(\d*)([a-zA-Z]+)", unit or "")
    if found is None or not re.fullmatch(r"[1-9]\d*", number):
        return f"{number}{unit}" if unit and re.fullmatch(r"\d*\.\d+", number) else number
    count, name = int(number) * int(found[1] or 1), found[2]
    while name in _UNITS and count % _UNITS[name][1] == 0:
        name, times = _UNITS[name]
        count //= times
    return f"{count}{name}"


def settings_here(
    settings: Mapping[str, str], installations: Collection[Installation], memory_bytes: int
) -> tuple[dict[str, str], list[str]]:
    """Return the settings that servers of these builds can have on a machine with so much memory,
    and notes about the others, and about those that are dangerous."""
    known = {
        name: value
        for name, value in settings.items()
        if matters(name) and re.fullmatch(_VALUE, value, re.ASCII)
    }
    refused = sorted(settings.keys() - known.keys())
    kept, notes = _within(known, memory_bytes)
    if not _accepted(kept, installations):
        refused += [name for name in kept if not _accepted({name: kept[name]}, installations)]
        kept = {name: value for name, value in kept.items() if name not in refused}
    if refused:
        notes.append(f"settings of the source that the clone cannot have: {listed(refused, None)}")
    if switch_of(kept.get("fsync", "on")) is False:
        notes.append("fsync is off, as on the source: a crash of the machine destroys the clone")
    return kept, notes


def _within(settings: Mapping[str, str], memory_bytes: int) -> tuple[dict[str, str], list[str]]:
    """Return the settings with as many shared buffers as the machine can have."""
    wanted = ActiveSettings(settings).size_bytes("shared_buffers")
    most = memory_bytes // MEMORY_SHARE_MAX >> 20 << 20
    if wanted is None or wanted <= most:
        return dict(settings), []
    note = (
        f"shared_buffers is {settings['shared_buffers']} on the source, and {format_size(most)}"
        " here: a quarter of the memory"
    )
    return {**settings, "shared_buffers": f"{most >> 20}MB"}, [note]


def _accepted(settings: Mapping[str, str], installations: Collection[Installation]) -> bool:
    return all(accepts(each, settings) for each in installations)

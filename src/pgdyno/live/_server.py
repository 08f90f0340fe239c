"""Metrics of the server and its machine, ``pgdyno_server_*``, from the rows of the run's probes.

Each metric is an entry here: a column of a table of the run file, its factor to seconds or bytes,
and the labels. A column that a version of the server lacks gives no sample, as does a server that
has not answered for some seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from pgdyno.live._figures import Figures
from pgdyno.record.fileformat import CLIENT_BACKEND
from pgdyno.spec.age import FREEZE_AGES, FREEZE_SETTINGS, STOP_AGE, warning_age

if TYPE_CHECKING:
    from pgdyno.record import RunInfo

FRESH_S = 10.0
"""Age above which a sampling of every second is not shown."""
FRESH_SELDOM_S = 30.0
"""The same of one that is made every ten seconds."""

_MS = 0.001


class Column(Struct, frozen=True):
    """A column as samples of a metric: ``fixed`` labels, and those with the value of a column."""

    name: str
    factor: float = 1.0
    fixed: tuple[str, ...] = ()


class Family(Struct, frozen=True):
    """A metric: its table, column and labels."""

    name: str
    text: str
    kind: Literal["counter", "gauge"]
    table: str
    columns: tuple[Column, ...]
    by: tuple[str, ...] = ()
    """Columns whose values are labels."""
    fixed: tuple[str, ...] = ()
    """Labels whose values each column gives."""
    fresh_s: float = FRESH_S


def _one(
    name: str,
    text: str,
    kind: Literal["counter", "gauge"],
    source: str,
    *by: str,
    factor: float = 1.0,
    fresh_s: float = FRESH_S,
) -> Family:
    """Return a metric of one column, ``table.column``."""
    table, _, column = source.partition(".")
    return Family(name, text, kind, f"metric_{table}", (Column(column, factor),), by, (), fresh_s)


def _several(
    name: str,
    text: str,
    kind: Literal["counter", "gauge"],
    table: str,
    label: str,
    columns: Mapping[str, str],
    *by: str,
    factor: float = 1.0,
) -> Family:
    """Return a metric of several columns; ``columns`` maps a value of ``label`` to each."""
    each = tuple(Column(column, factor, (value,)) for value, column in columns.items())
    return Family(name, text, kind, f"metric_{table}", each, by, (label,))


_ROWS = {"inserted": "tup_inserted", "updated": "tup_updated", "deleted": "tup_deleted"}
_TABLE_ROWS = {"inserted": "n_tup_ins", "updated": "n_tup_upd", "deleted": "n_tup_del"}
_AT = "relation"

FAMILIES = (
    # The database under load.
    _several(
        *("transactions", "Transactions of the database, by outcome", "counter", "database"),
        "outcome",
        {"committed": "xact_commit", "rolled_back": "xact_rollback"},
    ),
    _several(
        *("rows", "Rows written in the database, by operation", "counter", "database"),
        "operation",
        _ROWS,
    ),
    _several(
        *("block_requests", "Blocks that were found in the buffers (hit) or not", "counter"),
        *("database", "where"),
        {"hit": "blks_hit", "read": "blks_read"},
    ),
    _one("temp_bytes", "Bytes of temporary files", "counter", "database.temp_bytes"),
    _one("deadlocks", "Deadlocks", "counter", "database.deadlocks"),
    # Tables.
    _one("table_live_rows", "Live rows, by the statistics", "gauge", "table.n_live_tup", _AT),
    _one("table_dead_rows", "Dead rows, by the statistics", "gauge", "table.n_dead_tup", _AT),
    _one("table_size_bytes", "Heap, TOAST and indexes", "gauge", "table.size_bytes", _AT),
    _several(
        *("table_rows", "Rows written, by operation", "counter", "table", "operation"),
        _TABLE_ROWS,
        _AT,
    ),
    _one("table_hot_updates", "Heap-only updates", "counter", "table.n_tup_hot_upd", _AT),
    _several(
        *("table_vacuums", "Vacuums that ended", "counter", "table", "automatic"),
        {"yes": "autovacuum_count", "no": "vacuum_count"},
        _AT,
    ),
    _several(
        *("table_analyzes", "ANALYZEs that ended", "counter", "table", "automatic"),
        {"yes": "autoanalyze_count", "no": "analyze_count"},
        _AT,
    ),
    _several(
        *("table_xid_age", "Age of the oldest unfrozen transaction ID", "gauge", "table", "of"),
        {"table": "xid_age", "toast": "toast_xid_age"},
        _AT,
    ),
    # Vacuums in progress.
    _several(
        *("vacuum_blocks", "Blocks of the heap of a vacuum in progress", "gauge", "vacuum"),
        "part",
        {
            "all": "heap_blks_total",
            "scanned": "heap_blks_scanned",
            "vacuumed": "heap_blks_vacuumed",
        },
        *(_AT, "phase"),
    ),
    _one(
        *("vacuum_index_passes", "Passes over the indexes of a vacuum in progress", "gauge"),
        *("vacuum.index_vacuum_count", _AT, "phase"),
    ),
    _one(
        "vacuum_cost_delay_seconds",
        "Time that a vacuum in progress has slept by its cost delay",
        "gauge",
        "vacuum.delay_ms",
        *(_AT, "phase"),
        factor=_MS,
    ),
    # Transaction IDs.
    _one("xid_age", "Age of datfrozenxid; includes TOAST", "gauge", "age.xid_age", "database"),
    _one("mxid_age", "Age of datminmxid; includes TOAST", "gauge", "age.mxid_age", "database"),
    _one(
        "oldest_xmin_age",
        "Age of the oldest snapshot, which holds back vacuum",
        "gauge",
        "age.xmin_age",
        *("database", "xmin_holder"),
    ),
    # Buffers, checkpoints, WAL.
    Family(
        "buffers_written",
        "Buffers written, by the process that did; of client backends it is shown until version 16",
        "counter",
        "metric_bgwriter",
        (
            Column("buffers_clean", fixed=("background writer",)),
            Column("buffers_backend", fixed=(CLIENT_BACKEND,)),
        ),
        fixed=("process",),
    ),
    _one("buffers_allocated", "Buffers allocated", "counter", "bgwriter.buffers_alloc"),
    _one(
        "checkpoint_buffers_written",
        "Buffers written by checkpoints",
        "counter",
        "checkpointer.buffers_written",
    ),
    _several(
        *("checkpoints", "Checkpoints, by cause", "counter", "checkpointer", "cause"),
        {"timed": "num_timed", "requested": "num_requested"},
    ),
    _several(
        *("checkpoint_seconds", "Time of checkpoints", "counter", "checkpointer", "part"),
        {"write": "write_time_ms", "sync": "sync_time_ms"},
        factor=_MS,
    ),
    _one("wal_bytes", "WAL written", "counter", "wal.wal_bytes"),
    _one("wal_full_page_images", "Full-page images in the WAL", "counter", "wal.wal_fpi"),
    _several(
        *("io_operations", "Operations of pg_stat_io, from version 16", "counter", "io"),
        "operation",
        {
            "read": "reads", "write": "writes", "extend": "extends", "hit": "hits",
            "eviction": "evictions", "fsync": "fsyncs",
        },
        *("backend_type", "object", "context"),
    ),
    # Sessions.
    _one("sessions", "Sessions of clients, by state", "gauge", "activity.count", "state"),
    _one(
        "transaction_age_longest_seconds",
        "Age of the oldest transaction of a session, by state",
        "gauge",
        "activity.xact_age_ms_max",
        "state",
        factor=_MS,
    ),
    _one("lock_waiters", "Sessions that wait for a lock", "gauge", "lock.waiting"),
    _one(
        "connections_usable",
        "max_connections without those that are reserved",
        "gauge",
        "connection.usable",
        fresh_s=FRESH_SELDOM_S,
    ),
    # Replication.
    _several(
        *("replication_lag_seconds", "Lag of a standby", "gauge", "replication", "stage"),
        {"write": "write_lag_ms", "flush": "flush_lag_ms", "replay": "replay_lag_ms"},
        *("application_name", "state", "sync_state"),
        factor=_MS,
    ),
    _one(
        "replication_lag_bytes",
        "WAL that a standby has not replayed",
        "gauge",
        "replication.lag_bytes",
        *("application_name", "state", "sync_state"),
    ),
    _one("slot_active", "1 if a replication slot is used", "gauge", "slot.active", "slot_name"),
    _one(
        "slot_safe_wal_bytes",
        "WAL until a replication slot may be lost",
        "gauge",
        "slot.safe_wal_bytes",
        "slot_name",
    ),
    # The machine.
    _one("filesystem_free_bytes", "Free space", "gauge", "space.free_bytes", "holds"),
    _one("filesystem_size_bytes", "Size", "gauge", "space.size_bytes", "holds"),
    _one("wal_directory_bytes", "Size of the WAL on disk", "gauge", "space.wal_dir_bytes"),
    _several(
        *("host_cpu_seconds", "CPU time of the machine", "counter", "host", "mode"),
        {
            "user": "cpu_user_ms", "system": "cpu_system_ms", "iowait": "cpu_iowait_ms",
            "steal": "cpu_steal_ms", "idle": "cpu_idle_ms",
        },
        factor=_MS,
    ),
    _one("host_dirty_bytes", "Dirty pages of the machine", "gauge", "host.dirty_bytes"),
    _several(
        *("disk_bytes", "Bytes read and written by a disk", "counter", "disk", "operation"),
        {"read": "read_bytes", "write": "write_bytes"},
        *("device", "holds"),
    ),
    _one("disk_busy_seconds", "Time in which a disk had work", "counter", "disk.busy_ms", "device",
         factor=_MS),
)  # fmt: skip


def server_families(figures: Figures, run: RunInfo) -> Iterator[Metric]:
    """Yield the metrics of the server; those without a sample are left out."""
    for family in FAMILIES:
        metric = _empty(family)
        # Of rows with the same labels, such as standbys of one name, the first is shown.
        for labels, value in _samples(family, figures).items():
            metric.add_metric(labels, value)
        if metric.samples:
            yield metric
    yield from _derived(figures, run)
    answering = bool(figures.latest("metric_activity", FRESH_S))
    yield GaugeMetricFamily(
        "pgdyno_server_up", "1 if the server answered the probes lately", int(answering)
    )


def _samples(family: Family, figures: Figures) -> dict[tuple[str, ...], float]:
    """Return labels → value."""
    values: dict[tuple[str, ...], float] = {}
    for row in figures.latest(family.table, family.fresh_s):
        labels = [str(row.get(name) or "") for name in family.by]
        for column in family.columns:
            if row.get(column.name) is not None:
                values.setdefault((*column.fixed, *labels), row[column.name] * column.factor)
    return values


def _empty(family: Family) -> CounterMetricFamily | GaugeMetricFamily:
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    labels = [_LABELS.get(name, name) for name in (*family.fixed, *family.by)]
    return kind(f"pgdyno_server_{family.name}", family.text, labels=labels)


_LABELS = {"xmin_holder": "holder"}


def _derived(figures: Figures, run: RunInfo) -> Iterator[Metric]:
    """Yield the calculated metrics: the share of dead rows, progress, and transaction IDs left."""
    tables = figures.latest("metric_table", FRESH_S)
    vacuums = figures.latest("metric_vacuum", FRESH_S)
    yield from _ratio("table_dead_ratio", "Dead rows of all rows", tables, _dead_ratio)
    yield from _ratio(
        "vacuum_scanned_ratio", "Part of the heap that a vacuum has scanned", vacuums, _scanned
    )
    settings = run.server.get("settings", {})
    freeze_age = int(settings.get(FREEZE_SETTINGS["xid"], FREEZE_AGES["xid"]))
    limits = {
        "forced autovacuum": freeze_age,
        "warning": warning_age(int(run.server.get("version_num") or 0)),
        "stop": STOP_AGE,
    }
    left = GaugeMetricFamily(
        "pgdyno_server_xids_left",
        "Transaction IDs until a limit is reached; includes TOAST",
        labels=("database", "until"),
    )
    for row in figures.latest("metric_age", FRESH_S):
        for until, age in limits.items():
            left.add_metric((row["database"], until), age - row["xid_age"])
    of_tables = GaugeMetricFamily(
        "pgdyno_server_table_xids_left",
        "Transaction IDs until autovacuum is forced, of a table with and without its TOAST table",
        labels=(_AT, "of"),
    )
    for row in tables:
        if row.get("xid_age") is not None:
            toast = row.get("toast_xid_age")
            with_toast = max(row["xid_age"], toast or 0)
            of_tables.add_metric((row[_AT], "table"), freeze_age - row["xid_age"])
            of_tables.add_metric((row[_AT], "table and toast"), freeze_age - with_toast)
    yield from (each for each in (left, of_tables) if each.samples)


def _ratio(
    name: str, text: str, rows: Sequence[Mapping[str, Any]], ratio: _Ratio
) -> Iterator[Metric]:
    metric = GaugeMetricFamily(f"pgdyno_server_{name}", text, labels=(_AT,))
    for row in rows:
        value = ratio(row)
        if value is not None:
            metric.add_metric((row[_AT],), value)
    if metric.samples:
        yield metric


class _Ratio:
    """A part of a whole, both sums of columns of a row."""

    def __init__(self, part: str, *whole: str) -> None:
        self._part, self._whole = part, whole

    def __call__(self, row: Mapping[str, Any]) -> float | None:
        """Return it, None without a whole."""
        whole = sum(row[name] or 0 for name in self._whole)
        return (row[self._part] or 0) / whole if whole else None


_dead_ratio = _Ratio("n_dead_tup", "n_dead_tup", "n_live_tup")
_scanned = _Ratio("heap_blks_scanned", "heap_blks_total")

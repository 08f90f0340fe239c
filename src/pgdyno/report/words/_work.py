"""Work of the server while some slices lasted, which two runs of the same load may differ in: CPU
time, WAL, reads and writes, vacuums, transaction IDs, and the statements that the run executed
beside its load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pgdyno import numbers
from pgdyno.facts.slices import Facts
from pgdyno.spec.age import STOP_AGE

if TYPE_CHECKING:
    from pgdyno.record import RunFile


def work_of(run: RunFile, slice_ids: Sequence[int] | None) -> dict[str, float]:
    """Return the figures that are known, by their names; of the whole run without ``slice_ids``."""
    ids = [part.id for part in run.slices()] if slice_ids is None else [*slice_ids]
    return {name: numbers.rounded(value) for name, value in _figures(run, ids) if value is not None}


def _figures(run: RunFile, ids: list[int]) -> Iterator[tuple[str, float | None]]:
    facts, seconds, done = Facts(run, ids), run.seconds(ids), run.ledger(ids).done
    if not seconds or not done:
        return
    cores, wal_bytes = facts.server_cores, run.delta("metric_wal", "wal_bytes", ids)
    yield "server_cores", cores
    if cores is not None:
        yield "server_cpu_us_per_transaction", cores * seconds * 1e6 / done
    yield "generator_cores", facts.generator_cores
    if wal_bytes is not None:
        yield "wal_bytes_s", wal_bytes / seconds
        yield "wal_bytes_per_transaction", wal_bytes / done
    disks = {"device": _its_disks(run, ids)}
    for column in ("read_bytes", "write_bytes"):
        moved = run.delta("metric_disk", column, ids, where=disks)
        yield f"disk_{column}_s", None if moved is None else moved / seconds
    yield "vacuums", run.delta("metric_table", "vacuum_count", ids)
    yield "autovacuums", run.delta("metric_table", "autovacuum_count", ids)
    database = {"database": run.run.server.get("database")}
    aged = run.delta("metric_age", "xid_age", ids, where=database)
    if aged is not None and aged > 0:  # A freeze within the run makes the database younger.
        yield "transaction_ids_s", aged / seconds
        yield "days_until_ids_stop", STOP_AGE * seconds / aged / 86_400


def _its_disks(run: RunFile, ids: list[int]) -> list[str]:
    """Return the disks that hold the server's data or WAL."""
    disks = run.series("metric_disk", ids)
    of_disks = zip(disks["device"], disks["holds"], strict=True)
    return sorted({str(name) for name, holds in of_disks if holds})


def statements_beside(run: RunFile, slice_ids: Sequence[int] | None) -> dict[str, float]:
    """Return the milliseconds that each statement took which the run executed as an event; the mean
    of those with the same text."""
    took: dict[str, list[float]] = {}
    for event in run.events("sql"):
        if event.duration_ms is not None and (slice_ids is None or event.slice_id in slice_ids):
            took.setdefault(event.label, []).append(event.duration_ms)
    return {label: numbers.rounded(sum(times) / len(times)) for label, times in took.items()}

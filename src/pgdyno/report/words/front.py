"""Words for a front end: what it is, one line a second of what it does, and one for a run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pgdyno import numbers
from pgdyno.json_types import Json
from pgdyno.record import RunFile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pgdyno.results.front import FrontReading


def introduction(
    url: str, parts: Mapping[str, str], pages: Mapping[str, str], pool: Json
) -> Iterator[str]:
    """Yield the lines that introduce a front end; ``pool`` are the gauges of its pool."""
    yield url
    for path, title in pages.items():
        yield f"  {path:<10} {title}"
    wait = "without limit" if pool["wait_ms_max"] < 0 else f"at most {pool['wait_ms_max']:,} ms"
    yield (
        f"{parts['pool']}: at most {pool['max']} connections, {pool['idle_max']} kept idle; a"
        f" request waits {wait} for one"
    )
    yield f"Tomcat {parts['tomcat']}, pgjdbc {parts['pgjdbc']}, Java {parts['java']}"


def line(reading: FrontReading) -> str:
    """Return the line of an interval."""
    pool, threads = reading.pool, reading.connector
    figures = [
        _requests(reading),
        f"{pool.active} of {pool.max} connections in use",
        f"{pool.waiting} waiting" if pool.waiting else "",
        f"{pool.refused} without one in time" if pool.refused else "",
        f"{pool.created} made" if pool.created else "",
        f"{threads.threads_busy} of {threads.threads_max} threads busy",
        f"{threads.queue} requests without a thread" if threads.queue else "",
        f"{reading.jvm.cores:.2f} cores",
    ]
    return f"{reading.at_s:7.1f} s  {', '.join(figure for figure in figures if figure)}"


def _requests(reading: FrontReading) -> str:
    times = reading.times
    if times is None:
        return "no requests"
    failed = f", {reading.failed:,} failed" if reading.failed else ""
    return (
        f"{reading.requests_s:,.0f} requests/s{failed}: pool {times.pool_ms:.1f} ms, database"
        f" {times.database_ms:.1f} ms, application {times.application_ms:.1f} ms"
    )


def run_words(run: RunFile, slice_ids: Collection[int] | None) -> str:
    """Return the figures of a run's front end as a sentence; '' without one, or if not recorded."""
    if not run.has_samples("metric_front", slice_ids):
        return ""
    rows = run.series("metric_front", slice_ids)
    machine = run.series("metric_jvm", slice_ids)
    return "; ".join([*_pool(rows), *_threads(rows), *_cores(machine)])


def _pool(rows: Mapping[str, NDArray[Any]]) -> Iterator[str]:
    import numpy as np

    if not _known(rows, "pool_active"):
        return
    lent = (
        f"on average {_mean(rows, 'pool_active')} of {_mean(rows, 'pool_max')} connections of its"
        " pool lent"
    )
    if not _known(rows, "pool_waiting"):
        yield lent
        return
    most = np.nanmax(rows["pool_waiting"])
    yield (f"{lent}, {_mean(rows, 'pool_waiting')} requests waiting for one, at most {most:.0f}")


def _threads(rows: Mapping[str, NDArray[Any]]) -> Iterator[str]:
    if _known(rows, "threads_busy"):
        yield f"{_mean(rows, 'threads_busy')} of {_mean(rows, 'threads_max')} threads busy"


def _known(rows: Mapping[str, NDArray[Any]], column: str) -> bool:
    """True if at least one reading has it: a web server of the user's may not tell."""
    import numpy as np

    return not bool(np.isnan(rows[column].astype(float)).all())


def _mean(rows: Mapping[str, NDArray[Any]], column: str) -> str:
    import numpy as np

    return numbers.significant(float(np.nanmean(rows[column])), 3)


def _cores(machine: Mapping[str, NDArray[Any]]) -> Iterator[str]:
    import numpy as np

    seconds = float(np.ptp(machine["at_ms"])) / 1000 if len(machine["at_ms"]) > 1 else 0.0
    if seconds:
        cores = float(np.ptp(machine["cpu_ms"])) / 1000 / seconds
        collecting = float(np.ptp(machine["collection_ms"])) / 1000 / seconds
        yield (
            f"{numbers.significant(cores, 2)} cores, {numbers.percent(collecting)} of the time in"
            " garbage collection"
        )

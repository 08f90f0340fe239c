"""The web front end that pgdyno started, while some slices lasted, by its own counts.

Slices may differ in it, so it is that of the spec with their change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import fields

from pgdyno.dimension import fields_with
from pgdyno.record.finding import Skip
from pgdyno.spec.front import (
    OWN_MAX,
    PREPARE_THRESHOLD_DEFAULT,
    THREADS_DEFAULT,
    TITLES,
    own_name,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pgdyno.record import RunFile
    from pgdyno.spec.change import Change


NO_FRONT = "pgdyno started no web application"


class FrontInForce(Struct, frozen=True):
    """A front end that pgdyno started."""

    pool: str
    pool_max: int
    threads_max: int
    prepares_from: int
    """Executions from which on its driver keeps a statement prepared; 0: never."""
    rewrites_batches: bool
    """True if its driver makes statements of several rows out of a batch of inserts."""

    @property
    def pool_title(self) -> str:
        """The pool's own name."""
        return TITLES[self.pool]

    @property
    def size_name(self) -> str:
        """Name that the pool has for its size, as ``maxTotal``."""
        return own_name(self.pool, "max_total")


class PageLoad(Struct, frozen=True):
    """A page of the front end; means of its requests."""

    path: str
    requests_s: float
    took_ms: float
    pool_ms: float
    database_ms: float
    statements: float
    batched_rows: float
    """Rows of statements that are batches."""

    @property
    def application_ms(self) -> float:
        """Time in the application itself."""
        return max(0.0, self.took_ms - self.pool_ms - self.database_ms)


class FrontLoad(Struct, frozen=True):
    """Work of the front end: means of its requests, and averages over time."""

    pages: tuple[PageLoad, ...]
    pool_max: float
    pool_active: float
    """Connections lent."""
    pool_kept: float
    """Of these, borrowed by requests that have ended, and never returned."""
    pool_refused_s: float
    """Requests for which no connection was had in time, per second."""
    pool_created_s: float
    threads_max: float
    threads_busy: float
    queue: float
    """Requests that wait for a thread."""
    clients: float
    """Connections of clients that it has accepted."""
    clients_max: float
    """The most that it accepts."""
    unaccepted: float
    """Connections that wait to be accepted: the median of the looks in the second half, as those
    that it is about to accept are there for moments; NaN if the kernel did not tell."""
    jvm_cores: float
    """Cores that the virtual machine kept busy."""
    collecting: float
    """Part of the time in which the garbage collector stopped the application."""
    heap_share: float
    """Part of the heap in use."""

    @property
    def requests_s(self) -> float:
        """Requests per second."""
        return sum(page.requests_s for page in self.pages)

    @property
    def batched_rows_s(self) -> float:
        """Rows per second that batches insert."""
        return sum(page.requests_s * page.batched_rows for page in self.pages)

    def mean(self, name: str) -> float:
        """Return the mean of an attribute of the pages over all requests."""
        total = sum(page.requests_s * getattr(page, name) for page in self.pages)
        return float(total / self.requests_s)

    @property
    def pool_in_use(self) -> float:
        """Part of the pool that is lent: as seen, or by Little's law for the time that requests
        used their connection, if that is more, as a few looks may have met returns."""
        used_ms = self.mean("database_ms") + self.mean("application_ms")
        by_time = self.requests_s * used_ms / 1000
        return min(1.0, max(self.pool_active, by_time) / self.pool_max)

    @property
    def threads_in_use(self) -> float:
        """Part of the threads that are busy, in the same way."""
        by_time = self.requests_s * self.mean("took_ms") / 1000
        return min(1.0, max(self.threads_busy, by_time) / self.threads_max)

    @property
    def waiting(self) -> float:
        """Requests that wait for a connection, by Little's law."""
        return self.requests_s * self.mean("pool_ms") / 1000


class ForeignFront(Struct, frozen=True):
    """Figures of a web server of the user's; None: it does not tell. Each is the median of the
    looks, as a few of them may have met returns, but those who wait."""

    pool_max: float | None
    pool_active: float | None
    pool_waiting: float | None
    """On average, as Little's law has it."""
    threads_max: float | None
    threads_busy: float | None


def foreign_front(run: RunFile, slice_ids: list[int]) -> ForeignFront | None:
    """Return the figures of a web server of the user's in the slices; None without any."""
    series = run.series("metric_front", slice_ids)
    if not len(series["at_ms"]):
        return None
    return ForeignFront(**{each.name: _usual(series, each.name) for each in fields(ForeignFront)})


def _usual(series: Mapping[str, NDArray[Any]], column: str) -> float | None:
    import numpy as np

    known = series[column][~np.isnan(series[column].astype(float))]
    if not len(known):
        return None
    return float(known.mean() if column == "pool_waiting" else np.median(known))


def front_of(run: RunFile, change: Change) -> FrontInForce | None:
    """Return the front end that pgdyno started for slices with ``change``; None without one."""
    table = fields_with(run.run.spec, change).get("front")
    if not table:
        return None
    pool = table.get("pool") or "dbcp2"
    size = table.get("max_total") or OWN_MAX[pool]
    threads = table.get("threads") or THREADS_DEFAULT
    executions = table.get("prepare_threshold")
    prepares_from = PREPARE_THRESHOLD_DEFAULT if executions is None else int(executions)
    rewrites = bool(table.get("rewrite_batched_inserts"))
    return FrontInForce(pool, int(size), int(threads), prepares_from, rewrites)


def front_load(run: RunFile, slice_ids: list[int]) -> FrontLoad:
    """Return the front end's counts in the slices. Raises Skip if it was not read twice in one."""
    import numpy as np

    front = run.series("metric_front", slice_ids)
    jvm = run.series("metric_jvm", slice_ids)
    seconds = _seconds(front)
    by_page = run.series("metric_front_page", slice_ids)
    pages = tuple(_pages(by_page, seconds)) if seconds else ()
    if not pages:
        raise Skip("the front end's own counts were not recorded, or it had no request")
    return FrontLoad(
        pages=pages,
        pool_max=float(front["pool_max"].mean()),
        pool_active=float(front["pool_active"].mean()),
        pool_kept=_kept(by_page),
        pool_refused_s=_risen(front, "pool_refused") / seconds,
        pool_created_s=_risen(front, "pool_created") / seconds,
        threads_max=float(front["threads_max"].mean()),
        threads_busy=float(np.nan_to_num(front["threads_busy"]).mean()),
        queue=float(np.nan_to_num(front["connector_queue"]).mean()),
        clients=float(front["connections_open"].mean()),
        clients_max=float(front["connections_max"].mean()),
        unaccepted=float(np.median(front["accept_queue"][len(front["accept_queue"]) // 2 :])),
        jvm_cores=_risen(jvm, "cpu_ms") / 1000 / seconds,
        collecting=_risen(jvm, "collection_ms") / 1000 / seconds,
        heap_share=float((jvm["heap_bytes"] / jvm["heap_bytes_max"]).mean()),
    )


def _kept(by_page: Mapping[str, NDArray[Any]]) -> float:
    """Return how many connections were kept at the end, over all pages."""
    last = by_page["at_ms"] == by_page["at_ms"].max()
    return float(by_page["kept"][last].sum())


def _seconds(series: Mapping[str, NDArray[Any]]) -> float:
    """Return the time between the first and the last reading of each slice, together."""
    return _risen(series, "at_ms") / 1000


def _risen(series: Mapping[str, NDArray[Any]], column: str) -> float:
    """Return the increase of a count within each slice, summed."""
    import numpy as np

    total = 0.0
    for slice_id in np.unique(series["slice_id"]):
        values = series[column][series["slice_id"] == slice_id]
        steps = np.diff(values.astype(float))
        total += float(steps[steps > 0].sum())
    return total


def _pages(series: Mapping[str, NDArray[Any]], seconds: float) -> list[PageLoad]:
    pages = []
    for path in sorted(set(series["page"])):
        mine = {name: column[series["page"] == path] for name, column in series.items()}
        if requests := _risen(mine, "requests"):
            each = {
                name: _risen(mine, name) / requests
                for name in ("took_ms", "pool_ms", "database_ms", "statements", "batched_rows")
            }
            pages.append(PageLoad(path=str(path), requests_s=requests / seconds, **each))
    return pages


def database_in_service(load: FrontLoad, at_work: float, for_clients: float) -> float:
    """Return the connections that wait for the database on average, by Little's law, or as many
    sessions as were seen ``at_work``, if that is more.

    Of those seen waiting ``for_clients``, as many are the application's own time between two
    statements as it took by its own count.
    """
    asked = load.requests_s * load.mean("database_ms") / 1000
    own = load.requests_s * load.mean("application_ms") / 1000
    return max(asked, at_work - min(for_clients, own))

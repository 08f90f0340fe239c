"""Latencies of a run file: histograms merged over intervals, groups and scripts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from pgdyno.record._database import RunDatabase, clause
from pgdyno.record._distribution import BEYOND_MIN, beyond

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pgdyno._engine import Histogram

ScriptKind = Literal["response", "wait", "client_lag", "pool_wait", "connect", "service"]
ConnectKind = Literal["tcp", "tls", "auth", "ready", "total"]
HistogramKind = ScriptKind | ConnectKind | Literal["silence", "send_late"]

_Read = TypeVar("_Read")


class LatencyReader:
    """The part of a run file's reader for histograms."""

    def __init__(self, db: RunDatabase) -> None:
        self._db = db
        self._version = -1
        self._read: dict[tuple[Any, ...], Any] = {}

    def histogram(
        self,
        kind: HistogramKind,
        slice_ids: Collection[int] | None = None,
        group: str | None = None,
        script: str | None = None,
    ) -> Histogram:
        """Return all latencies of one kind, merged; empty if there are none.

        Phases of connecting are not recorded by script, nor is ``silence``, that of connections
        until they were closed from the other side; ``send_late``, the lateness of the load engine,
        is recorded neither by script nor by group.
        """
        from pgdyno._engine import Histogram

        table = _table_of(kind)
        only = {"slice_id": slice_ids, "client_group": group, "script": script}
        condition, values = clause(table, only, skip_none=True)
        sql = f"select {kind}_hist from {table} {condition}"
        merged = self._cached(
            (sql, *values), lambda: self._merged(blob for (blob,) in self._db.tuples(sql, values))
        )
        copy = Histogram()
        copy.add(merged)
        return copy

    def latency_series(
        self,
        kind: HistogramKind,
        percentiles: Sequence[float] = (50, 95, 99),
        slice_ids: Collection[int] | None = None,
        *,
        group: str | None = None,
        script: str | None = None,
        points_max: int = 2000,
        enough_only: bool = False,
    ) -> dict[str, NDArray[np.float64]]:
        """Return percentiles over time, in ms: at_ms, slice_id and p50, p99, … (``max`` for 100).

        Adjacent intervals of a slice are merged if there are more than ``points_max``. NaN stands
        for an interval in which nothing ended and, with ``enough_only``, for a percentile with too
        few samples beyond it (see ``Distribution``).
        A long run, whose histograms are rolled up more coarsely than its counts, has fewer points
        than intervals.
        """
        import numpy as np

        table = _table_of(kind)
        only = {"slice_id": slice_ids, "client_group": group, "script": script}
        condition, values = clause(table, only, skip_none=True)
        source = f"from {table} {condition or 'where true'} and length({kind}_hist) > 0"
        points = self._points(source, values, f"{kind}_hist", points_max)
        names = ["max" if p == 100 else f"p{p:g}" for p in percentiles]
        columns: dict[str, list[float]] = {name: [] for name in ("at_ms", "slice_id", *names)}
        for at_ms, slice_id, total in points:
            columns["at_ms"].append(at_ms)
            columns["slice_id"].append(np.nan if slice_id is None else slice_id)
            for name, p in zip(names, percentiles, strict=True):
                least = BEYOND_MIN if enough_only else 0
                enough = total.count and beyond(total.count, p) >= least
                columns[name].append(total.percentile(p) / 1e6 if enough else np.nan)
        return {name: np.array(column, dtype=float) for name, column in columns.items()}

    def _points(
        self, source: str, values: Sequence[Any], column: str, points_max: int
    ) -> Iterator[tuple[int, int | None, Histogram]]:
        """Yield (at_ms, slice_id, merged histogram) in time order, at most about ``points_max``."""
        ((count,),) = self._db.tuples(
            f"select count(*) from (select distinct at_ms, slice_id {source})", values
        )
        stride = max(1, -(-count // points_max))
        rows = self._db.tuples(
            f"select at_ms, slice_id, {column} {source} order by at_ms, slice_id", values
        )
        point: tuple[int, int | None, list[bytes], set[int]] | None = None
        for at_ms, slice_id, blob in rows:
            full = point is not None and (
                slice_id != point[1] or (at_ms not in point[3] and len(point[3]) == stride)
            )
            if point is None or full:
                if point is not None:
                    yield point[0], point[1], self._merged(point[2])
                point = (at_ms, slice_id, [], set())
            point[2].append(blob)
            point[3].add(at_ms)
        if point is not None:
            yield point[0], point[1], self._merged(point[2])

    def _merged(self, encoded: Iterable[bytes]) -> Histogram:
        """Return the sum of encoded histograms. UsageError if one is damaged."""
        from pgdyno._engine import EngineError, Histogram

        total = Histogram()
        try:
            for blob in filter(None, encoded):  # an empty blob is an empty histogram
                total.add_encoded(blob)
        except (EngineError, TypeError) as error:
            raise self._db.damaged(f"a histogram in it cannot be read: {error}") from error
        return total

    def _cached(self, key: tuple[Any, ...], make: Callable[[], _Read]) -> _Read:
        """Return the result of ``make``, cached until the file changes.

        A report needs the same histograms and intervals repeatedly, and most of its time is spent
        merging and decoding them.
        """
        version = self._db.version()
        if version != self._version:
            self._version = version
            self._read.clear()
        if key not in self._read:
            self._read[key] = make()
        found: _Read = self._read[key]
        return found


def _table_of(kind: HistogramKind) -> str:
    """Return the table that has the histograms of this kind."""
    if kind == "send_late":
        return "metric_generator"
    of_groups = (*get_args(ConnectKind), "silence")
    return "group_interval" if kind in of_groups else "interval"

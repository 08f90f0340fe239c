"""Samples of a run file: what probes and the load engine recorded over time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from pgdyno.json_types import Row
from pgdyno.record import fileformat
from pgdyno.record._database import RunDatabase, array, clause, columns_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

Series: TypeAlias = "dict[str, NDArray[Any]]"
"""Columns of a time series by name, in time order."""


class Samples:
    """The part of a run file's reader for tables with a column at_ms."""

    def __init__(self, db: RunDatabase) -> None:
        self._db = db

    def series(
        self,
        table: str,
        slice_ids: Collection[int] | None = None,
        where: Mapping[str, object] | None = None,
    ) -> Series:
        """Return the columns of a ``metric_*`` table, or another with at_ms, in time order.

        at_ms is int64; other numbers are float64 with NaN for NULL, text is an object array.
        ``where`` maps a column to a value, to a list of values, or to None for NULL.
        """
        types, rows = self._selected(table, slice_ids, where)
        with self._db.reading():
            columns = zip(*rows, strict=True) if rows else ((),) * len(types)
            return {
                name: array(column, "at_ms" if name == "at_ms" else kind)
                for (name, kind), column in zip(types.items(), columns, strict=True)
            }

    def samples(
        self,
        table: str,
        slice_ids: Collection[int] | None = None,
        where: Mapping[str, object] | None = None,
    ) -> list[Row]:
        """Return the values of ``series`` as rows, with None for NULL. Needs no numpy, whose
        import takes longer than a short run is read."""
        types, rows = self._selected(table, slice_ids, where)
        with self._db.reading():
            return [
                {
                    name: _value(value, "at_ms" if name == "at_ms" else kind)
                    for (name, kind), value in zip(types.items(), row, strict=True)
                }
                for row in rows
            ]

    def has_samples(self, table: str, slice_ids: Collection[int] | None = None) -> bool:
        """True if a table has rows of these slices."""
        condition, values = clause(table, {"slice_id": slice_ids}, skip_none=True)
        query = f"select exists (select 1 from {table} {condition})"
        ((found,),) = self._db.tuples(query, values)
        return bool(found)

    def _selected(
        self, table: str, slice_ids: Collection[int] | None, where: Mapping[str, object] | None
    ) -> tuple[dict[str, str], list[tuple[Any, ...]]]:
        """Return the columns of a time series with their types, and its rows in time order."""
        types = dict(columns_of(table))
        if "at_ms" not in types:
            raise ValueError(f"table {table} is not a time series")
        only = {**({} if slice_ids is None else {"slice_id": slice_ids}), **(where or {})}
        condition, values = clause(table, only)
        query = f"select {', '.join(types)} from {table} {condition} order by at_ms, rowid"
        return types, self._db.tuples(query, values)

    def delta(
        self,
        table: str,
        column: str,
        slice_ids: Collection[int] | None = None,
        where: Mapping[str, object] | None = None,
    ) -> float | None:
        """Return the increase of a column within each slice, summed over slices and keys.

        Key columns (relation, device, backend_type, …) not fixed by ``where`` are summed over.
        A counter decreases when it is reset or a process ends: a decrease counts as 0. For a gauge
        the increase is last minus first. None if all values are NULL, or it was never read twice.
        """
        types = columns_of(table)
        if types.get(column) not in ("integer", "real"):
            raise ValueError(f"table {table} has no numeric column {column!r}")
        only = {**({} if slice_ids is None else {"slice_id": slice_ids}), **(where or {})}
        condition, values = clause(table, only)
        keys = ", ".join(("slice_id", *fileformat.KEY_COLUMNS.get(table, ())))
        floor = "" if column in fileformat.GAUGES else "max(0, "
        ((rise,),) = self._db.tuples(
            f"""
            select sum({floor}{column} - earlier{")" if floor else ""}) from (
                select {column},
                    lag({column}) over (partition by {keys} order by at_ms, rowid) as earlier
                from {table} {condition} {"and" if condition else "where"} {column} is not null
            ) where earlier is not null
            """,
            values,
        )
        return None if rise is None else float(rise)


def _value(value: Any, kind: str) -> Any:
    """Return a value with the type that ``array`` gives it."""
    if kind == "at_ms":
        return int(value)
    return float(value) if kind in ("integer", "real") and value is not None else value

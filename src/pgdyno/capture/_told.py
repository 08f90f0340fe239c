"""Figures of columns that the statements of a load tell, where no statistics can be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec.structs import replace

from pgdyno.clone.capture_file import Table
from pgdyno.clone.keys import Place


def with_told(
    tables: tuple[Table, ...],
    name: Literal["distinct", "null_share", "width_bytes"],
    told: Mapping[Place, float],
) -> tuple[Table, ...]:
    """Return the tables with one of the figures of their columns, where it is told."""

    def changed(table: Table) -> Table:
        columns = (
            replace(each, **{name: told[place]})
            if (place := (table.full_name, each.name)) in told
            else each
            for each in table.columns
        )
        return replace(table, columns=tuple(columns))

    return tuple(map(changed, tables))

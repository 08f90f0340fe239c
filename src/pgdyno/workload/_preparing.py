"""Progress, limits and result of preparing tables of any kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pgdyno.errors import UsageError
from pgdyno.workload.table_space import TableSpace

Progress = Callable[[str, int, int], None]
"""Called with a label, the amount done and the total amount."""
CheckTableSpace = Callable[[TableSpace], None]
"""Called before tables are made; raises SetupError if they would not fit."""


@dataclass
class Prepared:
    """The prepared tables."""

    scale: int
    """Scale of pgbench's tables; without them, the value of the scripts' variable."""
    tables: str | None = None
    """``made`` for this run, ``kept`` from an earlier one, or ``theirs``; ``None``: not known."""
    notes: list[str] = field(default_factory=list)
    """Notes for the user about the tables."""


def require_scale(saved: int, wanted: int) -> None:
    """Raise UsageError if the tables of a saved state have another scale than the one wanted."""
    if saved != wanted:
        raise UsageError(
            f"the snapshot has tables of scale {saved:,}, and scale {wanted:,} was requested",
            code="snapshot-scale",
            hint="leave the scale out, or save another snapshot",
        )

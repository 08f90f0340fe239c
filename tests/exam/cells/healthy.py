"""Loads that no fault limits: rates that the server holds, and clients that rest."""

from __future__ import annotations

from exam.model import BLAMES_NOTHING, SCENARIOS, Cause, Cell
from exam.proofs import nothing_injected

CELL = Cell(
    "healthy",
    tuple(
        Cause(path.stem, BLAMES_NOTHING, nothing_injected, healthy=True)
        for path in sorted((SCENARIOS / "healthy").glob("*.toml"))
    ),
)

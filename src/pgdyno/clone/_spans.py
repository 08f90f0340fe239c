"""Parts of the transactions that execute a statement, as shares between which they are: a row that
one of them makes is not there in others."""

from __future__ import annotations

from pgdyno.clone._shares import SHARES


class Spans:
    """The part that executes the statement of the moment, and those that make rows."""

    def __init__(self) -> None:
        self.now = (0.0, 1.0)
        self._made: dict[str, tuple[float, float]] = {}

    def turn(self, name: str | None, turn: int, *, is_made: bool) -> int:
        """Return the turn under which the part knows a key, by the variable of a new row: those
        behind a first one are made in some transactions, and others have rows that are there in
        their place, below zero. The statement of the moment may be what makes it."""
        if name is None or not turn:
            return turn
        least, most = self._made.get(name, self.now if is_made else (0.0, 1.0))
        if is_made:
            self._made[name] = least, most = min(least, self.now[0]), max(most, self.now[1])
        before, behind = least - self.now[0], self.now[1] - most
        return -turn if round(SHARES * max(before, behind)) > 0 else turn

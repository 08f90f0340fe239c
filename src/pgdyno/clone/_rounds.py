"""The loop in which statements are executed: which rows each of its rounds names."""

from __future__ import annotations

from msgspec import Struct

from pgdyno.clone.keys import Keys


class Rounds(Struct, frozen=True):
    """Times that statements are executed in a loop."""

    most: int
    text: str
    """The number, or the variable that has it."""

    def one_of(self, count: int, skew: float | None = None) -> str:
        """Return the expression of one of so many numbers from 0, all alike or with the exponent of
        a Zipf distribution. Those of later rounds are higher, so that no two transactions wait for
        each other."""
        if self.most == 1:
            return f"{Keys.skewed(count, skew)} - 1" if skew else f"random(0, {count - 1})"
        least = f"(:round - 1) * {count} / {self.text}"
        if count < self.most:
            return least
        if skew:
            return f"{least} + {Keys.skewed(count // self.most, skew)} - 1"
        return f"random({least}, :round * {count} / {self.text} - 1)"

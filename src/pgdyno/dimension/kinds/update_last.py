"""The update of a table as the last statement of its transactions: other scripts for the load."""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno.dimension._dimension import KeyDimension
from pgdyno.json_types import Fields
from pgdyno.spec import Change

_KEY = "workload.update_last"


class UpdateLast(KeyDimension):
    """The key ``workload.update_last``."""

    id = "update last"
    order = 65

    def owns(self, key: str) -> bool:
        """True if it is the key of this dimension."""
        return key == _KEY

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``counters updated last``."""
        return [f"{table} updated last" for table in self.mine(change).values()]


DIMENSION = UpdateLast()

"""The governor of a run: only chapters of a story that are runs differ in it."""

from __future__ import annotations

from pgdyno.dimension._dimension import Context, KeyDimension
from pgdyno.errors import UsageError
from pgdyno.spec import Change


class Governor(KeyDimension):
    """The keys ``govern.…``."""

    id = "govern"
    order = 190
    keys = ""  # No comparison or investigation takes it.

    def owns(self, key: str) -> bool:
        """Return whether it is a key of this dimension."""
        return key.startswith("govern.")

    def provide(self, change: Change, context: Context, *, under_load: bool) -> None:
        """Refuse slices that differ in it: a governor remembers what it has decided."""
        if self.mine(change):
            raise UsageError(
                "the slices of a trial cannot differ in their governor, whose pauses last as long"
                " as the age of the server says",
                code="govern-in-trial",
                hint="use chapters of a story that are runs, as scenarios/wraparound-day.toml does",
            )


DIMENSION = Governor()

"""The search for the largest storm that is survived: doubling, then bisection.

A storm that is not survived is made once more, and counts only if that one is not either: one
stall of the machine is no limit of the server.
"""

from __future__ import annotations

from collections import defaultdict

FIRST_SHARE = 16
"""The first storm has this part of the most clients."""
GAP_MAX = 1.25
"""Ratio of the largest survived to the smallest that was not, at which the search ends."""
FAILURES_MIN = 2


class StormSearch:
    """A search: the size of the next storm, and the answer by those made."""

    def __init__(self, clients_max: int) -> None:
        self.clients_max = clients_max
        self._outcomes: dict[int, list[bool]] = defaultdict(list)

    def add(self, clients: int, survived: bool) -> None:
        """Take note of a storm."""
        self._outcomes[clients].append(survived)

    @property
    def survived(self) -> int | None:
        """The largest storm that was survived, below every one that was not."""
        good = [each for each, outcomes in self._outcomes.items() if any(outcomes)]
        below = [each for each in good if self.failed is None or each < self.failed]
        return max(below, default=None)

    @property
    def failed(self) -> int | None:
        """The smallest storm that was not survived, twice."""
        return min(
            (
                each
                for each, outcomes in self._outcomes.items()
                if not any(outcomes) and len(outcomes) >= FAILURES_MIN
            ),
            default=None,
        )

    def next(self) -> int | None:
        """Return the clients of the next storm; None at the end of the search."""
        if (again := self._once_failed()) is not None:
            return again
        survived, failed = self.survived, self.failed
        if failed is None:
            return self._larger(survived)
        if failed == 1 or (survived and failed / survived <= GAP_MAX):
            return None
        between = round(((survived or 1) * failed) ** 0.5) if survived else max(failed // 2, 1)
        return between if between not in (survived, failed) else None

    def _once_failed(self) -> int | None:
        """Return a storm that was not survived and not made again."""
        for clients, outcomes in self._outcomes.items():
            if not any(outcomes) and len(outcomes) < FAILURES_MIN:
                return clients
        return None

    def _larger(self, survived: int | None) -> int | None:
        if survived is None:
            return -(-self.clients_max // FIRST_SHARE)
        return None if survived >= self.clients_max else min(2 * survived, self.clients_max)

"""Failed transactions of some slices by SQLSTATE, against the allowed share.

Errors that a script expects are within what was done, and so are transactions that were tried again
and then succeeded.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pgdyno.record import ErrorTotal, RunFile
from pgdyno.spec.failures import DEFAULT, FailuresMax


@dataclass(frozen=True)
class Failures:
    """Failed transactions among those that ended, and the most frequent error."""

    count: int
    ended: int
    top: ErrorTotal | None

    @property
    def share(self) -> float:
        """Share of the finished transactions; 0 if none finished."""
        return self.count / self.ended if self.ended else 0.0

    @property
    def error(self) -> str:
        """The most frequent error in words; '' without one."""
        return f"{self.top.sqlstate} {self.top.message}".strip() if self.top else ""

    def __str__(self) -> str:
        if not self.count:
            return f"0 of {self.ended:,}"
        error = f", most of them {self.error}" if self.top else ""
        return f"{self.count:,} of {self.ended:,} ({percent(self.share)}){error}"

    def to_json(self) -> dict[str, Any]:
        """Return the form in results."""
        return {
            "count": self.count,
            "share": round(self.share, 6),
            "sqlstate": self.top.sqlstate if self.top else None,
            "message": self.top.message if self.top else None,
        }


def failures(run: RunFile, slice_ids: Collection[int] | None) -> Failures:
    """Return the failures in the slices, or in the whole run."""
    ledger = run.ledger(slice_ids)
    top = None
    if ledger.failed:
        kinds = run.errors(slice_ids)
        top = next((e for e in kinds if not (e.expected or e.retried) and e.script), None)
    return Failures(ledger.failed, ledger.done + ledger.failed, top)


def failures_max(run: RunFile) -> FailuresMax:
    """Return the failures that the run's spec allows."""
    return FailuresMax.parse(str((run.run.spec.get("load") or {}).get("max_failures", DEFAULT)))


def too_many(failed: Failures, limit: FailuresMax) -> bool:
    """True if more failed than allowed."""
    return not limit.allows(failed.count, failed.ended)


def not_comparable(a: Failures, b: Failures, limit: FailuresMax) -> str | None:
    """Return the reason if failures make two sides incomparable, else None.

    What fails costs the server other work than what succeeds, so that neither side's figures say
    what the other's would.
    """
    differ = abs(b.count - a.count) if limit.count is not None else abs(b.share - a.share)
    allowed = limit.count if limit.count is not None else limit.share or 0.0
    if differ <= allowed:
        return None
    return f"failures differ: {b} with the change, {a} without"


def percent(share: float) -> str:
    """Format a share with enough digits that one failure does not show as 0."""
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"

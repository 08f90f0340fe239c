"""Sequences near their last value: after it, every insert that uses the sequence fails.

Trigger: a sequence has used ``USED_SHARE`` of its values, or of those that its column can hold; or
at this run's rate it ends within ``HORIZON_S`` and more than half is used. About to fail in the
second case, and at ``CRITICAL_SHARE``.

Thresholds: check_postgres warns at 85 % and alarms at 95 %; a day is the horizon of
``facts.kept_wal``. Read at the ends of a period and every tenth second, of the thousand largest or
most written tables. A sequence that another role owns has no value that this role may see; nor is
it known where a column gets its values other than by its own sequence or by its default.
"""

from __future__ import annotations

from msgspec import Struct

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.kept_wal import HORIZON_S
from pgdyno.numbers import duration, figure, percent
from pgdyno.record import Series
from pgdyno.record.finding import Skip

USED_SHARE = 0.85
CRITICAL_SHARE = 0.95


class _Sequence(Struct, frozen=True):
    """A sequence at the end of the period."""

    name: str
    value: float
    last: float
    per_s: float

    @property
    def used(self) -> float:
        return self.value / self.last

    @property
    def left_s(self) -> float | None:
        return (self.last - self.value) / self.per_s if self.per_s > 0 else None

    @property
    def ends_soon(self) -> bool:
        return self.left_s is not None and self.left_s < HORIZON_S

    @property
    def found(self) -> bool:
        return self.used >= USED_SHARE or self.ends_soon


def examine(s: Situation) -> Found | Cleared:
    """Examine the sequences of which more than half is used."""
    if any(event.detail.get("probe") == "sequence" for event in s.run.events("probe")):
        raise Skip("the values of sequences were not recorded")
    rows = s.run.series("metric_sequence", s.slice_ids)
    sequences = [_sequence(s, rows, name) for name in sorted(set(rows["sequence"]))]
    if not sequences:
        none = s.evidence("sequences more than half used", 0, "count")
        return Cleared("no sequence has used more than half of its values", [none])
    worst = max(sequences, key=lambda each: (each.ends_soon, each.used))
    evidence = [
        s.evidence(f"{worst.name}, used", worst.used, "share", f"at least {percent(USED_SHARE)}"),
        s.evidence(f"{worst.name}, last value possible", worst.last, "count"),
        s.evidence(f"{worst.name}, ends at this rate in", worst.left_s, "s",
                   f"within {duration(HORIZON_S)}"),
    ]  # fmt: skip
    left = f", the rest within {duration(worst.left_s)} at this rate" if worst.left_s else ""
    sentence = (
        f"the sequence {worst.name} has used {percent(worst.used)} of its {figure(worst.last)}"
        f" values{left}"
    )
    if not worst.found:
        return Cleared(sentence, evidence)
    return Found(
        sentence=f"{sentence}; then each insert that needs one fails",
        liftable=0.0,
        confidence=0.95,
        evidence=evidence,
        about_to_fail=worst.ends_soon or worst.used >= CRITICAL_SHARE,
        advice=(
            "make the column and its sequence bigint (ALTER SEQUENCE … AS bigint; changing the"
            " column's type rewrites the table under a lock, so fill a second column and exchange"
            " them); negative values from a sequence that descends gain time"
        ),
    )


def _sequence(s: Situation, rows: Series, name: str) -> _Sequence:
    mine = rows["sequence"] == name
    values = rows["last_value"][mine]
    per_s = max(0.0, float(values[-1] - values[0])) / s.seconds
    return _Sequence(name, float(values[-1]), float(rows["last_possible"][mine][-1]), per_s)


SIGNATURE = Signature(
    id="sequence-end",
    false_positives="a sequence whose column is not used any more, or that is reset in time",
    examine=examine,
)

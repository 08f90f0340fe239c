"""commit_delay: the session that flushes the WAL sleeps first, and all that commit wait for it.

Trigger: commit_delay acts (at least ``commit_siblings`` other transactions are open), is longer
than a sync, and owns at least ``DELAY_SHARE`` of the response time.

Thresholds: PostgreSQL's manual (wal-configuration.html) finds a delay of half a sync a good start
and one that is longer than a sync without use. The share is calibrated by injection: commit_delay
of 5 ms on disks whose sync takes 0.3 to 3 ms.
"""

from __future__ import annotations

from pgdyno.diagnose._pools import WORTHWHILE_RATIO
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.flush import SyncTime, delay_ms, delay_part_of_flush, sleepers, sync_time
from pgdyno.numbers import figure, percent
from pgdyno.record.finding import Evidence, Proposal, Skip
from pgdyno.spec.change import Change
from pgdyno.spec.setting_defaults import DEFAULTS
from pgdyno.stats.prediction import Prediction

DELAY_SHARE = 0.1
FLUSHES_MAX = 1.0


def examine(s: Situation) -> Found | Cleared:
    """Compare commit_delay with the time of a sync, and its share with the response time."""
    configured_ms = s.settings.duration_ms("commit_delay")
    if not configured_ms:
        evidence = [s.evidence("commit_delay", configured_ms, "ms")]
        return Cleared("commit_delay is off", evidence, parts=("commit delay",))
    acting_ms, share = delay_ms(s), s.budget.share("commit delay")
    sync = sync_time(s)
    evidence = _evidence(s, configured_ms, share, sync)
    if not acting_ms:
        return Cleared("commit_delay does not act: too few transactions are open", evidence)
    if sync is None:
        raise Skip("the time of a WAL sync is not known")
    if acting_ms <= FLUSHES_MAX * sync.ms or share < DELAY_SHARE:
        return Cleared(f"commit_delay takes {percent(share)} of the response time", evidence)
    ratio = _ratio_without(s)
    return Found(
        sentence=(
            f"commit_delay holds each commit back by {figure(acting_ms)} ms before its flush, which"
            f" takes {figure(sync.ms)} ms"
        ),
        parts=("commit delay",),
        liftable=ratio.lifted,
        confidence=0.9,
        evidence=evidence,
        proposals=_reset(ratio),
    )


def _ratio_without(s: Situation) -> Prediction:
    """Return the predicted ratio without the delay: as many flushes, and the rest of each."""
    parts = s.budget.parts_ms
    delayed_ms = parts.get("commit delay", 0.0)
    flush_ms = delayed_ms + parts.get("flush", 0.0) + parts.get("images", 0.0)
    left = 1.0 - delayed_ms / flush_ms if flush_ms > 0 else 1.0
    return s.loop.ratio_of_shorter_flushes(left)


def _reset(ratio: Prediction) -> list[Proposal]:
    if ratio < WORTHWHILE_RATIO:
        return []
    change = Change(settings={"commit_delay": DEFAULTS["commit_delay"]})
    why = "commits would be flushed without a delay"
    return [
        Proposal(
            remedy_id="reset-setting", change=change, predicted_ratio=ratio, why=why, specific=True
        )
    ]


def _evidence(
    s: Situation, configured_ms: float, share: float, sync: SyncTime | None
) -> list[Evidence]:
    evidence = [
        s.evidence("commit_delay", configured_ms, "ms", "longer than a WAL sync"),
        s.evidence("commit_siblings", s.settings.number("commit_siblings"), "count"),
        s.evidence(
            "commit_delay / response time", share, "share", f"at least {percent(DELAY_SHARE)}"
        ),
        s.evidence("sessions asleep for commit_delay", sleepers(s), "sessions"),
        s.evidence(
            "part of the queue for the flush that it takes", delay_part_of_flush(s), "share"
        ),
    ]
    if sync is not None:
        evidence.append(s.evidence("time of a WAL sync", sync.ms, "ms"))
    return evidence


SIGNATURE = Signature(
    id="commit-delay",
    false_positives=(
        "a number of open transactions that is near commit_siblings, so that only some flushes are"
        " delayed; a disk for which fewer and larger flushes gain more than the delay costs"
    ),
    examine=examine,
)

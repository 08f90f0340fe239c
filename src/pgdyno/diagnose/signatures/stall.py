"""Stalls: the throughput drops to nearly nothing for a moment, again and again or once.

Trigger: at least one interval below ``DROP_SHARE`` of the median throughput, in a period of
constant load. Each drop is tied to what overlapped it (see ``drops``), and the finding says which
reason cost most; of a drop about which the samples show nothing, the events that overlapped it.

Thresholds: 20 % of the median is what a graph shows as "drops to zero"; db-triage calls a
checkpoint whose average sync takes 5 s an alarm, which is late. The bars for what overlaps are
calibrated by injection: a table lock, and a checkpoint of many dirty pages on a busy disk.
"""

from __future__ import annotations

from pgdyno.diagnose._drops import DROP_SHARE, Drops, Reason, find_drops
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.numbers import counted, duration, figure, listed, percent
from pgdyno.record.finding import Evidence, Proposal
from pgdyno.spec.change import Change

_REASONS: dict[Reason, str] = {
    "lock": "sessions waited for a lock",
    "checkpoint sync": "a checkpoint was syncing",
    "kernel writeback": "the kernel was writing dirty pages back",
    "vacuum": "a vacuum was running",
    "WAL device": "the WAL's device did not answer",
    "event": "an event was recorded",
    "unexplained": "no recorded cause overlapped",
}
_CREDIBLE: dict[Reason, float] = {"checkpoint sync": 0.5, "kernel writeback": 0.5, "vacuum": 0.5}
"""Part of the loss that spreading the writes is trusted to save."""
_WRITEBACK_SETTINGS = {
    "checkpoint_flush_after": "256kB",
    "backend_flush_after": "256kB",
    "bgwriter_flush_after": "256kB",
}
_CAUSES: dict[Reason, tuple[str, ...]] = {
    "checkpoint sync": ("checkpoint-fpi",),
    "lock": (
        *("relation-lock", "batch-update", "idle-in-transaction", "deadlocks", "advisory-lock"),
        "notify-lock",
    ),
}
_DROPS_SHOWN = 5


def examine(s: Situation) -> Found | Cleared:
    """Examine the throughput interval by interval."""
    drops = find_drops(s)
    if not drops.all:
        return Cleared(
            f"the slowest of {drops.intervals} intervals did {figure(drops.lowest_tps)} tps, the"
            f" median {figure(drops.median_tps)}",
            _evidence(s, drops),
        )
    main = max(_REASONS, key=drops.share_lost_by)
    longest_s = max(drop.duration_ms for drop in drops.all) / 1000
    times = "once" if len(drops.all) == 1 else f"{len(drops.all)} times"
    return Found(
        sentence=(
            f"throughput drops below a fifth of its median {times}, for up to"
            f" {duration(longest_s)}, while {_REASONS[main]}{_events_words(drops, main)}"
        ),
        share=drops.lost_share,
        liftable=1.0,
        momentary=True,
        confidence=0.5 if main in ("event", "unexplained") else 0.8,
        evidence=_evidence(s, drops),
        causes=_CAUSES.get(main, ()),
        proposals=_proposals(s, drops, main),
    )


def _events_words(drops: Drops, main: Reason) -> str:
    """Return the events that overlapped, where nothing else is known of most of the loss."""
    if main != "event":
        return ""
    of_event = (drop.events for drop in drops.all if drop.reason == "event")
    return f": {listed(list(dict.fromkeys(each for events in of_event for each in events)))}"


def _evidence(s: Situation, drops: Drops) -> list[Evidence]:
    evidence = [
        s.evidence(
            "slowest interval / median throughput",
            drops.lowest_tps / drops.median_tps if drops.median_tps else 0.0,
            "share",
            f"below {percent(DROP_SHARE)}",
        ),
        s.evidence("median throughput", drops.median_tps, "tps"),
        s.evidence("drops", len(drops.all), "count"),
        s.evidence("throughput lost to drops", drops.lost_share, "share"),
    ]
    evidence += [
        s.evidence(f"of that while {text}", drops.share_lost_by(reason), "share")
        for reason, text in _REASONS.items()
        if drops.share_lost_by(reason) > 0
    ]
    longest = sorted(drops.all, key=lambda drop: -drop.duration_ms)[:_DROPS_SHOWN]
    evidence += [drop.evidence("drop") for drop in sorted(longest, key=lambda drop: drop.window_ms)]
    return evidence


def _proposals(s: Situation, drops: Drops, main: Reason) -> list[Proposal]:
    """Changes that would spread what caused most of the loss; none for locks and the unknown."""
    saved = drops.lost_share * drops.share_lost_by(main) * _CREDIBLE.get(main, 0.0)
    ratio = 1.0 / (1.0 - min(0.9, saved))
    if main in ("checkpoint sync", "kernel writeback"):
        return [*_spread(s, ratio), *_flush_early(s, ratio)]
    if main == "vacuum":
        return _slower_vacuum(s, ratio)
    return []


def _spread(s: Situation, ratio: float) -> list[Proposal]:
    target = s.settings.number("checkpoint_completion_target")
    if target is None or target >= 0.9:
        return []
    return [
        Proposal(
            remedy_id="checkpoint-spread",
            change=Change(settings={"checkpoint_completion_target": "0.9"}),
            predicted_ratio=ratio,
            why="the checkpoint's writes would be spread over most of the time to the next",
            specific=True,
        )
    ]


def _flush_early(s: Situation, ratio: float) -> list[Proposal]:
    # Run files leave a setting out that has its default; of these only one is 0 by default.
    default_zero = s.settings.text("backend_flush_after") is None
    wanted = {
        name: value
        for name, value in _WRITEBACK_SETTINGS.items()
        if s.settings.number(name) == 0 or (name == "backend_flush_after" and default_zero)
    }
    if not wanted:
        return []
    return [
        Proposal(
            remedy_id="flush-early",
            change=Change(settings=wanted),
            predicted_ratio=ratio,
            why="dirty pages would leave the kernel in small portions instead of all at once",
            specific=True,
        )
    ]


def _slower_vacuum(s: Situation, ratio: float) -> list[Proposal]:
    limit = s.settings.number("autovacuum_vacuum_cost_limit") or -1.0
    limit = limit if limit > 0 else (s.settings.number("vacuum_cost_limit") or 200.0)
    if limit <= 100:
        return []
    return [
        Proposal(
            remedy_id="autovacuum-pace",
            change=Change(settings={"autovacuum_vacuum_cost_limit": f"{max(100, limit / 2):.0f}"}),
            predicted_ratio=ratio,
            why="vacuum would do half as much between its pauses"
            f" ({counted(limit, 'unit', 'units')} of cost now)",
            specific=True,
        )
    ]


SIGNATURE = Signature(
    id="stall",
    false_positives=(
        "the load itself pausing (think times, a ramp, few clients with long transactions); a"
        " machine that was suspended or whose hypervisor stole its CPU time"
    ),
    examine=examine,
)

"""Synchronous replication: commits wait for a standby to confirm them.

Trigger: at least ``WAITING_SHARE`` of the client sessions that the server is at work for (those in
a transaction that do not wait for their client) wait for a standby (IPC:SyncRep). The wait begins
when the local flush has ended, so that a slow local flush is no part of it.

What the time goes into is read from pg_stat_replication: until the standby has written the WAL it
is the network (and the queue of the WAL sender), from there the standby's flush, from there its
replay. Only what synchronous_commit waits for counts. The longest of these is named.

Threshold: db-triage's bar is a flush lag of 1 s, which is an alarm; this one is that of the commit
flush, calibrated by injection: a standby on the same machine behind a delay of 0, 1 and 5 ms.

Versions: the wait event and the columns are the same from 14 to 18. Where the role may not see
pg_stat_replication (no pg_monitor), the finding stands without the standby's name and times.
"""

from __future__ import annotations

import math

from pgdyno.diagnose._pools import WORTHWHILE_RATIO
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.standbys import (
    SYNCHRONOUS,
    Confirmation,
    Standby,
    WaitedFor,
    confirmation_of,
    standbys,
    synchronous,
    waited_for,
)
from pgdyno.numbers import figure, percent
from pgdyno.record.finding import Evidence, Proposal
from pgdyno.spec.active_settings import choice_of
from pgdyno.spec.change import Change

WAITING_SHARE = 0.15
_UNTIL = {
    "written": "until it has received and written them",
    "flushed": "for the flush there",
    "replayed": "until it has replayed them",
}


def examine(s: Situation) -> Found | Cleared:
    """Examine the sessions that wait for a standby."""
    served = s.sessions_at_work - s.sessions("client")
    share = s.sessions("replica") / served if served > 0 else 0.0
    confirmation = confirmation_of(s.settings.text("synchronous_commit"))
    confirming = _confirming(s, confirmation)
    evidence = _evidence(s, share, confirming, confirmation)
    if share < WAITING_SHARE:
        return Cleared(
            f"{percent(share)} of the server's time is spent waiting for a standby",
            evidence,
            parts=("replica",),
        )
    return Found(
        sentence=_sentence(s, confirming, confirmation),
        parts=("replica",),
        liftable=s.loop.ratio(replica=0.0).lifted,
        confidence=0.95 if share >= 2 * WAITING_SHARE else 0.8,
        evidence=evidence,
        proposals=_proposals(s, confirming, confirmation),
    )


def _confirming(s: Situation, confirmation: Confirmation) -> list[Standby]:
    """Return the standbys whose confirmation a commit needs, the fastest first."""
    candidates = synchronous(standbys(s), confirmation)
    wanted = waited_for(s.settings.text("synchronous_standby_names"))
    return candidates[: wanted.count] if wanted and wanted.any_of else candidates


def _sentence(s: Situation, confirming: list[Standby], confirmation: Confirmation) -> str:
    names = ", ".join(each.name for each in confirming) or "a standby"
    waited_ms = s.budget.parts_ms.get("replica", 0.0)
    level = choice_of(s.settings.text("synchronous_commit") or "on")
    text = (
        f"transactions wait {figure(waited_ms)} of {figure(s.budget.response_ms)} ms in synchronous"
        f" replication for {names} to confirm their commit"
        f" (synchronous_commit = {level})"
    )
    steps = _steps(confirming, confirmation)
    if not steps:
        return text
    longest = max(steps, key=lambda step: steps[step])
    part = steps[longest] / sum(steps.values())
    return f"{text}, {percent(part)} of it {_UNTIL[longest]}"


def _steps(confirming: list[Standby], confirmation: Confirmation) -> dict[Confirmation, float]:
    """Return the milliseconds of each step of the slowest standby; {} if it reported no times."""
    if not confirming:
        return {}
    slowest = confirming[-1]
    steps: dict[Confirmation, float] = {}
    reached_ms = 0.0
    order: tuple[Confirmation, ...] = ("written", "flushed", "replayed")
    for step in order[: order.index(confirmation) + 1]:
        at_ms = slowest.confirmed_ms(step)
        if math.isnan(at_ms):
            return {}
        steps[step] = max(0.0, at_ms - reached_ms)
        reached_ms = max(reached_ms, at_ms)
    return steps if reached_ms > 0 else {}


def _evidence(
    s: Situation, share: float, confirming: list[Standby], confirmation: Confirmation
) -> list[Evidence]:
    names = s.settings.text("synchronous_standby_names") or ""
    evidence = [
        s.evidence(
            "sessions waiting for a standby / working sessions",
            share,
            "share",
            f"at least {percent(WAITING_SHARE)}",
        ),
        s.evidence("sessions waiting for a standby", s.sessions("replica"), "sessions"),
        s.evidence("wait for a standby / response time", s.budget.share("replica"), "share"),
        s.evidence("local WAL flush / response time", s.budget.share("flush", "images"), "share"),
        s.evidence("synchronous_standby_names", names, ""),
    ]
    for standby in confirming:
        evidence += _of_standby(s, standby, confirmation)
    return evidence


def _of_standby(s: Situation, standby: Standby, confirmation: Confirmation) -> list[Evidence]:
    times = {
        "written": standby.written_ms,
        "flushed": standby.flushed_ms,
        "replayed": standby.replayed_ms,
    }
    found = [
        s.evidence(
            f"{standby.name}: until {step}{', which commits wait for' * (step == confirmation)}",
            time_ms,
            "ms",
        )
        for step, time_ms in times.items()
        if not math.isnan(time_ms)
    ]
    if not math.isnan(standby.round_trip_ms):
        about_ms = standby.round_trip_ms
        found.append(s.evidence(f"{standby.name}: network's round trip, about", about_ms, "ms"))
    return found


def _proposals(
    s: Situation, confirming: list[Standby], confirmation: Confirmation
) -> list[Proposal]:
    proposals = _lower_levels(s, confirming, confirmation)
    wanted = waited_for(s.settings.text("synchronous_standby_names"))
    if wanted is not None:
        proposals += _fewer(s, wanted, confirmation)
    return [each for each in proposals if each.predicted_ratio >= WORTHWHILE_RATIO]


def _lower_levels(
    s: Situation, confirming: list[Standby], confirmation: Confirmation
) -> list[Proposal]:
    """Return proposals that wait for less, by the standby's own times."""
    steps = _steps(confirming, confirmation)
    total_ms = sum(steps.values())
    proposals = [
        _level("synchronous-commit-local", "local", s, 0.0, "commits would wait for no standby")
    ]
    if total_ms > 0 and confirmation == "replayed":
        left = 1.0 - steps["replayed"] / total_ms
        why = "commits would wait for the standby's flush and not for its replay"
        proposals.append(_level("synchronous-commit-on", "on", s, left, why))
    if total_ms > 0 and confirmation != "written":
        left = steps["written"] / total_ms
        why = "commits would not wait for the flush on the standby"
        proposals.append(_level("synchronous-commit-remote-write", "remote_write", s, left, why))
    return proposals


def _level(remedy: str, level: str, s: Situation, left: float, why: str) -> Proposal:
    """Return the proposal of a level of synchronous_commit that leaves a part of the wait."""
    change = Change(settings={"synchronous_commit": level})
    return Proposal(
        remedy_id=remedy,
        change=change,
        predicted_ratio=s.loop.ratio(replica=left),
        why=why,
        specific=True,
    )


def _fewer(s: Situation, wanted: WaitedFor, confirmation: Confirmation) -> list[Proposal]:
    """Return proposals to wait for the fastest of several standbys."""
    able = [each for each in standbys(s) if each.sync_state in (*SYNCHRONOUS, "potential")]
    times_ms = sorted(each.confirmed_ms(confirmation) for each in able)
    now_ms = max(
        (each.confirmed_ms(confirmation) for each in _confirming(s, confirmation)), default=0.0
    )
    if len(times_ms) < 2 or any(math.isnan(each) for each in times_ms) or now_ms <= 0:
        return []
    counts = {}
    if not wanted.any_of and wanted.count < len(times_ms):
        counts["synchronous-standbys-any"] = wanted.count
    if wanted.count > 1:
        counts["synchronous-standbys-fewer"] = 1
    return [
        Proposal(
            remedy_id=remedy,
            change=Change(settings={"synchronous_standby_names": f"ANY {count} ({wanted.listed})"}),
            predicted_ratio=s.loop.ratio(replica=min(1.0, times_ms[count - 1] / now_ms)),
            why=f"commits would wait for the fastest {count} of {len(times_ms)} standbys",
            specific=True,
        )
        for remedy, count in counts.items()
    ]


SIGNATURE = Signature(
    id="sync-replication",
    false_positives=(
        "a standby on the same machine, which takes the server's own CPU and disk; a standby that"
        " was catching up during the measurement"
    ),
    examine=examine,
)

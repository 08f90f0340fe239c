"""Standbys: those that commits wait for, and those that fall behind."""

from __future__ import annotations

import math
import re

from pgdyno.facts.sight import Sight, measured
from pgdyno.facts.situation import Situation
from pgdyno.facts.standbys import (
    SYNCHRONOUS,
    Confirmation,
    StandbyTimes,
    WaitedFor,
    confirmation_of,
    standbys,
    synchronous,
    waited_for,
)
from pgdyno.numbers import duration, figure, percent, size
from pgdyno.record.finding import Evidence, Proposal
from pgdyno.rules._pools import WORTHWHILE_RATIO
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.change import Change
from pgdyno.spec.server_settings import choice_of

WAITING_SHARE = 0.15
_UNTIL = {
    "written": "until it has received and written them",
    "flushed": "for the flush there",
    "replayed": "until it has replayed them",
}


@rule(
    "sync-replication",
    false_positives=(
        "a standby on the same machine, which takes the server's own CPU and disk; a standby that"
        " was catching up during the measurement"
    ),
)
def sync_replication(s: Situation) -> Found | Cleared:
    """Synchronous replication: commits wait for a standby to confirm them.

    Trigger: at least ``WAITING_SHARE`` of the client sessions that the server is at work for (those
    in a transaction that do not wait for their client) wait for a standby (IPC:SyncRep). The wait
    begins when the local flush has ended, so that a slow local flush is no part of it.

    What the time goes into is read from pg_stat_replication: until the standby has written the WAL
    it is the network (and the queue of the WAL sender), from there the standby's flush, from there
    its replay. Only what synchronous_commit waits for counts. The longest of these is named.

    Threshold: db-triage's bar is a flush lag of 1 s, which is an alarm; this one is that of the
    commit flush, calibrated by injection: a standby on the same machine behind a delay of 0, 1 and
    5 ms.

    Versions: the wait event and the columns are the same from 14 to 18. Where the role may not see
    pg_stat_replication (no pg_monitor), the finding stands without the standby's name and times.
    """
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
        removable_share=s.loop.ratio(replica=0.0).lifted,
        confidence=0.95 if share >= 2 * WAITING_SHARE else 0.8,
        evidence=evidence,
        proposals=_proposals(s, confirming, confirmation),
    )


def _confirming(s: Situation, confirmation: Confirmation) -> list[StandbyTimes]:
    """Return the standbys whose confirmation a commit needs, the fastest first."""
    candidates = synchronous(standbys(s), confirmation)
    wanted = waited_for(s.settings.text("synchronous_standby_names"))
    return candidates[: wanted.count] if wanted and wanted.any_of else candidates


def _sentence(s: Situation, confirming: list[StandbyTimes], confirmation: Confirmation) -> str:
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


def _steps(confirming: list[StandbyTimes], confirmation: Confirmation) -> dict[Confirmation, float]:
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
    s: Situation, share: float, confirming: list[StandbyTimes], confirmation: Confirmation
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


def _of_standby(s: Situation, standby: StandbyTimes, confirmation: Confirmation) -> list[Evidence]:
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
    s: Situation, confirming: list[StandbyTimes], confirmation: Confirmation
) -> list[Proposal]:
    proposals = _lower_levels(s, confirming, confirmation)
    wanted = waited_for(s.settings.text("synchronous_standby_names"))
    if wanted is not None:
        proposals += _fewer(s, wanted, confirmation)
    return [each for each in proposals if each.predicted_ratio >= WORTHWHILE_RATIO]


def _lower_levels(
    s: Situation, confirming: list[StandbyTimes], confirmation: Confirmation
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


_NUMBER = re.compile(r"\s*(?:(?:any|first)\s+)?(\d+)\s*\(", re.IGNORECASE)
_WAITS_FOR = ("sync", "quorum")


@rule(
    "absent-sync-standby",
    looks=("server", "setting", "standby"),
    false_positives="a standby that restarts at this moment",
)
def absent_sync_standby(sight: Sight) -> Found | Cleared:
    """Commits wait for a synchronous standby that is not there.

    Trigger: synchronous_standby_names asks for more standbys than are connected with the state sync
    or quorum, and synchronous_commit is neither off nor local. Threshold: none; each commit waits
    until they are there (PostgreSQL's documentation, "Synchronous Replication").
    """
    names = sight.setting("synchronous_standby_names").value
    commit = sight.setting("synchronous_commit").value
    if not names.strip() or sight.is_standby:
        return Cleared(
            "commits wait for no standby", [measured("synchronous_standby_names", names, "")]
        )
    found = _NUMBER.match(names)
    wanted = int(found[1]) if found else 1
    there = [row for row in sight.rows("standby") if row["sync_state"] in _WAITS_FOR]
    evidence = [
        measured("synchronous_standby_names", names, ""),
        measured("synchronous_commit", commit, ""),
        measured("standbys that commits wait for", wanted, "count"),
        measured("synchronous standbys connected", len(there), "count", f"less than {wanted}"),
    ]
    if len(there) >= wanted or commit in ("off", "local"):
        return Cleared("the synchronous standbys are connected", evidence)
    return Found(
        sentence=(
            f"commits wait for {figure(wanted)} synchronous standby, and"
            f" {figure(len(there))} of those in synchronous_standby_names is connected: no commit"
            " returns"
        ),
        severity="will fail",
        confidence=0.9,
        evidence=evidence,
        advice=(
            "start the standby, or see its application_name; until it is back, commits return with"
            " the command, and a failover may lose them (class D1)"
        ),
        commands=["ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()"],
    )


@rule(
    "standby-behind",
    looks=("setting", "standby"),
    covered_by=("sync-replication",),
    false_positives="one that is behind on purpose (recovery_min_apply_delay), or being built",
)
def standby_behind(sight: Sight) -> Found | Cleared:
    """A standby that is far behind.

    Trigger: a standby has not replayed more WAL than max_wal_size. Threshold: ours; it is about
    what the server keeps for itself, so that without a slot or an archive the standby may have to
    be built again, and a failover to it takes as long as replaying that takes.
    """
    most = sight.setting("max_wal_size").bytes
    rows = [row for row in sight.rows("standby") if row["state"] != "backup"]
    behind = [row for row in rows if (row["behind_bytes"] or 0) > most]
    evidence = [
        measured(f"WAL that {row['name']} has not replayed", row["behind_bytes"], "bytes",
                 f"more than {size(most)}")
        for row in rows
    ]  # fmt: skip
    if not behind:
        return Cleared("no standby is far behind", evidence)
    worst = max(behind, key=lambda row: row["behind_bytes"])
    late = f", {duration(worst['replay_lag_s'])}" if worst["replay_lag_s"] else ""
    return Found(
        sentence=(
            f"the standby {worst['name']} is {size(worst['behind_bytes'])} of WAL behind{late}"
        ),
        severity="costs",
        confidence=0.7,
        evidence=evidence,
        advice="see its log, its disk, and queries on it that replay waits for",
    )


@rule(
    "paused-recovery",
    looks=("recovery",),
    false_positives="somebody who looks at the data as it was at that moment",
)
def paused_recovery(sight: Sight) -> Found | Cleared:
    """A standby that does not replay: recovery is paused.

    Trigger: pg_get_wal_replay_pause_state() is not "not paused". Threshold: none. WAL piles up on
    it, and its data stays as old as it is.
    """
    rows = sight.rows("recovery")
    if not rows:
        return Cleared("the server is not a standby")
    (row,) = rows
    waiting = row["waiting_bytes"] or 0.0
    evidence = [
        measured("replay", row["pause_state"], "", "paused"),
        measured("WAL received and not replayed", waiting, "bytes"),
        measured("last transaction replayed before", row["replayed_s"], "s"),
    ]
    if row["pause_state"] == "not paused":
        return Cleared("the standby replays", evidence)
    return Found(
        sentence=f"recovery is paused: {size(waiting)} of WAL wait, and the data stays as it is",
        severity="costs",
        confidence=0.9,
        evidence=evidence,
        commands=["SELECT pg_wal_replay_resume()"],
    )

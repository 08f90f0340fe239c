"""The flush of WAL at a commit."""

from __future__ import annotations

from pgdyno.facts.flush import (
    SLOW_SYNC_MS,
    SyncTime,
    delay_ms,
    delay_part_of_flush,
    device_flush_ms,
    device_words,
    flush_queue,
    longest_sync,
    sleepers,
    starved_part,
    sync_time,
)
from pgdyno.facts.plans import LONGER_STATEMENTS
from pgdyno.facts.sight import Sight, measured
from pgdyno.facts.situation import Situation
from pgdyno.numbers import figure, percent
from pgdyno.record.finding import Evidence, Proposal, Skip
from pgdyno.record.write_probe import CommitPartName, WriteProbe, write_probe_of
from pgdyno.rules._pools import WORTHWHILE_RATIO
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.change import Change
from pgdyno.spec.server_settings import DEFAULTS
from pgdyno.stats.prediction import Prediction
from pgdyno.wait_events import HEAVYWEIGHT

FLUSH_SHARE = 0.15
STARVED_PART_MIN = 0.5
BUFFERS_FULL_PER_TRANSACTION = 0.01
WITHOUT_METADATA = {"fsync": 0.9, "open_sync": 0.75}
"""Part of a sync of these that one by fdatasync takes; calibrated on ext4 with writes of 8 kB: 0.64
ms by fdatasync, 0.72 by fsync and 0.89 by open_sync. Larger writes differ by more."""
DELAY_US_MAX = 1000
"""Beyond it commit_delay costs more latency than a flush on any disk worth tuning."""


@rule(
    "commit-flush",
    false_positives=(
        "a disk that other programs keep busy; full-page images that make each flush large (see"
        " checkpoint-fpi); a saturated CPU, which makes the flush of a waiting session seem slow"
    ),
)
def commit_flush(s: Situation) -> Found | Cleared:
    """Commit flush: sessions wait for their commit's WAL to reach the disk.

    Trigger: at least ``FLUSH_SHARE`` of the client sessions that the server is at work for (those
    in a transaction that wait neither for their client nor for a lock of another transaction) are
    seen waiting for a WAL write or sync, or in the queue for the lock under which one session
    flushes for all. Where cores are busy, a sync may wait for one: what makes statements longer
    comes first, if undoing it gains more.

    Threshold: no published tool has one; calibrated by injection, synchronous_commit on and off.
    The counts of WAL syncs per commit and the time of a sync are evidence, not trigger.

    What is said of the device: see ``facts.flush``.
    """
    served = s.sessions_at_work - s.sessions("client", *HEAVYWEIGHT)
    share = s.sessions("flush") / served if served > 0 else 0.0
    evidence = _commit_flush_evidence(s, share)
    waited = percent(s.budget.own_share("flush", "images"))
    sentence = f"{waited} of {s.budget.own_title} is spent waiting for the WAL to reach the disk"
    if share < FLUSH_SHARE:
        return Cleared(sentence, evidence, parts=("flush", "images"))
    off = s.loop.ratio(flush=0.0)
    return Found(
        sentence=f"{sentence}{device_words(s)}",
        parts=("flush",),
        removable_share=s.loop.ratio(flush=delay_part_of_flush(s)).lifted,
        confidence=0.9 if share >= 2 * FLUSH_SHARE else 0.7,
        evidence=evidence,
        causes=(
            *("shared-device", "checkpoint-dips", "stall"),
            *(LONGER_STATEMENTS if starved_part(s) >= STARVED_PART_MIN else ()),
        ),
        proposals=_proposals(s, off),
    )


def _commit_flush_evidence(s: Situation, share: float) -> list[Evidence]:
    evidence = [
        s.evidence(
            "sessions waiting for the WAL flush / working sessions",
            share,
            "share",
            f"at least {percent(FLUSH_SHARE)}",
        ),
        s.evidence("sessions waiting for the WAL flush", s.sessions("flush"), "sessions"),
        s.evidence("of these in the queue behind another's flush", flush_queue(s), "sessions"),
        s.evidence(
            f"WAL flush / {s.budget.own_title}", s.budget.own_share("flush", "images"), "share"
        ),
    ]
    wal = s.wal_if_recorded
    if wal is None:
        return evidence
    if wal.syncs:
        per_sync = s.throughput_tps * s.seconds / wal.syncs
        evidence.append(s.evidence("commits per WAL sync", per_sync, "count"))
    evidence += _sync_evidence(s)
    if wal.buffers_full is not None:
        evidence.append(s.evidence("times that WAL buffers were full", wal.buffers_full, "count"))
    return evidence


def _sync_evidence(s: Situation) -> list[Evidence]:
    sync, device_ms = sync_time(s), device_flush_ms(s)
    evidence = []
    if sync is not None:
        bar = f"at least {SLOW_SYNC_MS:g} ms is slow"
        evidence.append(s.evidence(sync.title, sync.ms, "ms", bar))
    if device_ms is not None:
        evidence.append(s.evidence("time of a flush by the WAL's device", device_ms, "ms"))
    return evidence


def _proposals(s: Situation, off: float) -> list[Proposal]:
    proposals = []
    if s.settings.text("synchronous_commit") != "off":
        proposals.append(
            Proposal(
                remedy_id="synchronous-commit-off",
                change=Change(settings={"synchronous_commit": "off"}),
                predicted_ratio=off,
                why="removes the wait for the flush; the CPU bounds what that gains",
                specific=_flush_alone(s),
            )
        )
    proposals += _sync_method(s) + _delay(s) + larger_wal_buffers(s)
    proposals.append(
        Proposal(
            remedy_id="fsync-off",
            change=Change(settings={"fsync": "off"}),
            predicted_ratio=off,
            why="removes the flush itself",
        )
    )
    return [p for p in proposals if p.predicted_ratio >= WORTHWHILE_RATIO]


def _sync_method(s: Situation) -> list[Proposal]:
    """The default of wal_sync_method in place of one that flushes the file's times too.

    fsync and open_sync make the file system write its journal with each sync. The platform's
    default is known only of a server on this machine: fdatasync, on Linux.
    """
    method = (s.settings.text("wal_sync_method") or "").lower()
    if method not in WITHOUT_METADATA or not s.run.run.host.get("same_host_as_server"):
        return []
    return [
        Proposal(
            remedy_id="reset-setting",
            change=Change(settings={"wal_sync_method": DEFAULTS["wal_sync_method"]}),
            predicted_ratio=s.loop.ratio_of_shorter_flushes(WITHOUT_METADATA[method]),
            why=f"{method} also flushes the file's times, which the WAL does not need",
        )
    ]


def _flush_alone(s: Situation) -> bool:
    """Return whether an asynchronous commit omits nothing but the wait for the flush: not also that
    for a standby, or commit_delay."""
    standbys = (s.settings.text("synchronous_standby_names") or "").strip("' ")
    return not standbys and not s.settings.duration_ms("commit_delay")


def _delay(s: Situation) -> list[Proposal]:
    """commit_delay of half a flush, as PostgreSQL's documentation advises, where it can act: at
    least commit_siblings other transactions open, and several of them committing together.

    A commit then waits half a flush longer, a quarter of the two that it waits for in company; a
    flush begins every 1.5 flush times instead of every one, which saves a third of the flushes, and
    with them a third of half of the CPU time that commits which wait cost: the other half is spent
    on being put to sleep and woken. Only that is gained, so it pays where the CPU is short.
    """
    wal, siblings = s.wal_if_recorded, s.settings.number("commit_siblings") or 5.0
    sync_ms = None if wal is None else wal.per_sync_ms
    in_use = (s.settings.duration_ms("commit_delay") or 0.0) > 0
    if sync_ms is None or in_use or s.sessions_at_work <= siblings or flush_queue(s) < 2:
        return []
    delay_us = min(DELAY_US_MAX, max(10, round(sync_ms * 500, -1)))
    return [
        Proposal(
            remedy_id="commit-delay",
            change=Change(settings={"commit_delay": f"{delay_us:.0f}"}),
            predicted_ratio=s.loop.ratio(flush=1.25, flushes=5 / 6),
            why=f"one flush of {figure(sync_ms)} ms would serve more commits",
        )
    ]


def larger_wal_buffers(s: Situation) -> list[Proposal]:
    """More wal_buffers where sessions must write WAL out to make room.

    db-triage's bar is wal_buffers_full at 10 % of the WAL writes, which version 18 no longer
    counts; this one is per transaction, calibrated by injection (wal_buffers = 64kB).
    """
    wal = s.wal_if_recorded
    full = (wal and wal.buffers_full) or 0.0
    per_transaction = full / (s.throughput_tps * s.seconds)
    if per_transaction < BUFFERS_FULL_PER_TRANSACTION:
        return []
    size = s.settings.size_bytes("wal_buffers") or 0
    wanted_mb = 64 if size < 64 << 20 else 256
    if size >= wanted_mb << 20:
        return []
    return [
        Proposal(
            remedy_id="wal-buffers",
            change=Change(settings={"wal_buffers": f"{wanted_mb}MB"}),
            predicted_ratio=s.loop.ratio(flush=1.0 - min(0.5, per_transaction)),
            why="sessions would not have to write WAL out to make room in the buffers",
            specific=True,
        )
    ]


DELAY_SHARE = 0.1
FLUSHES_MAX = 1.0


@rule(
    "commit-delay",
    false_positives=(
        "a number of open transactions that is near commit_siblings, so that only some flushes"
        " are delayed; a disk for which fewer and larger flushes gain more than the delay costs"
    ),
)
def commit_delay(s: Situation) -> Found | Cleared:
    """commit_delay: the session that flushes the WAL sleeps first, and all that commit wait for it.

    Trigger: commit_delay acts (at least ``commit_siblings`` other transactions are open) before
    some of the flushes or all, is longer than a sync, and owns at least ``DELAY_SHARE`` of the
    response time.

    Thresholds: PostgreSQL's manual (wal-configuration.html) finds a delay of half a sync a good
    start and one that is longer than a sync without use. The share is calibrated by injection:
    commit_delay of 5 ms on disks whose sync takes 0.3 to 3 ms.
    """
    configured_ms = s.settings.duration_ms("commit_delay")
    if not configured_ms:
        evidence = [s.evidence("commit_delay", configured_ms, "ms")]
        return Cleared("commit_delay is off", evidence, parts=("commit delay",))
    acting_ms, share = delay_ms(s), s.budget.own_share("commit delay")
    sync = longest_sync(s)
    evidence = _commit_delay_evidence(s, configured_ms, share, sync)
    if not acting_ms:
        return Cleared("commit_delay does not act: too few transactions are open", evidence)
    if sync is None:
        raise Skip("the time of a WAL sync is not known")
    if configured_ms <= FLUSHES_MAX * sync.ms or share < DELAY_SHARE:
        return Cleared(f"commit_delay takes {percent(share)} of {s.budget.own_title}", evidence)
    ratio = _ratio_without(s)
    return Found(
        sentence=_held_back(configured_ms, acting_ms / configured_ms, sync),
        parts=("commit delay",),
        removable_share=ratio.lifted,
        confidence=0.9,
        evidence=evidence,
        proposals=_reset(ratio),
    )


def _held_back(configured_ms: float, part: float, sync: SyncTime) -> str:
    """Return the sentence for a delay that acts on ``part`` of the flushes, 0 to 1."""
    each_ms = f"{'at most ' if sync.at_most else ''}{figure(sync.ms)} ms"
    if part < 1.0:
        flushes = f"{percent(part)} of the flushes, which take {each_ms} each,"
        return f"commit_delay holds {flushes} back by {figure(configured_ms)} ms"
    return (
        f"commit_delay holds each commit back by {figure(configured_ms)} ms before its flush, which"
        f" takes {each_ms}"
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


def _commit_delay_evidence(
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
        evidence.append(s.evidence(sync.title, sync.ms, "ms"))
    return evidence


COMMIT_MS_MAX = 0.5
_ADVICE: dict[CommitPartName, str] = {
    "network": "bring the program nearer to the server, or send several statements at once: each"
    " waits for a round trip",
    "server": "see what the server's processes wait for while it runs, such as a core; triggers and"
    " indexes of your own tables come in addition",
    "flush": "a faster device for the WAL, one with a write cache that survives a power cut; or"
    " several statements in a transaction; or synchronous_commit = off, where the last commits may"
    " be lost in a crash",
    "standby": "a standby nearer to the server; or synchronous_commit = local, where a failover may"
    " lose the last commits",
}


@rule(
    "slow-commits",
    looks=("write_probe",),
    false_positives=(
        "a load of others that fills the device or the cores meanwhile; a pgdyno that runs"
        " farther from the server than the program does"
    ),
)
def slow_commits(sight: Sight) -> Found | Cleared:
    """Commits that take long for one client: what a program pays that commits each statement.

    Trigger: an insert with its commit takes more than ``COMMIT_MS_MAX`` on average, by the write
    probe (``--write-probe``). Threshold: Senzing's notes on PostgreSQL ask for less than 0.5 ms,
    6,000 inserts in 3 s, for software that commits each statement; "many systems, even cloud
    systems" take 0.1 to 0.3 ms.
    """
    probe = write_probe_of(sight.rows("write_probe"))
    if probe.mean_ms <= COMMIT_MS_MAX:
        return Cleared(
            f"a commit takes {figure(probe.mean_ms)} ms on average",
            _slow_commits_evidence(probe),
        )
    largest = max(probe.parts, key=lambda part: part.mean_ms)
    return Found(
        sentence=(
            f"a commit of one row takes {figure(probe.mean_ms)} ms on average, of which"
            f" {figure(largest.mean_ms)} ms for the {largest.part}"
        ),
        severity="costs",
        confidence=0.9,
        evidence=_slow_commits_evidence(probe),
        advice=_ADVICE[largest.part],
    )


def _slow_commits_evidence(probe: WriteProbe) -> list[Evidence]:
    return [
        measured("mean time of a commit", probe.mean_ms, "ms", f"more than {COMMIT_MS_MAX} ms"),
        *(measured(f"of it {each.part}", each.mean_ms, "ms") for each in probe.parts),
        measured("99th percentile of a commit", probe.p99_ms, "ms"),
        measured("commits", probe.commits, "count"),
    ]

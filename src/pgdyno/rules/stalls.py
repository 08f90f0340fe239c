"""Clients whose transactions stand still."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from msgspec import Struct

from pgdyno.facts.drops import DROP_SHARE, Drops, Reason, find_drops
from pgdyno.facts.situation import Situation
from pgdyno.numbers import counted, duration, figure, listed, percent
from pgdyno.record import GroupInterval, Interval
from pgdyno.record.finding import Evidence, Proposal
from pgdyno.rules.rule import Cleared, Found, rule
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
_STALL_CAUSES: dict[Reason, tuple[str, ...]] = {
    "checkpoint sync": ("checkpoint-fpi",),
    "lock": (
        *("relation-lock", "batch-update", "idle-in-transaction", "deadlocks", "advisory-lock"),
        "notify-lock",
    ),
}
_DROPS_SHOWN = 5


@rule(
    "stall",
    false_positives=(
        "the load itself pausing (think times, a ramp, few clients with long transactions); a"
        " machine that was suspended or whose hypervisor stole its CPU time"
    ),
)
def stall(s: Situation) -> Found | Cleared:
    """Stalls: the throughput drops to nearly nothing for a moment, again and again or once.

    Trigger: at least one interval below ``DROP_SHARE`` of the median throughput, in a period of
    constant load. Each drop is tied to what overlapped it (see ``drops``), and the finding says
    which reason cost most; of a drop about which the samples show nothing, the events that
    overlapped it.

    Thresholds: 20 % of the median is what a graph shows as "drops to zero"; db-triage calls a
    checkpoint whose average sync takes 5 s an alarm, which is late. The bars for what overlaps are
    calibrated by injection: a table lock, and a checkpoint of many dirty pages on a busy disk.
    """
    drops = find_drops(s)
    if not drops.all:
        return Cleared(
            f"the slowest of {drops.intervals} intervals did {figure(drops.lowest_tps)} tps, the"
            f" median {figure(drops.median_tps)}",
            _stall_evidence(s, drops),
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
        removable_share=1.0,
        momentary=True,
        confidence=0.5 if main in ("event", "unexplained") else 0.8,
        evidence=_stall_evidence(s, drops),
        causes=_STALL_CAUSES.get(main, ()),
        proposals=_proposals(s, drops, main),
    )


def _events_words(drops: Drops, main: Reason) -> str:
    """Return the events that overlapped, where nothing else is known of most of the loss."""
    if main != "event":
        return ""
    of_event = (drop.events for drop in drops.all if drop.reason == "event")
    return f": {listed(list(dict.fromkeys(each for events in of_event for each in events)))}"


def _stall_evidence(s: Situation, drops: Drops) -> list[Evidence]:
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


EMPTY_SHARE = 0.5
EMPTY_S_MIN = 2.0
DONE_MIN = 5.0
_STALLED_CLIENTS_CAUSES = (
    "relation-lock",
    "advisory-lock",
    "idle-in-transaction",
    "hot-row",
    "batch-update",
    "notify-lock",
    "pooler",
    "sync-replication",
)


class _Standing(Struct, frozen=True):
    """A client group and how long it stood still."""

    group: str
    clients: int
    still_s: float
    seconds: float
    done_usually: float
    """Transactions done in a usual interval in which it did any; 0 if it did none at all."""

    @property
    def share(self) -> float:
        """Part of the period in which the group stood still."""
        return self.still_s / self.seconds if self.seconds else 0.0

    @property
    def stalled(self) -> bool:
        """True if it is not chance, and not what such a load looks like."""
        usual = self.done_usually == 0 or self.done_usually >= DONE_MIN
        return usual and self.share >= EMPTY_SHARE and self.still_s >= EMPTY_S_MIN


@rule(
    "stalled-clients",
    of_clients=True,
    false_positives="a group whose single transactions are meant to last as long as the run",
)
def stalled_clients(s: Situation) -> Found | Cleared:
    """Stalled clients: a client group has transactions under way and ends none for most of the
    time.

    Trigger: a group that is not meant to be idle ended no transaction in intervals that make up at
    least ``EMPTY_SHARE`` of the period and at least ``EMPTY_S_MIN``, each with transactions under
    way at its end. Where it ended some, there must be at least ``DONE_MIN`` of these in a usual
    interval, so that a group of long or rare transactions is not taken for one that stands still.

    ``stall`` looks at short drops of all clients together and compares with their median, which a
    group beside others does not move, and which is zero where all stand still most of the time.

    Thresholds: half of the time, where standing still is what the group mostly did; with five in a
    usual interval, one without any is chance in less than one of a hundred (Poisson). Confirmed by
    injection: LOCK TABLE for 6 of 8 s.
    """
    groups = _stalled_clients_groups(s)
    worst = max(groups, key=lambda each: (each.stalled, each.share), default=None)
    if worst is None:
        return Cleared("no client group has work", [s.evidence("groups at work", 0, "count")])
    evidence = _stalled_clients_evidence(s, worst)
    stood = f"{figure(worst.still_s)} of {figure(worst.seconds)} s"
    if not worst.stalled:
        return Cleared(
            f"clients of {worst.group} ended no transaction in {stood}, the most of all groups",
            evidence,
        )
    clients = sum(each.clients for each in groups)
    of = f" of {worst.group}" if len(groups) > 1 else ""
    return Found(
        sentence=(
            f"the clients{of} stood still for {stood}: transactions were under way,"
            " and none came to an end"
        ),
        share=worst.share * worst.clients / clients if clients else worst.share,
        removable_share=1.0,
        momentary=True,
        confidence=0.8,
        evidence=evidence,
        causes=_STALLED_CLIENTS_CAUSES,
    )


def _stalled_clients_groups(s: Situation) -> list[_Standing]:
    idle = {account.name for account in s.accounts if account.idle}
    rows = s.run.intervals(s.slice_ids, by=("client_group",))
    names = dict.fromkeys(row.client_group for row in rows if row.client_group not in idle)
    return [
        _standing(str(name), [row for row in rows if row.client_group == name]) for name in names
    ]


def _standing(name: str, rows: Sequence[Interval]) -> _Standing:
    still = [row for row in rows if not (row.done or row.failed) and row.backlog]
    done = [row.done for row in rows if row.done]
    return _Standing(
        name,
        max(row.clients for row in rows),
        sum(row.duration_ms for row in still) / 1000,
        sum(row.duration_ms for row in rows) / 1000,
        float(median(done)) if done else 0.0,
    )


def _stalled_clients_evidence(s: Situation, worst: _Standing) -> list[Evidence]:
    return [
        s.evidence(
            f"time without an end of a transaction, {worst.group}",
            worst.share,
            "share",
            f"at least {percent(EMPTY_SHARE)} and {duration(EMPTY_S_MIN)}",
        ),
        s.evidence(
            "transactions in a usual interval with any",
            worst.done_usually,
            "count",
            f"none, or at least {DONE_MIN:g}",
        ),
        s.evidence("clients of the group", worst.clients, "count"),
    ]


WAITED_SHARE = 0.5
UNANSWERED_S_MIN = 2.0
"""From here on the load engine counts a client as one without an answer."""
LONGER_TIMES = 10.0
CLIENTS_SHARE = 0.01
_UNANSWERED_CLIENTS_CAUSES = (
    *("hot-row", "batch-update", "advisory-lock", "relation-lock", "idle-in-transaction"),
    *("prepared-transactions", "front-accept-queue", "pooler-client-limit", "pooler"),
)


class _Waiting(Struct, frozen=True):
    """Clients of a group that wait at the end of a period."""

    group: str
    clients: int
    waiting: int
    waited_s: float
    """The longest of their waits so far."""
    seconds: float
    response_s_max: float
    """The longest response of the group in the period; 0 if none came."""

    @property
    def share(self) -> float:
        """Part of the group's time that these waits take."""
        part = min(1.0, self.waited_s / self.seconds) if self.seconds else 0.0
        return part * self.waiting / self.clients if self.clients else 0.0

    @property
    def unanswered(self) -> bool:
        """True if so many wait for so long that response times hide it."""
        least_s = max(
            WAITED_SHARE * self.seconds, UNANSWERED_S_MIN, LONGER_TIMES * self.response_s_max
        )
        some = CLIENTS_SHARE * self.clients <= self.waiting < self.clients
        return bool(self.waiting) and some and self.waited_s >= least_s


@rule(
    "unanswered-clients",
    of_clients=True,
    false_positives=(
        "a statement that is meant to take much longer than the others of its group, and happened"
        " to be under way at the end"
    ),
)
def unanswered_clients(s: Situation) -> Found | Cleared:
    """Clients without an answer: some of a group wait to the end, while its others go on.

    Such a wait has no end and so no response time: percentiles are of those who got an answer.

    Trigger: at the end of a period, clients have waited for the answer to one statement or request
    for at least ``WAITED_SHARE`` of the period and ``UNANSWERED_S_MIN``, and ``LONGER_TIMES`` as
    long as the longest response of their group; and they are at least ``CLIENTS_SHARE`` of it, but
    not all. Of several slices the last one is judged. How many they are is the fewest in any second
    since the first of them began to wait.

    Thresholds: half, where waiting is what the client mostly did; ten times the longest response,
    as statements of one script that take so much longer than all others wait for something else;
    one hundredth, as fewer would not change p99. Confirmed by injection: a lock that is held for
    good, and 1 of 8 clients that waits for it.

    Look-alikes: all clients of a group that stand still are the finding ``stalled_clients``.
    """
    groups = _unanswered_clients_groups(s)
    worst = max(groups, key=lambda each: (each.unanswered, each.share), default=None)
    if worst is None:
        return Cleared("no client group has work", [s.evidence("groups at work", 0, "count")])
    evidence = _unanswered_clients_evidence(s, worst)
    if not worst.unanswered:
        return Cleared("no client waits for an answer much longer than all others", evidence)
    of = f" of {worst.group}" if len(groups) > 1 else ""
    return Found(
        sentence=(
            f"{worst.waiting:,} of {counted(worst.clients, 'client', 'clients')}{of} got no answer"
            f" in the last {duration(worst.waited_s)}: response times are those of the others,"
            f" {figure(1000 * worst.response_s_max)} ms at most"
        ),
        share=worst.share,
        removable_share=1.0,
        momentary=True,
        confidence=0.8,
        evidence=evidence,
        causes=_UNANSWERED_CLIENTS_CAUSES,
    )


def _unanswered_clients_groups(s: Situation) -> list[_Waiting]:
    rows = s.run.group_intervals(s.slice_ids[-1:])
    groups = (
        [row for row in rows if row.client_group == account.name]
        for account in s.accounts
        if not account.idle
    )
    return [_waiting(s, mine) for mine in groups if mine]


def _waiting(s: Situation, rows: Sequence[GroupInterval]) -> _Waiting:
    """Return the clients that wait at the end of the last slice, by a group's ``rows`` of it."""
    last = rows[-1]
    waited_s = last.unanswered_us_max / 1e6
    ended_ms = last.at_ms + last.duration_ms
    counted_ms = ended_ms - 1000 * (waited_s - UNANSWERED_S_MIN)
    since = [row.unanswered for row in rows if row.at_ms >= counted_ms]
    response = s.run.histogram("response", s.slice_ids[-1:], group=last.client_group)
    return _Waiting(
        group=last.client_group,
        clients=last.clients,
        waiting=min((*since, last.unanswered)),
        waited_s=waited_s,
        seconds=sum(row.duration_ms for row in rows) / 1000,
        response_s_max=response.max / 1e9,
    )


def _unanswered_clients_evidence(s: Situation, worst: _Waiting) -> list[Evidence]:
    bar = (
        f"at least {percent(WAITED_SHARE)} of the period, {duration(UNANSWERED_S_MIN)} and"
        f" {LONGER_TIMES:g} times the longest response"
    )
    least = f"at least {percent(CLIENTS_SHARE)} of the group, and not all"
    return [
        s.evidence(
            f"clients without an answer at the end, {worst.group}", worst.waiting, "count", least
        ),
        s.evidence("longest wait of these", worst.waited_s, "s", bar),
        s.evidence("longest response of the group", 1000 * worst.response_s_max, "ms"),
        s.evidence("clients of the group", worst.clients, "count"),
    ]

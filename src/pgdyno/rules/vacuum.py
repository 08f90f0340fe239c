"""Vacuums that take from the load."""

from __future__ import annotations

from statistics import median

from msgspec import Struct

from pgdyno.facts.autovacuum import Autovacuum
from pgdyno.facts.held_times import held_spans, is_held
from pgdyno.facts.intervals import timed
from pgdyno.facts.situation import Situation
from pgdyno.facts.vacuums import limits_of, vacuumed_in_failsafe
from pgdyno.numbers import figure, listed, percent
from pgdyno.record.finding import Evidence, Proposal, Skip
from pgdyno.rules._pools import WORTHWHILE_RATIO
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.change import Change
from pgdyno.stats import mann_whitney

LOST_SHARE = 0.1
P_MAX = 0.01
SHORT_PER_S = 0.5
"""Vacuums per second that may cost something although none is seen; ours."""
SECONDS_MIN = 4
SLOWER = 0.5
"""A vacuum at half the pace takes half as much at a time."""
_LIMIT = "autovacuum_vacuum_cost_limit"
_LIMIT_MIN = 100.0
_DELAY = "autovacuum_vacuum_cost_delay"


class _Split(Struct, frozen=True):
    """Throughput in tps of the intervals with and without a vacuum."""

    during: list[float]
    otherwise: list[float]
    held: int
    """Intervals left out, with a vacuum or without: a queue for a lock held the load."""
    relations: list[str]
    """Tables that were vacuumed, those seen for the longest time first."""
    automatic: bool
    to_prevent_wraparound: bool

    @property
    def lost(self) -> float:
        """Share of the throughput that is missing during a vacuum."""
        without = median(self.otherwise)
        return 1.0 - median(self.during) / without if without > 0 else 0.0

    @property
    def part(self) -> float:
        """Part of the time with a vacuum."""
        return len(self.during) / (len(self.during) + len(self.otherwise))

    @property
    def in_words(self) -> str:
        kind = "autovacuum" if self.automatic else "a manual vacuum"
        wraparound = " to prevent wraparound" if self.to_prevent_wraparound else ""
        return f"{kind}{wraparound} of {', '.join(self.relations[:2])}"


@rule(
    "vacuum-load",
    false_positives=(
        "a checkpoint or another job that ran at the same time; a load that is heavier when there"
        " is more to vacuum"
    ),
)
def vacuum_load(s: Situation) -> Found | Cleared:
    """Vacuum that costs throughput: the load is slower while a vacuum runs than before and after
    it.

    Trigger: the median throughput of the seconds in which a vacuum was seen is at least
    ``LOST_SHARE`` below that of the other seconds, by a rank test at ``P_MAX``, with
    ``SECONDS_MIN`` of each.

    Thresholds: 10 % is what a verdict asks of a limit. A published case: a manual VACUUM FREEZE
    doubled the latency of a load of inserts for five hours, while ordinary vacuums were invisible
    (postgres-loadgen). Vacuums without pauses of a table of 2 million rows took 11 % on a busy
    machine, which the rank test did not tell from noise. A vacuum that prevents wraparound, and a
    manual one, are named as such. Vacuums of less than a second are not seen; where the server
    counts ``SHORT_PER_S`` of them, nothing is cleared.

    Look-alikes: a vacuum that sleeps for most of its time costs nothing and is the finding
    "autovacuum-slow"; drops of throughput to nearly nothing are the finding "stall". Seconds in
    which a queue for a lock held the load are left out, on both sides: a load that waits for ALTER
    TABLE, which waits for a vacuum, is the finding "relation-lock".
    """
    split = _split(s)
    if split is None:
        if (number := _counted(s)) >= SHORT_PER_S * s.seconds:
            raise Skip(
                f"{figure(number)} vacuums were counted and none was seen at work: each took less"
                " than a second, and their cost was not measured"
            )
        return Cleared("no vacuum was seen", [s.evidence("seconds with a vacuum", 0, "count")])
    few = min(len(split.during), len(split.otherwise))
    if few < SECONDS_MIN:
        when = "only for a moment" if len(split.during) == few else "almost all the time"
        left_out = f" apart from the {split.held} s in which a queue for a lock held the load"
        raise Skip(
            f"vacuum ran {when}{left_out if split.held else ''}, so throughput with and without it"
            " cannot be compared"
        )
    p = mann_whitney(split.during, split.otherwise)
    evidence = _evidence(s, split, p)
    sentence = (
        f"throughput is {percent(abs(split.lost))} {'lower' if split.lost > 0 else 'higher'} during"
        f" {split.in_words}: {figure(median(split.during))} tps, otherwise"
        f" {figure(median(split.otherwise))}"
    )
    if split.lost < LOST_SHARE or p > P_MAX:
        return Cleared(sentence, evidence)
    share = split.lost * split.part
    return Found(
        sentence=sentence,
        share=share,
        removable_share=SLOWER,
        confidence=0.7,
        evidence=evidence,
        proposals=_proposals(s, split, share),
        advice="vacuum when the load is low, so that no vacuum has to do much at a time"
        if split.to_prevent_wraparound or not split.automatic
        else "",
    )


def _counted(s: Situation) -> float:
    """Return the vacuums that the server counted for tables of the database."""
    counts = ("vacuum_count", "autovacuum_count")
    return sum(s.run.delta("metric_table", name, s.slice_ids) or 0.0 for name in counts)


def _split(s: Situation) -> _Split | None:
    rows = s.run.series("metric_vacuum", s.slice_ids)
    if not len(rows["at_ms"]):
        return None
    spans = held_spans(s.run, s.slice_ids)
    during: list[float] = []
    otherwise: list[float] = []
    held = 0
    for each in timed(s.run.intervals(s.slice_ids)):
        ended_ms = each.at_ms + each.duration_ms
        if is_held(spans, each.at_ms, ended_ms):
            held += 1
            continue
        seen = any(each.at_ms <= at_ms < ended_ms for at_ms in rows["at_ms"])
        (during if seen else otherwise).append(each.done * 1000 / each.duration_ms)
    names = [str(name) for name in rows["relation"]]
    return _Split(
        during,
        otherwise,
        held,
        sorted(set(names), key=lambda name: -names.count(name)),
        automatic=bool(rows["automatic"].any()),
        to_prevent_wraparound=bool((rows["to_prevent_wraparound"] == 1).any()),
    )


def _evidence(s: Situation, split: _Split, p: float) -> list[Evidence]:
    autovacuum = Autovacuum(s)
    return [
        s.evidence("seconds with a vacuum", len(split.during), "count", f"at least {SECONDS_MIN}"),
        s.evidence("throughput lost during it", split.lost, "share",
                   f"at least {percent(LOST_SHARE)}"),
        s.evidence("p-value of a rank test", p, "", f"at most {P_MAX:g}"),
        s.evidence("seconds left out, held by a queue for a lock", split.held, "count"),
        s.evidence("tables vacuumed", ", ".join(split.relations[:5]), ""),
        s.evidence("workers asleep for the cost delay", autovacuum.asleep_share, "share"),
    ]  # fmt: skip


def _proposals(s: Situation, split: _Split, share: float) -> list[Proposal]:
    """Return half the pace, or the pauses that vacuum has by default."""
    ratio = 1.0 / (1.0 - share * SLOWER)
    if not split.automatic or split.to_prevent_wraparound or ratio < WORTHWHILE_RATIO:
        return []
    autovacuum = Autovacuum(s)
    if s.settings.duration_ms(_DELAY) == 0:
        change = Change(settings={_DELAY: "2ms"})
        return [
            Proposal(
                remedy_id="autovacuum-pace",
                change=change,
                predicted_ratio=ratio,
                why="vacuum would pause",
                specific=True,
            )
        ]
    limit = autovacuum.number(_LIMIT)
    limit = limit if limit > 0 else autovacuum.number("vacuum_cost_limit")
    if limit <= _LIMIT_MIN:
        return []
    change = Change(settings={_LIMIT: f"{max(_LIMIT_MIN, limit * SLOWER):.0f}"})
    why = "vacuum would do half as much between its pauses"
    return [
        Proposal(
            remedy_id="autovacuum-pace",
            change=change,
            predicted_ratio=ratio,
            why=why,
            specific=True,
        )
    ]


@rule(
    "vacuum-failsafe",
    false_positives="a failsafe that was set low on purpose",
)
def vacuum_failsafe(s: Situation) -> Found | Cleared:
    """The failsafe of vacuum: tables so old that vacuum gives up everything except freezing.

    Trigger: a vacuum was seen on a table, or its TOAST table, whose oldest transaction ID or
    multixact is older than vacuum_failsafe_age or vacuum_multixact_failsafe_age. Threshold: the
    settings, 1.6 billion by default, at least 1.05 times the age at which freezing is forced
    (vacuum_xid_failsafe_check in vacuum.c; 14 and later). Such a vacuum goes on without cost delay
    and without indexes, and so takes what it gets from the disk; dead rows stay in the indexes
    until a later one.

    Look-alikes: how old the database is, and what keeps it so, is the finding "transaction-ids";
    the throughput that vacuum costs is "vacuum-load".
    """
    limits = limits_of(s.settings.number)
    seen = vacuumed_in_failsafe(s.run, s.slice_ids, limits)
    evidence = [
        s.evidence("samples of vacuums in the failsafe", sum(seen.values()), "count", "at least 1"),
        s.evidence("failsafe of transaction IDs", limits[0], "count"),
        s.evidence("failsafe of multixacts", limits[1], "count"),
    ]
    if not seen:
        return Cleared("no vacuum was seen on a table older than the failsafe", evidence)
    return Found(
        sentence=(
            f"vacuum of {listed(sorted(seen))} ran in the failsafe, without cost delay and without"
            f" indexes: older than {figure(limits[0])} transaction IDs, or {figure(limits[1])}"
            " multixacts"
        ),
        removable_share=0.0,
        confidence=0.9,
        evidence=evidence,
        causes=("transaction-ids", "xmin-pinned", "autovacuum-slow"),
        advice=(
            "leave it running, since it postpones the stop; once the age is low again, VACUUM these"
            " tables for their indexes, and find out why autovacuum did not freeze them before"
        ),
    )

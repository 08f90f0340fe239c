"""The data of a drill: the answer of verification, the options, a cut in words, and the figures
over all cuts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Literal, TypedDict, Unpack

from msgspec import Struct

from pgdyno._engine import beta_quantile
from pgdyno.numbers import counted, duration, percent
from pgdyno.record.cut import THE_FAULT, Check, Cut, LedgerCount, Outcome
from pgdyno.results.drill import Drill, Summary

SCHEMA_VERSION: Literal[1] = 1
CONFIDENCE = 0.95
NOTHING_ACKED = (
    "nothing was acknowledged before the fault, so nothing could be lost and nothing is known"
)
"""The result of a cut, or of all cuts, that had nothing to lose."""
_BOUND_CUTS_MIN = 5
"""Fewest cuts whose upper bound is worth a sentence."""
ONE_LOAD = "; all are of one recorded load, so they bound no share of all crashes"
"""The conclusion from cuts that are chosen from one load."""


class Verified(Struct, frozen=True):
    """The result of verification after one fault."""

    outcome: Outcome
    ledger: LedgerCount | None
    """``None`` when the server accepted no connection, so that nothing could be counted."""
    recovery_s: float | None
    """From the start of the server to its first answer; ``None`` when it refused."""
    checks: tuple[Check, ...] = ()
    seen_by: str = ""
    """The check that decided the outcome; '' when all passed."""
    server_said: str = ""
    """The decisive log messages: why the server refused, or the damage that it reported."""
    disturbed: str = ""
    """Outside interference with the server meanwhile, which makes the result void; '' if none."""

    def of(self, cut: Cut) -> Cut:
        """Return a cut with this result; without outcome and counts if its fault did not happen."""
        members = ["recovery_s", "checks", "seen_by", "server_said"]
        if cut.proof.happened:
            members += ["outcome", "ledger"]
        found = {name: getattr(self, name) for name in members}
        return Cut.model_validate({**dict(cut), **found})


class DrillMembers(TypedDict):
    """Members of a drill other than its cuts and the figures over them."""

    fault: str
    title: str
    settings: dict[str, str]
    bound: str
    server_version: str
    emulated: str | None
    run_file: str
    seed: int
    sham: bool


class DrillOptions(Struct, frozen=True):
    """The options of a drill that are not keys of its spec."""

    fault: str
    cuts: int = 20
    seed: int = 1
    sham: bool = False
    """Do everything except the fault."""
    load_s: float | None = None
    """Duration of the load before a cut; ``None``: the fault's default, varied by seed."""
    sector_bytes: int | None = None
    """Size of a sector, which a disk writes whole: 512 or 4096; ``None``: either, by seed
    (power)."""
    minimise: bool = False
    """Reduce failing cuts to the sectors that make them fail (power)."""
    budget_s: float | None = None
    """Start no new cut after this time."""
    variant: str | None = None
    """The only variant to use of a fault that has several."""
    cut: int | None = None
    """The only cut to make (power)."""
    detect_s: float | None = None
    """Time without an answer until a standby is promoted; None: the default (failover,
    partition)."""
    recording: str | None = None
    """Directory of a recorded load to make cuts of, or to keep one in (power)."""


def drill_of(
    *,
    cuts: Sequence[Cut],
    bound_ms: float | None,
    pooled: bool,
    **members: Unpack[DrillMembers],
) -> Drill:
    """Return a drill with the figures over its cuts.

    ``bound_ms`` is the documented bound of loss; None: there is none, and ``bound`` gives the
    reason. ``pooled``: variants are drawn by seed from one set, so that they are judged together.
    """
    summary = summarise(cuts, bound_ms, one_load=pooled)
    groups = by_variant(cuts, pooled=pooled)
    if len(groups) > 1:
        each = (f"{v}: {summarise(of_it, bound_ms).sentence}" for v, of_it in groups.items())
        summary = summary.model_copy(update={"sentence": ". ".join(each)})
    return Drill(schema_version=SCHEMA_VERSION, cuts=tuple(cuts), summary=summary, **members)


def by_variant(cuts: Iterable[Cut], *, pooled: bool) -> dict[str, list[Cut]]:
    """Return cuts by variant; all under '' where variants are judged together."""
    found: dict[str, list[Cut]] = {}
    for cut in cuts:
        found.setdefault("" if pooled else cut.variant, []).append(cut)
    return found


def summarise(cuts: Sequence[Cut], bound_ms: float | None, *, one_load: bool = False) -> Summary:
    """Return figures over ``cuts``; those whose fault did not happen count only under ``cuts``.

    Cuts of ``one_load`` share what it did and when it flushed: they are no sample of crashes, so
    that they have no upper bound.
    """
    happened = [cut for cut in cuts if cut.outcome != "no-fault"]
    ledgers = [cut.ledger for cut in happened if cut.ledger is not None]
    until = happened[0].lost_until if happened else THE_FAULT
    lost = [ledger.lost for ledger in ledgers]
    lost_ms = [ledger.lost_ms for ledger in ledgers]
    outages_ms = [cut.outage.no_commit_ms for cut in happened if cut.outage is not None]
    recoveries_s = [cut.recovery_s for cut in happened if cut.recovery_s is not None]
    counts = {
        outcome: sum(cut.outcome == outcome for cut in happened)
        for outcome in ("corrupt", "refused", "lost", "clean")
    }
    harmed = len(happened) - counts["clean"]
    return Summary(
        cuts=len(cuts),
        happened=len(happened),
        acked=sum(ledger.acked for ledger in ledgers),
        lost_max=max(lost, default=None),
        lost_median=median(lost) if lost else None,
        lost_ms_max=max(lost_ms, default=None),
        lost_ms_median=median(lost_ms) if lost_ms else None,
        bound_ms=bound_ms,
        **counts,
        recovery_s_median=median(recoveries_s) if recoveries_s else None,
        recovery_s_max=max(recoveries_s, default=None),
        no_commit_ms_median=median(outages_ms) if outages_ms else None,
        no_commit_ms_max=max(outages_ms, default=None),
        upper_bound=None if one_load else share_upper_bound(harmed, len(happened)),
        sentence=_sentence(
            len(cuts), len(happened), counts, ledgers, until=until, one_load=one_load
        ),
    )


def share_upper_bound(harmed: int, n: int) -> float | None:
    """Return the one-sided 95 % upper bound of the share of harmed cuts, ``harmed`` of ``n``.

    Clopper and Pearson's exact bound; with none harmed it is 1 - 0.05 ** (1 / n), about 3 / n.
    ``None`` when ``n`` is 0.
    """
    if n == 0:
        return None
    if harmed >= n:
        return 1.0
    if harmed == 0:
        return float(round(1 - (1 - CONFIDENCE) ** (1 / n), 4))
    return round(beta_quantile(harmed + 1, n - harmed, CONFIDENCE), 4)


def _sentence(
    cuts: int,
    n: int,
    counts: Mapping[str, int],
    ledgers: Sequence[LedgerCount],
    *,
    until: str,
    one_load: bool,
) -> str:
    if cuts == 0:
        return "no cut was made: nothing is known"
    if n == 0:
        tried = "the only cut" if cuts == 1 else f"any of {_cuts(cuts)}"
        return f"the fault did not happen in {tried}: nothing is known"
    parts = []
    if counts["corrupt"]:
        parts.append(f"{counts['corrupt']} of {_cuts(n)} came up corrupt")
    if counts["refused"]:
        parts.append(f"the server refused to start after {counts['refused']} of {_cuts(n)}")
    losing = sum(ledger.lost > 0 for ledger in ledgers)
    if losing:
        parts.append(_losses(losing, n, ledgers, until))
    idle = sum(ledger.acked == 0 for ledger in ledgers)
    if not parts and idle == n:
        parts.append(NOTHING_ACKED)
    elif not parts:
        conclusion = ONE_LOAD if one_load else _share_of_all(n, counts)
        parts.append(f"0 of {_cuts(n)} lost anything{conclusion}")
    if 0 < idle < n:
        parts.append(f"in {idle} of them nothing was acknowledged before the fault")
    if n < cuts:
        parts.append(f"in {cuts - n} of {_cuts(cuts)} the fault did not happen")
    return "; ".join(parts)


def acknowledged_words(lost_ms: float, until: str = THE_FAULT) -> str:
    """Return how long before the fault, or ``until`` then, the oldest lost commit was
    acknowledged."""
    return f"acknowledged up to {duration(lost_ms / 1000)} before {until}"


def _losses(losing: int, n: int, ledgers: Sequence[LedgerCount], until: str) -> str:
    """Return the losses of ``losing`` of ``n`` cuts: of a single cut without statistics."""
    lost, lost_ms = ([getattr(each, name) for each in ledgers] for name in ("lost", "lost_ms"))
    if n == 1:
        commits = counted(lost[0], "commit", "commits")
        return f"the cut lost {commits}, {acknowledged_words(lost_ms[0], until)}"
    return (
        f"{losing} of {_cuts(n)} lost acknowledged commits: at most {max(lost):,},"
        f" {acknowledged_words(max(lost_ms), until)}; median {median(lost):,.10g} and"
        f" {duration(median(lost_ms) / 1000)}"
    )


def _share_of_all(n: int, counts: Mapping[str, int]) -> str:
    """Return the conclusion from ``n`` cuts without harm about all crashes, or ''."""
    bound = share_upper_bound(n - counts["clean"], n)
    if bound is None or n < _BOUND_CUTS_MIN:
        return ""
    return (
        f": at most {percent(bound)} of such crashes would, with {percent(CONFIDENCE)} confidence"
    )


def _cuts(number: int) -> str:
    return counted(number, "cut", "cuts")


def in_words(cut: Cut) -> str:
    """Return one cut in a line: its outcome, and the check that decided it."""
    if "disturbed" in cut.facts:
        return f"does not count: {cut.proof.sentence}"
    if cut.outcome == "no-fault":
        return f"the fault did not happen: {cut.proof.sentence}"
    variant = f"{cut.variant}: " if cut.variant else ""
    if cut.outcome == "refused":
        return f"{variant}refused to start: {cut.server_said or cut.seen_by}"
    recovered = "" if cut.recovery_s is None else f", up again after {duration(cut.recovery_s)}"
    if cut.outcome == "corrupt":
        return f'{variant}corrupt, found by the check "{cut.seen_by}"{recovered}'
    said = cut.outcome if cut.ledger is None else _ledger_in_words(cut.ledger, cut.lost_until)
    outage = (
        "" if cut.outage is None else f", no commit for {duration(cut.outage.no_commit_ms / 1000)}"
    )
    return f"{variant}{said}{recovered}{outage}"


def _ledger_in_words(ledger: LedgerCount, until: str) -> str:
    """Return the commits that a consistent database has lost, in words."""
    if not ledger.acked:
        return NOTHING_ACKED
    if ledger.lost:
        return (
            f"lost {ledger.lost:,} of {ledger.acked:,} acknowledged commits,"
            f" {acknowledged_words(ledger.lost_ms, until)}"
        )
    return f"all of {ledger.acked:,} acknowledged commits are present"

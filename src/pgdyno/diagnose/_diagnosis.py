"""The diagnosis of a period of a run: ranked findings, latency budget with what it lacks, and
verdict.

Ranking: every finding owns a share of the mean response time (each wait is counted once, see
``facts.budget``), and the model says what part of the response would go if its limit were lifted.
Findings are ranked by the product, so that a large wait that cannot be reduced does not outrank a
smaller one that can. Work is ranked by the part of the response time that goes without it at the
cautious end of the prediction, ``gain``, as it makes the waits of others longer too. Two kinds rank
behind every finding with a larger share of the time of the whole run: those that mask the gains of
others, such as other programs on the machine; and those that last for moments only, whose gain is
not predicted but assumed. A finding that makes all others doubtful comes before them, but for work
that was timed apart from the load and gains more; and then a server that is about to stop. What
makes statements longer comes before the queue for what they hold, if undoing it is predicted to
gain more.

A limit owns at least ``LIMIT_SHARE_MIN``, or certainly gains as much: on busy cores what takes CPU
time also makes the waits of others longer. A finding with less is minor: listed without a rank. So
is everything that is merely slow in a load that has no limit (``facts.headroom``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.diagnose._attribution import NamedPart, named_parts
from pgdyno.diagnose._requests import request_budgets
from pgdyno.diagnose._verdict import LimitVerdict, verdict_of
from pgdyno.facts.budget import Part, ResponseTimeBudget
from pgdyno.facts.headroom import Held, held_load, most_ratio
from pgdyno.facts.observed import ObservedRun, is_observed
from pgdyno.facts.plans import LONGER_TRANSACTIONS, OUTSIDE_SERVER
from pgdyno.facts.sampling import sampling_error
from pgdyno.facts.situation import Situation
from pgdyno.facts.statement_budgets import StatementTimeBudget, statement_budgets
from pgdyno.facts.statement_times import has_pipeline
from pgdyno.facts.unusual import JudgedSetting, judged_settings
from pgdyno.record.fileformat import CLIENT_BACKENDS
from pgdyno.record.finding import Finding, Lack, Proposal, Severity, Skip
from pgdyno.remedy import risk_of
from pgdyno.rules.rule import Cleared, Found, Rule, rules_of_loads

if TYPE_CHECKING:
    from pgdyno.record import RunFile


SAMPLED_MIN = 30
"""Sightings of sessions at work below which shares are rough: 30 give 15 % ± 13 % (95 %,
binomial)."""
LIMIT_SHARE_MIN = 0.1
"""Share of the response time below which a finding is no limit: if all of it went, throughput would
rise by a ninth, about what identical slices on a shared machine differ by."""
SURE_MIN = 1.03
"""Predicted ratio at the cautious end from which on a gain is certain."""
GUESS_MIN = 1.15
"""Predicted ratio from which on a cause whose gain is not certain stands in front of a consequence
that has no remedy of its own."""
MOST_SHARE = 0.5
"""Part of a transaction's time that is most of it."""
_FEW = ("few-clients", "busy-clients")


def missing_words(s: Situation) -> list[str]:
    """Return the sentences, without periods; the last one is true of every budget."""
    return list(_missing(s))


def _missing(s: Situation) -> Iterator[str]:
    yield from _of_samples(s)
    if s.cpu_if_recorded is None:
        yield "the server's machine was not observed: sessions seen running stand in for CPU time"
    elif s.process_cores(*CLIENT_BACKENDS) is None:
        yield (
            "CPU time of the server's processes was not recorded: time on a core and in the queue"
            " for one are not distinguished"
        )
    if not s.statements:
        yield "the times of statements were not recorded"
    elif s.overlapping_groups or s.between_statements_ms is None:
        together = (
            "statements of a pipeline are answered together: none has a time of its own, and "
        )
        pipeline = has_pipeline(s.run.run.spec)
        yield f"{together if pipeline else ''}pauses of the client between statements are not known"
    server = s.run.run.server
    if s.is_pooled:
        yield (
            "a pooler stands between clients and server: its queue is part of network and messages"
        )
    if note := server.get("note"):
        yield f"{note}; wait events that pgdyno does not know are counted by their type"
    yield "parsing and planning are part of the CPU time"


def _of_samples(s: Situation) -> Iterator[str]:
    try:
        seen = s.sessions_at_work * s.samplings
    except Skip as reason:
        yield f"what sessions did is not known: {reason}"
        return
    if not s.sessions_were_sampled:
        yield (
            "no sample shows the state of a session of the load: none was connected, or the states"
            " are hidden (grant pg_monitor)"
        )
    elif seen <= 0:
        yield f"no session was seen at work in {s.samplings} samples: its waits are too short"
    elif seen < SAMPLED_MIN:
        yield f"sessions at work were seen {seen:.0f} times only: shares of waits are rough"
    elif not any(wait.statement for wait in s.waits):
        yield "the server's samples have no texts of statements (grant pg_monitor)"


class Diagnosis(Struct, frozen=True):
    """The findings, the latency budget and the verdict of a period of a run."""

    findings: list[Finding]
    """Ranked ones first, rank 1 being the limit; then minor ones, then what was checked and
    cleared, then what could not be checked."""
    verdict: LimitVerdict
    budget: ResponseTimeBudget | None
    """None if the response time is not known."""
    parts: Sequence[NamedPart] = ()
    """The parts of the budget, the largest first; they add up to the mean response time."""
    statements: Sequence[StatementTimeBudget] = ()
    """The budget of each statement, those that take the most time first."""
    missing: Sequence[str] = ()
    """Sentences about what the budgets lack."""
    settings: Sequence[JudgedSetting] | None = None
    """The settings that are not at their built-in value, by name; None if they are not known."""


def diagnose(run: RunFile, slice_ids: list[int], *, step: int = 0) -> Diagnosis:
    """Diagnose ``slice_ids``, slices under one change, taken as one period.

    Which proposals are allowed is for those to say who choose among them.
    """
    if is_observed(run):
        with ObservedRun(run.path) as seen:
            return _diagnosis(Situation(seen, slice_ids), step)
    return _diagnosis(Situation(run, slice_ids), step)


def refusals(run: RunFile, slice_ids: list[int]) -> list[Finding]:
    """Return the findings that say who refused clients, of void slices that have no diagnosis."""
    situation = Situation(run, slice_ids)
    answers = [(each, _answer(each, situation)) for each in rules_of_loads() if each.of_refusals]
    findings = [
        _finding(rule, answer, situation, set()).model_copy(update={"weight": 0.0})
        for rule, answer in answers
        if isinstance(answer, Found)
    ]
    return _ranked(findings, None, 1.0)


def _diagnosis(situation: Situation, step: int) -> Diagnosis:
    answers = [(rule, _answer(rule, situation)) for rule in rules_of_loads()]
    claimed = {p for _, answer in answers if isinstance(answer, Found) for p in answer.parts}
    findings = [_finding(rule, answer, situation, claimed) for rule, answer in answers]
    held = _if_known(lambda: held_load(situation))
    ranked = [
        each.model_copy(update={"step": step})
        for each in _ranked(findings, held, situation.budget.begun)
    ]
    budget = situation.budget if situation.budget.response_ms > 0 else None
    parts = named_parts(situation, ranked) if budget else []
    return Diagnosis(
        findings=ranked,
        verdict=verdict_of(ranked, parts, held),
        budget=budget,
        parts=parts,
        statements=_statements(situation) if budget else (),
        missing=missing_words(situation) if budget else (),
        settings=judged_settings(situation, ranked),
    )


def _statements(s: Situation) -> Sequence[StatementTimeBudget]:
    """Return the budgets of what the clients' scripts send: statements, or requests."""
    return request_budgets(s) if s.is_http else statement_budgets(s)


def _ranked(findings: Sequence[Finding], held: Held | None, begun: float) -> list[Finding]:
    """Return the findings in order with ranks, causes that were found, and proposals once."""
    found = _causes_first(_in_order(f for f in findings if f.status == "found"), begun)
    limits = [finding for finding in found if _may_limit(finding, held, begun)]
    minor = [finding for finding in found if finding not in limits]
    ids = {finding.id for finding in found}
    seen: list[tuple[str, dict[str, object]]] = []
    listed = [
        finding.model_copy(
            update={
                "rank": rank,
                "severity": finding.severity or _severity(finding, rank, begun),
                "causes": tuple(cause for cause in finding.causes if cause in ids),
                "proposals": _unseen(finding.proposals, seen),
            }
        )
        for finding, rank in (*zip(limits, count(1)), *((each, None) for each in minor))
    ]
    others = sorted((f for f in findings if f.status != "found"), key=lambda f: f.status)
    return [*listed, *others]


def _may_limit(finding: Finding, held: Held | None, begun: float) -> bool:
    if finding.is_about_to_fail or finding.causes_distrust:
        return True
    return _is_large(finding, begun) and (held is None or finding.momentary)


def _is_large(finding: Finding, begun: float) -> bool:
    """True for a large share of the response time, or of a transaction's own time, ``begun`` of it,
    where the finding has no part of the backlog; and where it is predicted to gain as much."""
    if (finding.gain_min or 1.0) >= 1.0 / (1.0 - LIMIT_SHARE_MIN):
        return True
    share = finding.share or 0.0
    return (share / begun if 0.0 < share <= begun else share) >= LIMIT_SHARE_MIN


def _severity(finding: Finding, rank: int | None, begun: float) -> Severity:
    """Return the severity of a finding, other than that the server is about to fail."""
    if rank is None:
        return "minor"
    return "limit" if _is_large(finding, begun) else "costs"


def _if_known(make: Callable[[], Held | None]) -> Held | None:
    try:
        return make()
    except Skip:
        return None


def _answer(rule: Rule[Situation], situation: Situation) -> Found | Cleared | Skip:
    if rule.of_clients and situation.is_observed:
        return Skip("clients were not observed: the load is not pgdyno's own", Lack.CLIENTS)
    try:
        return rule.examine(situation)
    except Skip as reason:
        return reason


def _finding(
    rule: Rule[Situation], answer: Found | Cleared | Skip, situation: Situation, claimed: set[Part]
) -> Finding:
    if isinstance(answer, Skip):
        return Finding.skipped(rule.id, answer)
    parts, evidence = tuple(answer.parts), tuple(answer.evidence)
    if isinstance(answer, Cleared):
        return Finding(
            id=rule.id,
            status="cleared",
            sentence=answer.sentence,
            evidence=evidence,
            parts=parts,
        )
    share = min(1.0, max(0.0, _share(answer, situation.budget, claimed)))
    most = most_ratio(situation)
    error = sampling_error(situation, parts)
    proposals = (each.with_model_error(error).limited(most) for each in answer.proposals)
    return Finding(
        id=rule.id,
        status="found",
        sentence=answer.sentence,
        confidence=answer.confidence,
        evidence=evidence,
        false_positives=rule.false_positives,
        causes=tuple(answer.causes),
        proposals=tuple(sorted(proposals, key=lambda p: -p.predicted_ratio)),
        advice=answer.advice,
        commands=tuple(answer.commands),
        share=share,
        parts=parts,
        weight=_weight(answer, share),
        gain=None if answer.gain is None else float(answer.gain),
        gain_min=None if answer.gain is None else answer.gain.low,
        severity=answer.severity,
        momentary=answer.momentary,
        masks_other_gains=answer.masks_other_gains,
        causes_distrust=answer.causes_distrust,
    )


def _weight(answer: Found, share: float) -> float:
    """Return the part of the response time that would go, at the cautious end of a prediction."""
    if answer.gain is not None:
        return answer.gain.lifted
    return share * min(1.0, max(0.0, answer.removable_share))


def _share(answer: Found, budget: ResponseTimeBudget, claimed: set[Part]) -> float:
    """Return the share of the response time that is due to a finding."""
    if answer.share is None:
        return budget.owned_share(answer.parts, claimed)
    return answer.share if answer.momentary else budget.with_queues(answer.share, claimed)


def _in_order(found: Iterable[Finding]) -> list[Finding]:
    """Return findings by weight; first what casts doubt on the rest, then what is about to fail, of
    which the cause comes before the symptom.

    Not in doubt is what was timed apart from the load, and gains more than what casts it.
    """
    found = list(found)
    failing = {finding.id for finding in found if finding.is_about_to_fail}
    doubts = [max(LIMIT_SHARE_MIN, each.weight) for each in found if each.causes_distrust]

    def order(finding: Finding) -> tuple[bool, bool, bool, float, bool, float]:
        symptom = finding.is_about_to_fail and not failing.isdisjoint(finding.causes)
        larger = [each.weight for each in found if (each.share or 0.0) > (finding.share or 0.0)]
        behind = finding.masks_other_gains or finding.momentary
        weight = min([finding.weight, *larger]) if behind else finding.weight
        is_sure = finding.gain_min is not None and finding.weight > max(doubts, default=math.inf)
        return (
            not (finding.causes_distrust or is_sure),
            not finding.is_about_to_fail,
            symptom,
            -weight,
            behind,
            -(finding.share or 0.0),
        )

    return sorted(found, key=order)


def _causes_first(found: Sequence[Finding], begun: float) -> list[Finding]:
    """Return findings with what makes statements longer in front of its consequence, the queue for
    what they hold, if undoing it is predicted to gain more, and certainly gains or is all there is
    to do; and with what makes transactions longer outside of the server in front of the clients
    that wait for it, if it is most of their time."""
    ordered = list(found)
    for finding in found:
        if finding.causes_distrust or finding.is_about_to_fail:
            continue
        place = ordered.index(finding)
        roots = {*finding.causes} & {*LONGER_TRANSACTIONS}
        for cause in [each for each in ordered[place + 1 :] if each.id in roots]:
            if _is_root(cause, finding, begun):
                ordered.remove(cause)
                ordered.insert(ordered.index(finding), cause)
    return ordered


def _is_root(cause: Finding, finding: Finding, begun: float) -> bool:
    if cause.id in OUTSIDE_SERVER and finding.id in _FEW and cause.weight >= MOST_SHARE * begun:
        return True
    lows = [each.prediction.low for each in cause.proposals]
    if cause.gain_min is not None:
        lows.append(cause.gain_min)
    is_sure = not lows or max(lows) >= SURE_MIN
    ratio = max(_best_ratio(cause), _ratio_of_undoing(cause, begun))
    if not is_sure:
        return not finding.proposals and ratio >= GUESS_MIN
    risk = min((risk_of(each.remedy_id) for each in cause.proposals), default=0)
    return ratio > _best_ratio(finding, risk_max=risk)


def _best_ratio(finding: Finding, risk_max: int | None = None) -> float:
    """Return the largest ratio that a proposal of a finding predicts, of those that risk no more
    than ``risk_max`` of the data; 1 without one."""
    ratios = (
        float(each.predicted_ratio)
        for each in finding.proposals
        if risk_max is None or risk_of(each.remedy_id) <= risk_max
    )
    return max(ratios, default=1.0)


def _ratio_of_undoing(finding: Finding, begun: float) -> float:
    """Return the ratio without a finding, by its own prediction or by the time of a transaction,
    ``begun`` of the response time, that would go with it; 1 where proposals alone have one."""
    if finding.gain is not None:
        return finding.gain
    if finding.proposals:
        return 1.0
    part = finding.weight / begun if begun > 0 else 0.0
    return 1.0 / (1.0 - min(0.999, part))


def _unseen(
    proposals: Iterable[Proposal], seen: list[tuple[str, dict[str, object]]]
) -> tuple[Proposal, ...]:
    """Return proposals that no higher-ranked finding has made; add them to ``seen``."""
    kept = []
    for proposal in proposals:
        key = (proposal.remedy_id, proposal.change.to_json())
        if key not in seen:
            seen.append(key)
            kept.append(proposal)
    return tuple(kept)

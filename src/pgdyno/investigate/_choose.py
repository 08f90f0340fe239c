"""Which remedies could be tried next, and which may be: feasible here, allowed here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pgdyno.conduct import Session
from pgdyno.diagnose import Finding
from pgdyno.diagnose.finding import Proposal
from pgdyno.dimension import fields_with, title_of
from pgdyno.errors import PgdynoError
from pgdyno.remedy import Assessment, Circumstances, Remedy, assess, catalogue, circumstances
from pgdyno.spec import Change, Spec
from pgdyno.spec.durability import AssessedClass, DurabilityClass, severity, within
from pgdyno.stats import EFFECT_MATTERS


@dataclass(frozen=True)
class Candidate:
    """A remedy that a finding proposes, with the change it would make to the present state."""

    finding: str
    remedy: Remedy
    assessment: Assessment
    """What its change is, on the state that it was proposed for."""
    title: str
    predicted_ratio: float
    cycle_s: float | None
    """Seconds of a checkpoint cycle, for what works through checkpoints."""

    @property
    def change(self) -> Change:
        """What it would change."""
        return self.assessment.change

    @property
    def durability_class(self) -> AssessedClass:
        """What its change may lose."""
        return self.assessment.durability_class

    @property
    def key(self) -> str:
        """What makes it the same candidate as another, in the same state."""
        return f"{self.remedy.id} {self.change.to_json()}"


@dataclass(frozen=True)
class Bounds:
    """What an investigation may do."""

    allow: DurabilityClass
    may_apply: bool
    """Whether settings of the server may be changed; always so on a server of ours."""


def candidates(
    findings: Sequence[Finding], state: Change, spec: Spec, server: Circumstances | None = None
) -> list[Candidate]:
    """Every proposal worth trying on ``state``: what guards the server, then by predicted gain; of
    one finding's, what may lose less comes first.

    ``spec`` is what changes are against, so that titles can say what was before; ``server`` is what
    is in force without ``state``, as the spec asks for it unless it is given.
    """
    before = fields_with(spec, state)
    in_force = (server or circumstances(spec)).under(state)
    remedies = catalogue()
    found = []
    for finding in findings:
        if finding.status != "found":
            continue
        for proposal in finding.proposals:
            remedy = remedies[proposal.remedy_id]
            worth_it = remedy.guards or proposal.predicted_ratio >= 1 + EFFECT_MATTERS
            if not worth_it or not _alters(proposal.change, state):
                continue
            found.append(
                Candidate(
                    finding=finding.id,
                    remedy=remedy,
                    assessment=assess(proposal.change, in_force),
                    title=title_of(proposal.change, before),
                    predicted_ratio=proposal.predicted_ratio,
                    cycle_s=proposal.cycle_s,
                )
            )
    return _safer_first(sorted(_best_of_each(found), key=_worth, reverse=True))


def may_be_proposed(proposal: Proposal, allow: DurabilityClass) -> bool:
    """What may lose the whole database is not even offered unless it is allowed."""
    return catalogue()[proposal.remedy_id].durability_class != "D3" or allow == "D3"


def _safer_first(ranked: list[Candidate]) -> list[Candidate]:
    """The same, with each finding's own in the order of their durability class: they share out the
    places among themselves."""
    mine: dict[tuple[str, bool], Iterator[Candidate]] = {}
    for finding, guards in {(each.finding, each.remedy.guards) for each in ranked}:
        own = [each for each in ranked if (each.finding, each.remedy.guards) == (finding, guards)]
        mine[finding, guards] = iter(sorted(own, key=lambda each: severity(each.durability_class)))
    return [next(mine[each.finding, each.remedy.guards]) for each in ranked]


def _worth(candidate: Candidate) -> tuple[bool, float]:
    return candidate.remedy.guards, candidate.predicted_ratio


def obstacle(candidate: Candidate, session: Session, bounds: Bounds) -> str | None:
    """Why the candidate cannot be measured here; ``None`` when it can."""
    target = session.target
    if candidate.change.settings:
        try:
            target.settings.check(candidate.change.settings)
        except PgdynoError as problem:
            return problem.message
    needs = set(candidate.assessment.needs)
    if target.ours or needs <= {"client"}:
        return None
    if needs & {"table", "rewrite"}:
        return "not measured: it alters tables, and those of this server stay as they are"
    if not bounds.may_apply and target.needs_apply(candidate.change.settings):
        return "not measured: settings of this server change only with --apply"
    if not within(candidate.durability_class, bounds.allow):
        needed = candidate.durability_class
        return f"not measured: {needed} needs --allow {'D3' if needed == 'unknown' else needed}"
    if "restart" in candidate.assessment.needs:
        return "not measured: it needs a restart of your server"
    if candidate.assessment.checkpoint_bound:
        try:
            target.require_checkpoint()
        except PgdynoError as problem:
            return f"not measured: {problem.message}; {problem.hint}"
    return None


def guarded_settings(candidates: Iterable[Candidate]) -> dict[str, str]:
    """What remedies that guard the server hold fast: setting → why nothing else may change it."""
    return {
        name: f"not measured: {each.finding.replace('-', ' ')} wants {each.title}"
        for each in candidates
        if each.remedy.guards
        for name in each.change.settings
    }


def _alters(change: Change, state: Change) -> bool:
    return change.over(state).to_json() != state.to_json()


def _best_of_each(found: list[Candidate]) -> list[Candidate]:
    """Two findings may propose the same change; the better prediction speaks for both."""
    best: dict[str, Candidate] = {}
    for candidate in found:
        known = best.get(candidate.key)
        if known is None or candidate.predicted_ratio > known.predicted_ratio:
            best[candidate.key] = candidate
    return list(best.values())

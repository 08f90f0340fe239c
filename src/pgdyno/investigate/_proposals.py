"""Choice of the remedies to try next: those proposed, possible on this server, and allowed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from pgdyno.conduct import Session
from pgdyno.diagnose import Finding
from pgdyno.dimension import fields_with, title_of
from pgdyno.errors import PgdynoError
from pgdyno.record.finding import Proposal
from pgdyno.remedy import (
    Assessment,
    Circumstances,
    Promise,
    Remedy,
    assess,
    catalogue,
    circumstances,
)
from pgdyno.spec import Change, Spec
from pgdyno.spec.durability import AssessedClass, DurabilityClass, within
from pgdyno.stats import EFFECT_MATTERS
from pgdyno.stats.prediction import Prediction

SHORTER_RATIO = 0.9
"""Largest ratio of a response time for which a change is tried, and kept, without more throughput,
if none is lost."""


class AssessedProposal(Struct, frozen=True):
    """A remedy that a finding proposes, as a change to the current state."""

    finding: str
    remedy: Remedy
    assessment: Assessment
    """The catalogue's assessment of its change to the state that it was proposed for."""
    title: str
    predicted_ratio: Prediction
    cycle_s: float | None
    """Length of a checkpoint cycle, for effects that come with checkpoints."""
    specific: bool = False
    """True if the remedy acts on nothing but the finding's cause."""
    predicted_response_ratio: float | None = None
    """The ratio predicted for the mean response time, for a remedy that is to shorten it."""
    is_predicted: bool = True
    """False if nothing predicts its effect, as of settings that are tried because they are not at
    their built-in value."""

    @property
    def prediction(self) -> float | None:
        """The predicted ratio of throughput; None if nothing predicts one."""
        return self.predicted_ratio if self.is_predicted else None

    def slice_seconds(self, usual_s: float) -> float:
        """Return the length of a slice that shows the effect, at least ``usual_s``."""
        cycles_s = self.assessment.cycles * (self.cycle_s or 0.0)
        return max(usual_s, cycles_s, self.assessment.effect_after_s)

    @property
    def change(self) -> Change:
        """The change that it makes."""
        return self.assessment.change

    @property
    def durability_class(self) -> AssessedClass:
        """The durability class of its change."""
        return self.assessment.durability_class

    @property
    def promise(self) -> Promise:
        """Its gain and its risk, which decide its place among others."""
        return Promise(
            self.finding, self.remedy.guards, self.predicted_ratio, self.durability_class
        )

    @property
    def key(self) -> str:
        """Its identity among the proposals in one state."""
        return f"{self.remedy.id} {self.change.to_json()}"


class ProposalLimits(Struct, frozen=True):
    """The limits of an investigation."""

    allow: DurabilityClass
    """The durability limit."""
    may_apply: bool
    """True if settings of an existing server may be changed."""


def assessed_proposals(
    findings: Sequence[Finding], state: Change, spec: Spec, server: Circumstances | None = None
) -> list[AssessedProposal]:
    """Return the proposals worth trying on ``state``: in the order of ``Promise.place``.

    ``spec`` is the spec that changes apply to, for titles with previous values. ``server`` is the
    server without ``state``, by default as the spec defines it.
    """
    before = fields_with(spec, state)
    in_force = (server or circumstances(spec)).under(state)
    remedies = catalogue()
    matters = spec.load.matters or EFFECT_MATTERS
    found = []
    for finding in findings:
        if finding.status != "found":
            continue
        for proposal in finding.proposals:
            remedy = remedies[proposal.remedy_id]
            worth_it = remedy.guards or _promises(proposal, matters)
            if not worth_it or not _alters(proposal.change, state):
                continue
            found.append(
                AssessedProposal(
                    finding=finding.id,
                    remedy=remedy,
                    assessment=assess(proposal.change, in_force),
                    title=title_of(proposal.change, before),
                    predicted_ratio=proposal.prediction,
                    cycle_s=proposal.cycle_s,
                    specific=proposal.specific,
                    predicted_response_ratio=proposal.predicted_response_ratio,
                )
            )
    return _ranked(_best_of_each(found))


def _promises(proposal: Proposal, matters: float) -> bool:
    """Return whether more throughput is predicted, or a shorter response without less."""
    shorter = proposal.predicted_response_ratio
    if shorter is not None and shorter <= SHORTER_RATIO:
        return proposal.predicted_ratio >= 1 - matters
    return proposal.predicted_ratio >= 1 + matters


def may_be_proposed(proposal: Proposal, allow: DurabilityClass) -> bool:
    """Return whether a proposal is permitted: one of class D3 only if that class is allowed."""
    return catalogue()[proposal.remedy_id].durability_class != "D3" or allow == "D3"


def _ranked(found: Sequence[AssessedProposal]) -> list[AssessedProposal]:
    """Return the proposals in the order in which they are tried."""
    promises = [each.promise for each in found]
    return sorted(found, key=lambda each: each.promise.place(promises), reverse=True)


def obstacle(proposal: AssessedProposal, session: Session, limits: ProposalLimits) -> str | None:
    """Return the reason why the proposal cannot be measured here; ``None`` if it can."""
    if refused := _refused(proposal, session):
        return refused
    why = prevented(proposal, session, limits)
    return None if why is None else f"not measured: {why}"


def _refused(proposal: AssessedProposal, session: Session) -> str | None:
    """Return why the server would refuse the proposal's settings; ``None`` if it would not."""
    if not proposal.change.settings:
        return None
    try:
        session.target.settings.check(proposal.change.settings)
    except PgdynoError as problem:
        return problem.message
    return None


def prevented(proposal: AssessedProposal, session: Session, limits: ProposalLimits) -> str | None:
    """Return what prevents a valid proposal on a server that pgdyno did not start; ``None`` if
    nothing does."""
    target = session.target
    needs = set(proposal.assessment.needs)
    if target.ours:
        return None
    if needs & {"table", "index", "rewrite"}:
        return "it alters tables, and tables of this server are not altered"
    # The catalogue does not know of every setting that it needs a reload.
    applied = target.needs_apply(proposal.change.settings)
    if needs <= {"client"} and not applied:
        return None
    if applied and not limits.may_apply:
        return "settings of this server change only with --apply"
    if not within(proposal.durability_class, limits.allow):
        needed = proposal.durability_class
        return f"{needed} needs --allow {'D3' if needed == 'unknown' else needed}"
    if "restart" in proposal.assessment.needs:
        return "it needs a restart of your server"
    if proposal.assessment.checkpoint_bound:
        try:
            target.require_checkpoint()
        except PgdynoError as problem:
            return f"{problem.message}; {problem.hint}"
    return None


def guarded_settings(proposals: Iterable[AssessedProposal]) -> dict[str, str]:
    """Return the settings of remedies that guard the server, with the reason why no other remedy
    may change them."""
    return {
        name: f"not measured: {each.title} is needed because of {each.finding}"
        for each in proposals
        if each.remedy.guards
        for name in each.change.settings
    }


def _alters(change: Change, state: Change) -> bool:
    return change.over(state).to_json() != state.to_json()


def _best_of_each(found: list[AssessedProposal]) -> list[AssessedProposal]:
    """Return each change once, with the best prediction: several findings may propose it."""
    best: dict[str, AssessedProposal] = {}
    for proposal in found:
        known = best.get(proposal.key)
        if known is None or proposal.predicted_ratio > known.predicted_ratio:
            best[proposal.key] = proposal
    return list(best.values())

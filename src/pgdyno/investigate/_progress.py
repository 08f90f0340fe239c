"""The state of an investigation: remedies kept, remedies tried, and the present findings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from pgdyno.diagnose import Finding
from pgdyno.investigate._proposals import AssessedProposal
from pgdyno.record import TrialKind
from pgdyno.results.budget import LatencyBudget
from pgdyno.results.common import Verdict
from pgdyno.results.investigate import Step
from pgdyno.spec import Change
from pgdyno.trial.pairs import TrialAnswer
from pgdyno.trial.question import Question

NOT_DIAGNOSED = Verdict(finding=None, sentence="no verdict: nothing was diagnosed")


class AnsweredTrial(Struct, frozen=True):
    """A question that was asked, and its answer."""

    question: Question
    answer: TrialAnswer

    def compares(self, a: Change, b: Change) -> bool:
        """Return whether its sides are the changes ``a`` and ``b``."""
        sides = (self.question.a, self.question.b)
        return [side.to_json() for side in sides] == [a.to_json(), b.to_json()]


class Undecided(Struct, frozen=True):
    """A remedy whose trial was inconclusive."""

    proposal: AssessedProposal
    trial: AnsweredTrial

    def concerns(self, state: Change) -> bool:
        """Return whether the trial can still be extended, and is about the state ``state``: a
        change to it, or a change that was taken back from it."""
        question = self.trial.question
        side = question.b if question.kind is TrialKind.RECHECK else question.a
        return self.trial.answer.can_resume and side.to_json() == state.to_json()


@dataclass
class Kept:
    """A kept remedy, with its trial."""

    proposal: AssessedProposal
    answer: TrialAnswer


@dataclass
class Progress:
    """The state of an investigation."""

    kept: list[Kept] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    tried: set[str] = field(default_factory=set)
    trials: list[AnsweredTrial] = field(default_factory=list)
    undecided: dict[int, Undecided] = field(default_factory=dict)
    """Inconclusive trials, by the index of their step."""
    finding_rows: dict[int, Finding] = field(default_factory=dict)
    """Findings in the current state, by row id in the run file."""
    limit: Verdict = NOT_DIAGNOSED
    """The verdict on the current state."""
    latency_budget: LatencyBudget | None = None
    """The latency budget of the current state."""
    state_slices: list[int] = field(default_factory=list)
    """Slices under the current state, for the next diagnosis."""

    @property
    def findings(self) -> list[Finding]:
        """Findings in the current state, the bottleneck first."""
        return list(self.finding_rows.values())

    @property
    def state(self) -> Change:
        """All kept changes together."""
        return together([each.proposal for each in self.kept])

    @property
    def gaining(self) -> list[Kept]:
        """Kept remedies that must gain; those that guard the server need not."""
        return [each for each in self.kept if not each.proposal.remedy.guards]

    def resumable(self) -> dict[int, Undecided]:
        """Return the inconclusive trials about the current state, the nearest to a decision
        first."""
        found = {n: each for n, each in self.undecided.items() if each.concerns(self.state)}
        return dict(sorted(found.items(), key=lambda item: _pairs_needed(item[1])))

    def tried_key(self, proposal: AssessedProposal) -> str:
        """Return the identity of a proposal and the state: it may be tried again in another
        state."""
        return f"{self.state.to_json()} + {proposal.key}"

    def trial_of_everything(self) -> AnsweredTrial | None:
        """Return the last trial of the state at the start against the current one, if any."""
        found = [each for each in self.trials if each.compares(Change(), self.state)]
        return found[-1] if found else None


def _pairs_needed(undecided: Undecided) -> float:
    needed = undecided.trial.answer.verdict.pairs_needed
    return math.inf if needed is None else needed


def together(proposals: Sequence[AssessedProposal]) -> Change:
    """Return the changes of some remedies as one."""
    state = Change()
    for each in proposals:
        state = each.change.over(state)
    return state


def with_kept(kept: Sequence[Kept], new: Kept) -> list[Kept]:
    """Return all with ``new``: a remedy that is kept again with another value replaces itself."""
    return [*(each for each in kept if not _is_replaced(each, new)), new]


def _is_replaced(kept: Kept, new: Kept) -> bool:
    """Return whether nothing of a kept remedy is left beside the same one with other values."""
    same = kept.proposal.remedy.id == new.proposal.remedy.id
    return same and not kept.proposal.change.without(new.proposal.change)

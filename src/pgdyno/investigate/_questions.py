"""The questions of an investigation's trials: a remedy, a remedy taken back, everything kept."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from pgdyno.investigate._progress import Kept, together
from pgdyno.investigate._proposals import AssessedProposal
from pgdyno.record import TrialKind
from pgdyno.remedy import Circumstances, assess
from pgdyno.spec import Change
from pgdyno.stats import PAIRS_MIN
from pgdyno.stats.prediction import rounded_interval
from pgdyno.trial.question import Question, question_of

EVERYTHING = "everything kept"
"""Title of the trial of the final state against the spec as it was."""
PAIRS_MAX = 2 * PAIRS_MIN


def remedy_question(
    proposal: AssessedProposal, state: Change, *, slice_s: float, step: int
) -> Question:
    """Return the question of the effect of ``proposal`` on top of ``state``."""
    return question_of(
        proposal.assessment,
        kind=TrialKind.REMEDY,
        title=proposal.title,
        state=state,
        seconds=proposal.slice_seconds(slice_s),
        predicted_ratio=None if proposal.remedy.guards else proposal.predicted_ratio,
        pairs_max=PAIRS_MAX,
        labels={
            "step": step,
            "finding": proposal.finding,
            "remedy": proposal.remedy.id,
            "specific": proposal.specific,
            "predicted_response_ratio": proposal.predicted_response_ratio,
            **interval_columns(proposal.predicted_ratio),
        },
    )


def interval_columns(predicted_ratio: float) -> dict[str, float | None]:
    """Return the interval of a prediction as columns of the table ``trial``."""
    low, high = rounded_interval(predicted_ratio) or (None, None)
    return {"predicted_ratio_lo": low, "predicted_ratio_hi": high}


def recheck_question(kept: Kept, others: Sequence[Kept], asked: Question) -> Question:
    """Return the question of the effect of a kept remedy on top of ``others``, which were kept
    after it; ``asked`` is the remedy's question on top of the current state."""
    return replace(
        asked,
        kind=TrialKind.RECHECK,
        title=f"without {kept.proposal.title}",
        a=together([other.proposal for other in others]),
        predicted_ratio=kept.answer.throughput.ratio,
    )


def total_question(
    kept: Sequence[AssessedProposal], server: Circumstances, *, slice_s: float
) -> Question:
    """Return the question of the effect of everything kept on the spec as it was, for which
    ``server`` stands."""
    return question_of(
        assess(together(kept), server),
        kind=TrialKind.TOTAL,
        title=EVERYTHING,
        seconds=max((each.slice_seconds(slice_s) for each in kept), default=slice_s),
        pairs_max=PAIRS_MAX,
    )

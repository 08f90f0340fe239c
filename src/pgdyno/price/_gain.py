"""What a candidate buys: pairs of slices against the same server without it, on a real disk."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pgdyno.conduct import Session
from pgdyno.errors import SetupError, TrustError, UsageError
from pgdyno.price.candidates import Candidate
from pgdyno.spec import Spec
from pgdyno.stats import PAIRS_MIN
from pgdyno.stats.words import effect_words, kept
from pgdyno.trial.compare import WARM_UP_SECONDS, measure_noise
from pgdyno.trial.pairs import Answer, Noise, run_trial
from pgdyno.trial.question import SLICE_OVERHEAD_SECONDS, Question, question_of
from pgdyno.trial.result import ci95

_SLICE_SECONDS_RANGE = (0.8, 20.0)
# Of a pair whose sides differ in more than a reload: stopping the server, moving files, rewriting
# tables, starting again, a standby that catches up. About, on two cores.
_REARRANGE_SECONDS = 5.0


@dataclass(frozen=True)
class Gain:
    """What a candidate's trial said, or why there was none."""

    answer: Answer | None
    why: str = ""
    void: bool = False
    """Whether it was for void slices, which says nothing of the candidate."""

    def to_json(self) -> dict[str, Any]:
        """As ``docs/reference/result-price.schema.json`` describes it."""
        if self.answer is None:
            return {"measured": False, "why": self.why}
        answer = self.answer
        return {
            "measured": True,
            "set_by": dict(answer.set_by),
            "throughput_ratio": kept(answer.throughput.ratio),
            "ci95": ci95(answer.throughput),
            "latency_p99_ratio": kept(answer.latency_p99.ratio),
            "latency_p99_ci95": ci95(answer.latency_p99),
            "pairs": answer.throughput.pairs,
            "compared": answer.measure,
            "verdict": answer.verdict.outcome,
            "failures": {
                "before": answer.failures_a.to_json(),
                "after": answer.failures_b.to_json(),
            },
            "baseline_tps": round(sum(answer.tps_a) / len(answer.tps_a), 2),
            "changed_tps": round(sum(answer.tps_b) / len(answer.tps_b), 2),
        }


def check_real_disk(spec: Spec) -> None:
    """Raise :class:`UsageError` when what would be measured is not the machine's own disk."""
    for role in ("data", "wal"):
        asked = str(getattr(spec.disk, role))
        if asked.partition(":")[0] not in ("plain", "data"):
            raise UsageError(
                f"disk.{role} = {asked}: a gain is measured on the machine's own disk, and this"
                " is none",
                code="emulated-disk",
                hint=f"leave disk.{role} out; WAL in memory can be priced:"
                " --candidate disk.wal=tmpfs:1GB",
            )


def slice_seconds(candidates: Sequence[Candidate], budget_s: float) -> float:
    """Length of a slice so that the noise floor and six pairs of each candidate fill the budget."""
    trials = 1 + sum(not candidate.is_baseline for candidate in candidates)
    beside_s = sum(PAIRS_MIN * _beside_seconds(candidate) for candidate in candidates)
    beside_s += PAIRS_MIN * 2 * SLICE_OVERHEAD_SECONDS + WARM_UP_SECONDS
    slices = 2 * PAIRS_MIN * trials
    low, high = _SLICE_SECONDS_RANGE
    return min(max((budget_s - beside_s) / slices, low), high)


def _beside_seconds(candidate: Candidate) -> float:
    """What a pair of the candidate takes beside its two slices."""
    if candidate.is_baseline:
        return 0.0
    plain_s = 2 * SLICE_OVERHEAD_SECONDS + (2.0 if candidate.assessment.checkpoint_bound else 0.0)
    return plain_s + (_REARRANGE_SECONDS if candidate.rearranges else 0.0)


def begin_gains(session: Session, seconds: float, rng: random.Random) -> Noise:
    """Start the load and measure the noise floor with slices of ``seconds``."""
    session.watcher.phase("warming up")
    session.start_load()
    session.wait_connected()
    session.wait(WARM_UP_SECONDS)
    return measure_noise(session, seconds, rng, deadline_s=time.monotonic())


def measure_gains(
    session: Session,
    candidates: Sequence[Candidate],
    seconds: float,
    noise: Noise,
    deadline_s: float,
    rng: random.Random,
) -> Iterator[tuple[Candidate, Gain]]:
    """What each candidate buys, as it is known; the load, which runs, is stopped at the end.

    The time until ``deadline_s`` (monotonic) is shared. A candidate that this server or machine
    refuses is left out and the reason kept.
    """
    to_measure = [candidate for candidate in candidates if not candidate.is_baseline]
    for number, candidate in enumerate(to_measure):
        left_s = deadline_s - time.monotonic()
        share_s = time.monotonic() + left_s / (len(to_measure) - number)
        gain = _measure(session, candidate, seconds, noise, share_s, rng)
        session.watcher.step(_said(candidate, gain))
        yield candidate, gain
    session.stop_load()


def price_question(candidate: Candidate, seconds: float) -> Question:
    """What ``candidate`` buys, with slices of ``seconds``."""
    return question_of(
        candidate.assessment,
        kind="price",
        title=candidate.title,
        state=candidate.base,
        seconds=seconds,
        pairs_max=2 * PAIRS_MIN,
    )


def _measure(
    session: Session,
    candidate: Candidate,
    seconds: float,
    noise: Noise,
    deadline_s: float,
    rng: random.Random,
) -> Gain:
    session.watcher.phase(f"measuring the gain of {candidate.title}")
    question = price_question(candidate, seconds)
    try:
        session.provide(candidate.in_force(), checkpoint=question.checkpoint_bound)
        answer = run_trial(session, question, noise=noise, deadline_s=deadline_s, rng=rng)
    except TrustError as problem:
        return Gain(None, f"no verdict: {problem.message}", void=True)
    except (SetupError, UsageError) as problem:
        return Gain(None, f"not measured: {problem.message}")
    return Gain(answer)


def _said(candidate: Candidate, gain: Gain) -> str:
    if gain.answer is None:
        return f"{candidate.title}: {gain.why}"
    effect = gain.answer.throughput
    return f"{candidate.title}: {effect_words(effect.ratio, effect.lo, effect.hi)}"

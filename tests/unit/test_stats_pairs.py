"""Pairs: an effect is found and not invented, whatever the machine's noise looks like."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from numpy.typing import NDArray

from pgdyno.stats import (
    PairedEffect,
    PairPlan,
    PairSequence,
    TrialVerdict,
    decide,
    geometric_mean,
    mean_bounds,
    more_pairs_words,
    paired_effect,
    pairs_needed,
    plan_pairs,
)

Noise = Callable[[np.random.Generator, int], NDArray[np.float64]]
"""Logarithms of the speed of n slices in a row, as the machine alone varies it."""

values = st.floats(1e-3, 1e6)
paired = st.lists(st.tuples(values, values), min_size=2, max_size=30).map(
    lambda pairs: tuple(list(side) for side in zip(*pairs, strict=True))
)


def quiet(generator: np.random.Generator, size: int) -> NDArray[np.float64]:
    return generator.normal(0, 0.01, size)


def wide(generator: np.random.Generator, size: int) -> NDArray[np.float64]:
    return generator.normal(0, 0.04, size)


def heavy(generator: np.random.Generator, size: int) -> NDArray[np.float64]:
    return 0.03 * generator.standard_t(2, size)


def dips(generator: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Every seventh slice or so runs at half speed."""
    return generator.normal(0, 0.02, size) - math.log(2) * (generator.random(size) < 0.15)


def spells(generator: np.random.Generator, size: int) -> NDArray[np.float64]:
    """A noisy neighbour takes up to half of the machine for several slices on end."""
    spell = np.cumsum(generator.random(size) < 0.2)
    slow = -math.log(2) * generator.random(size + 1)
    return generator.normal(0, 0.02, size) + slow[spell]


def drifting(generator: np.random.Generator, size: int) -> NDArray[np.float64]:
    return generator.normal(0, 0.01, size) + np.linspace(0, -math.log(2), size)


NOISES = (quiet, wide, heavy, dips, spells, drifting)


def measure(
    generator: np.random.Generator, noise: Noise, pairs: int, ratio: float = 1.0
) -> tuple[list[float], list[float]]:
    """Pairs in random order under ``noise``; b is ``ratio`` times as fast as a."""
    speed = 1000 * np.exp(noise(generator, 2 * pairs).reshape(pairs, 2))
    b_first = generator.integers(0, 2, pairs)
    rows = np.arange(pairs)
    return list(speed[rows, 1 - b_first]), list(ratio * speed[rows, b_first])


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("ratio", [1.0, 1.3])
def test_the_interval_covers_the_truth(noise: Noise, ratio: float) -> None:
    """Whatever the noise: the order within a pair is random, and the interval needs no more."""
    generator = np.random.default_rng(11)
    for pairs in (6, 9, 15):
        effects = [paired_effect(*measure(generator, noise, pairs, ratio)) for _ in range(1000)]
        covered = np.mean([effect.lo <= ratio <= effect.hi for effect in effects])
        assert covered >= 0.93  # 0.95 less three errors of 1000 trials


@pytest.mark.parametrize("noise", NOISES)
def test_a_large_effect_is_found_whatever_the_noise(noise: Noise) -> None:
    """The positive control: a doubling is called better, a halving worse, in most trials."""
    generator = np.random.default_rng(7)
    for ratio, outcome in ((2.0, "better"), (0.5, "worse")):
        effects = [paired_effect(*measure(generator, noise, 12, ratio)) for _ in range(40)]
        found = sum(decide(effect).outcome == outcome for effect in effects)
        assert found >= (20 if noise in (dips, spells) else 36)


@given(paired)
def test_swapping_the_sides_inverts_the_effect(sides: tuple[list[float], list[float]]) -> None:
    a, b = sides
    there, back = paired_effect(a, b), paired_effect(b, a)
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.lo == pytest.approx(1 / back.hi, rel=1e-6)
    assert there.log_sd == pytest.approx(back.log_sd)
    if rounding_decides(there) or rounding_decides(back):
        return
    swapped = {"better": "worse", "worse": "better"}
    outcome = decide(there).outcome
    assert decide(back).outcome == swapped.get(outcome, outcome)
    assert decide(there, higher_is_better=False).outcome == swapped.get(outcome, outcome)


def rounding_decides(effect: PairedEffect) -> bool:
    """Whether a bound differs from one of a verdict by a rounding error: x below 1 and 1/x above it
    are not rounded alike."""
    off = [
        abs(bound / edge - 1) for bound in (effect.lo, effect.hi) for edge in (1, 1.03, 1 / 1.03)
    ]
    return any(0 < each < 1e-12 for each in off)


@given(paired, st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_only_ratios_count(
    sides: tuple[list[float], list[float]], unit: float, gain: float
) -> None:
    a, b = sides
    effect = paired_effect(a, b)
    rescaled = paired_effect([unit * value for value in a], [unit * value for value in b])
    assert rescaled.ratio == pytest.approx(effect.ratio)
    assert rescaled.log_half_width == pytest.approx(effect.log_half_width, abs=1e-9)
    faster = paired_effect(a, [gain * value for value in b])
    assert faster.ratio == pytest.approx(gain * effect.ratio)
    assert faster.log_half_width == pytest.approx(effect.log_half_width, abs=1e-9)


@given(paired)
def test_the_effect_lies_within_its_interval(sides: tuple[list[float], list[float]]) -> None:
    effect = paired_effect(*sides)
    assert effect.lo <= effect.ratio <= effect.hi


def test_six_pairs_have_an_interval_that_spans_them() -> None:
    ratios = [1.01, 1.02, 1.05, 0.99, 1.07, 1.03]
    effect = paired_effect([1.0] * 6, ratios)
    assert (effect.lo, effect.hi) == pytest.approx((min(ratios), max(ratios)))


def test_the_interval_is_made_of_subset_means() -> None:
    """Against all subsets of eight values, written out: 255 means, six left out on either side."""
    values = [0.3, -1.2, 0.7, 2.1, -0.4, 0.9, 1.5, 0.05]
    means = sorted(
        float(np.mean([v for i, v in enumerate(values) if subset >> i & 1]))
        for subset in range(1, 256)
    )
    assert mean_bounds(values, 0.95) == pytest.approx((means[5], means[-6]))


def test_fewer_than_six_pairs_have_students_interval() -> None:
    """Against a worked example: log ratios 0.1, 0.2, 0.3; t(0.975, 2) = 4.3027."""
    effect = paired_effect([1, 1, 1], [math.exp(0.1), math.exp(0.2), math.exp(0.3)])
    half = 4.302653 * 0.1 / math.sqrt(3)
    assert effect.ratio == pytest.approx(math.exp(0.2))
    assert effect.lo == pytest.approx(math.exp(0.2 - half))
    assert effect.log_half_width == pytest.approx(half)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([1.0], [1.0]),
        ([1.0, 2.0], [1.0]),
        ([1, 0], [1, 1]),
        ([1, 1], [1, math.inf]),
        ([1, -1], [1, 1]),
        ([1, math.nan], [1, 1]),
        ([], []),
    ],
)
def test_what_has_no_ratio_is_refused(a: list[float], b: list[float]) -> None:
    with pytest.raises(ValueError):
        paired_effect(a, b)


def effect_of(lo: float, hi: float, pairs: int = 6) -> PairedEffect:
    half = math.log(hi / lo) / 2
    log_sd = half * math.sqrt(pairs) / 2.5706  # t(0.975, 5)
    return PairedEffect(math.sqrt(lo * hi), lo, hi, pairs, log_sd)


@pytest.mark.parametrize(
    ("lo", "hi", "outcome"),
    [
        (1.50, 1.70, "better"),
        (0.50, 0.70, "worse"),
        (0.98, 1.02, "no difference"),
        (1.005, 1.02, "no difference"),  # significant, and too small to matter
        (0.90, 1.10, "inconclusive"),  # not significant is not "no difference"
        (0.94, 2.20, "inconclusive"),
        (1.05, 1.15, "better"),  # however far apart identical slices were
        (1.01, 1.20, "better"),
    ],
)
def test_verdicts(lo: float, hi: float, outcome: str) -> None:
    verdict = decide(effect_of(lo, hi))
    assert verdict.outcome == outcome
    assert verdict.sentence.startswith(outcome)
    assert (verdict.pairs_needed is not None) == (outcome == "inconclusive")


NOISY = PairedEffect(1.02, 0.7, 1.5, 6, 0.265)
"""Identical slices of which six pairs show effects of 45 %, and 60 pairs some of 10 %."""


@pytest.mark.parametrize(
    ("lo", "hi", "pairs", "outcome"),
    [
        (0.72, 0.96, 6, "inconclusive"),
        (1.05, 1.50, 6, "inconclusive"),
        (0.50, 0.70, 6, "worse"),
        (1.40, 1.70, 6, "better"),
        (0.72, 0.96, 60, "worse"),
        (1.02, 1.08, 60, "inconclusive"),
        (0.98, 1.02, 6, "no difference"),
    ],
)
def test_what_the_noise_hides_is_called_nothing(
    lo: float, hi: float, pairs: int, outcome: str
) -> None:
    assert NOISY.can_show(6) == pytest.approx(0.45, abs=0.01)
    verdict = decide(effect_of(lo, hi, pairs), noise=NOISY)
    assert verdict.outcome == outcome
    assert decide(effect_of(lo, hi, pairs)).outcome == (
        outcome if outcome == "no difference" else "better" if lo > 1 else "worse"
    )
    if outcome == "inconclusive":
        assert verdict.pairs_needed is not None
        more = math.log1p(NOISY.can_show(pairs + verdict.pairs_needed))
        assert more <= abs(math.log(effect_of(lo, hi).ratio))


@settings(max_examples=200)
@given(st.floats(0.5, 2), st.floats(0.01, 0.6), st.integers(6, 40), st.floats(0.001, 0.5))
def test_no_verdict_names_an_effect_below_the_noise(
    ratio: float, half: float, pairs: int, log_sd: float
) -> None:
    effect = effect_of(ratio * math.exp(-half), ratio * math.exp(half), pairs)
    noise = PairedEffect(1.0, 0.9, 1.1, 6, log_sd)
    for higher in (True, False):
        verdict = decide(effect, higher_is_better=higher, noise=noise)
        if verdict.outcome in ("better", "worse"):
            assert abs(math.log(effect.ratio)) >= math.log1p(noise.can_show(pairs))
        if verdict.outcome == "inconclusive" and not effect.excludes_1:
            assert decide(effect, higher_is_better=higher).outcome == "inconclusive"


@pytest.mark.parametrize("matters", [0.01, 0.03, 0.2])
def test_the_margin_is_the_effect_that_matters(matters: float) -> None:
    inside, outside = 1 + 0.99 * matters, 1 + 1.01 * matters
    assert decide(effect_of(1 / inside, inside), effect_matters=matters).outcome == "no difference"
    assert decide(effect_of(0.99, outside), effect_matters=matters).outcome == "inconclusive"


def test_a_wider_interval_needs_more_pairs() -> None:
    needed = [
        decide(effect_of(1.3 * math.exp(-half), 1.3 * math.exp(half))).pairs_needed
        for half in (0.3, 0.6, 1.2)
    ]
    assert needed == sorted(needed, key=lambda pairs: pairs or 0)
    assert needed[0] != needed[-1]


@given(paired)
def test_means_have_the_ratio_of_the_effect(sides: tuple[list[float], list[float]]) -> None:
    a, b = sides
    ratio = geometric_mean(b) / geometric_mean(a)
    assert ratio == pytest.approx(paired_effect(a, b).ratio, rel=1e-6)


def test_nothing_has_no_mean() -> None:
    with pytest.raises(ValueError, match="no values"):
        geometric_mean([])


def test_sentences_say_what_was_measured() -> None:
    assert decide(effect_of(1.5, 1.7)).sentence == "better: 1.60x [1.50, 1.70] in 6 pairs"
    assert decide(effect_of(0.99, 1.02)).sentence == snapshot(
        "no difference: 1.00x [0.99, 1.02] in 6 pairs, all within ±3 %"
    )
    verdict = decide(effect_of(0.9, 1.1))
    assert more_pairs_words(verdict.pairs_needed) in verdict.sentence


@settings(max_examples=200)
@given(st.floats(0.5, 2), st.floats(0.01, 0.6), st.integers(6, 40))
def test_verdicts_keep_their_promises(ratio: float, half: float, pairs: int) -> None:
    lo, hi = ratio * math.exp(-half), ratio * math.exp(half)
    verdict = decide(effect_of(lo, hi, pairs))
    bound = 1.03
    if verdict.outcome == "no difference":
        assert 1 / bound <= lo * 1.000001
        assert hi <= bound * 1.000001
    if verdict.outcome == "better":
        assert lo > 1
    if verdict.outcome == "worse":
        assert hi < 1
    if verdict.pairs_needed is not None:
        assert verdict.outcome == "inconclusive"
        assert verdict.pairs_needed >= 1


def test_an_interval_that_one_pair_widens_needs_more_than_one_more() -> None:
    verdict = decide(paired_effect([1.0] * 6, [2.1, 1.9, 2.0, 2.2, 1.8, 0.6]))
    assert verdict.outcome == "inconclusive"
    assert verdict.pairs_needed is not None
    assert verdict.pairs_needed >= 4


@given(st.floats(0.001, 1), st.floats(0.03, 0.5), st.integers(0, 20))
def test_as_many_pairs_as_needed_are_enough_and_one_less_is_not(
    log_sd: float, half: float, done: int
) -> None:
    more = pairs_needed(log_sd, half)
    assert more is not None
    t = scipy.special.stdtrit
    assert t(more - 1, 0.975) * log_sd / math.sqrt(more) <= half * 1.000001
    if more > 2:
        assert t(more - 2, 0.975) * log_sd / math.sqrt(more - 1) > half * 0.999999
    assert pairs_needed(log_sd, half, pairs_done=done) == max(1, more - done)


def test_no_number_of_pairs_makes_an_interval_vanish() -> None:
    assert pairs_needed(0.1, 0.0) is None
    assert pairs_needed(1.0, 1e-6) is None
    verdict = decide(PairedEffect(1.2, 1e-30, 1e30, 6, 60.0))
    assert verdict.pairs_needed is None
    assert verdict.sentence == snapshot(
        "inconclusive: 1.20x [0.00, ∞] in 6 pairs; more pairs are unlikely to decide it"
    )


def test_a_plan_has_six_pairs_on_a_quiet_machine_and_more_on_a_noisy_one() -> None:
    quiet, noisy, loud = (plan_pairs(sd, 6, pairs_max=60) for sd in (0.005, 0.03, 0.5))
    assert quiet == PairPlan(6, 12)
    assert 6 < noisy.first < noisy.last <= 60
    assert loud == PairPlan(60, 60)


def test_a_plan_keeps_to_the_time_and_to_the_largest_number_of_pairs() -> None:
    assert plan_pairs(0.05, 6, pairs_max=60, pairs_in_time=3) == PairPlan(6, 6)
    assert plan_pairs(0.05, 6, pairs_max=60, pairs_in_time=8) == PairPlan(8, 8)
    assert plan_pairs(0.05, 6, pairs_max=10) == PairPlan(10, 10)
    later = plan_pairs(0.05, 6, pairs_max=60, pairs_in_time=6, resumable=True)
    assert later.first == 6
    assert later.extensible


def test_a_predicted_effect_needs_fewer_pairs_at_first() -> None:
    plain = plan_pairs(0.05, 6, pairs_max=60)
    predicted = plan_pairs(0.05, 6, pairs_max=60, predicted_ratio=2.0)
    assert predicted.first < plain.first
    assert predicted.last >= plain.first, "a wrong prediction must not end the trial for good"


def sequence_of(plan: PairPlan, *outcomes: str) -> tuple[PairSequence, list[float]]:
    """A sequence whose looks have these outcomes, and the confidences that it asked for."""
    left, asked = list(outcomes), []

    def look(confidence: float) -> TrialVerdict:
        asked.append(confidence)
        return TrialVerdict(left.pop(0), None, "")  # type: ignore[arg-type]

    return PairSequence(plan, look), asked


def pairs_of(sequence: PairSequence, until: int = 1000, pairs: int = 0) -> int:
    pairs += 1
    while sequence.goes_on(pairs, max(0, until - pairs)):
        pairs += 1
    return pairs


def test_a_trial_is_looked_at_after_its_planned_pairs_alone() -> None:
    sequence, asked = sequence_of(PairPlan(9, 9), "inconclusive")
    assert pairs_of(sequence) == 9
    assert asked == [0.95], "with a single look, the whole level is for it"
    assert not sequence.can_extend


def test_an_inconclusive_trial_is_extended_once() -> None:
    sequence, asked = sequence_of(PairPlan(6, 14), "inconclusive", "inconclusive")
    assert pairs_of(sequence) == 14
    assert sum(1 - confidence for confidence in asked) == pytest.approx(0.05)
    assert not sequence.can_extend


@pytest.mark.parametrize("outcome", ["better", "worse", "mixed", "no difference"])
def test_a_decided_trial_is_not_extended(outcome: str) -> None:
    sequence, asked = sequence_of(PairPlan(6, 14), outcome)
    assert pairs_of(sequence) == 6
    assert len(asked) == 1
    assert not sequence.extend(6, 100)


def test_a_trial_that_ran_out_of_time_is_resumed_later() -> None:
    sequence, asked = sequence_of(PairPlan(6, 14), "inconclusive", "better")
    assert pairs_of(sequence, until=7) == 6
    assert sequence.can_extend
    assert not sequence.extend(6, 1), "one more pair would widen the interval"
    assert sequence.extend(6, 100)
    assert pairs_of(sequence, pairs=6) == 14
    assert len(asked) == 2


def test_six_pairs_are_measured_however_little_time_is_left() -> None:
    sequence, _ = sequence_of(PairPlan(20, 20), "inconclusive")
    assert pairs_of(sequence, until=0) == 6

"""Pairs: an effect is found and not invented, whatever the machine's noise looks like."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import t

from pgdyno.stats import (
    Effect,
    NoiseFloor,
    decide,
    geometric_mean,
    needs_more_pairs,
    noise_floor,
    paired_effect,
    pairs_needed,
)
from pgdyno.stats.words import more_pairs_words

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


def trial(
    generator: np.random.Generator, noise: Noise, ratio: float = 1.0, pairs_max: int = 40
) -> Effect:
    """A trial as investigate runs it: on until ``needs_more_pairs`` says enough."""
    a, b = measure(generator, noise, pairs_max, ratio)
    pairs = 6
    while pairs < pairs_max and needs_more_pairs(paired_effect(a[:pairs], b[:pairs])):
        pairs += 1
    return paired_effect(a[:pairs], b[:pairs])


@pytest.mark.parametrize("noise", NOISES)
def test_identical_slices_are_rarely_called_different(noise: Noise) -> None:
    """The null control: at most 5 % of A/A trials may come out better or worse."""
    generator = np.random.default_rng(20_240_001)
    trials, wrong, wrong_without_floor = 300, 0, 0
    for _ in range(trials):
        floor = noise_floor(*measure(generator, noise, 6))
        effect = trial(generator, noise)
        wrong += decide(effect, floor).outcome in ("better", "worse")
        wrong_without_floor += not effect.lo <= 1 <= effect.hi
    assert wrong / trials <= 0.02
    # The interval alone keeps its 5 % as well, within what 300 trials can tell (3 errors of 1.3 %).
    assert wrong_without_floor / trials <= 0.05 + 0.04


@pytest.mark.parametrize("noise", NOISES)
def test_a_large_effect_is_found_whatever_the_noise(noise: Noise) -> None:
    """The positive control: a doubling is called better, a halving worse, in most trials."""
    generator = np.random.default_rng(7)
    for ratio, outcome in ((2.0, "better"), (0.5, "worse")):
        found = 0
        for _ in range(40):
            floor = noise_floor(*measure(generator, noise, 6))
            found += decide(trial(generator, noise, ratio), floor).outcome == outcome
        assert found >= (20 if noise in (dips, spells) else 36)


@pytest.mark.parametrize("noise", [quiet, wide, heavy, dips])
@pytest.mark.parametrize("ratio", [1.0, 1.3])
def test_the_interval_covers_the_truth(noise: Noise, ratio: float) -> None:
    generator = np.random.default_rng(11)
    for pairs in (6, 15):
        effects = [paired_effect(*measure(generator, noise, pairs, ratio)) for _ in range(400)]
        covered = np.mean([effect.lo <= ratio <= effect.hi for effect in effects])
        assert covered >= 0.92


@given(paired)
def test_swapping_the_sides_inverts_the_effect(sides: tuple[list[float], list[float]]) -> None:
    a, b = sides
    there, back = paired_effect(a, b), paired_effect(b, a)
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.lo == pytest.approx(1 / back.hi, rel=1e-6)
    assert there.log_sd == pytest.approx(back.log_sd)
    floor = NoiseFloor(0.97, 1.03, 0.031)
    swapped = {"better": "worse", "worse": "better"}
    outcome = decide(there, floor).outcome
    assert decide(back, floor).outcome == swapped.get(outcome, outcome)
    assert decide(there, floor, higher_is_better=False).outcome == swapped.get(outcome, outcome)


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
    floor = noise_floor(*sides)
    assert (floor.lo, floor.hi) == (effect.lo, effect.hi)
    # It is made from the bounds as they are kept, to four digits.
    assert floor.half_width >= max(effect.hi - 1, 1 - effect.lo) * 0.999 - 0.00006


def test_the_interval_is_students() -> None:
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


def effect_of(lo: float, hi: float, pairs: int = 6) -> Effect:
    half = math.log(hi / lo) / 2
    log_sd = half * math.sqrt(pairs) / 2.5706  # t(0.975, 5)
    return Effect(math.sqrt(lo * hi), lo, hi, pairs, log_sd)


@pytest.mark.parametrize(
    ("lo", "hi", "noise", "outcome"),
    [
        (1.50, 1.70, 0.03, "better"),
        (0.50, 0.70, 0.03, "worse"),
        (0.98, 1.02, 0.01, "no difference"),
        (1.005, 1.02, 0.001, "no difference"),  # significant, and too small to matter
        (0.90, 1.10, 0.02, "inconclusive"),  # not significant is not "no difference"
        (0.95, 1.06, 0.10, "inconclusive"),  # a noisy machine shows nothing
        (0.94, 2.20, 3.97, "inconclusive"),
        (1.05, 1.15, 0.12, "inconclusive"),  # excludes 1, but identical slices differ by as much
        (1.01, 1.20, 0.05, "better"),
    ],
)
def test_verdicts(lo: float, hi: float, noise: float, outcome: str) -> None:
    verdict = decide(effect_of(lo, hi), NoiseFloor(1 - noise, 1 + noise, noise))
    assert verdict.outcome == outcome
    assert verdict.sentence.startswith(outcome)
    assert (verdict.pairs_needed is not None) == (outcome == "inconclusive")


@pytest.mark.parametrize(("ratio", "log_sd"), [(1.10, 0.08), (1.20, 0.15), (0.85, 0.10)])
@pytest.mark.parametrize("pairs_max", [6, 12, 40])
def test_a_useful_effect_is_rarely_called_no_difference(
    ratio: float, log_sd: float, pairs_max: int
) -> None:
    """The procedure as it is used: six pairs of identical slices, then the trial."""

    def machine(generator: np.random.Generator, size: int) -> NDArray[np.float64]:
        return generator.normal(0, log_sd / math.sqrt(2), size)

    generator = np.random.default_rng(31)
    trials, wrong = 300, 0
    for _ in range(trials):
        floor = noise_floor(*measure(generator, machine, 6))
        verdict = decide(trial(generator, machine, ratio, pairs_max), floor)
        wrong += verdict.outcome == "no difference"
    assert wrong / trials <= 0.05


@given(
    st.floats(0.5, 2), st.floats(0.01, 1.5), st.floats(0, 3), st.floats(0, 3), st.integers(6, 40)
)
def test_noise_never_makes_a_verdict_surer(
    ratio: float, half: float, noise: float, more_noise: float, pairs: int
) -> None:
    """A wider noise floor turns better and worse into inconclusive, and needs no fewer pairs."""
    effect = effect_of(ratio * math.exp(-half), ratio * math.exp(half), pairs)
    quieter = decide(effect, NoiseFloor(1, 1, noise))
    noisier = decide(effect, NoiseFloor(1, 1, noise + more_noise))
    if quieter.outcome != noisier.outcome:
        assert quieter.outcome in ("better", "worse")
        assert noisier.outcome == "inconclusive"
    elif quieter.outcome == "inconclusive":
        assert noisier.pairs_needed == quieter.pairs_needed


def test_a_wider_interval_needs_more_pairs() -> None:
    needed = [
        decide(effect_of(1.3 * math.exp(-half), 1.3 * math.exp(half)), None).pairs_needed
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
    assert decide(effect_of(1.5, 1.7), NoiseFloor(0.97, 1.02, 0.031)).sentence == (
        "better: 1.60x [1.50, 1.70] in 6 pairs; identical slices differ by up to 3.1 %"
    )
    assert decide(effect_of(0.99, 1.02), None).sentence == (
        "no difference: 1.00x [0.99, 1.02] in 6 pairs, all within ±3.0 %"
    )
    assert decide(effect_of(1.05, 1.06), NoiseFloor(0.9, 1.12, 0.12)).sentence == (
        "inconclusive: 1.05x [1.05, 1.06] in 6 pairs, and identical slices differ by up to 12 %;"
        " longer slices are needed"
    )
    verdict = decide(effect_of(0.9, 1.1), None)
    assert more_pairs_words(verdict.pairs_needed or 0) in verdict.sentence


@settings(max_examples=200)
@given(st.floats(0.5, 2), st.floats(0.01, 0.6), st.floats(0, 0.3), st.integers(2, 40))
def test_verdicts_keep_their_promises(ratio: float, half: float, noise: float, pairs: int) -> None:
    lo, hi = ratio * math.exp(-half), ratio * math.exp(half)
    verdict = decide(effect_of(lo, hi, pairs), NoiseFloor(1, 1, noise))
    bound = 1.03
    if verdict.outcome == "no difference":
        assert 1 / bound <= lo * 1.000001
        assert hi <= bound * 1.000001
    if verdict.outcome == "better":
        assert lo > 1
        assert ratio > 1 + noise
    if verdict.outcome == "worse":
        assert hi < 1
        assert ratio < 1 / (1 + noise)
    if verdict.pairs_needed is not None:
        assert verdict.outcome == "inconclusive"
        assert verdict.pairs_needed >= 1


@given(st.floats(0.001, 1), st.floats(0.03, 0.5), st.integers(0, 20))
def test_as_many_pairs_as_needed_are_enough_and_one_less_is_not(
    log_sd: float, half: float, done: int
) -> None:
    more = pairs_needed(log_sd, half)
    assert more is not None
    assert t.ppf(0.975, more - 1) * log_sd / math.sqrt(more) <= half * 1.000001
    if more > 2:
        assert t.ppf(0.975, more - 2) * log_sd / math.sqrt(more - 1) > half * 0.999999
    assert pairs_needed(log_sd, half, pairs_done=done) == max(1, more - done)


def test_no_number_of_pairs_makes_an_interval_vanish() -> None:
    assert pairs_needed(0.1, 0.0) is None
    assert pairs_needed(1.0, 1e-6) is None
    verdict = decide(Effect(1.2, 1e-3, 1e3, 6, 60.0), None)
    assert verdict.pairs_needed is None
    assert "more pairs are unlikely to decide it" in verdict.sentence


def test_enough_is_a_matter_of_width_alone() -> None:
    assert needs_more_pairs(effect_of(0.99, 1.01, pairs=5))  # fewer than six pairs are never enough
    assert not needs_more_pairs(effect_of(0.99, 1.01))
    assert needs_more_pairs(effect_of(1.90, 2.10))  # clearly better, not yet known closely
    assert not needs_more_pairs(effect_of(1.90, 2.10), predicted_ratio=1.8)
    assert needs_more_pairs(effect_of(1.90, 2.10), predicted_ratio=1.05)


@given(st.floats(0.2, 5), st.floats(0.2, 5), st.floats(0.001, 0.5), st.integers(2, 20))
def test_where_the_interval_lies_does_not_matter(
    here: float, there: float, half: float, pairs: int
) -> None:
    answers = {
        needs_more_pairs(
            Effect(ratio, ratio * math.exp(-half), ratio * math.exp(half), pairs, 0.1),
            effect_matters=0.0333,
        )
        for ratio in (here, there)
    }
    assert len(answers) == 1 or math.isclose(half, math.log1p(0.0333), rel_tol=1e-9)

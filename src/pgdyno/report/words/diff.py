"""The result of ``pgdyno diff``: differences between two run files, and the figures of both.

Two runs are not interleaved pairs: the machine, other load on it and the data changed between them
too, by an unknown amount. The result therefore has ratios and no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pgdyno import numbers
from pgdyno.drill.storage import stored_drills
from pgdyno.errors import UsageError
from pgdyno.facts.replanned import PlannedSide, compared_plans
from pgdyno.json_types import Fields
from pgdyno.record import Distribution, RunFile, RunInfo, StatementTotal
from pgdyno.record.latencies import ScriptKind
from pgdyno.report import session_waits
from pgdyno.report.summary import RunSummary
from pgdyno.report.words import sentences
from pgdyno.report.words._work import statements_beside, work_of
from pgdyno.results import diff as results
from pgdyno.results.diff import DiffResult, Pair
from pgdyno.spec import spec_from_fields

SCHEMA_VERSION = 1
NOT_PAIRS = (
    "A and B were not measured in interleaved pairs: B / A also contains whatever else differed"
    " between them, such as other load on the machine, and is not the effect of the differences"
    " listed here"
)
"""The caution that precedes all ratios."""

_PER_START = frozenset(
    {
        *("data_directory", "uri", "entrance_uri", "postmaster_pid", "started_epoch_s"),
        *("database_bytes", "settings", "altered", "version_num", "reactor_why", "port", "tables"),
        *("unix_socket_directories", "is_local", "note"),
    }
)
"""Facts that differ with every start of a server, or are shown elsewhere."""
_NAMES = ("name", "description")
_PERIODS = {"run": "the measured period", "soak": "the measured period",
            "knee": "the long slice at the knee",
            "pool": "the long slice at the best pool size"}  # fmt: skip
_DRILL_FIGURES = (
    *("cuts", "happened", "clean", "lost", "refused", "corrupt", "acked", "lost_median"),
    *("lost_max", "lost_ms_median", "lost_ms_max", "recovery_s_median", "recovery_s_max"),
)


class _MeasuredRun(NamedTuple):
    """A run, its summary, and the slices whose figures are compared."""

    run: RunFile
    summary: RunSummary
    slice_ids: list[int] | None
    """Slices of the run without a change; None for the whole run."""


def diff(a: RunFile, b: RunFile) -> DiffResult:
    """Return the differences between two runs, and the figures of both.

    Raises UsageError if they are the same file or have no figures in common.
    """
    if a.path.resolve() == b.path.resolve():
        raise UsageError(f"{a.path} and {b.path} are the same file", code="same-file")
    are_drills = [run.run.command == "drill" for run in (a, b)]
    if are_drills[0] != are_drills[1]:
        drill, other = (a, b) if are_drills[0] else (b, a)
        raise UsageError(
            f"{drill.path} is a drill and {other.path} is not: they have no figures in common",
            code="nothing-in-common",
            hint="two drills can be compared, or two runs under load",
        )
    sides = _measured(a), _measured(b)
    return DiffResult(
        schema_version=SCHEMA_VERSION,
        a=_side(sides[0]),
        b=_side(sides[1]),
        cautions=tuple(_cautions(sides)),
        differs=_differs(a.run, b.run),
        figures=_drill_figures(a, b) if are_drills[0] else _load_figures(sides),
    )


def _measured(run: RunFile) -> _MeasuredRun:
    summary = RunSummary(run)
    return _MeasuredRun(run, summary, summary.before.slice_ids if summary.before else None)


def _side(side: _MeasuredRun) -> results.Side:
    info = side.summary.info
    return results.Side(
        run_file=str(side.run.path),
        name=info.name,
        command=info.command,
        started=sentences.started_at(info),
        status=info.status,
        pgdyno_version=info.pgdyno_version,
        distrust=tuple(side.summary.distrust),
        over=_period(info.command, side.slice_ids),
        seconds=round(side.run.seconds(side.slice_ids), 2),
    )


def _period(command: str, slice_ids: list[int] | None) -> str:
    """Return the period that the figures are of, in words."""
    if slice_ids is None:
        return "the whole run"
    return _PERIODS.get(command, "the slices without a change")


def _cautions(sides: tuple[_MeasuredRun, _MeasuredRun]) -> Iterator[str]:
    """Yield the reasons why ratios of the figures are no verdict."""
    yield NOT_PAIRS
    for name, (_, summary, _) in zip("AB", sides, strict=True):
        if summary.distrust:
            yield f"{name} cannot be trusted: {'; '.join(summary.distrust)}"
        if summary.result_unreadable:
            yield f"{name}: {sentences.RESULT_UNREADABLE}"
        if summary.info.status != "done":
            yield f"{name} did not reach its planned end; its status is {summary.info.status}"
        if summary.emulated:
            yield f"{name} was measured with {summary.emulated}"
    a, b = (side.summary.info for side in sides)
    if any(a.host.get(fact) != b.host.get(fact) for fact in ("cpu_model", "cores")):
        yield "the machines differ"
    if _has_open_loop(a.spec) != _has_open_loop(b.spec):
        yield (
            "one run sends at a rate and the other does not: neither throughput nor latency can be"
            " compared"
        )


def _has_open_loop(spec: Fields) -> bool:
    groups = spec.get("clients") or []
    return any(isinstance(group.get("arrival"), Mapping) for group in groups)


def differing_spec(a: RunFile, b: RunFile) -> tuple[results.Different, ...]:
    """Return the keys of the specs in which two runs differ."""
    return _differing(_spec(a.run.spec), _spec(b.run.spec))


def _differs(a: RunInfo, b: RunInfo) -> results.Differs:
    return results.Differs(
        spec=_differing(_spec(a.spec), _spec(b.spec)),
        settings=_differing(a.server.get("settings") or {}, b.server.get("settings") or {}),
        server=_differing(a.server, b.server),
        host=_differing(a.host, b.host),
        engine=_differing(a.engine, b.engine),
    )


def _spec(fields: Fields) -> Fields:
    """Return a spec with client groups by name; a check, which records none, has the defaults."""
    whole = spec_from_fields(fields).model_dump(mode="json", by_alias=True)
    whole["clients"] = {group["name"]: group for group in whole["clients"]}
    return {key: value for key, value in whole.items() if key not in _NAMES}


def _differing(a: Mapping[str, object], b: Mapping[str, object]) -> tuple[results.Different, ...]:
    """Return the keys whose values differ."""
    flat_a, flat_b = dict(_flat(a)), dict(_flat(b))
    return tuple(
        results.Different(key=key, a=flat_a.get(key), b=flat_b.get(key))
        for key in dict.fromkeys((*flat_a, *flat_b))
        if flat_a.get(key) != flat_b.get(key)
    )


def _flat(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted keys with their values, of nested tables and lists; keys that are not set are
    left out."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            if name not in _PER_START:
                yield from _flat(item, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        for number, item in enumerate(value, start=1):
            yield from _flat(item, f"{key}[{number}]")
    elif value not in (None, "", []):
        yield key, value


def pair(a: float | None, b: float | None) -> Pair:
    """Return both values and the ratio of ``b`` to ``a``."""
    return Pair(a=a, b=b, ratio=numbers.rounded(b / a) if a and b is not None else None)


def _load_figures(sides: tuple[_MeasuredRun, _MeasuredRun]) -> results.LoadFigures:
    ledgers = [side.run.ledger(side.slice_ids) for side in sides]
    if not any(ledger.done for ledger in ledgers):
        raise UsageError(
            f"neither {sides[0].run.path} nor {sides[1].run.path} has a finished transaction",
            code="nothing-in-common",
        )
    return results.LoadFigures(
        throughput_tps=pair(*(_tps(side.summary) for side in sides)),
        latency_ms=results.LatencyPairs(
            response=_latency(sides, "response"),
            wait=_latency(sides, "wait"),
            service=_latency(sides, "service"),
        ),
        failures=results.FailurePairs(
            failed=pair(*(ledger.failed for ledger in ledgers)),
            share=pair(*(_failed_share(ledger.failed, ledger.done) for ledger in ledgers)),
            retried=pair(*(ledger.retried for ledger in ledgers)),
            skipped=pair(*(ledger.skipped for ledger in ledgers)),
            errors=_errors(sides),
        ),
        statements=tuple(_statements(sides)),
        plans=compared_plans(*(PlannedSide(side.run, side.slice_ids) for side in sides)),
        waits=_waits(sides),
        work=_of_both(sides, work_of),
        beside=_of_both(sides, statements_beside),
    )


def _of_both(
    sides: Sequence[_MeasuredRun],
    figures: Callable[[RunFile, Sequence[int] | None], Mapping[str, float | None]],
) -> dict[str, Pair]:
    a, b = (figures(side.run, side.slice_ids) for side in sides)
    return _named(a, b)


def _named(a: Mapping[str, float | None], b: Mapping[str, float | None]) -> dict[str, Pair]:
    return {name: pair(a.get(name), b.get(name)) for name in dict.fromkeys((*a, *b))}


def _tps(summary: RunSummary) -> float | None:
    return None if summary.before is None else round(summary.before.throughput_tps, 2)


def _failed_share(failed: int, done: int) -> float | None:
    return numbers.rounded(failed / (failed + done)) if failed + done else None


def _latency(sides: Sequence[_MeasuredRun], kind: ScriptKind) -> dict[str, Pair]:
    """Return both values of each percentile; null for a percentile with too few samples."""
    a, b = (
        Distribution.of(side.run.histogram(kind, side.slice_ids)).to_json()
        if side.run.ledger(side.slice_ids).done
        else {}
        for side in sides
    )
    return {name: both for name, both in _named(a, b).items() if name != "count"}


def _errors(sides: Sequence[_MeasuredRun]) -> tuple[results.ErrorCounts, ...]:
    a, b = (_errors_by_sqlstate(side) for side in sides)
    return tuple(
        results.ErrorCounts(sqlstate=state, a=a.get(state, 0), b=b.get(state, 0))
        for state in dict.fromkeys((*a, *b))
    )


def _errors_by_sqlstate(side: _MeasuredRun) -> dict[str, int]:
    counts: dict[str, int] = {}
    for error in side.run.errors(side.slice_ids):
        counts[error.sqlstate] = counts.get(error.sqlstate, 0) + error.count
    return counts


def _statements(sides: Sequence[_MeasuredRun]) -> Iterator[results.StatementPairs]:
    """Yield each statement that either run has, those that take the most time first."""
    a, b = ({_key(s): s for s in side.run.statements(side.slice_ids)} for side in sides)
    keys = sorted(
        dict.fromkeys((*a, *b)),
        key=lambda key: -max(_time_spent(a.get(key)), _time_spent(b.get(key))),
    )
    for key in keys:
        yield _statement(key, a.get(key), b.get(key))


def _key(total: StatementTotal) -> tuple[str, str, str]:
    return total.client_group, total.script, total.statement


def _time_spent(total: StatementTotal | None) -> float:
    return total.spent_ns if total else 0.0


def _statement(
    key: tuple[str, str, str], a: StatementTotal | None, b: StatementTotal | None
) -> results.StatementPairs:
    group, script, text = key
    times_a, times_b = (Distribution.of(s.service).to_json() if s else {} for s in (a, b))
    return results.StatementPairs(
        group=group,
        script=script,
        statement=text,
        done=pair(*(s.done if s else None for s in (a, b))),
        failed=pair(*(s.failed if s else None for s in (a, b))),
        mean_ms=pair(times_a.get("mean"), times_b.get("mean")),
        p99_ms=pair(times_a.get("p99"), times_b.get("p99")),
    )


def _waits(sides: Sequence[_MeasuredRun]) -> tuple[results.WaitPair, ...]:
    """Return average active sessions by wait event, the largest first."""
    a, b = (session_waits.averages(side.run, side.slice_ids) for side in sides)
    events = sorted(
        dict.fromkeys((*a, *b)), key=lambda event: -max(a.get(event, 0.0), b.get(event, 0.0))
    )
    pairs = {
        event: pair(round(a.get(event, 0.0), 3), round(b.get(event, 0.0), 3)) for event in events
    }
    return tuple(
        results.WaitPair(event=event, a=both.a or 0.0, b=both.b or 0.0, ratio=both.ratio)
        for event, both in pairs.items()
    )


def _drill_figures(a: RunFile, b: RunFile) -> results.DrillFigures:
    """Return the figures of two drills: counts of cuts, worst values and medians."""
    drills = [stored_drills(run) for run in (a, b)]
    for run, found in zip((a, b), drills, strict=True):
        if not found or not found[0].cuts:
            raise UsageError(f"{run.path} has no cut", code="nothing-in-common")
    first, second = (found[0] for found in drills)
    summaries = first.summary, second.summary
    return results.DrillFigures(
        fault=results.Faults(a=first.fault, b=second.fault),
        drill={
            name: pair(*(getattr(summary, name) for summary in summaries))
            for name in _DRILL_FIGURES
        },
    )

"""Two run files side by side: in what their runs differ, and both their figures. ``pgdyno diff``.

Two runs are no interleaved pairs: between them the machine, its neighbours and the data have
changed as well, by an amount that nobody measured. So there are ratios and no verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pgdyno.drill.storage import stored_drills
from pgdyno.errors import UsageError
from pgdyno.record import Distribution, RunFile, StatementTotal
from pgdyno.report import wait_events
from pgdyno.report.summary import RunSummary
from pgdyno.report.words import sentences
from pgdyno.results.diff import DiffResult
from pgdyno.spec import spec_from_fields
from pgdyno.stats.words import rounded

SCHEMA_VERSION = 1
NOT_PAIRS = (
    "two runs are not interleaved pairs: what differs between them may be the machine and its"
    " neighbours as well as what is listed here, so a ratio is no effect"
)
"""What must be known before any ratio is read."""
PARTS = ("response", "wait", "service")

_OF_THIS_START = frozenset(
    {
        *("data_directory", "uri", "entrance_uri", "postmaster_pid", "started_epoch_s"),
        *("database_bytes", "settings", "version_num", "reactor_why", "port", "tables"),
        *("unix_socket_directories", "is_local", "note"),
    }
)
"""Facts that differ each time a server is started, or are told elsewhere."""
_NAMES = ("name", "description")


def diff(a: RunFile, b: RunFile) -> DiffResult:
    """All that there is to say of both.

    Raises UsageError for what cannot stand side by side.
    """
    if a.path.resolve() == b.path.resolve():
        raise UsageError(f"{a.path} and {b.path} are the same file", code="same-file")
    stories = RunSummary(a), RunSummary(b)
    drilled = [run.run.command == "drill" for run in (a, b)]
    if drilled[0] != drilled[1]:
        which, other = (a, b) if drilled[0] else (b, a)
        raise UsageError(
            f"{which.path} is a drill and {other.path} is none: they have no figures in common",
            code="nothing-in-common",
            hint="two drills can be compared, or two runs under load",
        )
    return DiffResult(
        schema_version=SCHEMA_VERSION,
        a=_side(a, stories[0]),
        b=_side(b, stories[1]),
        cautions=tuple(_cautions(stories)),
        differs=_differs(a, b),
        figures=_drill_figures(a, b) if drilled[0] else _figures(a, b, stories),
    )


def _measured(story: RunSummary) -> list[int] | None:
    """The slices whose figures are shown: the run's own, or those of how it was."""
    return story.before.slice_ids if story.before else None


def _side(run: RunFile, story: RunSummary) -> dict[str, Any]:
    info = run.run
    return {
        "run_file": str(run.path),
        "name": info.name,
        "command": info.command,
        "started": sentences.started_at(info),
        "status": info.status,
        "pgdyno_version": info.pgdyno_version,
        "distrust": story.distrust,
        "over": _over(info.command, _measured(story)),
        "seconds": round(run.seconds(_measured(story)), 2),
    }


def _over(command: str, ids: list[int] | None) -> str:
    if ids is None:
        return "all of it"
    return "what was measured" if command == "run" else "the slices as it was, without a change"


def _cautions(stories: tuple[RunSummary, RunSummary]) -> Iterator[str]:
    """Why not to read too much into the figures."""
    yield NOT_PAIRS
    for name, story in zip("AB", stories, strict=True):
        if story.distrust:
            yield f"{name} cannot be trusted: {'; '.join(story.distrust)}"
        if story.info.status != "done":
            yield f"{name} did not come to its planned end: it is {story.info.status}"
        if story.emulated:
            yield f"{name} was measured with {story.emulated}"
    a, b = (story.info for story in stories)
    if a.host.get("cpu_model") != b.host.get("cpu_model") or a.host.get("cores") != b.host.get(
        "cores"
    ):
        yield "the machines differ"
    if _open_loops(a.spec) != _open_loops(b.spec):
        yield "one sends at a rate and the other does not: neither throughput nor latency is alike"


def _open_loops(spec: Mapping[str, Any]) -> bool:
    groups = spec.get("clients") or []
    return any(isinstance(group.get("arrival"), Mapping) for group in groups)


def _differs(a: RunFile, b: RunFile) -> dict[str, list[dict[str, Any]]]:
    """By part, the keys whose values differ."""
    one, other = a.run, b.run
    parts = {
        "spec": (_spec(one.spec), _spec(other.spec)),
        "settings": (one.server.get("settings") or {}, other.server.get("settings") or {}),
        "server": (one.server, other.server),
        "host": (one.host, other.host),
        "engine": (one.engine, other.engine),
    }
    return {name: list(_differing(*both)) for name, both in parts.items()}


def _spec(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """A spec with the defaults of keys that the writing version did not have, groups by name."""
    try:
        whole = spec_from_fields(fields).model_dump(mode="json", by_alias=True)
    except UsageError:
        whole = dict(fields)  # of another version: as it is
    groups = whole.get("clients") or []
    whole["clients"] = {str(group.get("name")): group for group in groups}
    return {key: value for key, value in whole.items() if key not in _NAMES}


def _differing(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    one, other = dict(_flat(a)), dict(_flat(b))
    for key in dict.fromkeys((*one, *other)):
        if one.get(key) != other.get(key):
            yield {"key": key, "a": one.get(key), "b": other.get(key)}


def _flat(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted key → value, of tables and lists of any depth; what is not set is not there."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            if name not in _OF_THIS_START:
                yield from _flat(item, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        for number, item in enumerate(value, start=1):
            yield from _flat(item, f"{key}[{number}]")
    elif value not in (None, "", []):
        yield key, value


Pair = dict[str, float | None]


def pair(a: float | None, b: float | None) -> Pair:
    """Both values, and how many times the first the second is."""
    ratio = rounded(b / a) if a and b is not None else None
    return {"a": a, "b": b, "ratio": ratio}


def _figures(a: RunFile, b: RunFile, stories: tuple[RunSummary, RunSummary]) -> dict[str, Any]:
    told = [(run, _measured(story)) for run, story in zip((a, b), stories, strict=True)]
    ledgers = [run.ledger(chosen) for run, chosen in told]
    if not any(ledger.done for ledger in ledgers):
        raise UsageError(
            f"neither {a.path} nor {b.path} has a transaction that was done",
            code="nothing-in-common",
        )
    failed = [_failed_share(ledger.failed, ledger.done) for ledger in ledgers]
    return {
        "throughput_tps": pair(*(_tps(story) for story in stories)),
        "latency_ms": {part: _latency(told, part) for part in PARTS},
        "failures": {
            "failed": pair(*(ledger.failed for ledger in ledgers)),
            "share": pair(*failed),
            "retried": pair(*(ledger.retried for ledger in ledgers)),
            "skipped": pair(*(ledger.skipped for ledger in ledgers)),
            "errors": _errors(told),
        },
        "statements": _statements(told),
        "waits": _waits(told),
    }


def _tps(story: RunSummary) -> float | None:
    return None if story.before is None else round(story.before.throughput_tps, 2)


def _failed_share(failed: int, done: int) -> float | None:
    return rounded(failed / (failed + done)) if failed + done else None


Told = list[tuple[RunFile, list[int] | None]]


def _latency(told: Told, part: Any) -> dict[str, Pair]:
    """Percentile → both; null where so few samples cannot tell it."""
    one, other = (
        Distribution.of(run.histogram(part, chosen)).to_json() if run.ledger(chosen).done else {}
        for run, chosen in told
    )
    names = [name for name in dict.fromkeys((*one, *other)) if name != "count"]
    return {name: pair(one.get(name), other.get(name)) for name in names}


def _errors(told: Told) -> list[dict[str, Any]]:
    counts: list[dict[str, int]] = []
    for run, chosen in told:
        mine: dict[str, int] = {}
        for error in run.errors(chosen):
            mine[error.sqlstate] = mine.get(error.sqlstate, 0) + error.count
        counts.append(mine)
    one, other = counts
    return [
        {"sqlstate": state, "a": one.get(state, 0), "b": other.get(state, 0)}
        for state in dict.fromkeys((*one, *other))
    ]


def _statements(told: Told) -> list[dict[str, Any]]:
    """Each statement that either run has, those that take the most time first."""
    one, other = ({_known_by(s): s for s in run.statements(chosen)} for run, chosen in told)
    names = sorted(
        dict.fromkeys((*one, *other)), key=lambda n: -max(_spent(one.get(n)), _spent(other.get(n)))
    )
    return [_statement(name, one.get(name), other.get(name)) for name in names]


def _known_by(total: StatementTotal) -> tuple[str, str, str]:
    return total.client_group, total.script, total.statement


def _spent(total: StatementTotal | None) -> float:
    return total.service.mean * total.service.count if total else 0.0


def _statement(
    name: tuple[str, str, str], a: StatementTotal | None, b: StatementTotal | None
) -> dict[str, Any]:
    group, script, text = name
    one, other = (Distribution.of(s.service).to_json() if s else {} for s in (a, b))
    return {
        "group": group,
        "script": script,
        "statement": text,
        "done": pair(*(s.done if s else None for s in (a, b))),
        "failed": pair(*(s.failed if s else None for s in (a, b))),
        "mean_ms": pair(one.get("mean"), other.get("mean")),
        "p99_ms": pair(one.get("p99"), other.get("p99")),
    }


def _waits(told: Told) -> list[dict[str, Any]]:
    """Average active sessions by wait event, the largest first."""
    averages: list[dict[str, float]] = []
    for run, chosen in told:
        mine: dict[str, float] = {}
        for wait in run.waits(chosen):
            if wait.backend_type == "client backend" and wait.state == "active":
                event = wait_events.event_of(wait.wait_event_type, wait.wait_event)
                mine[event] = mine.get(event, 0.0) + wait.average
        averages.append(mine)
    one, other = averages
    events = sorted(
        dict.fromkeys((*one, *other)), key=lambda e: -max(one.get(e, 0.0), other.get(e, 0.0))
    )
    return [
        {"event": e, **pair(round(one.get(e, 0.0), 3), round(other.get(e, 0.0), 3))} for e in events
    ]


def _drill_figures(a: RunFile, b: RunFile) -> dict[str, Any]:
    """What two drills took, in the worst cut and the median."""
    found = [stored_drills(run) for run in (a, b)]
    for run, drills in zip((a, b), found, strict=True):
        if not drills or not drills[0].cuts:
            raise UsageError(f"{run.path} has no cut", code="nothing-in-common")
    one, other = (dict(drills[0].summary()) for drills in found)
    figures = (
        *("cuts", "happened", "clean", "lost", "refused", "corrupt", "acked", "lost_median"),
        *("lost_max", "lost_ms_median", "lost_ms_max", "recovery_s_median", "recovery_s_max"),
    )
    return {
        "fault": {"a": found[0][0].fault, "b": found[1][0].fault},
        "drill": {
            name: pair(one.get(name), other.get(name))
            for name in figures
            if name in one or name in other
        },
    }

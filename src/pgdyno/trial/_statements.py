"""The server's own counts of statements in a run: by beginning, and by shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import asdict

from pgdyno.record import RunFile, StatementCount
from pgdyno.record.statements import beginning, evictions_in, why_absent
from pgdyno.results.statements import ServerStatements, StatementFigures, StatementGroup
from pgdyno.stats.words import rounded


def statements_of(run: RunFile, slice_ids: list[int]) -> ServerStatements | None:
    """Return what pg_stat_statements counted; None for a run that does not ask for it."""
    if not (run.run.spec.get("server") or {}).get("statements"):
        return None
    counts = run.statement_counts(slice_ids)
    total_ms = sum(each.exec_ms for each in counts)
    groups = _by(counts, lambda each: beginning(each.statement))
    return ServerStatements(
        absent=why_absent(run) or (None if counts else "no statement was counted"),
        exec_ms=rounded(total_ms),
        evictions=evictions_in(run, slice_ids),
        groups=tuple(
            StatementGroup(**_figures(text, each, total_ms), shapes=len(each))
            for text, each in groups.items()
        ),
        shapes=tuple(
            StatementFigures(**_figures(text, each, total_ms))
            for text, each in _by(counts, lambda each: each.statement).items()
        ),
    )


def _by(
    counts: Iterable[StatementCount], key: Callable[[StatementCount], str]
) -> dict[str, list[StatementCount]]:
    """Return the counts by group, those first that took the most time."""
    groups: dict[str, list[StatementCount]] = {}
    for each in counts:
        groups.setdefault(key(each), []).append(each)
    by_time = sorted(groups.items(), key=lambda item: -sum(each.exec_ms for each in item[1]))
    return dict(by_time)


def _figures(text: str, counts: list[StatementCount], total_ms: float) -> dict[str, object]:
    rows = [asdict(each) for each in counts]
    sums: dict[str, object] = {"text": text}
    for name in rows[0]:
        known = [row[name] for row in rows if row[name] is not None]
        if name != "statement":
            sums[name] = _rounded(sum(known)) if known else None
    taken_ms = sum(each.exec_ms for each in counts)
    return {**sums, "share": rounded(taken_ms / total_ms) if total_ms else 0.0}


def _rounded(value: float) -> float:
    return rounded(value) if isinstance(value, float) else value

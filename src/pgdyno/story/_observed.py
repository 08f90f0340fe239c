"""A chapter that is a run: what was found, in figures and sentences."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.diagnose.facts import client_sessions
from pgdyno.diagnose.words import counted, figure
from pgdyno.record import RunFile, SliceKind
from pgdyno.results import chapter as results
from pgdyno.results.run import RunResult
from pgdyno.results.story import Observed
from pgdyno.spec.story import Chapter


def statuses(chapter: Chapter, result: RunResult) -> dict[str, results.Ending]:
    """Return finding → whether it was found, of those that the chapter expects; without any, of
    those that were found. What could not be examined is skipped."""
    known: dict[str, results.Ending] = {
        each.id: each.status if each.status in ("cleared", "skipped") else "found"
        for each in result.findings
    }
    if isinstance(chapter.expect, dict):
        return {name: known.get(name, "skipped") for name in chapter.expect}
    return {name: status for name, status in known.items() if status == "found"}


def unexplained(chapter: Chapter, result: RunResult, run: RunFile) -> tuple[str, ...]:
    """Return the reasons to distrust the run, less those that the chapter is about: that clients
    were not connected, where it expects the finding that says why."""
    about = [name for name, status in statuses(chapter, result).items() if status == "found"]
    expected = isinstance(chapter.expect, dict) and any(n in chapter.expect for n in about)
    void = {each.void for each in run.slices(SliceKind.RUN) if each.void} if expected else set()
    return tuple(reason for reason in result.distrust if reason not in void)


def observed_figures(result: RunResult, run: RunFile) -> Observed:
    """Return the figures of the run."""
    ids = [each.id for each in run.slices(SliceKind.RUN)]
    seconds = run.seconds(ids)
    states = client_sessions.by_state(run, ids)
    means = {name: float(n.mean()) if len(n) else 0.0 for name, n in states.items()}
    done = sum(each.done for each in result.statements)
    return Observed(
        throughput_tps=result.throughput_tps,
        statements_per_s=round(done / seconds, 1) if seconds else 0.0,
        connections=round(sum(means.values()), 1),
        connections_idle=round(means.get("idle", 0.0), 1),
    )


def observed_sentences(chapter: Chapter, result: RunResult, run: RunFile) -> Iterator[str]:
    """Yield the figures, and what the findings say."""
    figures = observed_figures(result, run)
    p99 = result.latency_ms.response.p99
    yield (
        f"{figure(figures.throughput_tps)} transactions and {figure(figures.statements_per_s)}"
        f" statements per second{'' if p99 is None else f', p99 {figure(p99)} ms'};"
        f" {counted(figures.connections, 'connection', 'connections')} to the server, of which"
        f" {figure(figures.connections_idle)} are idle"
    )
    if result.governor is not None:
        yield result.governor.sentence
    said = {each.id: each.sentence for each in result.findings}
    for name, status in statuses(chapter, result).items():
        yield f"{name.replace('-', ' ')}: {status}: {said.get(name, 'the run was not diagnosed')}"

"""Rows of a result for ``--format csv``: no nested values, the same columns in every row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pgdyno.errors import UsageError
from pgdyno.record.cut import Cut, LedgerCount
from pgdyno.report.view import views
from pgdyno.results import load
from pgdyno.results.check import CheckResult
from pgdyno.results.investigate import InvestigateResult
from pgdyno.results.price import Gain, PriceResult
from pgdyno.shapes import Row

if TYPE_CHECKING:
    from pgdyno.record import RunFile
    from pgdyno.results.price import Price
    from pgdyno.results.story import FinishedChapter


_LOSS_COLUMNS = (
    *("cuts", "happened", "acked", "lost_median", "lost_max", "lost_ms_median", "lost_ms_max"),
    *("upper_bound", "corrupt", "refused", "bound_ms", "recovery_s_median", "why", "broke_off"),
)


def result_rows(run: RunFile) -> Iterator[Row]:
    """Return the rows of the command that recorded ``run``; of one that did not finish, those that
    it has. Raises UsageError where the rows come from a result that is not there."""
    if (of_run := _OF_RUNS.get(run.run.command)) is not None:
        return of_run(run)
    result = load(run)
    if isinstance(result, InvestigateResult):
        return step_rows(result)
    if isinstance(result, PriceResult):
        return price_rows(result)
    if isinstance(result, CheckResult):
        return finding_rows(result)
    view = views().get(run.run.command)
    if view and view.rows and result is not None:
        return view.rows(result)
    if view and view.measured_rows and result is None:
        return view.measured_rows(run)
    raise UsageError(
        f"{run.path} contains no result of pgdyno {run.run.command} to print as CSV",
        code="no-result",
        hint="--format json prints what was measured",
    )


def interval_rows(run: RunFile) -> Iterator[Row]:
    """Yield one row per second of a run."""
    latency = run.latency_series("response", (50, 95, 99), points_max=1_000_000)
    by_time = dict(
        zip(latency["at_ms"], zip(latency["p50"], latency["p99"], strict=True), strict=True)
    )
    for interval in run.intervals():
        p50, p99 = by_time.get(interval.at_ms, (float("nan"), float("nan")))
        yield {
            "at_s": interval.at_ms / 1000,
            "seconds": round(interval.duration_ms / 1000, 3),
            "clients": interval.clients,
            "done": interval.done,
            "failed": interval.failed,
            "throughput_tps": round(interval.throughput_tps, 1),
            "response_ms_p50": round(float(p50), 3),
            "response_ms_p99": round(float(p99), 3),
        }


def slice_rows(run: RunFile) -> Iterator[Row]:
    """Yield one row per slice of the trials of a run."""
    from pgdyno.trial.recorded import slice_figures

    for each in run.slices():
        if each.trial_id is None:
            continue
        tps, p99_ms = slice_figures(run, each.id)
        yield {
            "trial": each.trial_id,
            "pair": each.pair,
            "side": each.side,
            "throughput_tps": round(tps, 2),
            "response_ms_p99": None if p99_ms is None else round(p99_ms, 3),
            "failed": run.ledger([each.id]).failed,
            "void": each.void or "",
        }


def finding_rows(result: CheckResult) -> Iterator[Row]:
    """Yield one row per finding of a check, then those of what was cleared and not checked."""
    empty: Row = {"severity": "", "share": None, "confidence": None, "advice": "", "commands": ""}
    for each in result.findings:
        yield {
            "id": each.id,
            "status": "found",
            "sentence": each.sentence,
            "severity": each.severity,
            "share": each.share,
            "confidence": each.confidence,
            "advice": each.advice,
            "commands": "; ".join(each.commands),
        }
    for cleared in result.cleared:
        yield {"id": cleared.id, "status": "cleared", "sentence": cleared.sentence, **empty}
    for unseen in result.not_checked:
        row = {"id": " ".join(unseen.checks), "status": "not checked", **empty}
        yield {**row, "sentence": f"{unseen.subject}: {unseen.why}", "advice": unseen.allow}


def step_rows(result: InvestigateResult) -> Iterator[Row]:
    """Yield one row per step of an investigation."""
    for number, step in enumerate(result.steps, start=1):
        lo, hi = step.effect.ci95
        predicted_lo, predicted_hi = step.predicted_interval or (None, None)
        yield {
            "step": number,
            "finding": step.finding,
            "remedy": step.remedy.id,
            "change": step.remedy.title,
            "durability_class": step.remedy.durability_class,
            "predicted_ratio": step.predicted_ratio,
            "predicted_lo": predicted_lo,
            "predicted_hi": predicted_hi,
            "throughput_ratio": step.effect.throughput_ratio,
            "lo": lo,
            "hi": hi,
            "pairs": step.effect.pairs,
            "decision": step.decision,
        }


def price_rows(result: PriceResult) -> Iterator[Row]:
    """Yield one row per candidate and fault of a price list."""
    for price in result.prices:
        gain = _gain_columns(price)
        for loss in price.losses:
            figures = {column: getattr(loss, column, None) for column in _LOSS_COLUMNS}
            yield {**gain, "fault": loss.fault, "variant": loss.variant, **figures}


def _gain_columns(price: Price) -> Row:
    gain = price.gain if isinstance(price.gain, Gain) else None
    return {
        "candidate": price.candidate,
        "durability_class": price.durability_class,
        "throughput_ratio": gain and gain.throughput_ratio,
        "lo": gain and gain.ci95[0],
        "hi": gain and gain.ci95[1],
        "latency_p99_ratio": gain and gain.latency_p99_ratio,
    }


def cut_rows(run: RunFile) -> Iterator[Row]:
    """Yield one row per cut of the drills of a run."""
    from pgdyno.drill.storage import stored_drills

    for drill in stored_drills(run):
        yield from (_cut_row(drill.fault, cut) for cut in drill.cuts)


def _cut_row(fault: str, cut: Cut) -> Row:
    ledger = dict.fromkeys(LedgerCount.model_fields) | dict(cut.ledger or {})
    return {
        "fault": fault,
        **{name: getattr(cut, name) for name in ("number", "variant", "seed", "at_ms")},
        **ledger,
        **{n: getattr(cut, n) for n in ("recovery_s", "outcome", "seen_by", "server_said")},
        "no_commit_ms": cut.outage and cut.outage.no_commit_ms,
        "proof": cut.proof.sentence,
    }


_OF_RUNS = {"run": interval_rows, "soak": interval_rows, "compare": slice_rows, "drill": cut_rows}
"""Command → its rows, for those that need no result."""


def chapter_rows(chapters: Sequence[FinishedChapter]) -> Iterator[Row]:
    """Yield one row per outcome of the chapters of a story."""
    for chapter in chapters:
        for variant, ending in chapter.endings.items():
            yield {
                "chapter": chapter.number,
                "title": chapter.title,
                "variant": variant,
                "ending": ending,
                "as_expected": chapter.as_expected,
                "run_file": chapter.run_file,
            }

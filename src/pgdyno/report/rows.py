"""Rows of a result for ``--format csv``: no nested values, the same columns in every row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pgdyno.results.price import Gain

if TYPE_CHECKING:
    from pgdyno.record import RunFile
    from pgdyno.results.investigate import InvestigateResult
    from pgdyno.results.price import Price, PriceResult
    from pgdyno.results.story import FinishedChapter

Row = dict[str, Any]

_LOSS_COLUMNS = (
    *("cuts", "happened", "acked", "lost_median", "lost_max", "lost_ms_median", "lost_ms_max"),
    *("upper_bound", "corrupt", "refused", "bound_ms", "recovery_s_median", "why", "broke_off"),
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
    from pgdyno.record import throughput_tps

    for each in run.slices():
        if each.trial_id is None:
            continue
        yield {
            "trial": each.trial_id,
            "pair": each.pair,
            "side": each.side,
            "throughput_tps": round(throughput_tps(run, [each.id]), 2),
            "response_ms_p99": _response_ms_p99(run, each.id),
            "failed": run.ledger([each.id]).failed,
            "void": each.void or "",
        }


def _response_ms_p99(run: RunFile, slice_id: int) -> float | None:
    response = run.histogram("response", [slice_id])
    return response.percentile(99) / 1e6 if response.count else None


def step_rows(result: InvestigateResult) -> Iterator[Row]:
    """Yield one row per step of an investigation."""
    for number, step in enumerate(result.steps, start=1):
        lo, hi = step.effect.ci95
        yield {
            "step": number,
            "finding": step.finding,
            "remedy": step.remedy.id,
            "change": step.remedy.title,
            "durability_class": step.remedy.durability_class,
            "predicted_ratio": step.predicted_ratio,
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
        yield from (cut.to_row() for cut in drill.cuts)


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

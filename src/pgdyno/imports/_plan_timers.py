"""Timers of a JMeter plan: pauses before each request in their scope, and rates."""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno.imports._lines import CannotTake, pause_line
from pgdyno.imports._plan_texts import Texts
from pgdyno.imports._plan_tree import Element

PAUSES = frozenset({"ConstantTimer", "UniformRandomTimer", "GaussianRandomTimer"})
"""Timers that pause before each request."""
RATES = frozenset({"ConstantThroughputTimer", "PreciseThroughputTimer"})
"""Timers that hold a rate."""
_DEVIATIONS = 4
"""Deviations from the mean to which a normal distribution reaches."""


def pause_lines(timers: Iterable[Element], texts: Texts) -> list[str]:
    """Return the lines that pause as these timers do before a request: their times add up.

    Raises CannotTake.
    """
    constant_ms, varying = 0.0, []
    for timer in timers:
        if timer.kind == "ConstantTimer":
            constant_ms += texts.number(timer.text("ConstantTimer.delay", "0"), "a delay of")
            continue
        delay = texts.number(timer.text("ConstantTimer.delay", "0"), "a delay of")
        spread = texts.number(timer.text("RandomTimer.range", "0"), "a range of")
        varying.append(_expression(timer.kind, delay, spread))
    if not varying:
        return [pause_line(constant_ms)] if constant_ms else []
    added = [f"{round(constant_ms)}"] if constant_ms else []
    name = texts.changes("pause_ms")
    return [f"\\set {name} {' + '.join([*added, *varying])}", f"\\sleep :{name} ms"]


def _expression(kind: str, delay: float, spread: float) -> str:
    if spread < 1:
        return f"{round(delay)}"
    if kind == "UniformRandomTimer":
        return f"random({round(delay)}, {round(delay + spread)})"
    low, high = round(delay - _DEVIATIONS * spread), round(delay + _DEVIATIONS * spread)
    return f"abs(random_gaussian({low}, {high}, {_DEVIATIONS}.0))"


def arrival_of(timer: Element, texts: Texts, *, clients: int, requests: int) -> dict[str, object]:
    """Return the arrival process that holds a timer's rate, of transactions of ``requests``.

    Raises CannotTake.
    """
    if timer.kind == "PreciseThroughputTimer":
        period_s = texts.number(timer.text("throughputPeriod", "3600"), "a period of")
        process, threads = "poisson", 1
    else:
        period_s, process = 60.0, "constant"
        each_thread = texts.whole(timer.text("calcMode", "0"), "a mode of") == 0
        threads = clients if each_thread else 1
    samples = texts.number(timer.text("throughput", "0"), "a throughput of")
    rate = samples * threads / period_s / requests if period_s else 0
    if rate <= 0:
        raise CannotTake("a throughput of 0")
    return {"rate": round(rate, 6), "process": process}

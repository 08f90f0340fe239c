"""Timers of a JMeter plan: pauses before each request in their scope, and rates."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pgdyno.imports._lines import CannotTake, pause_line
from pgdyno.imports._model import ImportAccount
from pgdyno.imports._plan_texts import Texts
from pgdyno.imports._plan_tree import Element

PAUSES = frozenset({"ConstantTimer", "UniformRandomTimer", "GaussianRandomTimer"})
"""Timers that pause before each request."""
RATES = frozenset({"ConstantThroughputTimer", "PreciseThroughputTimer"})
"""Timers that hold a rate."""
_DIGITS_MAX = 12
_DEVIATIONS = 4
"""Deviations from the mean to which a normal distribution reaches."""


def pause_lines(
    timers: Iterable[Element],
    texts: Texts,
    account: ImportAccount,
    *,
    action: Element | None = None,
) -> list[str]:
    """Return the lines that pause as these timers do before a request: their times add up, and
    that of a flow control action to them.

    Raises CannotTake.
    """
    reader = _Reader(texts, account)
    for timer in timers:
        reader.add_timer(timer)
    if action is not None:
        reader.add_action(action)
    return reader.lines()


class _Reader:
    """Adds up times."""

    def __init__(self, texts: Texts, account: ImportAccount) -> None:
        self._texts = texts
        self._account = account
        self._constant_ms = 0
        self._varying: list[str] = []
        self._before: list[str] = []
        """Lines that set the variables of varying times."""

    def lines(self) -> list[str]:
        """Return the lines that wait."""
        if not self._varying:
            return [pause_line(self._constant_ms)] if self._constant_ms else []
        added = [f"{self._constant_ms}"] if self._constant_ms else []
        name = self._texts.changes("pause_ms")
        return [
            *self._before,
            f"\\set {name} {' + '.join([*added, *self._varying])}",
            f"\\sleep :{name} ms",
        ]

    def add_action(self, action: Element) -> None:
        """Add the time of a flow control action. Raises CannotTake."""
        if action.text("ActionProcessor.action", "1").strip() != "1":
            raise CannotTake("it ends threads or loops")
        self._add(self._time_ms(action, "ActionProcessor.duration"))

    def add_timer(self, timer: Element) -> None:
        """Add the time of a timer. Raises CannotTake."""
        delay = self._time_ms(timer, "ConstantTimer.delay")
        spread = 0.0
        if timer.kind != "ConstantTimer":
            spread = self._texts.number(timer.text("RandomTimer.range"), "a range of")
        if spread < 1:
            self._add(delay)
        elif isinstance(delay, str):
            raise CannotTake("a random time around one that changes, too")
        else:
            self._varying.append(_expression(timer.kind, delay, spread))

    def _add(self, time: int | str) -> None:
        if isinstance(time, str):
            self._varying.append(time)
        else:
            self._constant_ms += time

    def _time_ms(self, element: Element, key: str) -> int | str:
        """Return a time, or the variable that has it.

        It is read as JMeter reads it (``Long.parseLong``): what is no whole number is 0.
        """
        written = element.text(key)
        lines_before = len(self._before)
        text = self._texts.render(written, str, self._before)
        if "${" in written and (found := re.fullmatch(r":\{?(\w+)\}?", text)):
            return f":{found[1]}"
        if len(self._before) > lines_before:
            raise CannotTake(f"a time of {written}")
        if re.fullmatch(r"[-+]?\d+", text, re.ASCII):
            if len(text) > _DIGITS_MAX:
                raise CannotTake(f"a time of {text[:40]} ms")
            return max(int(text), 0)
        if text:
            self._account.note(
                element.line,
                f'{element.described} has a time of "{text[:40]}", which is no whole number of'
                " milliseconds: JMeter takes it for 0",
            )
        return 0


def _expression(kind: str, delay: int, spread: float) -> str:
    if kind == "UniformRandomTimer":
        return f"random({delay}, {round(delay + spread)})"
    low, high = round(delay - _DEVIATIONS * spread), round(delay + _DEVIATIONS * spread)
    return f"abs(random_gaussian({low}, {high}, {_DEVIATIONS}.0))"


def arrival_of(timer: Element, texts: Texts, *, clients: int, requests: int) -> dict[str, object]:
    """Return the arrival process that holds a timer's rate, of transactions in each of which it
    holds up ``requests`` requests and pauses.

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

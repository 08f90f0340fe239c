"""The view of ``pgdyno check --watch``: sessions by wait against the cores, the busiest statements,
and findings as they come and go."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from pgdyno import numbers
from pgdyno.check.watching import Away
from pgdyno.record.finding import Finding
from pgdyno.report.terminal._lines import Line, labelled, print_lines, rendered
from pgdyno.report.views.check import STYLES, load_words, statement_words
from pgdyno.results.check import CheckResult, ObservedLoad

WAITS_MAX = 8
STATEMENTS_MAX = 6
GONE_MAX = 5
BAR_WIDTH = 40
NAME_WIDTH = 30
LABEL = 11


@dataclass
class _Shown:
    """A finding, and when it came and went, in seconds since 1970."""

    finding: Finding
    came_s: float
    gone_s: float | None = None


class WatchView:
    """The view, which takes one result after another."""

    def __init__(self) -> None:
        self._shown: dict[str, _Shown] = {}
        self._result: CheckResult | None = None
        self._at_s = 0.0
        self._away: tuple[str, float] | None = None

    def miss(self, why: str, at_s: float | None = None) -> list[Line]:
        """Take a period in which the server was not seen; return a line if it is the first."""
        first = self._away is None
        since_s = self._away[1] if self._away else time.time() if at_s is None else at_s
        self._away = (why, since_s)
        return [Line(self._away_words(), "red")] if first else []

    def _away_words(self) -> str:
        assert self._away is not None
        why, since_s = self._away
        return f"not seen since {_clock(since_s)}: {why}"

    def update(self, result: CheckResult, at_s: float | None = None) -> list[Line]:
        """Take the next result; return a line for each finding that has come or gone."""
        self._result, self._at_s = result, time.time() if at_s is None else at_s
        self._away = None
        now = {each.id: each for each in result.findings}
        changes = []
        for name, shown in self._shown.items():
            if name not in now and shown.gone_s is None:
                shown.gone_s = self._at_s
                changes.append(Line(f"gone: {_name(shown.finding)}", "dim"))
        for name, finding in now.items():
            known = self._shown.get(name)
            if known is None or known.gone_s is not None:
                known = self._shown[name] = _Shown(finding, self._at_s)
                text = f"{finding.severity}: {_name(finding)}: {finding.sentence}"
                changes.append(Line(text, STYLES[finding.severity or "minor"]))
            known.finding = finding
        return changes

    def summary(self) -> Line:
        """Return the load of the last result in one line."""
        assert self._result is not None
        waits = ", ".join(
            f"{numbers.significant(each.sessions, 2)} {each.event}"
            for each in self._result.load.waits[:4]
        )
        text = f"{_clock(self._at_s)}  {load_words(self._result.load)}"
        return Line(f"{text}: {waits}" if waits else text)

    def lines(self, width: int) -> list[Line]:
        """Return the whole view; while the server is not seen, as it was last."""
        away = [] if self._away is None else [Line(self._away_words()[:width], "red")]
        if self._result is None:
            return away
        server, load = self._result.server, self._result.load
        head = f"PostgreSQL {server.version} · {server.database} · {_clock(self._at_s)}"
        return [
            Line(head, "bold"),
            *away,
            Line(load_words(load)),
            Line(""),
            *_wait_lines(load),
            Line(""),
            *_statement_lines(load, width),
            Line(""),
            *self._finding_lines(width),
        ]

    def _finding_lines(self, width: int) -> Iterator[Line]:
        assert self._result is not None
        for finding in self._result.findings:
            severity = finding.severity or "minor"
            since = f"since {_clock(self._shown[finding.id].came_s)}"
            text = f"{_name(finding)} ({since}): {finding.sentence}"
            yield from labelled(severity, text, width, style=STYLES[severity], label_width=LABEL)
        gone = [each for each in self._shown.values() if each.gone_s is not None]
        for each in sorted(gone, key=lambda one: -(one.gone_s or 0.0))[:GONE_MAX]:
            text = f"{_name(each.finding)}, {_clock(each.came_s)} to {_clock(each.gone_s or 0.0)}"
            yield from labelled("gone", text, width, style="dim", label_width=LABEL)


def _wait_lines(load: ObservedLoad) -> Iterator[Line]:
    """Yield a bar for each wait event, and one of the cores at the same scale."""
    if load.at_work is None:
        yield Line("what sessions do is hidden from this role (grant pg_monitor)", "yellow")
        return
    largest = max([load.cores or 0.0, *(each.sessions for each in load.waits)])
    if load.cores is not None:
        yield _bar("cores", load.cores, largest, "dim")
    for each in load.waits[:WAITS_MAX]:
        yield _bar(each.event, each.sessions, largest, "green" if each.event == "CPU" else "")


def _bar(name: str, value: float, largest: float, style: str) -> Line:
    length = round(BAR_WIDTH * value / largest) if largest else 0
    figure = f"{numbers.significant(value, 2):>7}"
    return Line(f"{name[:NAME_WIDTH]:<{NAME_WIDTH}}{figure}  {'█' * length}", style)


def _statement_lines(load: ObservedLoad, width: int) -> Iterator[Line]:
    for each in load.statements[:STATEMENTS_MAX]:
        yield Line(statement_words(each)[:width])


def _name(finding: Finding) -> str:
    return finding.id.replace("-", " ")


def _clock(at_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at_s))


def _changes(view: WatchView, result: CheckResult | Away) -> list[Line]:
    """Let the view take a result, and return what a line for each result shows of it."""
    if isinstance(result, Away):
        return view.miss(result.why)
    changes = view.update(result)
    return [view.summary(), *changes]


def show_watch(results: Iterable[CheckResult | Away], console: Console | None) -> None:
    """Show each result when it comes: on a terminal the whole view, otherwise its changes."""
    view = WatchView()
    if console is None or not console.is_terminal:
        for result in results:
            print_lines(_changes(view, result), console)
            sys.stdout.flush()
        return
    with Live(Text("watching …"), console=console, screen=True, auto_refresh=False) as live:
        live.refresh()
        for result in results:
            _changes(view, result)
            lines = view.lines(console.width)[: console.height]
            live.update(Group(*map(rendered, lines)), refresh=True)

"""A thread group of a JMeter plan as a script: its controllers, in order, around its requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pgdyno.imports._lines import CannotTake, comment
from pgdyno.imports._model import ImportAccount
from pgdyno.imports._plan_requests import (
    IN_SCOPE,
    ONCE,
    SAMPLERS,
    Sampler,
    is_defaults,
    request_lines,
)
from pgdyno.imports._plan_texts import Texts
from pgdyno.imports._plan_timers import PAUSES, RATES, pause_lines
from pgdyno.imports._plan_tree import Element

_LINES_MAX = 20_000
_VISITS_MAX = 100_000
"""Most visits of elements, those in loops each time."""
_LISTENERS = {
    *("ResultCollector", "Summariser", "BackendListener", "ResultSaver", "DebugSampler"),
    *("CorrectedResultCollector", "DNSCacheManager", "ViewResultsFullVisualizer"),
}
"""Elements without which the same is sent."""
_PLAIN = {"GenericController", "TransactionController", "RecordingController"}


def samplers_of(element: Element, scope: Sequence[Element]) -> Iterator[Sampler]:
    """Yield the samplers at and below ``element``, each with the elements that apply to it."""
    here = [*scope, *applying(element)]
    if element.kind in SAMPLERS:
        yield Sampler(element, here)
        return
    for child in element.below:
        if child.enabled:
            yield from samplers_of(child, here)


def applying(element: Element) -> list[Element]:
    """Return the elements directly below ``element`` that apply to its requests."""
    return [
        each
        for each in element.below
        if each.enabled and (each.kind in IN_SCOPE or is_defaults(each))
    ]


class GroupWriter:
    """Writes the script of a thread group."""

    def __init__(
        self, texts: Texts, account: ImportAccount, *, origin: str | None, forgets: bool
    ) -> None:
        self._texts = texts
        self._account = account
        self._origin = origin
        self._forgets = forgets
        self._lines: list[str] = []
        self._visits = 0
        self._own_names: dict[tuple[str, int], str] = {}
        self.requests = 0
        """Requests of a transaction, as far as no condition decides."""
        self.paced = 0
        """Requests and pauses of a transaction that a rate holds up."""
        self.paced_at_times = False
        """Some of these depend on a condition."""
        self._conditions = 0

    def script(self, group: Element, scope: Sequence[Element], start: Sequence[str]) -> str:
        """Return the text of the script; ``start`` are its first lines. Raises CannotTake."""
        self._lines = ["\\forget"] if self._forgets else []
        self._lines += start
        self._below(group, scope)
        return "\n".join(self._lines) + "\n"

    def _below(self, element: Element, scope: Sequence[Element]) -> None:
        self._visits += 1
        if self._visits > _VISITS_MAX or len(self._lines) > _LINES_MAX:
            raise CannotTake(f"a script of more than {_LINES_MAX:,} lines")
        here = [*scope, *applying(element)]
        for child in element.below:
            if child.enabled:
                self._one(child, here)

    def _one(self, element: Element, scope: Sequence[Element]) -> None:
        kind = element.kind
        if kind in IN_SCOPE or kind in ONCE or is_defaults(element):
            return
        if kind in _LISTENERS:
            self._account.note(element.line, f"{element.described} is left out")
            return
        try:
            if kind in SAMPLERS:
                self._request(element, scope)
            elif kind == "TestAction":
                self._pause(element, scope)
            elif kind in _PLAIN:
                self._below(element, scope)
            elif writer := _CONTROLLERS.get(kind):
                writer(self, element, scope)
            else:
                raise CannotTake("")
        except CannotTake as problem:
            why = f": {problem}" if str(problem) else " is not supported"
            text = self._account.missing(element.line, f"{element.described}{why}")
            self._lines.append(comment(f"not taken, {text}"))

    def _request(self, element: Element, scope: Sequence[Element]) -> None:
        sampler = Sampler(element, [*scope, *applying(element)])
        origin = sampler.origin(self._texts)
        if origin is not None and origin != self._origin:
            self._account.note(element.line, f"{element.described} goes to {origin}: left out")
            return
        lines = request_lines(sampler, self._texts, self._account)
        name = f"{element.name}, " if element.name else ""
        self._lines += [
            "",
            comment(f"{name}{Path(self._account.file).name}:{element.line}"),
            *self._unsupported_below(element),
            *lines,
        ]
        self.requests += 1
        self._pace(sampler)

    def _unsupported_below(self, element: Element) -> Iterator[str]:
        """Yield a line for each element below a sampler that is not supported."""
        for child in element.below:
            if not child.enabled or child.kind in IN_SCOPE or is_defaults(child):
                continue
            if child.kind in _LISTENERS:
                self._account.note(child.line, f"{child.described} is left out")
                continue
            text = self._account.missing(child.line, f"{child.described} is not supported")
            yield comment(f"not taken, {text}")

    def _pause(self, element: Element, scope: Sequence[Element]) -> None:
        sampler = Sampler(element, [*scope, *applying(element)])
        self._lines += pause_lines(
            sampler.of_kind(PAUSES), self._texts, self._account, action=element
        )
        self._lines += self._unsupported_below(element)
        self._pace(sampler)

    def _pace(self, sampler: Sampler) -> None:
        """Count a request, or a pause, that a rate holds up."""
        if sampler.of_kind(RATES):
            self.paced += 1
            self.paced_at_times |= self._conditions > 0

    def _loop(self, element: Element, scope: Sequence[Element]) -> None:
        loops = element.text("LoopController.loops", "1")
        if loops.strip() == "-1":
            raise CannotTake("an endless loop")
        for _ in range(self._texts.whole(loops, "a number of loops of")):
            self._below(element, scope)

    def _within(self, condition: str, element: Element, scope: Sequence[Element]) -> None:
        self._lines += ["", f"\\if {condition}"]
        with self._condition():
            self._below(element, scope)
        self._lines.append("\\endif")

    @contextmanager
    def _condition(self) -> Iterator[None]:
        """Within the block, lines are written that a condition decides about."""
        self._conditions += 1
        try:
            yield
        finally:
            self._conditions -= 1

    def _once(self, element: Element, scope: Sequence[Element]) -> None:
        self._within(":txn = 0", element, scope)

    def _percent(self, element: Element, scope: Sequence[Element]) -> None:
        if element.text("ThroughputController.style", "0") != "1":
            raise CannotTake("a number of executions")
        percent = element.text("ThroughputController.percentThroughput", "100")
        share = self._texts.number(percent, "a share of")
        name = self._own_name("percent", element)
        self._lines += ["", f"\\set {name} random(1, 10000)"]
        self._within(f":{name} <= {round(share * 100)}", element, scope)

    def _own_name(self, name: str, element: Element) -> str:
        """Return the variable of a controller, the same each time that a loop comes to it."""
        key = (name, element.line)
        if key not in self._own_names:
            self._own_names[key] = self._texts.new(name)
        return self._own_names[key]

    def _random(self, element: Element, scope: Sequence[Element]) -> None:
        name = self._own_name("choice", element)
        self._choice(element, scope, name, lambda count: f"random(1, {count})")

    def _in_turn(self, element: Element, scope: Sequence[Element]) -> None:
        name = self._own_name("turn", element)
        self._choice(element, scope, name, lambda count: f"mod(:txn, {count}) + 1")

    def _choice(
        self,
        element: Element,
        scope: Sequence[Element],
        name: str,
        expression: Callable[[int], str],
    ) -> None:
        """Write the branches of a controller that takes one of the elements below it."""
        here = [*scope, *applying(element)]
        branches = [
            each
            for each in element.below
            if each.enabled
            and not (each.kind in IN_SCOPE or each.kind in _LISTENERS or is_defaults(each))
        ]
        if not branches:
            return
        grouped = element.text("InterleaveControl.style", "0") == "1"
        if not grouped and any(len(list(samplers_of(each, here))) > 1 for each in branches):
            raise CannotTake("it takes the requests of a controller one at a time")
        self._lines += ["", f"\\set {name} {expression(len(branches))}"]
        for number, branch in enumerate(branches, 1):
            self._lines.append(f"\\{'if' if number == 1 else 'elif'} :{name} = {number}")
            with self._condition():
                self._one(branch, here)
        self._lines.append("\\endif")


_CONTROLLERS = {
    "LoopController": GroupWriter._loop,
    "OnceOnlyController": GroupWriter._once,
    "ThroughputController": GroupWriter._percent,
    "RandomController": GroupWriter._random,
    "InterleaveControl": GroupWriter._in_turn,
}

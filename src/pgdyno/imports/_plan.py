"""A JMeter test plan as a spec with scripts: thread groups become client groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.imports._lines import CannotTake, comment, slug, variables_of_lines
from pgdyno.imports._model import Choices, ImportAccount, Imported, chosen_origin
from pgdyno.imports._plan_checks import EXTRACTORS, extracted_names
from pgdyno.imports._plan_groups import GroupWriter, applying, samplers_of
from pgdyno.imports._plan_requests import IN_SCOPE, ONCE, Sampler, check_protocol, is_defaults
from pgdyno.imports._plan_start import check_files, names_at_start, start_lines
from pgdyno.imports._plan_texts import Texts, literal_names, variables_set_by
from pgdyno.imports._plan_timers import RATES, arrival_of
from pgdyno.imports._plan_tree import Element, PlanRecord, read_plan
from pgdyno.json_types import Fields
from pgdyno.numbers import listed

_PLAN_NOTES = {"ResultCollector", "Summariser", "BackendListener", "DNSCacheManager"}
_FOREVER = -1


@dataclass
class _ThreadGroup:
    """A thread group."""

    element: Element
    name: str
    clients: int
    ramp_s: float
    loops: int
    duration_s: float | None
    stops: bool
    """An error ends the test."""


def import_plan(content: bytes, path: Path, choices: Choices) -> Imported:
    """Return the spec of a plan. Raises UsageError for what is not supported, and where it is."""
    plan = read_plan(content, str(path))
    account = ImportAccount(str(path))
    _note_disabled(plan, account)
    importer = _Importer(plan, path, choices, account)
    return importer.imported()


def _note_disabled(plan: Element, account: ImportAccount) -> None:
    off = [each for each in _all(plan) if not each.enabled]
    if off:
        lines = listed([str(each.line) for each in off], 8)
        where = "line" if len(off) == 1 else "lines"
        account.note(0, f"left out, since disabled: what begins in {where} {lines}")


def _all(element: Element) -> Iterator[Element]:
    yield element
    if element.enabled:
        for each in element.below:
            yield from _all(each)


class _Importer:
    def __init__(self, plan: Element, path: Path, choices: Choices, account: ImportAccount) -> None:
        self._plan = plan
        self._path = path
        self._choices = choices
        self._account = account
        literals = {name for node in plan.node.walk() for name in literal_names(node.text)}
        for element in plan.walk():
            literals |= {n for node in element.node.walk() for n in literal_names(node.text)}
        self._texts = Texts(choices.variables, literals)
        self._tables: dict[str, str] = {}
        self._scope = applying(plan)

    def imported(self) -> Imported:
        """Return the spec."""
        self._define()
        check_protocol(self._plan, str(self._path))
        self._check_plan()
        groups = [group for each in self._group_elements() if (group := self._group(each))]
        if not groups:
            self._account.check(partial=self._choices.partial)
            raise UsageError(
                f"{self._path}: no thread group in it is enabled", code="import-empty-plan"
            )
        origin = self._origin(groups)
        scripts: dict[str, str] = {}
        clients = []
        for group in groups:
            file = self._file_name(group, several=len(groups) > 1, taken=scripts)
            text, fields = self._script(group, origin, alone=len(groups) == 1)
            if fields is None:
                self._account.note(group.element.line, f'"{group.name}" sends no request: left out')
                continue
            scripts[file] = text
            clients.append({**fields, "script": [{"file": file}]})
        if not scripts:
            self._account.check(partial=self._choices.partial)
        if not scripts or origin is None:
            raise UsageError(
                f"{self._path}: none of its thread groups sends an HTTP request",
                code="import-empty-plan",
            )
        fields = self._fields(groups, origin, clients)
        if variables := self._texts.first_values | variables_of_lines(scripts.values()):
            fields["workload"] = {"variables": variables}
        self._account.check(partial=self._choices.partial)
        return Imported(
            fields["name"], fields, scripts, self._tables,
            self._account.all_missing, self._account.all_notes,
        )  # fmt: skip

    def _define(self) -> None:
        """Learn the variables of the plan: those that are fixed, and those that change."""
        for record in self._plan.records("TestPlan.user_defined_variables"):
            self._texts.fix(record.text("Argument.name"), record.text("Argument.value"))
        for element in self._plan.walk():
            if element.kind == "Arguments":
                for record in element.records("Arguments.arguments"):
                    self._texts.fix(record.text("Argument.name"), record.text("Argument.value"))
        if not self._choices.outside_files:
            check_files(self._plan, self._texts, self._path)
        for element in self._plan.walk():
            self._learn(element)

    def _learn(self, element: Element) -> None:
        names: list[str] = []
        if element.kind in EXTRACTORS:
            names = extracted_names(element)
        elif element.kind in ONCE:
            try:
                names = names_at_start(element, self._texts, self._path.parent)
            except CannotTake:
                return  # Named when its lines are written.
        else:
            names = [name for node in element.node.walk() for name in variables_set_by(node.text)]
        for name in names:
            if name:
                self._texts.changes(name)

    def _check_plan(self) -> None:
        """Name the elements beside the thread groups that are not supported."""
        for element in self._plan.below:
            if not element.enabled or element.kind.endswith("ThreadGroup"):
                continue
            if element.kind in IN_SCOPE or element.kind in ONCE or is_defaults(element):
                continue
            if element.kind in _PLAN_NOTES:
                self._account.note(element.line, f"{element.described} is left out")
            else:
                self._account.missing(element.line, f"{element.described} is not supported")
        if self._plan.flag("TestPlan.serialize_threadgroups"):
            self._account.missing(
                self._plan.line, "thread groups one after the other, and not at the same time"
            )

    def _group_elements(self) -> list[Element]:
        return [
            each for each in self._plan.below if each.enabled and each.kind.endswith("ThreadGroup")
        ]

    def _group(self, element: Element) -> _ThreadGroup | None:
        if element.kind != "ThreadGroup":
            self._account.missing(element.line, f"{element.described} is not supported")
            return None
        texts = self._texts
        try:
            controller = element.node.named("ThreadGroup.main_controller")
            loops = (
                "1"
                if controller is None
                else PlanRecord(controller).text("LoopController.loops", "1")
            )
            forever = controller is not None and (
                PlanRecord(controller).text("LoopController.continue_forever", "true") == "true"
                or texts.fixed_text(loops).strip() == "-1"
            )
            scheduled = element.flag("ThreadGroup.scheduler")
            on_error = element.text("ThreadGroup.on_sample_error", "continue")
            if scheduled and texts.whole(element.text("ThreadGroup.delay"), "a delay of"):
                raise CannotTake("it begins later than the others")
            if on_error == "stopthread":
                raise CannotTake("a thread ends with its first failed request")
            duration = element.text("ThreadGroup.duration") if scheduled else ""
            return _ThreadGroup(
                element,
                element.name or "clients",
                texts.whole(element.text("ThreadGroup.num_threads", "1"), "a number of threads of"),
                texts.whole(element.text("ThreadGroup.ramp_time"), "a ramp of"),
                _FOREVER if forever else texts.whole(loops, "a number of loops of"),
                texts.whole(duration, "a duration of") or None,
                on_error in ("stoptest", "stoptestnow"),
            )  # fmt: skip
        except CannotTake as problem:
            self._account.missing(element.line, f"{element.described}: {problem}")
            return None

    def _origin(self, groups: list[_ThreadGroup]) -> str | None:
        """Return the server of the requests; None if there are none. Raises UsageError."""
        origins: Counter[str] = Counter()
        nowhere: list[int] = []
        for group in groups:
            for sampler in samplers_of(group.element, self._scope):
                try:
                    origin = sampler.origin(self._texts)
                except CannotTake as problem:
                    element = sampler.element
                    self._account.missing(element.line, f"{element.described}: {problem}")
                    continue
                if origin is None:
                    nowhere.append(sampler.element.line)
                else:
                    origins[origin] += 1
        if not origins and not nowhere:
            return None
        return chosen_origin(origins, nowhere, str(self._path), self._choices)

    def _script(
        self, group: _ThreadGroup, origin: str | None, *, alone: bool
    ) -> tuple[str, Fields | None]:
        """Return the script of a group and its fields; None if it sends nothing."""
        cookies = [each for each in self._managers(group) if each.kind == "CookieManager"]
        writer = GroupWriter(
            self._texts,
            self._account,
            origin=origin,
            forgets=any(self._forgets(each, group) for each in cookies),
        )
        start = self._start(group)
        try:
            text = writer.script(group.element, self._scope, start)
        except CannotTake as problem:
            self._account.missing(group.element.line, f"{group.element.described}: {problem}")
            return "", None
        if not writer.requests:
            return "", None
        fields: Fields = {
            "name": self._group_name(group),
            "count": max(group.clients, 1),
        }
        for what, number in (("threads", group.clients), ("loops", group.loops)):
            if not number:
                self._account.missing(
                    group.element.line, f"{group.element.described} has no {what}"
                )
        arrival = self._arrival(group, writer, alone=alone)
        if writer.requests > 1 and not group.stops and group.element.text(
            "ThreadGroup.on_sample_error", "continue"
        ) == "continue":  # fmt: skip
            self._account.note(
                group.element.line,
                "after a failed request a client goes on with its next transaction, not with the"
                " next request",
            )
        return text, fields | ({"arrival": arrival} if arrival else {})

    def _managers(self, group: _ThreadGroup) -> list[Element]:
        return [*self._scope, *group.element.walk()]

    def _forgets(self, manager: Element, group: _ThreadGroup) -> bool:
        """True if a client loses its cookies after each transaction; names cookies of the plan."""
        for record in manager.records("CookieManager.cookies"):
            self._account.missing(record.line, "a cookie that the plan sets")
        if manager.flag("CookieManager.controlledByThreadGroup"):
            same = "ThreadGroup.same_user_on_next_iteration"
            return not group.element.flag(same, default=True)
        return manager.flag("CookieManager.clearEachIteration")

    def _start(self, group: _ThreadGroup) -> list[str]:
        lines = []
        setting = [
            each
            for each in (*self._plan.below, *group.element.walk())
            if each.enabled and each.kind in ONCE
        ]
        for each in setting:
            try:
                lines += start_lines(
                    each, self._texts, self._path.parent, self._tables, clients=group.clients
                )
            except CannotTake as problem:
                text = self._account.missing(each.line, f"{each.described}: {problem}")
                lines.append(comment(f"not taken, {text}"))
        return lines

    def _arrival(self, group: _ThreadGroup, writer: GroupWriter, *, alone: bool) -> Fields | None:
        timers = [each for each in self._managers(group) if each.kind in RATES]
        if not timers:
            return None
        timer = timers[0]
        try:
            if len(timers) > 1:
                raise CannotTake("a second timer that holds a rate")
            if writer.paced_at_times or not writer.paced:
                raise CannotTake("a rate of requests that are not sent in each transaction")
            if timer in self._plan.below and not alone:
                raise CannotTake("a rate that thread groups share")
            arrival = arrival_of(timer, self._texts, clients=group.clients, requests=writer.paced)
        except CannotTake as problem:
            self._account.missing(timer.line, f"{timer.described}: {problem}")
            return None
        self._account.note(
            timer.line,
            f"{timer.described} is a rate at which transactions are due, also while the server is"
            " slow; in JMeter it only delays them",
        )
        return arrival

    def _group_name(self, group: _ThreadGroup) -> str:
        return group.name[:60]

    def _file_name(self, group: _ThreadGroup, *, several: bool, taken: dict[str, str]) -> str:
        stem = slug(self._path.stem)
        if several:
            stem = f"{stem}-{slug(group.name)}"
        name, number = f"{stem}.http", 1
        while name in taken:
            number += 1
            name = f"{stem}-{number}.http"
        return name

    def _fields(self, groups: list[_ThreadGroup], origin: str, clients: list[Fields]) -> Fields:
        managed = any(each.kind == "CookieManager" for each in self._plan.walk())
        url = self._choices.url or f"{origin}/"
        http: Fields = {"url": url} | ({} if managed else {"cookies": False})
        if timeout_ms := self._timeout_ms(groups):
            http["timeout"] = f"{timeout_ms}ms"
        fields: Fields = {"name": slug(self._path.stem), "http": http}
        return fields | {"clients": _distinct(clients), "load": self._load(groups)}

    def _timeout_ms(self, groups: list[_ThreadGroup]) -> int:
        found: set[int] = set()
        for group in groups:
            for sampler in samplers_of(group.element, self._scope):
                found.add(self._timeout_of(sampler))
        if len(found) > 1:
            self._account.note(0, f"of several timeouts the longest one is taken: {max(found)} ms")
        return max(found, default=0)

    def _timeout_of(self, sampler: Sampler) -> int:
        try:
            text = self._texts.fixed_text(sampler.text("HTTPSampler.response_timeout"))
            return self._texts.whole(text, "a timeout of")
        except CannotTake as problem:
            self._account.note(sampler.element.line, f"the timeout is not taken: {problem}")
            return 0

    def _load(self, groups: list[_ThreadGroup]) -> Fields:
        first = groups[0]
        for group in groups[1:]:
            for key, what in (("ramp_s", "ramp"), ("loops", "loops"), ("duration_s", "duration")):
                if getattr(group, key) != getattr(first, key):
                    self._account.missing(
                        group.element.line,
                        f"{group.element.described} has another {what} than the thread group in"
                        f" line {first.element.line}; a spec has one for all",
                    )
        ramp_ms = round(first.ramp_s * 1000)
        load: Fields = {"ramp": f"{ramp_ms}ms"} if ramp_ms else {}
        if first.loops != _FOREVER:
            load |= {"transactions": max(first.loops, 1), "hold": "1d"}
        if first.duration_s:
            load["hold"] = f"{max(round(first.duration_s * 1000) - ramp_ms, 1)}ms"
        elif first.loops == _FOREVER:
            self._account.note(
                first.element.line, "it loops for ever: the load ends after 30 s, or as -T says"
            )
        if any(group.stops for group in groups):
            load["exit_on_abort"] = True
        return load


def _distinct(clients: list[Fields]) -> list[Fields]:
    seen: Counter[str] = Counter()
    for fields in clients:
        name = fields["name"]
        seen[name] += 1
        if seen[name] > 1:
            fields["name"] = f"{name[:54]} {seen[name]}"
    return clients

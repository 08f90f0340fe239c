"""Carrying a drill out: checked first, then cut by cut on a server of its own, and kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pgdyno.conduct import Watcher, open_session
from pgdyno.drill._bounds import SETTINGS
from pgdyno.drill._drill import Drill
from pgdyno.drill.fault import Fault, find_fault
from pgdyno.drill.model import Cut, DrillOptions, DrillResult
from pgdyno.drill.storage import store_cut, store_drill
from pgdyno.drill.witnesses import check_witnesses
from pgdyno.drill.words import in_words
from pgdyno.errors import UsageError
from pgdyno.record import Recorder
from pgdyno.results import store
from pgdyno.spec import Spec

POWER = "power"
"""The fault whose cuts are made of one recorded load."""

Besides = Callable[[DrillResult], Mapping[str, Any]]
"""Further parts of a drill's result, made of its cuts."""
EachCut = Callable[[DrillResult], None]
"""Called after each cut, with the drill so far."""


def run_drill(
    spec: Spec,
    options: DrillOptions,
    *,
    watcher: Watcher,
    run: Path | Recorder,
    command: str = "drill",
    spec_text: str = "",
    asked: Sequence[str] = (),
    besides: Besides | None = None,
    each_cut: EachCut | None = None,
) -> DrillResult:
    """Carry a drill out on a server of its own, recorded cut by cut in ``run``.

    That is a new run file there, or the run of another command, as its ``for_drill`` gives it. Of a
    run of its own, what ``besides`` makes of the drill is kept in the result. Raises UsageError or
    SetupError when the drill cannot be, and what ends a session otherwise; cuts until then are
    kept.
    """
    fault = find_fault(options.fault)
    check_drill(spec, options, fault)
    spec = fault.adapt(spec, options)
    with open_session(
        spec,
        run=run,
        command=command,
        spec_text=spec_text,
        watcher=watcher,
        asked=asked,
    ) as session:
        drill = Drill(session, options, fault.bound, ends_processes=fault.ends_processes)
        book = _Book(drill, fault, besides, each_cut)
        try:
            with drill.undisturbed():
                drill.prepare()
                watcher.phase(f"drilling: {fault.summary}")
                for cut in fault.cuts(drill):
                    book.enter(cut, drill.load_began_ns)
        finally:
            drill.close()
            book.close()
    return book.result()


def check_drill(spec: Spec, options: DrillOptions, fault: Fault) -> None:
    """Raise UsageError or SetupError for what a drill of ``fault`` cannot be done with."""
    if spec.server.kind == "existing":
        raise UsageError(
            "drills break their server, so they are only for servers that pgdyno starts",
            code="drill-target",
            hint="leave the connection out; --pg-bindir chooses the programs, --set the settings",
        )
    if options.variant is not None and options.variant not in fault.variants:
        known = ", ".join(fault.variants) or "none"
        raise UsageError(
            f'the fault {fault.name} has no variant "{options.variant}"',
            code="unknown-variant",
            hint=f"its variants: {known}",
        )
    if spec.load.transactions is not None:
        raise UsageError(
            "load.transactions ends the load by itself, and a drill ends it",
            code="contradiction",
            hint="leave it out for pgdyno drill",
        )
    if spec.load.acks is not None:
        raise UsageError(
            "load.acks: a drill keeps its clients' records for itself, load by load",
            code="contradiction",
            hint="leave it out; pgdyno run keeps such a record",
        )
    _check_recorded_only(options)
    fault.check(spec, options)
    check_witnesses(spec)


def _check_recorded_only(options: DrillOptions) -> None:
    """What only cuts of a recorded load can have."""
    given = {
        "--cut": options.cut,
        "--recording": options.recording,
        "--sector": options.sector_bytes,
        "--minimise": options.minimise or None,
    }
    named = [option for option, value in given.items() if value is not None]
    if named and options.fault != POWER:
        raise UsageError(
            f"{named[0]} is for cuts of a recorded load, which {options.fault} has none of",
            code="contradiction",
            hint=f"--fault {POWER} records its load",
        )
    if options.cut is not None and options.cut > options.cuts:
        raise UsageError(
            f"there is no cut {options.cut} of {options.cuts}",
            code="no-such-cut",
            hint="--cuts is that of the drill whose cut is to be repeated",
        )


class _Book:
    """Keeps a drill's cuts, in memory and in the run file."""

    def __init__(
        self, drill: Drill, fault: Fault, besides: Besides | None, each_cut: EachCut | None
    ) -> None:
        session, options, bound = drill.session, drill.options, drill.bound
        self._session = session
        self._options = options
        self._besides = besides
        self._each_cut = each_cut
        facts = session.target.facts
        settings = {name: facts["settings"][name] for name in SETTINGS if name in facts["settings"]}
        self._empty = DrillResult(
            fault=fault.name,
            title=f"{fault.summary}, PostgreSQL {facts['version'].split(' (')[0]}",
            spec=session.spec.model_dump(mode="json", by_alias=True),
            server=facts,
            settings=settings,
            cuts=(),
            bound_ms=bound.ms,
            bound=bound.words,
            run_file=str(session.recorder.path),
            seed=options.seed,
            sham=options.sham,
            pooled=fault.pooled,
        )
        self._drill_id = store_drill(session.recorder, self._empty, options)
        self._cuts: list[Cut] = []

    def enter(self, cut: Cut, load_began_ns: int) -> None:
        """Record a cut and say how it went."""
        self._cuts.append(cut)
        recorder, struck_ns = self._session.recorder, load_began_ns + round(cut.at_ms * 1e6)
        store_cut(recorder, self._drill_id, cut, ns=struck_ns)
        label = f"{cut.fault} {cut.variant}".strip()
        recorder.add_event("fault", label, {"cut": cut.number}, ns=struck_ns)
        if self._each_cut is not None:
            self._each_cut(self.result())
        self._session.watcher.step(f"{_numbered(cut, self._options.cuts)}: {in_words(cut)}")

    def result(self) -> DrillResult:
        """All cuts so far."""
        return replace(self._empty, cuts=tuple(self._cuts))

    def close(self) -> None:
        """Leave the result in the run file, however the drill ended."""
        result = self.result()
        more = {} if self._besides is None else self._besides(result)
        store(self._session.recorder, result.as_result(**more))


def _numbered(cut: Cut, cuts: int) -> str:
    """A fault with variants has several cuts for each that was asked for."""
    return f"cut {cut.number}" if cut.variant else f"cut {cut.number} of {cuts}"

"""Running a drill: the checks before it, its cuts on a server of its own, and its record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from pgdyno.conduct import Watcher, open_session
from pgdyno.drill._bounds import SETTINGS
from pgdyno.drill._drill import LoadedServer
from pgdyno.drill._failing_over import DETECT_S_MAX, DETECTED
from pgdyno.drill.fault import Fault, find_fault
from pgdyno.drill.faults import fault_names
from pgdyno.drill.model import DrillOptions, drill_of, in_words
from pgdyno.drill.storage import store_drill, version_of
from pgdyno.drill.witnesses import check_witnesses
from pgdyno.errors import UsageError
from pgdyno.record import Recorder
from pgdyno.record.cut import Cut
from pgdyno.results import drill as results
from pgdyno.results import store
from pgdyno.spec import Spec
from pgdyno.spec.disk import emulated_in_words

ExtraMembers = Callable[[results.Drill], Mapping[str, object]]
"""Further members of the command's result, made of the drill."""
EachCut = Callable[[results.Drill], None]
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
    extra: ExtraMembers | None = None,
    each_cut: EachCut | None = None,
) -> results.Drill:
    """Run a drill on a server of its own, recorded cut by cut in ``run``.

    ``run`` is the path of a new run file, or the run of another command, as its ``for_drill``
    returns it. ``extra`` adds members to the result that a run file of its own keeps. Raises
    UsageError or SetupError when the drill is impossible, and the errors of a session; the cuts
    until then are kept.
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
        drill = LoadedServer(session, options, fault.bound, ends_processes=fault.ends_processes)
        record = _DrillRecord(drill, fault, extra, each_cut)
        try:
            with drill.undisturbed():
                drill.prepare()
                watcher.phase(f"drilling: {fault.summary}")
                for cut in fault.cuts(drill):
                    record.add(cut, drill.load_began_ns)
        finally:
            drill.close()
            record.close()
    return record.result()


def check_drill(spec: Spec, options: DrillOptions, fault: Fault) -> None:
    """Raise UsageError or SetupError if a drill of ``fault`` is impossible."""
    if spec.server.kind == "existing":
        raise UsageError(
            "drills break their server, so they are only for servers that pgdyno starts",
            code="drill-target",
            hint="omit the connection; choose binaries with --pg-bindir and settings with --set",
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
            "load.transactions would end the load, which only the drill may do",
            code="contradiction",
            hint="omit it for pgdyno drill",
        )
    if spec.load.acks is not None:
        raise UsageError(
            "load.acks: a drill keeps an ack ledger of its own for each load",
            code="contradiction",
            hint="omit it; pgdyno run keeps such a ledger",
        )
    if spec.standby.managed and not fault.managed:
        managed = [name for name in fault_names() if find_fault(name).managed]
        raise UsageError(
            f"{fault.name} is a fault of one server, which Patroni would not leave alone",
            code="contradiction",
            hint=f"omit the manager, or use --fault {' or '.join(managed)}",
        )
    _check_recorded_only(options, fault)
    _check_detect(options)
    fault.check(spec, options)
    check_witnesses(spec)


def _check_recorded_only(options: DrillOptions, fault: Fault) -> None:
    """Raise UsageError for options that only cuts of a recorded load have."""
    given = {
        "--cut": options.cut,
        "--recording": options.recording,
        "--sector": options.sector_bytes,
        "--minimise": options.minimise or None,
    }
    named = [option for option, value in given.items() if value is not None]
    if named and not fault.records_load:
        recording = [name for name in fault_names() if find_fault(name).records_load]
        raise UsageError(
            f"{named[0]} is for cuts of a recorded load, and {fault.name} records no load",
            code="contradiction",
            hint=f"--fault {' or '.join(recording)} records its load",
        )
    if options.cut is not None and options.cut > options.cuts:
        raise UsageError(
            f"there is no cut {options.cut} of {options.cuts}",
            code="no-such-cut",
            hint="give the --cuts of the drill whose cut you want to repeat",
        )


def _check_detect(options: DrillOptions) -> None:
    """Raise UsageError for a time that no fault uses, or for which no load waits."""
    if options.detect_s is None:
        return
    if options.fault not in DETECTED:
        raise UsageError(
            f"--detect is the time until a standby is promoted, and {options.fault} promotes none"
            " after a time",
            code="contradiction",
            hint=f"--fault {' or '.join(DETECTED)}",
        )
    if options.detect_s > DETECT_S_MAX:
        raise UsageError(
            f"--detect is at most {DETECT_S_MAX:.0f}s, because clients give up after 30 s without a"
            " server",
            code="bad-detect",
            hint="what a failover manager waits for adds to the outage as it is",
        )


class _DrillRecord:
    """A drill's cuts, in memory and in the run file."""

    def __init__(
        self,
        drill: LoadedServer,
        fault: Fault,
        extra: ExtraMembers | None,
        each_cut: EachCut | None,
    ) -> None:
        session, options, bound = drill.session, drill.options, drill.bound
        self._session = session
        self._options = options
        self._extra = extra
        self._each_cut = each_cut
        facts = session.target.facts
        version = version_of(facts)
        self._made = partial(
            drill_of,
            fault=fault.name,
            title=f"{fault.summary}, PostgreSQL {version}",
            settings={
                name: facts["settings"][name] for name in SETTINGS if name in facts["settings"]
            },
            bound_ms=bound.ms,
            bound=bound.words,
            server_version=version,
            emulated=emulated_in_words([session.spec.model_dump(mode="json", by_alias=True)]),
            run_file=str(session.recorder.path),
            seed=options.seed,
            sham=options.sham,
            pooled=fault.pooled,
        )
        self._drill_id = store_drill(session.recorder, self._made(cuts=()), options)
        self._cuts: list[Cut] = []

    def add(self, cut: Cut, load_began_ns: int) -> None:
        """Record a cut and report its outcome."""
        self._cuts.append(cut)
        recorder, cut_ns = self._session.recorder, load_began_ns + round(cut.at_ms * 1e6)
        recorder.add_cut(self._drill_id, cut, ns=cut_ns)
        label = f"{self._options.fault} {cut.variant}".strip()
        recorder.add_event("fault", label, {"cut": cut.number}, ns=cut_ns)
        if self._each_cut is not None:
            self._each_cut(self.result())
        self._session.watcher.step(f"{_numbered(cut, self._options.cuts)}: {in_words(cut)}")

    def result(self) -> results.Drill:
        """Return the drill with all cuts so far."""
        return self._made(cuts=self._cuts)

    def close(self) -> None:
        """Store the result in the run file, however the drill ended."""
        result = self.result()
        extra = {} if self._extra is None else self._extra(result)
        whole = results.DrillResult.model_validate({**dict(result), **extra})
        store(self._session.recorder, whole)


def _numbered(cut: Cut, cuts: int) -> str:
    """Return the cut with its number; the total only where each variant has no cut of its own."""
    return f"cut {cut.number}" if cut.variant else f"cut {cut.number} of {cuts}"

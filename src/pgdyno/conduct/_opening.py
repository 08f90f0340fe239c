"""Opening and closing of a session.

:func:`open_session` starts the server or connects to it, makes the tables, opens the run file and
starts the probes. When the session ends (work done, an error, Ctrl-C), load and probes are stopped,
settings are restored, the run file is completed with what was recorded, and a server started by
pgdyno is removed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pgdyno.conduct._interrupt import hold_stop_signals, stop_signals
from pgdyno.conduct._load import engine_facts
from pgdyno.conduct._machine import check_machine
from pgdyno.conduct._session import Session
from pgdyno.conduct._space import note_small_wal_disk
from pgdyno.conduct._tables import make_tables, note_tables
from pgdyno.conduct._target import Target, open_target
from pgdyno.conduct.repeating import recorded_fields
from pgdyno.conduct.watch import Watcher
from pgdyno.disk import dismantle
from pgdyno.errors import (
    Interrupted,
    PgdynoError,
    RunError,
    UsageError,
    ending_of,
    partial_results,
)
from pgdyno.probe import Probes, host_facts
from pgdyno.record import Recorder
from pgdyno.record.facts import HostFacts
from pgdyno.server import RecordOutcome, apply_missing, restore_all_leftovers, sweep
from pgdyno.spec import Spec
from pgdyno.workload import (
    load_workloads,
    unset_variables,
    with_texts,
)


@contextmanager
def open_session(
    spec: Spec,
    *,
    run: Path | Recorder,
    command: str,
    spec_text: str,
    watcher: Watcher,
    asked: Sequence[str] = (),
    may_apply: bool = False,
    settings: Collection[str] = (),
) -> Iterator[Session]:
    """Set up ``spec`` and yield its session; the module's docstring says how it ends.

    ``run`` is the path of a new run file, or an existing recorder, which outlives the session.
    ``asked`` are the command-line arguments that, with the spec, repeat ``command``. ``settings``
    are those that will be changed, so that one that may not be is refused at once.

    Raises :class:`SetupError` when something needed is missing, :class:`RunError` when the run
    fails, :class:`Interrupted` on a stop signal.
    """
    check_machine(spec)
    spec = with_texts(spec)
    workloads = load_workloads(spec)
    with ExitStack() as stack:
        path = run if isinstance(run, Path) else run.path
        stack.enter_context(stop_signals(hint=_kept(path)))
        for line in sweep(dismantle):
            watcher.note(line)
        undone = restore_all_leftovers(quick=True)
        _note_undone(watcher, [each for each in undone if not each.failed])
        target = open_target(spec, workloads.values(), stack, watcher, may_apply=may_apply)
        # With the credentials for this server, open_target may have restored what failed before.
        _note_undone(watcher, [each for each in undone if each.failed and each.still_applies])
        if not may_apply and (server := target.needs_apply(settings)):
            raise apply_missing(server)
        stack.callback(hold_stop_signals)
        prepared = make_tables(spec, target, workloads.values(), watcher, stack)
        spec = spec.with_scale(prepared.scale)
        recorder = (
            run
            if isinstance(run, Recorder)
            else _new_run_file(run, spec, target, command=command, spec_text=spec_text)
        )
        recorder.update_run(asked=list(asked))
        with _finished(recorder), ExitStack() as inner:
            note_tables(prepared, recorder, watcher)
            probes = _start_probes(target, recorder, watcher, inner)
            session = Session(spec, target, workloads, recorder, probes, watcher)
            inner.callback(session.close)
            _warn_of_unset_variables(session)
            inner.callback(hold_stop_signals)
            with _with_cause(target):
                yield session


def _note_undone(watcher: Watcher, undone: list[RecordOutcome]) -> None:
    for each in undone:
        for sentence in each.sentences:
            watcher.note(sentence)


def _new_run_file(
    path: Path, spec: Spec, target: Target, *, command: str, spec_text: str
) -> Recorder:
    return Recorder.create(
        path,
        name=spec.name,
        command=command,
        spec_text=spec_text,
        spec=recorded_fields(spec),
        server=target.facts,
        host=_host_of(target),
        engine=engine_facts(spec),
    )


def _warn_of_unset_variables(session: Session) -> None:
    """Warn of variables that are not set, once for each script: its transactions will fail."""
    said = set()
    for workload in session.workloads.values():
        defined = workload.variables(session.target.conninfo, session.spec.workload)
        for file, names in unset_variables(workload, defined).items():
            listed = ", ".join(f":{name}" for name in names)
            text = f"{file} uses {listed}, which nothing sets; define it with -D {names[0]}=VALUE"
            if text not in said:
                said.add(text)
                session.watcher.note(f"warning: {text}")
                session.recorder.add_event("warning", f"{listed} not set", {"message": text})


def _host_of(target: Target) -> HostFacts:
    """Return facts of the machine that pgdyno runs on."""
    facts = host_facts(target.data_dir, pid=target.facts["postmaster_pid"])
    return {**facts, "same_host_as_server": target.facts["is_local"]}


def _start_probes(target: Target, recorder: Recorder, watcher: Watcher, stack: ExitStack) -> Probes:
    data_dir, max_wal_size = target.data_dir, target.max_wal_size_bytes
    if data_dir is not None and max_wal_size is not None:
        note_small_wal_disk(data_dir, max_wal_size, recorder, watcher)
    probes = Probes(
        target.conninfo,
        recorder,
        local=target.facts["is_local"],
        postmaster_pid=target.facts["postmaster_pid"],
        data_dir=data_dir,
        max_wal_size_bytes=max_wal_size,
        warn=watcher.note,
    )
    probes.start()
    stack.callback(probes.stop)
    return probes


@contextmanager
def _with_cause(target: Target) -> Iterator[None]:
    """Raise RunError for a lost disk, which causes the other errors, and for a lost server."""
    import psycopg

    try:
        yield
    except (PgdynoError, psycopg.Error) as problem:
        if target.disks is not None and not isinstance(problem, UsageError):
            target.disks.check()
        if isinstance(problem, psycopg.Error):
            said = (problem.diag.message_primary or str(problem)).strip().splitlines()[0]
            raise RunError(
                f"the connection to the server was lost: {said}", code="server-gone"
            ) from problem
        raise
    if target.disks is not None:
        target.disks.check()


@contextmanager
def _finished(recorder: Recorder) -> Iterator[None]:
    """Record in the run file how the run ended, and close it in any case."""
    try:
        yield
    except BaseException as problem:
        _advise(problem, recorder.path)
        partial_results(problem).run_file = recorder.path
        ending = ending_of(problem)
        status = "interrupted" if isinstance(problem, Interrupted) else "failed"
        try:
            recorder.add_event("ending", ending.message, ending.to_json())
        finally:  # An error of a full disk replaces the original one.
            recorder.finish(status, ending.message)
        raise
    else:
        recorder.finish("done")
    finally:
        recorder.close()


def _advise(problem: BaseException, path: Path) -> None:
    """Add to the hint where the recorded data is."""
    if isinstance(problem, Interrupted):
        problem.hint = _kept(path)
    elif isinstance(problem, PgdynoError) and not isinstance(problem, UsageError):
        kept = _kept(path)
        said = problem.hint or ""  # Possibly from a session within this one.
        if said and kept not in said and problem.exit_status == RunError.exit_status:
            problem.hint = f"{said}; {kept}"
        problem.hint = problem.hint or kept


def _kept(path: Path) -> str:
    return f"the recorded data is kept: pgdyno show {path}"

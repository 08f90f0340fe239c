"""Opening and closing of a session.

:func:`open_session` starts the server or connects to it, makes the tables, opens the run file and
starts the probes. When the session ends (work done, an error, Ctrl-C), load and probes are stopped,
settings are restored, the run file is completed with what was recorded, and a server started by
pgdyno is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from pgdyno.conduct._aging import grow_old, note_age
from pgdyno.conduct._fronting import check_front, figures_of, start_application
from pgdyno.conduct._interrupt import hold_stop_signals, stop_signals
from pgdyno.conduct._load import engine_facts
from pgdyno.conduct._machine import check_machine, note_small_wal_disk
from pgdyno.conduct._other_servers import OtherServers
from pgdyno.conduct._reaching import open_target
from pgdyno.conduct._resume import await_server, check_same_server
from pgdyno.conduct._session import Session
from pgdyno.conduct._starting import sweep_servers
from pgdyno.conduct._tables import make_tables, note_tables, workloads_of_tables
from pgdyno.conduct._target import Target
from pgdyno.conduct.repeating import recorded_fields
from pgdyno.conduct.watch import Watcher
from pgdyno.errors import (
    Interrupted,
    PgdynoError,
    RunError,
    UsageError,
    ending_of,
    partial_results,
)
from pgdyno.kernel import restore_left_parameters
from pgdyno.probe import HostProbes, Probes, host_facts
from pgdyno.probe.proxies import FrontSampler, PoolerSampler, Queues
from pgdyno.record import Continuation, Recorder
from pgdyno.record.facts import HostFacts
from pgdyno.server import RecordOutcome, apply_missing, restore_all_leftovers
from pgdyno.server.versions import caution
from pgdyno.spec import Spec
from pgdyno.workload import (
    Workload,
    load_workloads,
    unset_variables,
    with_texts,
)


@contextmanager
def open_session(
    spec: Spec,
    *,
    run: Path | Recorder | Continuation,
    command: str,
    spec_text: str,
    watcher: Watcher,
    asked: Sequence[str] = (),
    may_apply: bool = False,
    settings: Collection[str] = (),
    keep_server: Path | None = None,
    ready: Callable[[Target], None] | None = None,
    keep_free_bytes: int = 0,
) -> Iterator[Session]:
    """Set up ``spec`` and yield its session; the module's docstring says how it ends.

    ``run`` is the path of a new run file, an existing recorder, which outlives the session, or a
    run file to go on with. ``asked`` are the command-line arguments that, with the spec, repeat
    ``command``. ``settings`` are those that will be changed, so that one that may not be is refused
    at once. A server that is started is removed at the end, unless ``keep_server`` names its
    directory. ``ready`` may refuse the server before anything is recorded. Tables are made only if
    they leave ``keep_free_bytes`` on their disk.

    Raises :class:`SetupError` when something needed is missing, :class:`RunError` when the run
    fails, :class:`Interrupted` on a stop signal.
    """
    _check_possible(spec, command)
    spec = with_texts(spec)
    workloads = load_workloads(spec)
    with ExitStack() as stack:
        stack.enter_context(stop_signals(hint=_kept(run if isinstance(run, Path) else run.path)))
        undone = _clean_up_after_others(watcher)
        if isinstance(run, Continuation):
            await_server(spec, watcher)
        of_tables = workloads_of_tables(spec, workloads.values())
        target = open_target(
            spec, of_tables, stack, watcher, may_apply=may_apply, keep_server=keep_server
        )
        # With the credentials for this server, open_target may have restored what failed before.
        _note_undone(watcher, [each for each in undone if each.failed and each.still_applies])
        caution(target.facts.get("version_num"), watcher.note)
        if isinstance(run, Continuation):
            check_same_server(run.path, target)
        if ready is not None:
            ready(target)
        if not may_apply and (server := target.needs_apply(settings)):
            raise apply_missing(server)
        stack.callback(hold_stop_signals)
        prepared = make_tables(spec, target, of_tables, watcher, stack, keep_free_bytes)
        spec = spec.with_scale(prepared.scale)
        target.others = _others_of(target, spec, of_tables, watcher)
        aged = grow_old(target, watcher, *spec.server.age) if spec.server.age else None
        start_application(spec, target, watcher, stack)
        recorder = _recorder_of(run, spec, target, command=command, spec_text=spec_text)
        if target.cluster is not None:
            target.cluster.keep_from_now_on()
        recorder.update_run(asked=list(asked))
        watcher.recording(recorder)
        with _finished(recorder), ExitStack() as inner:
            note_tables(prepared, recorder, watcher)
            if aged is not None:
                note_age(aged, recorder)
            probes = _start_probes(spec, target, recorder, watcher, inner)
            session = Session(spec, target, workloads, recorder, probes, watcher, aged)
            inner.callback(_keep_log, target, recorder)
            inner.callback(session.close)
            _begin(session)
            inner.callback(hold_stop_signals)
            with _with_cause(target):
                yield session


def _others_of(
    target: Target, spec: Spec, workloads: Collection[Workload], watcher: Watcher
) -> OtherServers | None:
    """Return the servers that can take turns with one of pgdyno's; None with one of the user's."""

    def make(spec: Spec) -> None:
        """Make the tables on the server that runs now."""
        with ExitStack() as stack:
            make_tables(spec, target, workloads, watcher, stack)

    return None if target.cluster is None else OtherServers(spec, target.cluster, make, watcher)


def _check_possible(spec: Spec, command: str) -> None:
    """Raise SetupError for what this machine lacks, UsageError for a governor in a command whose
    slices are compared with each other."""
    check_machine(spec)
    check_front(spec)
    if spec.govern is not None and command != "run":
        raise UsageError(
            f"govern cannot be used with pgdyno {command}, whose slices are compared with each"
            " other: a governor would change the load between them",
            code="govern-command",
            hint="remove govern from the spec; it is for pgdyno run, and for the runs of a story",
        )


def _clean_up_after_others(watcher: Watcher) -> list[RecordOutcome]:
    """Remove and restore what killed runs left; return what was restored, or could not be."""
    sweep_servers(watcher)
    for line in restore_left_parameters():
        watcher.note(line)
    undone = restore_all_leftovers(quick=True)
    _note_undone(watcher, [each for each in undone if not each.failed])
    return undone


def _restore_kernel(target: Target, watcher: Watcher) -> None:
    """Restore the kernel's parameters, before the server and its disks are gone."""
    for sentence in target.kernel.restore_all():
        watcher.note(sentence)


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


def _recorder_of(
    run: Path | Recorder | Continuation,
    spec: Spec,
    target: Target,
    *,
    command: str,
    spec_text: str,
) -> Recorder:
    """Return the recorder of a new run file, the one that there is, or one that goes on with a run
    file."""
    if isinstance(run, Recorder):
        return run
    if isinstance(run, Path):
        return _new_run_file(run, spec, target, command=command, spec_text=spec_text)
    recorder = run.open()
    recorder.update_run(spec=run.spec_with(recorded_fields(spec)))
    return recorder


def _begin(session: Session) -> None:
    """Warn of variables that are not set, and set the kernel's parameters."""
    _warn_of_unset_variables(session)
    session.begin()


def _warn_of_unset_variables(session: Session) -> None:
    """Warn of variables that are not set, once for each script: its transactions will fail."""
    said, target = set(), session.target
    for workload in session.workloads.values():
        defined = workload.variables(target.server and target.of_load, session.spec.workload)
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


def _start_probes(
    spec: Spec, target: Target, recorder: Recorder, watcher: Watcher, stack: ExitStack
) -> Probes | HostProbes:
    stack.callback(_restore_kernel, target, watcher)
    if target.server is None:
        of_host = HostProbes(recorder)
        of_host.start()
        stack.callback(of_host.stop)
        return of_host
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
        statements=spec.server.statements,
    )
    probes.start()
    stack.callback(probes.stop)
    if queues := _queues_of(target):
        sampler = PoolerSampler(queues, recorder)
        sampler.start()
        stack.callback(sampler.stop)
    if (front := target.application or figures_of(spec)) is not None:
        of_front = FrontSampler(front.read, recorder)
        of_front.start()
        probes.at_edges.append(of_front.sample_now)
        stack.callback(of_front.stop)
    return probes


def _queues_of(target: Target) -> Queues | None:
    """Return a function that reads the queues of the pooler; None if none can be read."""
    if target.gateway is not None:
        return target.gateway.queues
    if target.users_pooler is not None and target.facts.get("pooler_pairs"):
        from pgdyno.pooler.pairs import own_queue

        return partial(own_queue, target.users_pooler)
    return None


def _keep_log(target: Target, recorder: Recorder) -> None:
    """Record the logs of the pooler, the front end and the failover manager."""
    if target.gateway is not None and (log := target.gateway.logs()):
        recorder.add_event("pooler-log", "log of the pooler", {"text": log})
    if target.application is not None and (log := target.application.log()):
        recorder.add_event("front-log", "log of the front end", {"text": log})
    if target.receivers is not None and (log := target.receivers.log()):
        recorder.add_event("manager-log", "log of the failover manager", {"text": log})


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

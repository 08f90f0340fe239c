"""A session: one spec set up and under load, with everything recorded on one clock.

:func:`open_session` starts or reaches the server, makes the tables, opens the run file, starts the
probes; the :class:`Session` then carries slices out, each under its own :class:`Change`. Whatever
ends the session (its work done, an error, Ctrl-C), load and probes stop, settings go back, the run
file is finished with what it holds, and a server of ours is gone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from pgdyno._engine import build_info
from pgdyno.conduct.config import Acks, engine_config
from pgdyno.conduct.inforce import InForce
from pgdyno.conduct.interrupt import hold_stop_signals, stop_signals
from pgdyno.conduct.load import DRAIN_MS, RunningLoad
from pgdyno.conduct.machine import check_machine
from pgdyno.conduct.space import note_small_wal_disk
from pgdyno.conduct.target import Target, open_target
from pgdyno.conduct.watch import Watcher
from pgdyno.disk import dismantle
from pgdyno.errors import Interrupted, PgdynoError, RunError, UsageError
from pgdyno.probe import Probes, host_facts
from pgdyno.record import Recorder, RunFile
from pgdyno.server import sweep
from pgdyno.spec import Change, Spec
from pgdyno.spec.standby import in_words
from pgdyno.spec.units import parse_size_bytes
from pgdyno.workload import Workload, load_workloads, prepare, read_setup, unset_variables

# After a change by reload or of a pool, the load runs this long before a slice counts: sessions
# pick a reload up between statements, and transactions begun under the old rule finish.
SETTLE_SECONDS = 0.3
# After a restart also the connections come back and the first pages are read.
SETTLE_RESTART_SECONDS = 1.0


@dataclass
class Session:
    """One spec under load. Slices are carried out one after the other, from one thread."""

    spec: Spec
    target: Target
    workloads: Mapping[str, Workload]
    """By client group."""
    recorder: Recorder
    probes: Probes
    watcher: Watcher
    _in_force: InForce = field(init=False)
    _load: RunningLoad | None = None
    _reader: RunFile | None = None

    def __post_init__(self) -> None:
        self._in_force = InForce(self.target, self.recorder, self.spec)

    def reader(self) -> RunFile:
        """The run file as it stands now; the reader handed out before is closed."""
        self.recorder.flush()
        self._close_reader()
        self._reader = RunFile(self.recorder.path)
        return self._reader

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def start_load(
        self,
        *,
        scheduled: bool = False,
        acks: Path | None = None,
        witness: bool = False,
        seed: int | None = None,
    ) -> int:
        """Connect the clients and let them go; ``scheduled`` follows the spec's ramp or steps.

        ``acks`` is a folder for the ack ledger of this load, instead of the spec's. With
        ``witness`` every transaction also notes itself in the database, under a label that the
        ledger knows; ``drill.witnesses`` makes the table. ``seed`` goes before the spec's. Returns
        time zero of the load in monotonic ns.
        """
        if witness and acks is None:
            raise ValueError("witnesses are worth nothing without an ack ledger")
        spec = self._in_force.spec()
        if seed is not None:
            load = spec.load.model_copy(update={"seed": seed})
            spec = spec.model_copy(update={"load": load})
        workloads = self._workloads_of(spec)
        conninfo = self.target.conninfo
        variables = {
            name: workload.variables(conninfo, spec.workload)
            for name, workload in workloads.items()
        }
        config = engine_config(
            spec,
            self.target.entrance,
            workloads,
            variables,
            scheduled=scheduled,
            acks=Acks(acks, time.time_ns() if witness else None) if acks else None,
        )
        self._load = RunningLoad(config, self.recorder, self.watcher)
        self.recorder.update_run(engine={**_engine_facts(spec), **self._load.facts()})
        return self._load.started_ns

    def wait_connected(self) -> None:
        """Wait until every client of a closed loop has its connection, or none more are coming.

        Making ten thousand connections takes longer than many a run.
        """
        spec = self._in_force.spec()
        held = [g.count for g in spec.clients if g.pool is None and g.reconnect_every is None]
        if self._load is None or any(group.open_loop for group in spec.clients):
            return
        connected = self._load.wait_connected(sum(held))
        if connected < sum(held):
            self.watcher.note(
                f"only {connected:,} of {sum(held):,} clients are connected; the errors say why"
            )

    def _workloads_of(self, spec: Spec) -> Mapping[str, Workload]:
        """The workloads of ``spec``, whose scripts a change may have replaced."""
        mixes = [[each.mix_of(group) for group in each.clients] for each in (spec, self.spec)]
        return self.workloads if mixes[0] == mixes[1] else load_workloads(spec)

    @property
    def load_complete(self) -> bool:
        """Whether every client has executed the transactions that it was given."""
        return self._load is not None and self._load.complete

    def stop_load(self) -> None:
        """Drain the clients and record their last intervals."""
        if self._load is not None:
            load, self._load = self._load, None
            load.stop()
            load.raise_fault()

    def interrupt_load(self, drain_ms: int = DRAIN_MS) -> None:
        """Stop the load; another one follows. What is under way has ``drain_ms`` to end."""
        if self._load is not None:
            load, self._load = self._load, None
            load.stop(drain_ms)
            load.raise_fault()
            load.abandon_backlog()

    def wait(self, seconds: float) -> None:
        """Let the load run on; raises what ends it."""
        if self._load is None:
            time.sleep(seconds)
        else:
            self._load.wait(seconds)

    def provide(self, change: Change) -> None:
        """Get what ``change`` needs, so that what is missing fails now and not in a trial's middle.

        Disks that it brings in are opened and stay open until the session ends.
        """
        self.target.settings.check(dict(change.settings))
        if (disk := change.spec.get("disk.wal")) is not None:
            self.target.wal_place(disk)

    def put_in_force(self, change: Change, *, checkpoint: bool = False) -> None:
        """Make ``change`` the only difference from the spec and let the load settle under it.

        ``checkpoint`` ends with a CHECKPOINT, so that slices begin at the same phase of full-page
        images.
        """
        step = self._in_force.step_to(change)
        if step.needs_load_restart:
            self.interrupt_load()
        if step.needs_restart:
            with self.probes.rest():
                self._in_force.apply_with_restart(step)
        else:
            self._in_force.apply(step)
        if self._load is None:
            self.start_load()
            self._set_groups(change)
            self.wait(SETTLE_RESTART_SECONDS)
        elif step:
            self._set_groups(change)
            self.wait(SETTLE_SECONDS)
        if checkpoint:
            self._in_force.checkpoint()

    def slice(
        self,
        seconds: float,
        *,
        kind: str,
        trial_id: int | None = None,
        pair: int | None = None,
        side: str | None = None,
        closing_checkpoint: bool = False,
    ) -> int:
        """Measure what is in force for ``seconds``; the slice's id, its intervals recorded.

        ``closing_checkpoint`` charges the slice with the debt it made: it ends only when a
        CHECKPOINT under load has written what the slice left dirty.
        """
        with self.measured(kind, trial_id=trial_id, pair=pair, side=side) as slice_id:
            self.wait(seconds)
            if closing_checkpoint:
                self._in_force.checkpoint()
        return slice_id

    @contextmanager
    def measured(
        self,
        kind: str,
        *,
        trial_id: int | None = None,
        pair: int | None = None,
        side: str | None = None,
    ) -> Iterator[int]:
        """A slice that lasts as long as the block; probes are read at both of its edges."""
        assert self._load is not None, "a slice needs a running load"
        slice_id = self.recorder.open_slice(
            kind, trial_id=trial_id, pair=pair, side=side, change=self._in_force.change.to_json()
        )
        self._load.cut(slice_id)
        self.probes.sample_now()
        yield slice_id
        self.probes.sample_now()
        end_ns = self._load.cut(None)
        self.recorder.close_slice(slice_id, ns=end_ns)
        self._load.wait_recorded(end_ns)

    def connect(self) -> psycopg.Connection:
        """A control connection, beside the load."""
        return self._in_force.connect()

    @contextmanager
    def server_down(self) -> Iterator[None]:
        """While inside, a server of ours is stopped and leaves the machine to others; started again
        only by whoever needs it."""
        assert self._load is None, "a server under load is not stopped"
        with self.probes.rest():
            if self.target.cluster is not None:
                self.target.cluster.stop()
            yield

    def alter_tables(self, options: Mapping[str, Mapping[str, str]]) -> None:
        """Give tables storage parameters that they keep, beneath whatever is put in force."""
        self._in_force.alter_tables(options)

    def event_settings(self, settings: dict[str, str]) -> None:
        """Carry out an event's change of settings; it stays until the end of the run."""
        self._in_force.apply_event(settings)

    def _set_groups(self, change: Change) -> None:
        assert self._load is not None
        for group in self.spec.clients:
            pool = group.pool.max if group.pool else None
            self._load.set_pool_max(group.name, change.pool_max.get(group.name, pool))
            self._load.set_clients(group.name, change.clients.get(group.name, group.count))
            if group.open_loop:
                self._load.set_rate(group.name, change.rate.get(group.name, 1.0))

    def close(self) -> None:
        """Stop the load, however the session ends, and leave the run file to its writer."""
        self._close_reader()
        if self._load is not None:
            load, self._load = self._load, None
            load.stop(drain_ms=1_000)


@contextmanager
def open_session(
    spec: Spec,
    *,
    run_path: Path,
    command: str,
    spec_text: str,
    watcher: Watcher,
    may_apply: bool = False,
) -> Iterator[Session]:
    """Set ``spec`` up and yield its session; see the module's text for how it ends.

    Raises :class:`SetupError` when something needed is missing, :class:`RunError` when the run
    breaks off, :class:`Interrupted` on a stop signal.
    """
    check_machine(spec)
    workloads = load_workloads(spec)
    if spec.workload.setup is not None:
        read_setup(spec.workload.setup)
    with ExitStack() as stack:
        stack.enter_context(stop_signals(hint=_kept(run_path)))
        for line in sweep(dismantle):
            watcher.note(line)
        target = open_target(spec, stack, watcher, may_apply=may_apply)
        stack.callback(hold_stop_signals)
        prepare(
            target.conninfo,
            workloads.values(),
            spec.workload.scale,
            watcher.progress,
            setup=spec.workload.setup,
            unlogged=spec.workload.unlogged,
        )
        if spec.standby.receivers:
            watcher.phase(f"making {in_words(spec.standby)}")
            target.have_standbys(spec.standby)
        recorder = Recorder.create(
            run_path,
            name=spec.name,
            command=command,
            spec_text=spec_text,
            spec=spec.model_dump(
                mode="json", by_alias=True, exclude={"server": {"conninfo", "control"}}
            ),
            server=target.facts,
            host=_host_of(target),
            engine=_engine_facts(spec),
        )
        with _finished(recorder), ExitStack() as inner:
            probes = _start_probes(target, recorder, watcher, inner)
            session = Session(spec, target, workloads, recorder, probes, watcher)
            inner.callback(session.close)
            _warn_of_unset_variables(session)
            inner.callback(hold_stop_signals)
            yield session


def _warn_of_unset_variables(session: Session) -> None:
    """Say which variables no one sets, once for each script: its transactions will fail."""
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


def _host_of(target: Target) -> dict[str, Any]:
    """The machine that pgdyno is on, and whether the server shares it."""
    facts = host_facts(_data_dir(target), pid=target.facts["postmaster_pid"])
    return {**facts, "same_host_as_server": target.facts["is_local"]}


def _data_dir(target: Target) -> Path | None:
    """The server's data directory, where it is on this machine and known."""
    known = target.facts["data_directory"]
    return Path(known) if known and target.facts["is_local"] else None


def _start_probes(target: Target, recorder: Recorder, watcher: Watcher, stack: ExitStack) -> Probes:
    data_dir, max_wal_size = _data_dir(target), _max_wal_size_bytes(target)
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


def _max_wal_size_bytes(target: Target) -> int | None:
    try:
        return parse_size_bytes(target.facts["settings"]["max_wal_size"])
    except (KeyError, ValueError):
        return None


@contextmanager
def _finished(recorder: Recorder) -> Iterator[None]:
    """Write into the run file how the run ended, and close it, whatever happens."""
    status, detail = "failed", ""
    try:
        yield
        status = "done"
    except Interrupted as stop:
        status, detail = "interrupted", stop.message
        # One that came up from a session within this one names that one's file, which goes.
        stop.hint = _kept(recorder.path)
        raise
    except PgdynoError as problem:
        detail = problem.message
        if not isinstance(problem, UsageError):
            kept = _kept(recorder.path)
            if problem.hint and problem.exit_status == RunError.exit_status:
                problem.hint = f"{problem.hint}; {kept}"
            problem.hint = problem.hint or kept
        raise
    except BaseException as problem:
        detail = f"{type(problem).__name__}: {problem}"
        raise
    finally:
        recorder.finish(status, detail)
        recorder.close()


def _kept(path: Path) -> str:
    return f"what was recorded is kept: pgdyno show {path}"


def _engine_facts(spec: Spec) -> dict[str, Any]:
    return {**build_info(), "threads": spec.load.threads, "protocol": spec.load.protocol}

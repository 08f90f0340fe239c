"""A session: one spec under load, with everything recorded on one clock.

``opening.py`` sets it up and takes it down. The :class:`Session` between carries slices out, each
under its own :class:`Change`: what that takes on the server is done by :class:`InForce`, what it
takes of the clients by :class:`RunningLoad`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg

from pgdyno.conduct._active_change import InForce
from pgdyno.conduct._config import Acks, engine_config
from pgdyno.conduct._load import DRAIN_MS, RunningLoad, engine_facts
from pgdyno.conduct._server_away import RETURN_S_MAX, patiently
from pgdyno.conduct._standstill import Standstill
from pgdyno.conduct._target import Target
from pgdyno.conduct.watch import Watcher
from pgdyno.dimension import Need, Step
from pgdyno.probe import Probes
from pgdyno.record import Recorder, RunFile
from pgdyno.record.void import void_reason
from pgdyno.spec import Change, Spec
from pgdyno.workload import Workload, load_workloads

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
        self._in_force = InForce(self.target, self.recorder, self.spec, self.watcher.note)

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
        acks: Acks | None = None,
        outage_expected: bool = False,
        seed: int | None = None,
        slice_id: int | None = None,
    ) -> int:
        """Connect the clients and let them go; ``scheduled`` follows the spec's ramp or steps.

        ``acks`` and ``seed`` go before those of the spec. Where an outage is expected, lost
        connections are no news. What is counted belongs to ``slice_id`` from the beginning. Returns
        time zero of the load in monotonic ns.
        """
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
            acks=acks,
        )
        standstill = Standstill(lambda: self.probes.silent_s)
        self._load = RunningLoad(
            config,
            self.recorder,
            self.watcher,
            standstill,
            tag=slice_id,
            outage_expected=outage_expected,
        )
        self._adjust_sessions()
        self.recorder.update_run(engine={**engine_facts(spec), **self._load.facts()})
        return self._load.started_ns

    def _adjust_sessions(self) -> None:
        """Give the load's sessions their part of what is in force."""
        if self._load is not None and (statement := self._in_force.session_statement()):
            self._load.set_session(statement)

    def wait_connected(self) -> None:
        """Wait until every client of a closed loop has its connection, or none more are coming.

        Making ten thousand connections takes longer than many a run.
        """
        if self._load is None:
            return
        wanted = self._load.connections_wanted
        if wanted is None:
            return
        connected = self._load.wait_connected(wanted)
        if connected < wanted:
            self.watcher.note(
                f"only {connected:,} of {wanted:,} clients are connected; the errors say why"
            )

    def wait_served(self) -> None:
        """After a void slice: wait until the server is back and at work for all clients.

        Raises RunError when it does not come back.
        """
        if self._load is not None:
            self._load.wait_served(RETURN_S_MAX)
            self.wait_connected()

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
        if (load := self._take_load()) is not None:
            load.stop()
            load.raise_fault()

    def interrupt_load(self, drain_ms: int = DRAIN_MS) -> None:
        """Stop the load; another one follows. What is under way has ``drain_ms`` to end."""
        if (load := self._take_load()) is not None:
            load.stop(drain_ms)
            load.raise_fault()
            load.abandon_backlog()

    def _take_load(self) -> RunningLoad | None:
        """The load, if there is one: nobody else stops it."""
        load, self._load = self._load, None
        return load

    def wait(self, seconds: float) -> None:
        """Let the load run on; raises what ends it."""
        if self._load is None:
            time.sleep(seconds)
        else:
            self._load.wait(seconds)

    def provide(self, change: Change, *, checkpoint: bool = False) -> None:
        """Get what ``change`` needs, so that what is missing fails now and not in a trial's middle.

        ``checkpoint``: the trial orders them. Before the load, settings are put in force and taken
        back. Disks that it brings in are opened and stay open until the session ends.
        """
        if checkpoint:
            self.target.require_checkpoint()
        self._in_force.provide(change, under_load=self._load is not None)

    def set_by(self, names: Collection[str]) -> dict[str, str]:
        """Setting → how :meth:`put_in_force` sets it: sessions, reload or restart."""
        return patiently(lambda: self.target.set_by(names), self.wait)

    def put_in_force(self, change: Change, *, checkpoint: bool = False) -> None:
        """Make ``change`` the only difference from the spec and let the load settle under it.

        ``checkpoint`` ends with a CHECKPOINT, so that slices begin at the same phase of full-page
        images. A server that is away meanwhile is waited for; RunError when it does not come back.
        """
        patiently(lambda: self._put_in_force(change, checkpoint=checkpoint), self.wait)

    def _put_in_force(self, change: Change, *, checkpoint: bool) -> None:
        step = self._in_force.step_to(change)
        if step.need >= Need.LOAD_RESTART:
            self.interrupt_load()
        if step.need >= Need.SERVER_RESTART:
            self.recorder.add_event("restart", "server restarted by pgdyno")
            with self.probes.rest():
                self._in_force.apply_with_restart(step)
        else:
            self._in_force.apply(step)
        if self._load is None:
            self.start_load()
            self._tell_load(step)
            self.wait_connected()
            self.wait(SETTLE_RESTART_SECONDS)
        elif step:
            self._adjust_sessions()
            self._tell_load(step)
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
        """A slice that lasts as long as the block; probes are read at both of its edges.

        Once it is closed, it is judged whether it is void.
        """
        assert self._load is not None, "a slice needs a running load"
        slice_id = self.recorder.open_slice(
            kind, trial_id=trial_id, pair=pair, side=side, change=self._in_force.change.to_json()
        )
        self._load.cut(slice_id)
        self.probes.sample_now()
        yield slice_id
        self._end_slice(slice_id)

    @contextmanager
    def measured_from_start(self, kind: str) -> Iterator[tuple[int, int]]:
        """A slice that begins with the load, so that no transaction is outside of it; its id, and
        time zero of the load in monotonic ns."""
        assert self._load is None, "the load begins with the slice"
        change = self._in_force.change.to_json()
        slice_id = self.recorder.open_slice(kind, change=change)
        self.probes.sample_now()
        yield slice_id, self.start_load(scheduled=True, slice_id=slice_id)
        self._end_slice(slice_id)

    def _end_slice(self, slice_id: int) -> None:
        assert self._load is not None
        self.probes.sample_now()
        end_ns = self._load.cut(None)
        self.recorder.close_slice(slice_id, ns=end_ns)
        self._load.wait_recorded(end_ns)
        self._judge(slice_id)

    def _judge(self, slice_id: int) -> None:
        run = self.reader()
        why = void_reason(run, run.slice(slice_id))
        if why is not None:
            self.recorder.void_slice(slice_id, why)
            self.watcher.note(f"void slice: {why}")

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
                self.recorder.add_event("restart", "server stopped by pgdyno")
                self.target.cluster.stop()
            yield

    def event_settings(self, settings: dict[str, str]) -> None:
        """Carry out an event's change of settings; it stays until the end of the run."""
        self._in_force.apply_event(settings)
        self._adjust_sessions()

    def _tell_load(self, step: Step) -> None:
        assert self._load is not None
        self._in_force.tell(self._load, step)

    def close(self) -> None:
        """Stop the load, however the session ends, and leave the run file to its writer."""
        self._close_reader()
        if (load := self._take_load()) is not None:
            load.stop(drain_ms=1_000)

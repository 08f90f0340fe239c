"""A session: one spec under load, with everything recorded on one clock.

``_opening.py`` opens and closes it. In between, the :class:`Session` carries out slices, each under
its own :class:`Change`: :class:`ActiveChange` applies it to the server, :class:`RunningLoad` to the
clients.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg

from pgdyno.conduct._active_change import ActiveChange
from pgdyno.conduct._config import Acks, engine_config
from pgdyno.conduct._load import DRAIN_MS, RunningLoad, engine_facts
from pgdyno.conduct._server_away import RETURN_S_MAX, retry_while_away
from pgdyno.conduct._standstill import Standstill
from pgdyno.conduct._target import Target
from pgdyno.conduct.watch import Watcher
from pgdyno.dimension import Need, Transition, fields_with
from pgdyno.probe import Probes
from pgdyno.record import Recorder, RunFile
from pgdyno.record.void import void_reason
from pgdyno.spec import Change, Spec
from pgdyno.workload import Workload, load_workloads

# After a reload or a change of a pool, the load runs this long before a slice is measured: sessions
# apply a reload between statements, and transactions begun before it finish.
SETTLE_SECONDS = 0.3
# After a restart, connections are also made again and the first pages read.
SETTLE_RESTART_SECONDS = 1.0


@dataclass
class Session:
    """A spec under load. Slices are carried out one after another, from one thread."""

    spec: Spec
    target: Target
    workloads: Mapping[str, Workload]
    """Workload of each client group."""
    recorder: Recorder
    probes: Probes
    watcher: Watcher
    _active: ActiveChange = field(init=False)
    _load: RunningLoad | None = None
    _reader: RunFile | None = None

    def __post_init__(self) -> None:
        self._active = ActiveChange(self.target, self.recorder, self.spec, self.watcher.note)

    def reader(self) -> RunFile:
        """Return a reader of the run file in its present state; the previous reader is closed."""
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
        """Connect the clients and start them; ``scheduled`` follows the spec's ramp or load steps.

        ``acks`` and ``seed`` take precedence over those of the spec. With ``outage_expected``, lost
        connections are not shown. All counts belong to ``slice_id`` from the start. Returns time
        zero of the load in monotonic ns.
        """
        spec = self._active.spec()
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
        """Apply the active settings to the load's sessions."""
        if self._load is not None and (statement := self._active.session_statement()):
            self._load.set_session(statement)

    def wait_connected(self) -> None:
        """Wait until every client of a closed loop is connected, or no more connect.

        Making ten thousand connections takes longer than many runs.
        """
        if self._load is None:
            return
        wanted = self._load.connections_wanted
        if wanted is None:
            return
        connected = self._load.wait_connected(wanted)
        if connected < wanted:
            self.watcher.note(
                f"only {connected:,} of {wanted:,} clients are connected; see the errors"
            )

    def wait_served(self) -> None:
        """Wait, after a void slice, until the server is back and all clients are connected.

        Raises RunError when it does not come back.
        """
        if self._load is not None:
            self._load.wait_served(RETURN_S_MAX)
            self.wait_connected()

    def _workloads_of(self, spec: Spec) -> Mapping[str, Workload]:
        """Return the workloads of ``spec``, whose scripts a change may have replaced."""
        mixes = [[each.mix_of(group) for group in each.clients] for each in (spec, self.spec)]
        return self.workloads if mixes[0] == mixes[1] else load_workloads(spec)

    @property
    def load_complete(self) -> bool:
        """True if every client has executed the number of transactions given to it."""
        return self._load is not None and self._load.complete

    def stop_load(self) -> None:
        """Drain the clients and record their last intervals."""
        if (load := self._take_load()) is not None:
            load.stop()
            load.raise_fault()

    def interrupt_load(self, drain_ms: int = DRAIN_MS) -> None:
        """Stop the load before another one; running transactions have ``drain_ms`` to finish."""
        if (load := self._take_load()) is not None:
            load.stop(drain_ms)
            load.raise_fault()
            load.abandon_backlog()

    def _take_load(self) -> RunningLoad | None:
        """Return the load, if there is one, and forget it: the caller stops it."""
        load, self._load = self._load, None
        return load

    def wait(self, seconds: float) -> None:
        """Let the load run; raise the error that ends it."""
        if self._load is None:
            time.sleep(seconds)
        else:
            self._load.wait(seconds)

    def provide(self, change: Change, *, checkpoint: bool = False) -> None:
        """Get what ``change`` needs, so that anything missing fails now and not during a trial.

        ``checkpoint``: the trial executes CHECKPOINT. Before the load starts, settings are applied
        and reverted. Disks of the change are opened and remain open until the session ends.
        """
        if checkpoint:
            self.target.require_checkpoint()
        self._active.provide(change, under_load=self._load is not None)

    def set_by(self, names: Collection[str]) -> dict[str, str]:
        """Return by setting how :meth:`apply` sets it: sessions, reload or restart."""
        return retry_while_away(lambda: self.target.set_by(names), self.wait)

    def apply(self, change: Change, *, checkpoint: bool = False) -> None:
        """Make ``change`` the only difference from the spec and let the load settle under it.

        With ``checkpoint``, execute CHECKPOINT at the end, so that slices begin at the same phase
        of full-page images. Waits for a server that is away; RunError when it does not come back.
        """
        retry_while_away(lambda: self._apply(change, checkpoint=checkpoint), self.wait)

    def _apply(self, change: Change, *, checkpoint: bool) -> None:
        transition = self._active.transition_to(change)
        if transition.need >= Need.LOAD_RESTART:
            self.interrupt_load()
        if transition.need >= Need.SERVER_RESTART:
            self.recorder.add_event("restart", "server restarted by pgdyno")
            with self.probes.rest():
                self._active.apply_with_restart(transition)
        else:
            self._active.apply(transition)
        if self._load is None:
            self.start_load()
            self._adjust_load(transition)
            self.wait_connected()
            self.wait(SETTLE_RESTART_SECONDS)
        elif transition:
            self._adjust_sessions()
            self._adjust_load(transition)
            self.wait(SETTLE_SECONDS)
        if checkpoint:
            self._active.checkpoint()

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
        """Measure the active change for ``seconds``; return the slice's id, intervals recorded.

        With ``closing_checkpoint``, the slice includes a CHECKPOINT under load at its end, which
        writes the buffers that the slice left dirty.
        """
        with self.measured(kind, trial_id=trial_id, pair=pair, side=side) as slice_id:
            self.wait(seconds)
            if closing_checkpoint:
                self._active.checkpoint()
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
        """Measure a slice that lasts as long as the block, with probes read at its start and end.

        After its end it is checked whether the slice is void.
        """
        assert self._load is not None, "a slice needs a running load"
        slice_id = self.recorder.open_slice(
            kind, trial_id=trial_id, pair=pair, side=side, change=self._active.change.to_json()
        )
        self._load.end_interval(slice_id)
        self.probes.sample_now()
        yield slice_id
        self._end_slice(slice_id)

    @contextmanager
    def measured_from_start(self, kind: str) -> Iterator[tuple[int, int]]:
        """Measure a slice that begins with the load, so that it includes every transaction; yields
        its id, and time zero of the load in monotonic ns."""
        assert self._load is None, "the load begins with the slice"
        change = self._active.change.to_json()
        slice_id = self.recorder.open_slice(kind, change=change)
        self.probes.sample_now()
        yield slice_id, self.start_load(scheduled=True, slice_id=slice_id)
        self._end_slice(slice_id)

    def _end_slice(self, slice_id: int) -> None:
        assert self._load is not None
        self.probes.sample_now()
        end_ns = self._load.end_interval(None)
        self.recorder.close_slice(slice_id, ns=end_ns)
        self._load.wait_recorded(end_ns)
        self._judge(slice_id)

    def _judge(self, slice_id: int) -> None:
        run = self.reader()
        fields = fields_with(run.run.spec, self._active.change)
        why = void_reason(run, run.slice(slice_id), fields)
        if why is not None:
            self.recorder.void_slice(slice_id, why)
            self.watcher.note(f"void slice: {why}")

    def connect(self) -> psycopg.Connection:
        """Open a control connection, outside the load."""
        return self._active.connect()

    @contextmanager
    def server_down(self) -> Iterator[None]:
        """Stop a server started by pgdyno for the block, so that it uses no resources.

        It is started again only when it is needed.
        """
        assert self._load is None, "a server under load is not stopped"
        with self.probes.rest():
            if self.target.cluster is not None:
                self.recorder.add_event("restart", "server stopped by pgdyno")
                self.target.cluster.stop()
            yield

    def apply_event(self, settings: dict[str, str]) -> None:
        """Carry out an event's change of settings, which lasts until the end of the run."""
        self._active.apply_event(settings)
        self._adjust_sessions()

    def _adjust_load(self, transition: Transition) -> None:
        assert self._load is not None
        self._active.adjust_load(self._load, transition)

    def close(self) -> None:
        """Stop the load if it still runs, and close the reader of the run file."""
        self._close_reader()
        if (load := self._take_load()) is not None:
            load.stop(drain_ms=1_000)

"""A session: one spec under load, with everything recorded on one clock.

``_opening.py`` opens and closes it. In between, the :class:`Session` carries out slices, each under
its own :class:`Change`: :class:`ActiveChange` applies it to the server, :class:`RunningLoad` to the
clients.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from pgdyno.conduct._active_change import ActiveChange
from pgdyno.conduct._aging import Aged, grow_old, note_age
from pgdyno.conduct._config import Acks, engine_config
from pgdyno.conduct._fronting import wait_compiled
from pgdyno.conduct._load import DRAIN_MS, Arrived, RunningLoad, engine_facts
from pgdyno.conduct._server_away import RETURN_S_MAX, Standstill, retry_while_away
from pgdyno.conduct._target import Target
from pgdyno.conduct.watch import Watcher
from pgdyno.dimension import Need, Transition, fields_with, own_server
from pgdyno.probe import HostProbes, Probes
from pgdyno.record import Recorder, RunFile, SliceKind
from pgdyno.record.failures import OUT_OF_IDS
from pgdyno.record.void import VoidReason, void_reason
from pgdyno.server.connecting.control import Control
from pgdyno.spec import Change, Spec
from pgdyno.spec.age import Ids
from pgdyno.spec.change import Debt
from pgdyno.spec.kernel import KernelSpec
from pgdyno.workload import Workload, load_workloads

if TYPE_CHECKING:
    from pgdyno._engine import SampledTransaction
    from pgdyno.plans.look import ExplainedLoad

# After a reload or a change of a pool, the load runs this long before a slice is measured: sessions
# apply a reload between statements, and transactions begun before it finish.
SETTLE_SECONDS = 0.3
# Longest pause of the arrivals of open loops in which their queue is processed, between slices.
DRAIN_SECONDS_MAX = 10.0
# After a restart, connections are also made again and pages read into the buffers, until the
# throughput no longer rises; or until further warming up costs more than it is worth.
WARM_UP_SECONDS_MAX = 10.0
# The shortest limit of it: two looks at the throughput.
WARM_UP_SECONDS_MIN = 1.0


def warm_up_seconds_max(slice_s: float) -> float:
    """Return how long a load that has started again warms up at most before a slice of ``slice_s``:
    half as long, so that most of a budget is measured."""
    return min(max(slice_s / 2, WARM_UP_SECONDS_MIN), WARM_UP_SECONDS_MAX)


@dataclass
class Session:
    """A spec under load. Slices are carried out one after another, from one thread."""

    spec: Spec
    target: Target
    workloads: Mapping[str, Workload]
    """Workload of each client group."""
    recorder: Recorder
    probes: Probes | HostProbes
    watcher: Watcher
    aged: Aged | None = None
    """Age to which the server was brought; None: that of a new server."""
    voids: dict[int, VoidReason] = field(init=False, default_factory=dict)
    """Reasons of the void slices, by id."""
    first_plans: ExplainedLoad | None = field(init=False, default=None)
    """Plans of the statements when the load began; None: they were not looked at."""
    _samples: list[SampledTransaction] = field(init=False, default_factory=list)
    """Those of the last load that ended."""
    _active: ActiveChange = field(init=False)
    _load: RunningLoad | None = None
    _reader: RunFile | None = None
    _share: float = 1.0
    """Share of their time for which clients work."""
    _warm_up_s: float = 0.0
    """Time from a restart until the throughput no longer rose, or the limit of that time."""
    _prewarms: bool = True
    _compiled_pid: int = 0
    """PID of the front end that has compiled the load's code."""
    _warm_up_limit_s: float = 0.0
    """Limit of the time when it was found; 0 before the first restart."""

    def __post_init__(self) -> None:
        self._active = ActiveChange(self.target, self.recorder, self.spec, self.watcher.note)

    def begin(self) -> None:
        """Set the kernel's parameters that the spec asks for, before any load; with a restart of
        the server where they need one. Raises PgdynoError."""
        if self.spec.kernel != KernelSpec.default():
            with self.probes.rest():
                self._active.begin()

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
        self.target.renew_gateway()
        spec = self._active.spec()
        if seed is not None:
            load = spec.load.model_copy(update={"seed": seed})
            spec = spec.model_copy(update={"load": load})
        if self.target.application is not None and spec.http is not None:
            url = self.target.application.url
            spec = spec.model_copy(update={"http": spec.http.at(url)})
        workloads = self._workloads_of(spec)
        server = self.target.server and self.target.of_load
        variables = {
            name: workload.variables(server, spec.workload) for name, workload in workloads.items()
        }
        config = engine_config(
            spec,
            None if server is None else self.target.entrance,
            workloads,
            variables,
            scheduled=scheduled,
            acks=acks,
            session=self._active.session_statement(),
        )
        outage_s = config.get("give_up_after_ms", 0) / 1000 if outage_expected else None
        standstill = Standstill(
            lambda: self.probes.silent_s,
            outage_s=outage_s,
            expected=(OUT_OF_IDS,) if self._is_old else (),
        )
        self._load = RunningLoad(
            config,
            self.recorder,
            self.watcher,
            standstill,
            tag=slice_id,
            outage_expected=outage_expected,
            check=partial(self.target.check_programs, outage_expected=outage_expected),
        )
        if self._share < 1:
            self._load.slow_down(self._share)
        self.recorder.update_run(engine={**engine_facts(spec), **self._load.facts()})
        return self._load.started_ns

    @property
    def _is_old(self) -> bool:
        """True if pgdyno raised the age of the server, now or before it was saved."""
        saved = self.target.snapshot
        return self.aged is not None or bool(saved and saved.aged)

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
        self._compiled_pid = wait_compiled(self.target, self.wait, self._compiled_pid)
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
        return self.workloads if spec.scripts == self.spec.scripts else load_workloads(spec)

    @property
    def load_complete(self) -> bool:
        """True if every client has executed the number of transactions given to it."""
        return self._load is not None and self._load.complete

    def grow_old(self, ids: Ids, age: int) -> Aged:
        """Bring a server of pgdyno to an age, with a restart; no load runs now."""
        assert self._load is None, "the server of a running load is not restarted"
        with self.probes.rest():
            self.recorder.add_event("restart", "server restarted by pgdyno")
            self.aged = grow_old(self.target, self.watcher, ids, age)
        note_age(self.aged, self.recorder)
        return self.aged

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
        if load is not None:
            self._samples = load.samples()
        return load

    @property
    def samples(self) -> list[SampledTransaction]:
        """Transactions of the load, or of the last that ended, as they were sent."""
        return self._samples if self._load is None else self._load.samples()

    @property
    def is_loaded(self) -> bool:
        """True if a load runs."""
        return self._load is not None

    @property
    def active(self) -> ActiveChange:
        """The active change."""
        return self._active

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
        with ExitStack() as stack:
            others, keys = self.target.others, own_server(change)
            if self._load is None and others and keys and not others.is_there(keys):
                # The server under test is stopped meanwhile, and started again.
                stack.enter_context(self.probes.rest())
                self.recorder.add_event("restart", "server stopped by pgdyno to make another one")
            self._active.provide(change, under_load=self._load is not None)

    def set_by(self, names: Collection[str]) -> dict[str, str]:
        """Return by setting how :meth:`apply` sets it: sessions, reload or restart."""
        return retry_while_away(lambda: self.target.set_by(names), self.wait)

    def drain(self) -> None:
        """Hold back the arrivals of open loops until what waits is done, at most a few seconds."""
        if self._load is not None:
            self._load.drain(DRAIN_SECONDS_MAX)

    def apply(
        self,
        change: Change,
        *,
        checkpoint: bool = False,
        by_way_of: Change | None = None,
        warm_up_s_max: float = WARM_UP_SECONDS_MAX,
    ) -> None:
        """Make ``change`` the only difference from the spec and let the load settle under it, after
        a restart until it is warm, ``warm_up_s_max`` at most.

        A change that is active already is left ``by_way_of`` another and entered again, if that is
        given. With ``checkpoint``, execute CHECKPOINT at the end, so that slices begin at the same
        phase of full-page images. Waits for a server that is away; RunError when it does not come
        back.
        """
        if by_way_of is not None and self._active.change == change:
            retry_while_away(lambda: self._enter(by_way_of), self.wait)
        retry_while_away(lambda: self._apply(change, checkpoint, warm_up_s_max), self.wait)

    def prepare(self, change: Change) -> None:
        """Make ``change`` the only difference from the spec of the next load; none runs now."""
        assert self._load is None, "a running load takes a change by apply"
        self._enter(change)

    def start_again(self, change: Change) -> None:
        """Stop the load, and start another one under ``change`` that follows the spec's ramp."""
        self.interrupt_load()
        transition = self._enter(change)
        if transition.need >= Need.SERVER_RESTART:
            self._prewarm()
        self.start_load(scheduled=True)
        assert self._load is not None
        for group, size in change.pool_max.items():
            self._load.set_pool_max(group, size)

    def set_clients(self, group: str, clients: int) -> None:
        """Change how many clients of a running load a group has, within a slice."""
        assert self._load is not None
        self._load.set_clients(group, clients)

    def slow_down(self, share: float) -> None:
        """Let clients work for a share of their time from now on, also those of a load that starts
        later; may be called by a thread of its own."""
        self._share = share
        if (load := self._load) is not None:
            load.slow_down(share)

    def arrived(self, slice_id: int) -> Arrived:
        """Return the present clients, connections, and transactions that wait or run."""
        assert self._load is not None
        return self._load.arrived(slice_id)

    def _enter(self, change: Change) -> Transition:
        """Make ``change`` the active one; the load may have stopped then."""
        transition = self._active.transition_to(change)
        if transition.need >= Need.LOAD_RESTART:
            self.interrupt_load()
        if transition.need >= Need.SERVER_RESTART:
            with self.probes.rest():
                # After the last sample of the server, and before the next one.
                self.recorder.add_event("restart", "server restarted by pgdyno")
                self._active.apply_with_restart(transition)
        else:
            self._active.apply(transition)
        if self._load is not None and transition:
            self._adjust_sessions()
            self._adjust_load(transition)
        return transition

    def _apply(self, change: Change, checkpoint: bool, warm_up_s_max: float) -> None:
        transition = self._enter(change)
        if self._load is None:
            if transition.need >= Need.SERVER_RESTART:
                self._prewarm()
            self.start_load()
            self._adjust_load(transition)
            self.wait_connected()
            self._warm_up(warm_up_s_max)
        elif transition:
            self.wait(SETTLE_SECONDS)
        if checkpoint:
            self._active.settle("checkpoint")

    def _prewarm(self) -> None:
        """Fill the buffers after a restart; if that took too long once, it is not tried again."""
        if self._prewarms:
            self._prewarms = self._active.prewarm()
            if not self._prewarms:
                self.watcher.note(
                    "the data could not be read into shared_buffers in time: slices after a restart"
                    " may begin with cold buffers"
                )

    def _warm_up(self, seconds_max: float) -> None:
        """Let a load that has just started run until its throughput no longer rises; later loads
        for as long as the first one, so that both sides of a trial have the same warm-up. It is
        looked at again for longer slices, if the first limit was too short."""
        assert self._load is not None
        if self._warm_up_limit_s <= self._warm_up_s and self._warm_up_limit_s < seconds_max:
            self._warm_up_s = self._load.wait_warm(seconds_max)
            self._warm_up_limit_s = seconds_max
        else:
            self.wait(min(self._warm_up_s, seconds_max))

    def slice(
        self,
        seconds: float,
        *,
        kind: SliceKind,
        trial_id: int | None = None,
        pair: int | None = None,
        side: str | None = None,
        debts: Collection[Debt] = (),
    ) -> int:
        """Measure the active change for ``seconds``; return the slice's id, intervals recorded.

        At its end, under load and within its time, the slice does the work that it postponed:
        its ``debts``.
        """
        with self.measured(kind, trial_id=trial_id, pair=pair, side=side) as slice_id:
            self.wait(seconds)
            for debt in debts:
                self._active.settle(debt)
        return slice_id

    @contextmanager
    def measured(
        self,
        kind: SliceKind,
        *,
        trial_id: int | None = None,
        pair: int | None = None,
        side: str | None = None,
    ) -> Iterator[int]:
        """Measure a slice that lasts as long as the block, with probes read at its start and end.

        After its end it is checked whether the slice is void.
        """
        slice_id = self._begin_slice(kind, trial_id=trial_id, pair=pair, side=side)
        yield slice_id
        self._end_slice(slice_id)

    @contextmanager
    def measured_in_slices(self, kind: SliceKind) -> Iterator[Callable[[], None]]:
        """Measure slices, one after the other without a pause, for as long as the block; what it
        yields ends the slice and begins the next. Each is judged by itself.
        """
        slice_id = self._begin_slice(kind)

        def turn() -> None:
            nonlocal slice_id
            slice_id = self._turn_slice(slice_id, kind)

        yield turn
        self._end_slice(slice_id)

    def _begin_slice(self, kind: SliceKind, **of_trial: Any) -> int:
        assert self._load is not None, "a slice needs a running load"
        change = self._active.change.to_json()
        slice_id = self.recorder.open_slice(kind, change=change, **of_trial)
        self._load.end_interval(slice_id)
        self.probes.sample_now()
        return slice_id

    def _turn_slice(self, slice_id: int, kind: SliceKind) -> int:
        """End a slice and begin another at the same moment; return the id of the other one."""
        assert self._load is not None
        self.probes.sample_now()
        now_ns = time.monotonic_ns()
        change = self._active.change.to_json()
        next_id = self.recorder.open_slice(kind, change=change, ns=now_ns)
        end_ns = self._load.end_interval(next_id)
        self.recorder.close_slice(slice_id, ns=now_ns)
        self.probes.sample_now()
        self._load.wait_recorded(end_ns)
        self._judge(slice_id)
        return next_id

    @contextmanager
    def measured_from_start(self, kind: SliceKind) -> Iterator[tuple[int, int]]:
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
        reason = void_reason(run, run.slice(slice_id), fields)
        if reason is not None:
            self.voids[slice_id] = reason
            self.recorder.void_slice(slice_id, reason.sentence)
            self.watcher.note(f"void slice: {reason.sentence}")

    def connect(self) -> Control:
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

    @contextmanager
    def offline(self, label: str, *, restored: bool = False) -> Iterator[None]:
        """Stop a server of pgdyno for the block and start it again; ``label`` says why.

        If the block has ``restored`` its data, what is in memory is not written any more, and the
        data that fit are read into shared_buffers at the end.
        """
        assert self._load is None, "a server under load is not stopped"
        cluster = self.target.cluster
        assert cluster is not None, "a server of the user is not stopped"
        with self.probes.rest():
            self.recorder.add_event("restart", label)
            cluster.stop("immediate" if restored else "fast")
            yield
            cluster.start()
            self.target.facts["postmaster_pid"] = cluster.pid
        if restored:
            self._prewarm()

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

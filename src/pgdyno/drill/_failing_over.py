"""Failovers under load: a standby takes over, and the clients' own ledger tells how long no commit
was acknowledged and which commits are missing afterwards.

The clients know the primary and all standbys and connect to the one that accepts writes, as libpq
does with several hosts and ``target_session_attrs=read-write``; their retries are the load
engine's. Through a pooler they keep their connections, and the pooler is told of the new primary.
pgdyno is the failover manager: it asks the primary at short intervals whether it still answers,
waits for ``--detect`` without an answer, and promotes the standby that has received most. Where
Patroni manages the servers, it does all of that by itself (``_managed.py``).

A failover has these moments, in the order in which the outage passes through them: the fault, its
detection, the end of the promotion, the first session of a client or of the pooler on the new
primary, the first acknowledged commit, and the moment when each client has one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from msgspec.structs import replace

from pgdyno.drill._checking import Crashed
from pgdyno.drill._drill import LoadedServer
from pgdyno.drill._evidence import NewLog, ended_in_words, processes, remaining_processes
from pgdyno.drill._managed import (
    ENDED,
    ENDING,
    PROMOTED,
    PROMOTING,
    logged_ns,
    new_primary,
    no_takeover,
    takeover_s_max,
)
from pgdyno.drill._queries import query
from pgdyno.drill._verify import verify
from pgdyno.drill.model import DrillOptions, Verified
from pgdyno.errors import RunError, UsageError
from pgdyno.pooler import moves
from pgdyno.record import AckLedger, AckOutcome, read_acks
from pgdyno.record.cut import Cut, Facts, Outage, Proof
from pgdyno.server import Cluster
from pgdyno.server.connecting.conninfo import Host
from pgdyno.server.connecting.control import open_control
from pgdyno.server.replication.patroni import Patroni
from pgdyno.server.replication.standby import Standby
from pgdyno.spec import Spec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DETECT_S = 3.0
"""Time without an answer from the primary before a standby is promoted, unless given. Failover
managers have 10 to 60 s: Patroni's ttl is 30 s, pg_auto_failover has 20 s, and repmgr tries 6 times
at intervals of 10 s. What they add is the difference, so a drill need not wait for it."""
DETECT_S_MAX = 20.0
"""The load engine gives up after 30 s without a connection."""
DETECTED = ("failover", "partition")
"""Faults that are detected by waiting."""
_ASKS = 6
"""Questions to the primary within ``--detect``."""
_ASK_S = (0.05, 1.0)
_AFTER_S = 1.0
"""Duration of the load after all clients have committed again."""
_BACK_S_MAX = 25.0
"""Time limit for that; PgBouncer's server_login_retry is 15 s."""
_LOOK_S = 0.25
_TAKEOVER_POLL_S = 0.05
NEW_TIMELINE = "selected new timeline ID"
"""Log message of a standby that becomes a primary."""


@dataclass
class FailoverTimes:
    """Times at which a failover reached its steps, in monotonic ns; 0: not yet."""

    fault_ns: int
    detected_ns: int = 0
    stopped_ns: int = 0
    """The old primary had ended: no session of it was left, and no client could get one."""
    promoting_ns: int = 0
    """The promotion was ordered."""
    promoted_ns: int = 0
    pooler_ns: int = 0
    """The pooler, if there is one, knew the new primary."""
    session_ns: int = 0
    """Beginning of the first session of a client, or of the pooler, on the new primary."""

    @property
    def moved_ns(self) -> int:
        """Time before which no commit was the new primary's, and after which none was the old
        primary's, but for the moment in which the old primary is ended or the pooler reloads:
        pg_promote returns up to 0.1 s after clients find the new primary, and through a pooler a
        transaction may be sent before the fault and executed after it."""
        return self.pooler_ns or max(self.stopped_ns, self.promoting_ns)

    def found(self, session_ns: int) -> None:
        """Note the first session on the new primary, which then accepted writes."""
        self.session_ns = session_ns
        if self.moved_ns < session_ns < self.promoted_ns:
            self.promoted_ns = session_ns

    def committed(self, first_ns: int) -> None:
        """Note the first commit on the new primary, which was promoted and had a session by then:
        both were seen a little later than they happened."""
        self.promoted_ns = min(self.promoted_ns, first_ns)
        self.session_ns = min(self.session_ns, first_ns)

    def parts_ms(self, last_ns: int, first_ns: int) -> tuple[float, ...]:
        """Return the times of detection, stop, promotion, first session and first commit, each from
        the latest step before it; 0 for a step that was not needed. The first follows the fault, or
        the old primary's last acknowledgement at ``last_ns`` if that came later.
        """
        begin_ns = max(self.fault_ns, last_ns)
        steps = (
            *(self.detected_ns, self.stopped_ns, self.promoted_ns),
            *(self.session_ns, first_ns),
        )
        in_turn = sorted(range(len(steps)), key=lambda step: (steps[step], step))
        parts_ms = [0.0] * len(steps)
        for step in in_turn:
            parts_ms[step] = max(0, steps[step] - begin_ns) / 1e6
            begin_ns = max(begin_ns, steps[step])
        return tuple(parts_ms)


Break = Callable[["Failover"], None]
"""Makes the failover necessary; ends with the primary gone."""


class Failover:
    """A failover: the servers, and the observed times and messages."""

    def __init__(self, drill: LoadedServer) -> None:
        """Create it just before the fault."""
        self.drill = drill
        self.primary: Cluster = drill.cluster
        self.standby = most_advanced(drill.receivers.standbys)
        self._pids = [process.pid for process in processes(self.primary)]
        self._logs = {each.name: NewLog(each.cluster) for each in drill.receivers.standbys}
        self._primarys_log = NewLog(self.primary)
        self.moments = FailoverTimes(time.monotonic_ns())

    @property
    def manager(self) -> Patroni | None:
        """The program that manages the failover; ``None``: pgdyno itself."""
        return self.drill.receivers.manager

    def replace_primary(self) -> None:
        """Wait until the loss of the primary is detected, and a standby promoted."""
        if self.manager is None:
            self.detect()
            self.promote()
        else:
            self.wait_for_takeover()

    def switch_over(self) -> None:
        """Shut the primary down, and let a standby take over."""
        if self.manager is None:
            self.stop_primary(Cluster.stop)
            self.promote()
        else:
            self.manager.switch_over()
            self.wait_for_takeover()
            # It was asked for.
            self.moments.detected_ns = 0

    def wait_for_takeover(self) -> None:
        """Wait until the manager has made a standby the primary. Raises RunError."""
        manager, spec, moments = self.manager, self.drill.receivers.spec, self.moments
        assert manager is not None
        deadline_s = time.monotonic() + takeover_s_max(spec)
        while not moments.promoted_ns:
            if time.monotonic() > deadline_s:
                raise no_takeover(manager, spec)
            self.drill.session.wait(_TAKEOVER_POLL_S)
            self.standby = new_primary(manager, self.drill.receivers.standbys) or self.standby
            # Patroni holds it for the primary before it has ordered the promotion.
            moments.promoted_ns = logged_ns(self._logs[self.standby.name], PROMOTING, PROMOTED)
        moments.promoting_ns = logged_ns(self._logs[self.standby.name], PROMOTING)
        moments.detected_ns = moments.promoting_ns
        ended_ns = logged_ns(self._primarys_log, ENDED)
        if not 0 < ended_ns < moments.promoting_ns:
            ended_ns = logged_ns(self._primarys_log, ENDING)
        moments.stopped_ns = moments.stopped_ns or ended_ns
        self._move_pooler()

    def detect(self) -> None:
        """Ask the primary until it has not answered for ``--detect``.

        Raises RunError if it keeps answering: then nothing has happened to it.
        """
        wanted_s = self.drill.options.detect_s or DETECT_S
        pause_s = min(max(wanted_s / _ASKS, _ASK_S[0]), _ASK_S[1])
        give_up_s = time.monotonic() + 2 * wanted_s
        silent_since_s = None
        while silent_since_s is None or time.monotonic() - silent_since_s < wanted_s:
            began_s = time.monotonic()
            if _answers(self.primary):
                silent_since_s = None
                if began_s > give_up_s:
                    raise RunError("the primary still answers after the fault", code="no-failover")
            else:
                silent_since_s = silent_since_s or began_s
            self.drill.session.wait(pause_s)
        self.moments.detected_ns = time.monotonic_ns()

    def cut_off(self) -> None:
        """Cut the primary off from its standbys and from the manager, which then waits in vain."""
        for standby in self.drill.receivers.standbys:
            assert standby.relay is not None
            standby.relay.hold()
        self.drill.session.wait(self.drill.options.detect_s or DETECT_S)
        self.moments.detected_ns = time.monotonic_ns()

    def stop_primary(self, how: Callable[[Cluster], object]) -> None:
        """End the primary; from then on its clients look for another server."""
        how(self.primary)
        self.moments.stopped_ns = time.monotonic_ns()

    def promote(self) -> None:
        """Promote the standby that has received most."""
        self.standby = most_advanced(self.drill.receivers.standbys)
        self.moments.promoting_ns = time.monotonic_ns()
        self.standby.promote()
        self.moments.promoted_ns = time.monotonic_ns()
        self._move_pooler()

    def _move_pooler(self) -> None:
        """Tell a pooler of the new primary."""
        if self.drill.session.spec.pooler.in_use:
            gateway = self.drill.session.target.gateway
            assert gateway is not None
            self.moments.pooler_ns = time.monotonic_ns()
            target = self.drill.session.target
            gateway.move_to(target.for_load(self.standby.cluster.conninfo))

    def proof(self) -> Proof:
        """Return the proof: the old primary is gone, and the standby began a timeline."""
        left = remaining_processes(self.primary, self._pids)
        timeline = self._logs[self.standby.name].line_with(NEW_TIMELINE)
        happened = bool(self._pids and not left and timeline)
        gone = ended_in_words(self._pids, left)
        took_over = f'logged "{timeline}"' if timeline else "did not become a primary"
        facts: Facts = {
            "processes_before": len(self._pids),
            "processes_left": len(left),
            "log": [timeline] if timeline else [],
            "promoted": self.standby.name,
        }
        if self.manager is not None:
            facts["patroni_history"] = self.manager.history()
        return Proof(
            happened=happened,
            sentence=f"of the old primary {gone}; the standby {took_over}",
            facts=facts,
        )


def failovers(
    drill: LoadedServer, breaking: Callable[[str], Break], variants: Sequence[str]
) -> Iterator[Cut]:
    """Yield the drill's cuts, of each variant in turn; ``breaking`` returns its action."""
    for number, rng, seed in drill.plan():
        variant = variants[(number - 1) % len(variants)]
        _know_all_servers(drill)
        drill.begin_load()
        drill.let_run(rng)
        drill.begin_outage()
        if drill.options.sham:
            yield _sham(drill, number, seed, variant)
            continue
        failover = Failover(drill)
        breaking(variant)(failover)
        _wait_all_back(drill, failover.moments)
        failover.moments.found(_first_session_ns(failover.standby.cluster))
        drill.session.wait(_AFTER_S)
        acks = drill.end_load()
        proof = failover.proof()
        yield _verified(failover, number, seed, variant, proof, acks)


def _verified(
    failover: Failover, number: int, seed: int, variant: str, proof: Proof, acks: AckLedger
) -> Cut:
    """Verify the promoted standby, and return the cut with its outage."""
    drill, moments = failover.drill, failover.moments
    _release(drill.receivers.standbys)
    failover.standby.stop()
    crashed = Crashed(
        failover.standby.cluster,
        acks,
        moments.fault_ns,
        drill.witnesses,
        moved_ns=max(moments.moved_ns, moments.stopped_ns),
    )
    verified = replace(verify(crashed), recovery_s=None)
    drill.restore_before_next_load()
    return drill.cut(
        number,
        seed,
        moments.fault_ns,
        proof,
        verified,
        variant=variant,
        outage=outage_of(acks, moments),
        facts={"promoted": failover.standby.name},
    )


def _sham(drill: LoadedServer, number: int, seed: int, variant: str) -> Cut:
    """Let the load run as long as a failover takes, and verify the primary."""
    cut_ns = time.monotonic_ns()
    drill.session.wait((drill.options.detect_s or DETECT_S) + _AFTER_S)
    acks = drill.end_load()
    drill.cluster.stop()
    verified: Verified = drill.verify(acks, cut_ns)
    proof = Proof(
        happened=False, sentence="the primary answered all the time, and no standby was promoted"
    )
    return drill.cut(number, seed, cut_ns, proof, verified, variant=variant)


def outage_of(acks: AckLedger, moments: FailoverTimes) -> Outage | None:
    """Return the time without an acknowledged commit, and its parts; None if no commit was
    acknowledged before the fault or after the failover.

    It begins with the last acknowledgement by the old primary.
    """
    import numpy as np

    records = acks.records[acks.records["outcome"] == AckOutcome.ACKED]
    ended_ns = records["ended_ns"].astype(np.int64)
    after = ended_ns >= moments.moved_ns
    if not after.any() or after.all():
        return None
    last_ns, first_ns = int(ended_ns[~after].max()), int(ended_ns[after].min())
    back_ns = _first_of_each_client(records[after], ended_ns[after])
    clients = _clients(acks.records)
    moments.committed(first_ns)
    detect_ms, stop_ms, promote_ms, connect_ms, commit_ms = moments.parts_ms(last_ns, first_ns)
    return Outage(
        no_commit_ms=(first_ns - last_ns) / 1e6,
        detect_ms=detect_ms,
        stop_ms=stop_ms,
        promote_ms=promote_ms,
        connect_ms=connect_ms,
        commit_ms=commit_ms,
        both_ms=max(0, moments.stopped_ns - moments.promoted_ns) / 1e6,
        all_back_ms=(int(back_ns.max()) - last_ns) / 1e6 if len(back_ns) == clients else None,
        clients=clients,
        clients_back=len(back_ns),
        acked_after=int(after.sum()),
    )


def _clients(records: NDArray[np.void]) -> int:
    import numpy as np

    return len(np.unique(records[["group", "client"]]))


def _first_of_each_client(
    records: NDArray[np.void], ended_ns: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return for each client that has one the end of its first record."""
    import numpy as np

    _, client = np.unique(records[["group", "client"]], return_inverse=True)
    first_ns = np.full(int(client.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first_ns, client.reshape(-1), ended_ns)
    return first_ns


def most_advanced(standbys: Sequence[Standby]) -> Standby:
    """Return the standby that has received most WAL: a failover to another loses more."""
    return max(standbys, key=lambda each: _received(each.cluster))


def _received(cluster: Cluster) -> int:
    with open_control(cluster.conninfo.kwargs()) as connection:
        row = connection.execute(
            "select coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0'"
        ).fetchone()
    return int(row[0]) if row and row[0] is not None else 0


def _first_session_ns(cluster: Cluster) -> int:
    """Return when the oldest session of a client began, in monotonic ns; 0 if there is none."""
    with open_control(cluster.conninfo.kwargs()) as connection:
        row = connection.execute(query("oldest_session")).fetchone()
    return 0 if row is None or row[0] is None else time.monotonic_ns() - round(float(row[0]) * 1e9)


def _answers(cluster: Cluster) -> bool:
    """True if the server answers a query within a second."""
    try:
        with open_control({**cluster.conninfo.kwargs(), "connect_timeout": 1}):
            pass
    except psycopg.OperationalError:
        return False
    return True


def _know_all_servers(drill: LoadedServer) -> None:
    """Let the clients look for the server that accepts writes, the primary first; a pooler, which
    does not look, is told."""
    target, clusters = drill.session.target, [drill.cluster]
    if drill.session.spec.pooler.in_use:
        assert target.gateway is not None
        target.gateway.move_to(target.for_load(drill.cluster.conninfo))
        return
    clusters += [each.cluster for each in drill.receivers.standbys]
    known = [cluster.conninfo for cluster in clusters]
    target.primaries = tuple(Host(each.host, None, each.port) for each in known)


def _wait_all_back(drill: LoadedServer, moments: FailoverTimes) -> None:
    """Wait until each client has committed on the new primary, or no longer than clients should."""
    deadline_s = time.monotonic() + _BACK_S_MAX
    while time.monotonic() < deadline_s:
        drill.session.wait(_LOOK_S)
        outage = outage_of(read_acks(drill.acks_directory()), moments)
        if outage is not None and outage.clients_back == outage.clients:
            return


def _release(standbys: Sequence[Standby]) -> None:
    for standby in standbys:
        if standby.relay is not None:
            standby.relay.release()


def with_standby(spec: Spec, _options: DrillOptions) -> Spec:
    """Return the spec with a standby; an asynchronous one unless it has some."""
    if spec.standby.count:
        return spec
    standby = spec.standby.model_copy(update={"count": 1, "mode": "async"})
    return spec.model_copy(update={"standby": standby})


def require_moving(spec: Spec, options: DrillOptions) -> None:
    """Raise UsageError for a pooler that cannot be told of the new primary, and for a time that
    Patroni decides."""
    if spec.standby.managed and options.detect_s is not None:
        raise UsageError(
            "--detect is the time that pgdyno waits, and Patroni manages the failover",
            code="contradiction",
            hint="use --manager-set ttl=SECONDS",
        )
    if spec.pooler.in_use and not moves(spec.pooler):
        raise UsageError(
            f"{spec.pooler.kind} does not connect to another server without a restart",
            code="contradiction",
            hint="use --pooler pgbouncer, or none",
        )

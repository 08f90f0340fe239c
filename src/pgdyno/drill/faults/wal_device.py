"""``wal-device``: the disk of the WAL is lost, as a RAM disk is with its machine.

The load runs, a checkpoint is under way, the server's processes are killed, and the WAL's disk is
emptied; from the same wreck each rescue makes a database, which is verified as a cut of its own.
There are five ways into it:

``""``        killed under load, with the standbys as they were
``behind``    likewise, with the standbys' link held up for the last second; only where commits do
              not wait for them, for else there would be no commits
``io-error``  the disk fails under the server: from one moment on it answers everything with EIO,
              and PostgreSQL goes down by itself
``quiet``     killed when the load had ended, all standbys had everything and a checkpoint was made
``stopped``   shut down in order first, standbys after it

A variant is a way and a rescue, as ``behind/copy-back``, or a way with all its rescues.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import count, cycle
from typing import TYPE_CHECKING, Any

from pgdyno.drill._bounds import of_a_crash, of_a_lost_wal
from pgdyno.drill._checking import Crashed
from pgdyno.drill._drill import Drill
from pgdyno.drill._rescues import RESCUES, Rescue, Wreck
from pgdyno.drill._verify import verify
from pgdyno.drill._wal_loss import DiskEmptied, DiskFailed
from pgdyno.drill.fault import Fault
from pgdyno.drill.model import Cut, DrillOptions, Proof
from pgdyno.errors import UsageError
from pgdyno.record import AckLedger
from pgdyno.server import Cluster
from pgdyno.server.local.logtext import log_text
from pgdyno.server.replication.receivers import Receivers
from pgdyno.spec import Spec

if TYPE_CHECKING:
    import psycopg

WAL_DISK = "tmpfs:2GB"
"""Where the WAL goes when the spec says nothing of it."""
LAST_S = 1.0
"""How long before a fault under load a checkpoint begins, and the link is held up if at all."""
DRAIN_MS = 10_000
"""How long transactions may take to end where nothing is to be under way."""
IO_ERROR = "io-error"
WAYS = ("", "behind", IO_ERROR, "quiet", "stopped")
FAILING_DISK = "blackout:size=1GB"
"""Likewise, where the disk has to fail while it is used."""


@dataclass(frozen=True)
class _Lost:
    """One loss of the WAL's disk."""

    wreck: Wreck
    proof: Proof
    acks: AckLedger
    cut_ns: int
    facts: dict[str, Any]


def ways(spec: Spec, variant: str | None) -> dict[str, list[Rescue]]:
    """Ways in and the rescues to be tried in each, by default those under load.

    Raises UsageError for a variant that ``spec`` has nothing for.
    """
    possible = {way: _rescues(spec, way) for way in WAYS}
    if variant is None:
        chosen = {way: possible[way] for way in ("", "behind")}
    elif variant in WAYS:
        chosen = {variant: possible[variant]}
    else:
        way, _, name = variant.rpartition("/")
        chosen = {way: [rescue for rescue in possible[way] if rescue.name == name]}
    chosen = {way: rescues for way, rescues in chosen.items() if rescues}
    if not chosen:
        raise _impossible(spec, str(variant), possible)
    return chosen


def _rescues(spec: Spec, way: str) -> list[Rescue]:
    """What can be tried: what it needs is there."""
    standby = spec.standby
    if way == "behind" and (standby.waits or not standby.count):
        return []
    there = {"standby": standby.count, "wal_receiver": standby.receivewal}
    return [
        rescue
        for rescue in RESCUES.values()
        if _makes_sense(way, rescue) and there.get(rescue.needs, True)
    ]


def _makes_sense(way: str, rescue: Rescue) -> bool:
    """Whether a rescue shows something about a way that no other way shows as well."""
    if rescue.needs == "disk":
        return way == IO_ERROR
    return bool(rescue.needs) or way != "behind"


def _impossible(spec: Spec, variant: str, possible: Mapping[str, list[Rescue]]) -> UsageError:
    names = ", ".join(_variant(way, each) for way, list_ in possible.items() for each in list_)
    reason = "there is nothing that received the WAL: --standby on"
    if variant.startswith("behind") and spec.standby.waits:
        reason = "commits wait for the standby, so that none is acknowledged while it is behind"
    return UsageError(
        f"{variant}: {reason}", code="impossible-variant", hint=f"possible here: {names}"
    )


def _variant(way: str, rescue: Rescue) -> str:
    return f"{way}/{rescue.name}".removeprefix("/")


def _cuts(drill: Drill) -> Iterator[Cut]:
    """As many losses as cuts were asked for, the ways in turn; a cut for each rescue."""
    chosen = ways(drill.session.spec, drill.options.variant)
    receivers = drill.receivers
    if "behind" in chosen:
        receivers.arrange(receivers.spec, relayed=True)
    numbers = count(1)
    for (_, rng, seed), way in zip(drill.plan(), cycle(chosen), strict=False):
        lost = _lose(drill, way, rng)
        for rescue in chosen[way]:
            yield _rescue(drill, lost, rescue, _variant(way, rescue), next(numbers), seed)


def _lose(drill: Drill, way: str, rng: random.Random) -> _Lost:
    """One load that ends with the loss of the WAL's disk."""
    drill.begin_load()
    drill.let_run(rng)
    with closing(drill.session.connect()) as checkpointing:
        acks = _make_way(drill, way, checkpointing)
        facts = _before(drill)
        return _strike(drill, way, acks, facts)


def _strike(drill: Drill, way: str, acks: AckLedger | None, facts: dict[str, Any]) -> _Lost:
    """The fault itself, and what shows that it happened."""
    loss = DiskFailed(drill) if way == IO_ERROR else DiskEmptied(drill, in_order=way == "stopped")
    drill.begin_outage()
    loss.strike()
    acks = drill.end_load() if acks is None else acks
    loss.look()
    drill.cluster.stop()
    _stop_receivers(drill.receivers)
    proof = loss.clear()
    drill.put_back_before_next()
    receivers = drill.receivers
    standby = next(iter(receivers.standbys), None)
    wreck = Wreck(drill.cluster, standby, receivers.wal_receiver, loss.held)
    return _Lost(wreck, proof, acks, loss.cut_ns, facts)


def _make_way(drill: Drill, way: str, checkpointing: psycopg.Connection) -> AckLedger | None:
    """What goes before the fault; the clients' record, if the load has ended by then."""
    if way in ("quiet", "stopped"):
        acks = drill.end_load(DRAIN_MS)
        checkpointing.execute("checkpoint")
        drill.receivers.wait_caught_up()
        return acks
    for standby in drill.receivers.standbys if way == "behind" else []:
        assert standby.relay is not None
        standby.relay.hold()
    _begin_checkpoint(checkpointing)
    drill.session.wait(LAST_S)
    return None


def _begin_checkpoint(connection: psycopg.Connection) -> None:
    """Begin a checkpoint that takes its time, and do not wait for it.

    A busy server nearly always has one under way (checkpoint_completion_target), and so writes
    pages whose WAL is young; a load of a second or two would meet none. Starting a backup is how a
    client can ask for one.
    """
    asked = b"select pg_backup_start('drill', false)"
    if connection.info.server_version < 150000:
        asked = b"select pg_start_backup('drill', false, false)"
    connection.pgconn.send_query(asked)


def _rescue(drill: Drill, lost: _Lost, rescue: Rescue, variant: str, number: int, seed: int) -> Cut:
    """One rescue from what was lost, verified."""
    drill.session.watcher.phase(f"{variant}: {rescue.summary}")
    with ExitStack() as until:
        rescued = rescue.carry_out(lost.wreck, until)
        crashed = Crashed(
            rescued.cluster,
            lost.acks,
            lost.cut_ns,
            drill.witnesses,
            foreign_wal=rescued.foreign_wal,
        )
        verified = verify(crashed)
        if rescued.promoted_s is not None:
            # It was up when it was promoted; that it is started once more is for looking at it.
            verified = replace(verified, recovery_s=rescued.promoted_s)
        redo = _said_of_redo(rescued.cluster)
    facts = {
        **lost.facts,
        **rescued.facts,
        "rescue": rescue.summary,
        "redo": redo,
        "promised": rescue.promised,
    }
    if rescue.needs == "disk":
        facts["bound_ms"] = _bound_of_a_crash_ms(drill)
    return drill.cut(number, seed, lost.cut_ns, lost.proof, verified, variant=variant, facts=facts)


def _bound_of_a_crash_ms(drill: Drill) -> float | None:
    """With its own WAL again a server recovers as from any crash: what it acknowledged was flushed,
    or it should have gone down sooner."""
    return of_a_crash(drill.circumstances).ms


def _said_of_redo(cluster: Cluster) -> list[str]:
    """What a server said of redo in all its starts."""
    lines = log_text(cluster.log_path).splitlines()
    return [line.partition(":  ")[2] for line in lines if "LOG:  redo " in line]


def _before(drill: Drill) -> dict[str, Any]:
    """How things stood just before the fault."""
    with drill.session.connect() as connection:
        row = connection.execute(
            "select pg_current_wal_lsn() - redo_lsn from pg_control_checkpoint()"
        ).fetchone()
    lags = {receiver.name: receiver.lag() for receiver in drill.receivers.all()}
    return {
        "wal_since_checkpoint_bytes": int(row[0]) if row else None,
        "behind_bytes": {name: lag.flush_bytes for name, lag in lags.items() if lag is not None},
    }


def _stop_receivers(receivers: Receivers) -> None:
    """End what received, now that there is nothing more to receive; what is held up is lost."""
    for standby in receivers.standbys:
        standby.stop()
        if standby.relay is not None:
            standby.relay.release()
    if receivers.wal_receiver is not None:
        receivers.wal_receiver.stop()


def _adapt(spec: Spec, options: DrillOptions) -> Spec:
    """With a disk for the WAL by itself, one that can fail if it has to."""
    if spec.disk.wal != "data":
        return spec
    wal = FAILING_DISK if IO_ERROR in ways(spec, options.variant) else WAL_DISK
    return spec.model_copy(update={"disk": spec.disk.model_copy(update={"wal": wal})})


def _check(spec: Spec, options: DrillOptions) -> None:
    """Refuse a variant that there is nothing for, and a disk that cannot be made to fail."""
    plan = spec.disk.wal_plan
    if IO_ERROR in ways(spec, options.variant) and plan is not None and not plan.emulated:
        raise UsageError(
            f"disk.wal is {plan}: only a disk of pgdyno's own can be made to fail",
            code="bad-disk",
            hint="leave it out, or choose blackout or a slow disk",
        )


FAULT = Fault(
    name="wal-device",
    summary="the WAL's disk is lost",
    adapt=_adapt,
    check=_check,
    cuts=_cuts,
    variants=(
        *WAYS[1:],
        *(
            _variant(way, rescue)
            for way in WAYS
            for rescue in RESCUES.values()
            if _makes_sense(way, rescue)
        ),
    ),
    bound=of_a_lost_wal,
    seconds_min=20.0,
    cuts_usual=2,
)

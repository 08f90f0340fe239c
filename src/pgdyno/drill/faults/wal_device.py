"""``wal-device``: the disk of the WAL is lost, like a RAM disk with its machine.

The load runs, a checkpoint is under way, the server's processes are killed, and the WAL's disk is
emptied. From the same remains each rescue makes a database, which is verified as a cut of its own.
There are five scenarios:

``""``        killed under load, with the standbys in their normal state
``behind``    the same, with the connection of the standbys held up for the last second; only if
              commits do not wait for them, because otherwise there would be no commits
``io-error``  the disk fails under the server: from one moment on it answers everything with EIO,
              and PostgreSQL goes down by itself
``quiet``     killed after the load had ended, all standbys had caught up and a checkpoint was made
``stopped``   the server shut down, and the standbys after it

A variant is a scenario and a rescue, such as ``behind/copy-back``, or a scenario with all its
rescues.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from itertools import count, cycle
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.drill._bounds import of_a_crash, of_a_lost_wal
from pgdyno.drill._checking import Crashed
from pgdyno.drill._drill import LoadedServer
from pgdyno.drill._rescues import RESCUES, Remains, Rescue
from pgdyno.drill._verify import verify
from pgdyno.drill._wal_loss import DiskEmptied, DiskFailed
from pgdyno.drill.fault import Fault
from pgdyno.drill.model import DrillOptions
from pgdyno.errors import UsageError
from pgdyno.record import AckLedger
from pgdyno.record.cut import Cut, Facts, Proof
from pgdyno.server import Cluster
from pgdyno.server.local.guarded import log_text
from pgdyno.server.replication.receivers import Receivers
from pgdyno.spec import Spec

if TYPE_CHECKING:
    import psycopg

WAL_DISK = "tmpfs:2GB"
"""Disk of the WAL if the spec names none."""
CHECKPOINT_LEAD_S = 1.0
"""Time from the start of a checkpoint, and of holding up standbys, to a fault under load."""
DRAIN_MS = 10_000
"""Time limit for transactions to end before a fault without load."""
IO_ERROR = "io-error"
SCENARIOS = ("", "behind", IO_ERROR, "quiet", "stopped")
FAILING_DISK = "blackout:size=1GB"
"""Disk of the WAL if the spec names none and the disk must fail while it is used."""


class _LostWal(Struct, frozen=True):
    """A loss of the WAL's disk."""

    remains: Remains
    proof: Proof
    acks: AckLedger
    cut_ns: int
    facts: Facts


def scenarios(spec: Spec, variant: str | None) -> dict[str, list[Rescue]]:
    """Return the scenarios with the rescues to try in each, by default those under load.

    Raises UsageError for a variant that is impossible with ``spec``.
    """
    possible = {scenario: _rescues(spec, scenario) for scenario in SCENARIOS}
    if variant is None:
        chosen = {scenario: possible[scenario] for scenario in ("", "behind")}
    elif variant in SCENARIOS:
        chosen = {variant: possible[variant]}
    else:
        scenario, _, name = variant.rpartition("/")
        chosen = {scenario: [rescue for rescue in possible[scenario] if rescue.name == name]}
    chosen = {scenario: rescues for scenario, rescues in chosen.items() if rescues}
    if not chosen:
        raise _impossible(spec, str(variant), possible)
    return chosen


def _rescues(spec: Spec, scenario: str) -> list[Rescue]:
    """Return the rescues whose requirements ``spec`` meets."""
    standby = spec.standby
    if scenario == "behind" and (standby.waits or not standby.count):
        return []
    available = {"standby": standby.count, "wal_receiver": standby.receivewal}
    return [
        rescue
        for rescue in RESCUES.values()
        if _makes_sense(scenario, rescue) and available.get(rescue.needs, True)
    ]


def _makes_sense(scenario: str, rescue: Rescue) -> bool:
    """True if the rescue shows something in this scenario that no other scenario shows."""
    if rescue.needs == "disk":
        return scenario == IO_ERROR
    return bool(rescue.needs) or scenario != "behind"


def _impossible(spec: Spec, variant: str, possible: Mapping[str, list[Rescue]]) -> UsageError:
    names = ", ".join(
        _variant(scenario, rescue) for scenario, found in possible.items() for rescue in found
    )
    reason = "nothing receives the WAL; that takes --standby on"
    if variant.startswith("behind") and spec.standby.waits:
        reason = "commits wait for the standby, so none is acknowledged while it is behind"
    return UsageError(
        f"{variant}: {reason}", code="impossible-variant", hint=f"possible variants: {names}"
    )


def _variant(scenario: str, rescue: Rescue) -> str:
    return f"{scenario}/{rescue.name}".removeprefix("/")


def _cuts(drill: LoadedServer) -> Iterator[Cut]:
    """Lose the disk as often as cuts are requested, in turn by scenario; a cut for each rescue."""
    chosen = scenarios(drill.session.spec, drill.options.variant)
    receivers = drill.receivers
    if "behind" in chosen:
        receivers.arrange(receivers.spec, relayed=True)
    numbers = count(1)
    for (_, rng, seed), scenario in zip(drill.plan(), cycle(chosen), strict=False):
        lost = _lose(drill, scenario, rng)
        for rescue in chosen[scenario]:
            yield _rescue(drill, lost, rescue, _variant(scenario, rescue), next(numbers), seed)


def _lose(drill: LoadedServer, scenario: str, rng: random.Random) -> _LostWal:
    """Run one load, and lose the WAL's disk."""
    drill.begin_load()
    drill.let_run(rng)
    with closing(drill.session.connect()) as checkpointing:
        acks = _prepare_scenario(drill, scenario, checkpointing)
        return _inject(drill, scenario, acks, _facts_before(drill))


def _inject(drill: LoadedServer, scenario: str, acks: AckLedger | None, facts: Facts) -> _LostWal:
    """Inject the fault and prove it."""
    loss = (
        DiskFailed(drill)
        if scenario == IO_ERROR
        else DiskEmptied(drill, shut_down=scenario == "stopped")
    )
    drill.begin_outage()
    loss.inject()
    acks = drill.end_load() if acks is None else acks
    loss.inspect()
    drill.cluster.stop()
    _stop_receivers(drill.receivers)
    proof = loss.replace_disk()
    drill.restore_before_next_load()
    receivers = drill.receivers
    standby = next(iter(receivers.standbys), None)
    remains = Remains(drill.cluster, standby, receivers.wal_receiver, loss.lost_wal)
    return _LostWal(remains, proof, acks, loss.cut_ns, facts)


def _prepare_scenario(
    drill: LoadedServer, scenario: str, checkpointing: psycopg.Connection
) -> AckLedger | None:
    """Prepare the scenario; return the ack ledger if the load ends before the fault."""
    if scenario in ("quiet", "stopped"):
        acks = drill.end_load(DRAIN_MS)
        checkpointing.execute("checkpoint")
        drill.receivers.wait_caught_up()
        return acks
    for standby in drill.receivers.standbys if scenario == "behind" else []:
        assert standby.relay is not None
        standby.relay.hold()
    _begin_checkpoint(checkpointing)
    drill.session.wait(CHECKPOINT_LEAD_S)
    return None


def _begin_checkpoint(connection: psycopg.Connection) -> None:
    """Begin a spread checkpoint without waiting for it.

    A busy server nearly always has one under way (checkpoint_completion_target), and so writes
    pages whose WAL is recent; a load of a second or two would meet none. A client can request one
    by starting a backup.
    """
    request = b"select pg_backup_start('drill', false)"
    if connection.info.server_version < 150000:
        request = b"select pg_start_backup('drill', false, false)"
    connection.pgconn.send_query(request)


def _rescue(
    drill: LoadedServer, lost: _LostWal, rescue: Rescue, variant: str, number: int, seed: int
) -> Cut:
    """Carry out and verify one rescue."""
    drill.session.watcher.phase(f"{variant}: {rescue.summary}")
    with ExitStack() as cleanup:
        rescued = rescue.carry_out(lost.remains, cleanup)
        crashed = Crashed(
            rescued.cluster,
            lost.acks,
            lost.cut_ns,
            drill.witnesses,
            foreign_wal=rescued.foreign_wal,
        )
        verified = verify(crashed)
        if rescued.promoted_s is not None:
            # The promotion made it available; verification only starts it once more.
            verified = replace(verified, recovery_s=rescued.promoted_s)
        redo = _redo_messages(rescued.cluster)
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


def _bound_of_a_crash_ms(drill: LoadedServer) -> float | None:
    """Return the bound for a server with its own WAL: as after any crash, because every commit that
    it acknowledged had been flushed."""
    return of_a_crash(drill.circumstances).ms


def _redo_messages(cluster: Cluster) -> list[str]:
    """Return the log messages about redo in all starts of the server."""
    lines = log_text(cluster.log_path).splitlines()
    return [line.partition(":  ")[2] for line in lines if "LOG:  redo " in line]


def _facts_before(drill: LoadedServer) -> Facts:
    """Return the state of WAL and standbys just before the fault."""
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
    """Stop standbys and WAL receivers; bytes that are held up are lost."""
    for standby in receivers.standbys:
        standby.stop()
        if standby.relay is not None:
            standby.relay.release()
    if receivers.wal_receiver is not None:
        receivers.wal_receiver.stop()


def _adapt(spec: Spec, options: DrillOptions) -> Spec:
    """Put the WAL on a disk of its own, which can fail if a scenario needs that."""
    if spec.disk.wal != "data":
        return spec
    wal = FAILING_DISK if IO_ERROR in scenarios(spec, options.variant) else WAL_DISK
    return spec.model_copy(update={"disk": spec.disk.model_copy(update={"wal": wal})})


def _check(spec: Spec, options: DrillOptions) -> None:
    """Raise UsageError for an impossible variant, and for a disk that pgdyno cannot make fail."""
    plan = spec.disk.wal_plan
    if IO_ERROR in scenarios(spec, options.variant) and plan is not None and not plan.emulated:
        raise UsageError(
            f"disk.wal is {plan}: pgdyno can only make disks fail that it created",
            code="bad-disk",
            hint="omit it, or use blackout or a slow disk",
        )


FAULT = Fault(
    name="wal-device",
    summary="the WAL's disk is lost",
    adapt=_adapt,
    check=_check,
    cuts=_cuts,
    variants=(
        *SCENARIOS[1:],
        *(
            _variant(scenario, rescue)
            for scenario in SCENARIOS
            for rescue in RESCUES.values()
            if _makes_sense(scenario, rescue)
        ),
    ),
    bound=of_a_lost_wal,
    seconds_min=20.0,
    cuts_usual=2,
)

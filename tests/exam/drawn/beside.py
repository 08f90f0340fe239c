"""What can run beside a load or in front of its server, by name, each with a strength.

Each is started with a world and an ``ExitStack`` that ends it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping, Set
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from exam.injectors import NotProducible, start_programs
from pgdyno.disk import OpenDisks
from pgdyno.errors import SetupError
from pgdyno.server.replication._relay import Relay
from pgdyno.spec.model import DiskSpec

if TYPE_CHECKING:
    from exam.drawn.world import World

Connection = psycopg.Connection[tuple[Any, ...]]
Start = Callable[["World", ExitStack, float], None]
_LOCK_EVERY_S = 0.2


def _programs(world: World, stack: ExitStack, strength: float) -> None:
    """As many programs as ``strength`` that compute."""
    if not world.programs:
        world.programs.update(start_programs(round(strength), world.stack))
    _signal(world.programs, signal.SIGCONT)
    stack.callback(_signal, world.programs, signal.SIGSTOP)


def _signal(programs: Set[int], number: signal.Signals) -> None:
    for pid in programs:
        os.kill(pid, number)


def _link(world: World, stack: ExitStack, strength: float) -> None:
    """A link to the server with a round trip of ``strength`` ms."""
    tcp = world.cluster.conninfo_tcp
    relay = Relay((tcp.host, tcp.port), delay_ms=strength / 2)
    stack.callback(relay.close)
    stack.callback(setattr, world, "relay", None)
    world.relay = relay


def _lock(world: World, stack: ExitStack, strength: float) -> None:
    """A session that locks the child table against writes for ``strength`` of the time."""
    _hold(world, stack, strength, f"lock table {world.load.names.child} in share mode")


def _rows(world: World, stack: ExitStack, strength: float) -> None:
    """A session that locks all rows of the parent table for ``strength`` of the time."""
    _hold(
        world,
        stack,
        strength,
        f"select count(*) from (select 1 from {world.load.names.parent} for update) as x",
    )


def _hold(world: World, stack: ExitStack, strength: float, sql: str) -> None:
    """A session that holds what a statement locks, and does nothing, for a part of the time."""

    def hold(connection: Connection, ended: threading.Event) -> None:
        with connection.transaction():
            connection.execute(sql.encode())
            ended.wait(_LOCK_EVERY_S * strength)

    _repeat(world, stack, _LOCK_EVERY_S * (1 - strength), hold)


def _sessions(world: World, stack: ExitStack, strength: float) -> None:
    """As many sessions of another application as ``strength`` that compute."""
    work = "select count(*) from generate_series(1, 100000) as g where g % 7 = 0"
    for _ in range(round(strength)):
        _execute(world, stack, 0.0, work)


def _checkpoints(world: World, stack: ExitStack, strength: float) -> None:
    """A checkpoint every ``strength`` seconds."""
    _execute(world, stack, strength, "checkpoint")


def _vacuums(world: World, stack: ExitStack, strength: float) -> None:
    """A vacuum that reads the child table, ``strength`` seconds after the last one."""
    sql = f"vacuum (disable_page_skipping, analyze) {world.load.names.child}"
    _execute(world, stack, strength, sql)


def _execute(world: World, stack: ExitStack, pause_s: float, sql: str) -> None:
    def execute(connection: Connection, ended: threading.Event) -> None:
        connection.execute(sql.encode())

    _repeat(world, stack, pause_s, execute)


def _repeat(
    world: World,
    stack: ExitStack,
    pause_s: float,
    work: Callable[[Connection, threading.Event], None],
) -> None:
    """Do something over and over in a session of its own, with pauses, until ``stack`` ends it."""
    ended = threading.Event()

    def repeat() -> None:
        with world.connect("other") as connection:
            while not ended.wait(pause_s):
                work(connection, ended)

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    stack.callback(thread.join)
    stack.callback(ended.set)


def _wal_disk(world: World, stack: ExitStack, strength: float) -> None:
    """The WAL on a disk whose flush takes ``strength`` ms."""
    try:
        if world.disks is None:
            world.disks = OpenDisks(DiskSpec(), world.cluster.directory)
            world.stack.callback(world.disks.close)
        disk = world.disks.wal_directory(f"slow:flush={strength:g}ms")
    except SetupError as missing:
        raise NotProducible(missing.message) from None
    stack.callback(_move_wal, world, None)
    _move_wal(world, disk)


def _move_wal(world: World, to: Path | None) -> None:
    world.cluster.stop()
    world.cluster.move_wal(to)
    world.cluster.start()


KINDS: Mapping[str, Start] = {
    "sessions": _sessions,
    "checkpoints": _checkpoints,
    "vacuums": _vacuums,
    "programs": _programs,
    "link": _link,
    "lock": _lock,
    "rows": _rows,
    "wal-disk": _wal_disk,
}

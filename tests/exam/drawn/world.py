"""A server with the tables of a draw, on which causes are planted and undone, and loads measured.

The load is pgbench's: what pgdyno says is judged by figures that another program measured.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from msgspec import Struct
from psycopg import sql

from exam.drawn.beside import KINDS
from exam.drawn.model import Fault, Load, Scope, ServerFacts, Setting
from exam.drawn.schema import setup_of
from exam.injectors import NotProducible
from pgdyno.disk import OpenDisks
from pgdyno.server import Cluster, ConnInfo
from pgdyno.server.replication._relay import Relay
from pgdyno.server.settings.reloading import reload

SLICE_S = 1
LOADED_SHARE = 0.75
"""Least part of a slice in which the load must run."""
SETTLED = 60
"""Executions of each client, of which the first six of a prepared statement plan it."""
SETTLED_S_MAX = 6
"""Longest slice for them."""
_SLICE_S_MAX = 60
_SETTINGS = """
select name, category, context, vartype, boot_val, min_val::float8, max_val::float8,
       coalesce(enumvals, '{}')
  from pg_settings where boot_val is not null
"""
_TPS = re.compile(r"^tps = ([\d.]+)", re.MULTILINE)
_LATENCY = re.compile(r"^latency average = ([\d.]+) ms", re.MULTILINE)
_CONNECTING = re.compile(r"^initial connection time = ([\d.]+) ms", re.MULTILINE)
_FAILED = re.compile(r"^number of failed transactions: ([1-9]\d*)", re.MULTILINE)


class Slice(Struct, frozen=True):
    """What pgbench measured for a moment."""

    tps: float
    latency_ms: float


class Shape(Struct, frozen=True):
    """A load as its clients see it, with what causes change."""

    scripts: tuple[tuple[str, int], ...]
    """Text and weight."""
    clients: int
    pool: int | None
    protocol: str
    reconnects: bool


def shape_of(load: Load, faults: Sequence[Fault]) -> Shape:
    """Return the load while ``faults`` are planted."""
    swaps = [swap for fault in faults for swap in fault.swaps.items()]
    texts = []
    for script in load.scripts:
        text = script.text
        for old, new in swaps:
            text = text.replace(old, new)
        texts.append((text, script.weight))

    def last(name: str, default: Any) -> Any:
        given = [value for each in faults if (value := getattr(each, name)) is not None]
        return given[-1] if given else default

    return Shape(
        scripts=tuple(texts),
        clients=last("clients", load.clients),
        pool=last("pool", None),
        protocol=last("protocol", load.protocol),
        reconnects=any(each.reconnects for each in faults),
    )


@dataclass
class World:
    """A running server, and the faults that are planted on it."""

    cluster: Cluster
    load: Load
    folder: Path
    """For scripts."""
    planted: list[Fault] = field(default_factory=list)
    programs: set[int] = field(default_factory=set)
    """Processes beside the server that are no neighbours but a cause; stopped while it is undone,
    so that their CPU time stays known."""
    stack: ExitStack = field(default_factory=ExitStack)
    """Ends them."""
    relay: Relay | None = None
    """What the clients connect through."""
    disks: OpenDisks | None = None
    _settings: dict[tuple[Scope, str], str] = field(default_factory=dict)
    _beside: dict[int, ExitStack] = field(default_factory=dict)
    _seed: int = 0
    _seconds: dict[tuple[int, int | None, bool, str], int] = field(default_factory=dict)
    """Clients, pool, whether a link is between, and protocol → length of slices, where it is not
    usual."""

    def connect(self, name: str = "exam") -> psycopg.Connection[tuple[Any, ...]]:
        """Open a connection of the harness's own."""
        values = self.cluster.conninfo.kwargs() | {"application_name": name}
        return psycopg.connect(**values, autocommit=True)

    def execute(self, statements: Sequence[str]) -> None:
        """Execute statements, each on its own."""
        if statements:
            with self.connect() as connection:
                for each in statements:
                    connection.execute(each.encode())

    def set_up(self) -> None:
        """Make the tables."""
        self.execute([*setup_of(self.load.names, self.load.parts)])

    @property
    def shape(self) -> Shape:
        """The load as it is with what is planted now."""
        return shape_of(self.load, self.planted)

    @property
    def entrance(self) -> ConnInfo:
        """Where the clients connect to."""
        if self.relay is None:
            return self.cluster.conninfo
        tcp = self.cluster.conninfo_tcp
        return ConnInfo(tcp.host, self.relay.port, tcp.user, tcp.password, tcp.database)

    def switch(self, faults: Sequence[Fault]) -> None:
        """Undo what is planted and is not among ``faults``, and plant what is missing.

        Raises NotProducible if a setting is not in force afterwards.
        """
        for fault in reversed([each for each in self.planted if each not in faults]):
            self.planted.remove(fault)
            if (stack := self._beside.pop(id(fault), None)) is not None:
                stack.close()
            self.execute(fault.undo)
        added = [each for each in faults if each not in self.planted]
        for fault in added:
            self.planted.append(fault)
            self.execute(fault.plant)
        self._configure()
        for fault in added:
            if fault.beside:
                stack = self._beside[id(fault)] = ExitStack()
                for name, strength in fault.beside.items():
                    KINDS[name](self, stack, strength)

    def close(self) -> None:
        """End what runs beside the server."""
        for stack in self._beside.values():
            stack.close()
        self._beside.clear()
        self.stack.close()

    def _configure(self) -> None:
        wanted = {
            (fault.scope, name): value
            for fault in self.planted
            for name, value in fault.settings.items()
        }
        changed = {
            key for key in {*wanted, *self._settings} if wanted.get(key) != self._settings.get(key)
        }
        if not changed:
            return
        with self.connect() as connection:
            for scope, name in sorted(changed):
                connection.execute(_set(scope, name, wanted.get((scope, name))))
            restart = any(_needs_restart(connection, name) for _, name in changed)
            if not restart and any(scope == "system" for scope, _ in changed):
                reload(connection)
        if restart:
            self.cluster.restart()
        self._settings = wanted
        self._check(wanted)

    def _check(self, wanted: dict[tuple[Scope, str], str]) -> None:
        """Raise NotProducible if a setting is its default although it was planted."""
        with self.connect() as connection:
            for _, name in wanted:
                row = connection.execute(
                    "select source from pg_settings where name = %s", (name,)
                ).fetchone()
                if row is None or row[0] in ("default", "override"):
                    raise NotProducible(f"{name} does not take effect")

    def measured(self, *, rate_tps: float | None = None, settles: bool = False) -> Slice:
        """Measure a slice; one that ``settles`` has ``SETTLED`` executions where statements are
        prepared. Raises NotProducible if a client fails."""
        shape = self.shape
        as_planted = (shape.clients, shape.pool, self.relay is not None, shape.protocol)
        seconds = self._seconds.get(as_planted, SLICE_S)
        taken, connecting_s = self._measured(rate_tps, seconds)
        loaded_s = SLICE_S
        if settles and shape.protocol == "prepared" and not shape.reconnects:
            wanted = SETTLED * shape.clients * len(shape.scripts)
            loaded_s = max(loaded_s, min(SETTLED_S_MAX, math.ceil(wanted / max(taken.tps, 1.0))))
        if seconds - connecting_s < LOADED_SHARE * loaded_s:
            # The time of a slice begins before its clients are connected.
            seconds = self._seconds[as_planted] = loaded_s + math.ceil(connecting_s)
            taken, _ = self._measured(rate_tps, seconds)
        return taken

    def _measured(self, rate_tps: float | None, seconds: int) -> tuple[Slice, float]:
        """Return a slice, and the seconds that its clients took to connect."""
        self._seed += 1
        done = subprocess.run(
            [*self._pgbench(rate_tps, seconds)],
            env=os.environ | {"PGPASSWORD": self.entrance.password or ""},
            capture_output=True,
            text=True,
            timeout=_SLICE_S_MAX,
        )
        tps, latency = _TPS.search(done.stdout), _LATENCY.search(done.stdout)
        connecting = _CONNECTING.search(done.stdout)
        if done.returncode or tps is None or latency is None or _FAILED.search(done.stdout):
            said = [line for line in done.stderr.splitlines() if "error" in line.lower()]
            raise NotProducible(f"pgbench: {' '.join(said[:1]) or done.stdout[-200:]}")
        connecting_s = float(connecting[1]) / 1000 if connecting else 0.0
        return Slice(float(tps[1]), float(latency[1])), connecting_s

    def _pgbench(self, rate_tps: float | None, seconds: int) -> Iterator[str]:
        shape, entrance = self.shape, self.entrance
        count = min(shape.clients, shape.pool or shape.clients)
        yield str(self.cluster.installation.binary("pgbench"))
        yield from ("-n", "-T", str(seconds), "-c", str(count), "-M", shape.protocol)
        yield from ("-h", entrance.host, "-p", str(entrance.port), "-U", entrance.user)
        yield f"--random-seed={self._seed}"
        if shape.reconnects:
            yield "-C"
        if shape.reconnects or self.relay is not None:
            # A thread of pgbench waits for each connection, and each statement to be prepared.
            yield from ("-j", str(count))
        if rate_tps is not None:
            yield f"--rate={rate_tps:g}"
        for path, weight in self.scripts():
            yield from ("-f", f"{path}@{weight}")
        yield entrance.database

    def scripts(self) -> Iterator[tuple[Path, int]]:
        """Write the scripts as they are now; yield their paths and weights."""
        for number, (text, weight) in enumerate(self.shape.scripts):
            path = self.folder / f"script{number}.sql"
            path.write_text(text + "\n")
            yield path, weight


def facts_of(cluster: Cluster, version: int) -> ServerFacts:
    """Return what a draw depends on, from a running server."""
    with psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True) as connection:
        rows = connection.execute(_SETTINGS).fetchall()
        (jit,) = connection.execute("select pg_jit_available()").fetchall()[0]
    settings = {row[0]: Setting(*row[:-1], values=tuple(row[-1])) for row in rows}
    return ServerFacts(version, settings, jit)


def _set(scope: Scope, name: str, value: str | None) -> sql.Composed:
    """Return the statement that sets a setting, or resets it."""
    where = {"system": "system", "database": "database pgdyno", "role": "role pgdyno"}[scope]
    if value is None:
        return sql.SQL(f"alter {where} reset {{}}").format(sql.Identifier(name))
    return sql.SQL(f"alter {where} set {{}} = {{}}").format(
        sql.Identifier(name), sql.Literal(value)
    )


def _needs_restart(connection: psycopg.Connection[tuple[Any, ...]], name: str) -> bool:
    rows = connection.execute("select context from pg_settings where name = %s", (name,)).fetchall()
    return bool(rows) and rows[0][0] == "postmaster"

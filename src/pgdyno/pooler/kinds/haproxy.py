"""HAProxy, which passes on what clients and server send to each other (mode tcp).

It keeps no pool: each client has its own connection to the server. With ``default-server = "maxconn
10"`` it lets that many at the server at the same time, and the others wait in its queue. It listens
on a Unix socket in a directory that only its account and root can enter.

Settings are lines of its section ``defaults``, such as ``"timeout client" = "1h"`` and ``balance =
"leastconn"``; those of ``_GLOBAL`` are in its section ``global``.
"""

from __future__ import annotations

import csv
import re
import signal
import socket
from collections.abc import Iterator

from pgdyno.json_types import Row
from pgdyno.pooler._kind import Complaint, Kind, PoolerPlace, Version, clients_of
from pgdyno.server import ConnInfo
from pgdyno.server.local.safefiles import read_text
from pgdyno.spec import Spec
from pgdyno.spec.pooler import HAPROXY_TIMEOUTS, haproxy_seconds

_GLOBAL = ("nbthread", "cpu-map", "busy-polling", "noepoll", "nosplice")
_GLOBAL_TABLES = ("tune.",)
_CONFIGURATION = "haproxy.cfg"
_CLIENTS_MIN = 1000
_SPARE_CLIENTS = 10
_STATS_S_MAX = 3.0
_IDLE = "24d"
"""The longest time that HAProxy can express, so that no idle connection is closed."""
_LINE = re.compile(r"\[ALERT\].*?parsing \[[^\]]*:(\d+)\] ?: (.+)")
_ALERT = re.compile(r"\[ALERT\].*? : (.+)")
_SERVER_MAX = re.compile(r"\bmaxconn\s+(\d+)")
_SHORT_S = 60.0
"""Limits below it end statements and pauses that applications have."""


class HaProxy(Kind):
    """HAProxy in front of one server."""

    name = "haproxy"
    title = "HAProxy"
    program = "haproxy"
    packages = ("haproxy", "haproxy")
    names = re.compile(r"[a-z][a-z0-9_. -]*")
    owned = frozenset(
        (
            *("mode", "bind", "user", "group", "chroot", "daemon", "pidfile", "stats socket"),
            *("log", "server", "listen", "frontend", "backend", "default_backend", "global"),
            *("defaults", "uid", "gid", "presetenv", "setenv"),
        )
    )
    port = 6434
    version_option = "-v"
    guard_signal = signal.SIGTERM

    def configure(self, place: PoolerPlace) -> list[str]:
        """Write haproxy.cfg."""
        directory, upstream = place.directory, place.upstream
        clients = max(place.clients, _CLIENTS_MIN) + _SPARE_CLIENTS
        of_all = {n: v for n, v in place.settings.items() if _is_global(n)}
        defaults = {
            "maxconn": str(clients),
            "timeout connect": "5s",
            "timeout client": _IDLE,
            "timeout server": _IDLE,
            "timeout queue": _IDLE,
            **{n: v for n, v in place.settings.items() if n not in of_all},
        }
        lines = ["global", f"  stats socket {directory}/stats mode 600", f"  maxconn {clients}"]
        lines += [f"  {name} {value}" for name, value in of_all.items()]
        lines += ["defaults", "  mode tcp", *(f"  {n} {v}" for n, v in defaults.items())]
        lines += ["frontend clients", f"  bind unix@{_socket(str(directory), self.port)} mode 600"]
        lines += ["  default_backend servers", "backend servers"]
        lines += [f"  server postgresql {_address(upstream)}"]
        return ["-db", "-f", str(place.write(_CONFIGURATION, lines))]

    def server_connections(self, spec: Spec) -> int:
        """Return one for each client, or the limit of ``default-server``."""
        found = _SERVER_MAX.search(spec.pooler.settings.get("default-server", ""))
        clients = clients_of(spec)
        return min(clients, int(found[1])) if found else clients

    def refused(self, log: str, place: PoolerPlace) -> Complaint | None:
        """Return the first alert of the log, with the setting on its line of the configuration."""
        if alert := _LINE.search(log):
            return _setting_on_line(int(alert[1]), place), alert[2]
        failed = _ALERT.search(log)
        return None if failed is None else (None, failed[1])

    def queues(self, place: PoolerPlace, entrance: ConnInfo) -> list[Row]:
        """Return ``show stat`` of its server and of its queue."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_STATS_S_MAX)
            connection.connect(str(place.directory / "stats"))
            connection.sendall(b"show stat\n")
            with connection.makefile(newline="") as answer:
                rows = list(csv.DictReader(line.removeprefix("# ") for line in answer if line))
        found = {(row["pxname"], row["svname"]): row for row in rows}
        clients, queue = found["clients", "FRONTEND"], found["servers", "BACKEND"]
        server = found["servers", "postgresql"]
        return [
            {
                "pool": "servers",
                "clients": int(clients["scur"]),
                "clients_waiting": int(queue["qcur"]) + int(server["qcur"]),
                "servers_active": int(server["scur"]),
            }
        ]

    def warnings(self, spec: Spec, version: Version) -> Iterator[str]:
        """Yield warnings that follow from the sizes and the limits of time."""
        for name in HAPROXY_TIMEOUTS:
            value = spec.pooler.settings.get(name, "")
            if (limit_s := haproxy_seconds(value)) is not None and limit_s < _SHORT_S:
                yield (
                    f"{name} = {value}: HAProxy closes a connection on which that long nothing is"
                    " sent, also while a statement runs or a client pauses"
                )
        clients, served = clients_of(spec), self.server_connections(spec)
        if served < clients:
            yield (
                f"default-server maxconn: {served} of the {clients:,} clients are served, and each"
                " keeps its connection; the others wait in HAProxy's queue"
            )


def _is_global(name: str) -> bool:
    return name in _GLOBAL or name.startswith(_GLOBAL_TABLES)


def _setting_on_line(number: int, place: PoolerPlace) -> str | None:
    lines = (read_text(place.directory / _CONFIGURATION) or "").splitlines()
    text = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    named = [name for name in place.settings if text.startswith(f"{name} ")]
    return max(named, key=len, default=None)


def _socket(directory: str, port: int) -> str:
    return f"{directory}/.s.PGSQL.{port}"


def _address(upstream: ConnInfo) -> str:
    if upstream.is_socket:
        return f"unix@{_socket(upstream.host, upstream.port)}"
    host = upstream.hostaddr or upstream.host
    return f"[{host}]:{upstream.port}" if ":" in host else f"{host}:{upstream.port}"


KIND = HaProxy()

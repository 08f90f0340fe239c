"""pgpool-II with one server, as its documentation (connection-pooling.sgml) describes it.

It listens on a Unix socket in a directory that only its account and root can enter. Each client
uses one of ``num_init_children`` processes until it disconnects; by default there are as many as
the clients need. A client beyond them waits in the listen queue, which no view of the server or of
pgpool-II shows.

It ignores what it does not know in its file, and takes an unknown word for a Boolean as off, so the
settings in force are compared with those that were given.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import signal
from collections.abc import Iterator, Mapping

from pgdyno.errors import SetupError
from pgdyno.json_types import Row
from pgdyno.pooler._kind import (
    Complaint,
    Ineffective,
    Kind,
    PoolerPlace,
    Version,
    clients_of,
    number_in,
)
from pgdyno.server import ConnInfo, connect_plain
from pgdyno.server.local.account import run_as, server_account
from pgdyno.server.local.cluster import quoted
from pgdyno.server.local.leftovers import remove_segments_of
from pgdyno.spec import Spec
from pgdyno.spec.units import parse_duration_ms

_CHILDREN = 32
_OWN_CLIENTS = 3
"""Connections in addition to the clients', such as the first one."""
_PCP_PORT = 9898
_PCP_USER = "pgdyno"
_PCP_PASSWORD = "pcppass"
_PCP_S_MAX = 5.0
_ANSWER_S_MAX = 5.0
_INVALID = re.compile(r"FATAL: +invalid value for parameter \"(\w+)\": \"(.*)\"")
_OUTSIDE = re.compile(r"FATAL: +(.*outside the valid range) for parameter \"(\w+)\" (.*)")
_FAILED = re.compile(r"FATAL: +(.+)")
_BOOLEAN = frozenset(("on", "off", "true", "false", "yes", "no", "1", "0"))
_VERIFIED = ("require", "verify-ca", "verify-full")
# Versions since which connection_life_time works with serialize_accept.
_LIFE_TIME_FIXED = ((3, 5, 27), (3, 6, 23), (3, 7, 16), (4, 0, 11), (4, 1, 4), (4, 2, 0))


class Pgpool(Kind):
    """pgpool-II in raw mode, in front of one server."""

    name = "pgpool"
    title = "pgpool-II"
    program = "pgpool"
    packages = ("pgpool2", "pgpool-II")
    owned = frozenset(
        (
            *("listen_addresses", "port", "socket_dir", "unix_socket_directories"),
            *("pcp_listen_addresses", "pcp_port", "pcp_socket_dir", "backend_clustering_mode"),
            *("backend_hostname0", "backend_port0", "backend_data_directory0", "pid_file_name"),
            *("logdir", "work_dir", "pool_passwd", "enable_pool_hba", "unix_socket_permissions"),
            *("logging_collector", "log_destination", "ssl", "use_watchdog"),
        )
    )
    port = 9999

    def stop_signal(self, version: Version) -> signal.Signals:
        """Return the signal of a fast shutdown, in which sessions are cut off."""
        return signal.SIGINT

    def configure(self, place: PoolerPlace) -> list[str]:
        """Write pgpool.conf and the file of passwords."""
        upstream, directory = place.upstream, str(place.directory)
        children = max(_CHILDREN, place.clients + _OWN_CLIENTS)
        settings = {
            "num_init_children": str(children),
            "sr_check_period": "0",
            "failover_on_backend_error": "off",
            **place.settings,
            "backend_clustering_mode": "raw",
            "listen_addresses": "",
            "port": str(self.port),
            "socket_dir": directory,
            "pcp_listen_addresses": "",
            "pcp_port": str(_PCP_PORT),
            "pcp_socket_dir": directory,
            "backend_hostname0": upstream.hostaddr or upstream.host,
            "backend_port0": str(upstream.port),
            "pid_file_name": f"{directory}/pgpool.pid",
            "logdir": directory,
            "work_dir": directory,
            "enable_pool_hba": "off",
            "pool_passwd": "pool_passwd",
        }
        if place.version >= (4, 4):
            settings["unix_socket_directories"] = settings.pop("socket_dir")
        lines = [f"{name} = {quoted(value)}" for name, value in settings.items()]
        password = upstream.password
        place.write("pool_passwd", [f"{upstream.user}:TEXT{password}"] if password else [])
        files = {"-f": place.write("pgpool.conf", lines)}
        secret = secrets.token_urlsafe(18)
        place.write(_PCP_PASSWORD, [f"*:*:{_PCP_USER}:{secret}"])
        known = hashlib.md5(secret.encode(), usedforsecurity=False).hexdigest()
        files |= {"-F": place.write("pcp.conf", [f"{_PCP_USER}:{known}"])}
        files |= {"-a": place.write("pool_hba.conf", [])}
        return ["-n", "-D", *(str(word) for pair in files.items() for word in pair)]

    def check(self, spec: Spec, version: Version) -> None:
        """Raise SetupError for a server that accepts encrypted connections only."""
        conninfo = spec.server.conninfo or ""
        if any(f"sslmode={mode}" in conninfo for mode in _VERIFIED):
            raise SetupError(
                "pgpool-II: pgdyno does not give it a certificate, without which it does not"
                " connect to a server by TLS",
                code="pooler-tls",
                hint="start pgpool-II yourself and name it with -h and -p",
            )

    def server_connections(self, spec: Spec) -> int:
        """Return the number of its processes: each keeps one for a user and a database."""
        default = max(_CHILDREN, clients_of(spec) + _OWN_CLIENTS)
        return number_in(spec.pooler.settings, "num_init_children", default)

    def refused(self, log: str, place: PoolerPlace) -> Complaint | None:
        """Return the first complaint of the log."""
        if invalid := _INVALID.search(log):
            return invalid[1], f'"{invalid[2]}" is not valid'
        if outside := _OUTSIDE.search(log):
            return outside[2], f"{outside[1]} {outside[3]}"
        failed = _FAILED.search(log)
        return None if failed is None else (None, failed[1])

    def ignored(self, place: PoolerPlace, entrance: ConnInfo) -> Complaint | None:
        """Return a setting that it does not know, or a word for a Boolean that is none."""
        with connect_plain(entrance, patience_s=_ANSWER_S_MAX) as connection:
            shown = {row[0]: row[1] for row in connection.execute("pgpool show all")}
        for name, value in place.settings.items():
            if name not in shown:
                return name, "there is no such setting"
            if shown[name] in ("on", "off") and value.lower() not in _BOOLEAN:
                return name, f'"{value}" is not valid; it would be taken as {shown[name]}'
        return None

    def queues(self, place: PoolerPlace, entrance: ConnInfo) -> list[Row]:
        """Return a row for each of its processes, from pcp_proc_info, which needs none of them."""
        asked = ["-a", "-v", "-w", "-h", str(place.directory), "-p", str(_PCP_PORT)]
        command = ["env", f"PCPPASSFILE={place.directory / _PCP_PASSWORD}", "pcp_proc_info"]
        answer = run_as(
            server_account(), [*command, *asked, "-U", _PCP_USER], seconds_max=_PCP_S_MAX
        )
        slots = [_named(text) for text in answer.stdout.split("\n\n") if ":" in text]
        if not slots:
            raise OSError(answer.stderr.strip() or "pcp_proc_info answered nothing")
        busy = {slot["PID"] for slot in slots if slot.get("Connected") == "1"}
        servers = [slot for slot in slots if slot.get("Backend PID", "0") != "0"]
        active = sum(slot.get("Connected") == "1" for slot in servers)
        return [
            {
                "pool": "processes",
                "clients": len(busy),
                "servers_active": active,
                "servers_idle": len(servers) - active,
            }
        ]

    def clean_up(self, pid: int) -> None:
        """Remove the shared memory of a main process that was killed."""
        remove_segments_of(pid)

    def warnings(self, spec: Spec, version: Version) -> Iterator[str]:
        """Yield warnings that follow from the sizes."""
        settings, clients = spec.pooler.settings, clients_of(spec)
        children = self.server_connections(spec)
        if children < clients:
            yield (
                f"num_init_children = {children}: pgpool-II serves {children} of the {clients:,}"
                f" clients; {_what_happens_to_others(settings)}"
            )

    def without_effect(
        self, settings: Mapping[str, str], version: Version, *, stay: bool
    ) -> Iterator[Ineffective]:
        """Yield settings without effect (its documentation on them, and commit f8b63be88)."""
        serialized = _is_on(settings, "serialize_accept", default=False)
        child_ms = _lasting_ms(settings, "child_life_time", "300")
        if serialized and child_ms:
            yield Ineffective(
                "serialize_accept",
                "serialize_accept = on has no effect unless child_life_time = 0 (it is"
                f" {settings.get('child_life_time', '300')})",
                "set child_life_time = 0",
            )
        life_ms = _lasting_ms(settings, "connection_life_time", "0")
        if not life_ms:
            return
        given = f"connection_life_time = {settings['connection_life_time']} has no effect"
        fixed = next((v for v in _LIFE_TIME_FIXED if v[:2] == version[:2]), (4, 2, 0))
        if serialized and not child_ms and version < fixed:
            yield Ineffective(
                "connection_life_time",
                f"{given} with serialize_accept in version {'.'.join(map(str, version))}; it has"
                f" since {'.'.join(map(str, fixed))}",
                "update pgpool-II, or set serialize_accept = off",
                limit_ms=life_ms,
            )
        elif not _is_on(settings, "connection_cache", default=True):
            yield Ineffective(
                "connection_life_time",
                f"{given} with connection_cache = off: no connection is kept",
                "connections end with their clients",
            )
        elif stay:
            yield Ineffective(
                "connection_life_time",
                f"{given} while clients stay connected: its time begins when they disconnect",
                "client_idle_limit disconnects clients that do nothing",
                limit_ms=life_ms,
            )


def _named(text: str) -> dict[str, str]:
    """Return the values of one block of pcp_proc_info by their names."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _what_happens_to_others(settings: Mapping[str, str]) -> str:
    if number_in(settings, "reserved_connections", 0):
        return "it refuses the others (reserved_connections)"
    return (
        "the others wait in the listen queue, where nothing shows them (reserved_connections = 0)"
    )


def _is_on(settings: Mapping[str, str], name: str, *, default: bool) -> bool:
    return settings.get(name, "on" if default else "off").lower() in ("on", "true", "yes", "1")


def _lasting_ms(settings: Mapping[str, str], name: str, default: str) -> float:
    """Return a time in ms, which is in seconds without a unit; 0 if it is none."""
    try:
        return float(parse_duration_ms(settings.get(name, default), bare_unit="s"))
    except ValueError:
        return 0.0


KIND = Pgpool()

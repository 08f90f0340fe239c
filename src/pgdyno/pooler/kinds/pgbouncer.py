"""PgBouncer, as its documentation (doc/config.md, doc/usage.md) describes it.

Without ``listen_addr`` it listens on a Unix socket in a directory that only its account and root
can enter, and believes whoever connects there, as the server of pgdyno does. With ``listen_addr``
clients authenticate by SCRAM, against the server's own secret where that may be read.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import replace

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
    senders_of,
)
from pgdyno.server import ConnInfo, connect, connect_plain
from pgdyno.server.sql_files import query
from pgdyno.spec import Spec

_POOL_SIZE = 20
_CLIENTS_MIN = 1000
"""Connections that it accepts at least, as clients may be added to a running load."""
_CONSOLE = "pgbouncer"
_CONSOLE_S_MAX = 3
_SHRINK_S_MAX = 5.0
_POLL_S = 0.005
_OWN_CLIENTS = 10
"""Connections in addition to the clients': the first one, and those of the console."""
_SCRAM = "SCRAM-SHA-256$"
_TLS = {
    "sslmode": "server_tls_sslmode",
    "sslrootcert": "server_tls_ca_file",
    "sslcert": "server_tls_cert_file",
    "sslkey": "server_tls_key_file",
}
_UNKNOWN = re.compile(r"unknown parameter: pgbouncer/(\S+)")
_WRONG = re.compile(r"invalid value \"(.*?)\" for parameter (\S+)")
_FAILED = re.compile(r"FATAL (.+)")
_NOT_LISTENING = re.compile(r"cannot listen on (\S+): (.+)")


class PgBouncer(Kind):
    """PgBouncer in front of one server."""

    name = "pgbouncer"
    title = "PgBouncer"
    program = "pgbouncer"
    packages = ("pgbouncer", "pgbouncer")
    owned = frozenset(
        (
            *("unix_socket_dir", "unix_socket_mode", "unix_socket_group", "auth_file"),
            *("auth_hba_file", "logfile", "syslog", "pidfile", "user", "conffile", "admin_users"),
            *("stats_users", "service_name", "job_name", "so_reuseport"),
        )
    )
    port = 6432
    reload_signal = signal.SIGHUP

    def stop_signal(self, version: Version) -> signal.Signals:
        """Return SIGTERM; since version 1.23 that waits for the clients, and SIGQUIT does not."""
        return signal.SIGQUIT if version >= (1, 23) else signal.SIGTERM

    def configure(self, place: PoolerPlace) -> list[str]:
        """Write pgbouncer.ini, with one entry for all databases, and the file of passwords."""
        user, password = place.upstream.user, place.upstream.password or ""
        listens = "listen_addr" in place.settings
        kept = _secret(place.upstream) if listens else password
        users = place.write("users", [f"{_in_quotes(user)} {_in_quotes(kept)}"])
        settings = {
            "listen_port": str(self.port),
            "auth_type": "scram-sha-256" if listens else "trust",
            "max_client_conn": str(max(place.clients, _CLIENTS_MIN) + _OWN_CLIENTS),
            "log_connections": "0",
            "log_disconnections": "0",
            **_tls(place.upstream),
            **{name: _SWITCH.get(value, value) for name, value in place.settings.items()},
            "unix_socket_dir": str(place.directory),
            "auth_file": str(users),
            "admin_users": user,
        }
        where = f"host={place.upstream.host} port={place.upstream.port}"
        lines = ["[databases]", f"* = {where}", "[pgbouncer]"]
        lines += [f"{name} = {value}" for name, value in settings.items()]
        return [str(place.write("pgbouncer.ini", lines))]

    def entrance(self, place: PoolerPlace) -> tuple[str, int]:
        """Return the first address of ``listen_addr``, or the Unix socket."""
        port = int(place.settings.get("listen_port", self.port))
        listens = place.settings.get("listen_addr", "").split(",")[0].strip()
        host = {"*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(listens, listens)
        return host or str(place.directory), port

    def follows(self, before: Spec, after: Spec) -> bool:
        """True if only the size of its pools differs, and clients give their sessions back."""
        was, wanted = before.pooler.settings, after.pooler.settings
        names = {name for name in {**was, **wanted} if was.get(name) != wanted.get(name)}
        size = wanted.get("default_pool_size", "")
        return (
            names == {"default_pool_size"}
            and wanted.get("pool_mode", "session") != "session"
            and size.isascii()
            and size.isdecimal()
        )

    def follow(self, entrance: ConnInfo, before: Spec, after: Spec) -> None:
        """Set the size of its pools. A pool that is too large then keeps its sessions for as long
        as they are wanted, so all of them are ended when they are given back."""
        size = number_in(after.pooler.settings, "default_pool_size", _POOL_SIZE)
        with connect_plain(replace(entrance, database=_CONSOLE)) as console:
            console.execute(f"set default_pool_size = {size}".encode())
        if size < number_in(before.pooler.settings, "default_pool_size", _POOL_SIZE):
            _shrink(replace(entrance, database=_CONSOLE), size)

    def check(self, spec: Spec, version: Version) -> None:
        """Raise SetupError for prepared statements that this version cannot keep apart."""
        settings = spec.pooler.settings
        port = settings.get("listen_port", "1")
        if not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
            raise SetupError(
                f'pooler.settings.listen_port: "{port}" is not a port', code="pooler-port"
            )
        mode = settings.get("pool_mode", "session")
        if mode == "session" or spec.load.protocol != "prepared":
            return
        default = "200" if version >= (1, 24) else "0"
        if version >= (1, 21) and settings.get("max_prepared_statements", default) != "0":
            return
        named = ".".join(map(str, version[:2]))
        how = (
            "raise max_prepared_statements"
            if version >= (1, 21)
            else "PgBouncer 1.21 and later can, with max_prepared_statements"
        )
        raise SetupError(
            f"PgBouncer {named} with pool_mode = {mode} does not support prepared statements, which"
            " the load uses",
            code="pooler-unprepared",
            hint=f"-M extended, -M simple, or pool_mode = session; {how}",
        )

    def server_connections(self, spec: Spec) -> int:
        """Return the size of the pool with its reserve."""
        settings = spec.pooler.settings
        size = number_in(settings, "default_pool_size", _POOL_SIZE)
        size = max(size, number_in(settings, "min_pool_size", 0))
        size += number_in(settings, "reserve_pool_size", 0)
        limit = number_in(settings, "max_db_connections", 0)
        return min(size, limit) if limit else size

    def refused(self, log: str, place: PoolerPlace) -> Complaint | None:
        """Return the first complaint of the log."""
        if listening := _NOT_LISTENING.search(log):
            return "listen_port", f"cannot listen on {listening[1]}: {listening[2]}"
        if unknown := _UNKNOWN.search(log):
            return unknown[1], "there is no such setting"
        if wrong := _WRONG.search(log):
            return wrong[2], f'"{wrong[1]}" is not valid'
        failed = _FAILED.search(log)
        return None if failed is None else (None, failed[1])

    def queues(self, place: PoolerPlace, entrance: ConnInfo) -> list[Row]:
        """Return SHOW POOLS and SHOW STATS by database; names of columns differ by version."""
        pools, stats = ask_console(entrance, "show pools", "show stats")
        totals = {row["database"]: row for row in stats}
        databases = dict.fromkeys(row["database"] for row in pools if row["database"] != _CONSOLE)
        return [
            queue_row(name, [row for row in pools if row["database"] == name], totals.get(name, {}))
            for name in databases
        ]

    def without_effect(
        self, settings: Mapping[str, str], version: Version, *, stay: bool
    ) -> Iterator[Ineffective]:
        """Yield settings without effect (doc/config.md, and janitor.c on what it ends)."""
        session = settings.get("pool_mode", "session") == "session"
        size = number_in(settings, "default_pool_size", _POOL_SIZE)
        least = number_in(settings, "min_pool_size", 0)
        for name in ("server_idle_timeout", "server_lifetime"):
            limit_s = number_in(settings, name, 0)
            if limit_s and session and stay:
                yield Ineffective(
                    name,
                    f"{name} = {limit_s} has no effect with pool_mode = session while clients stay"
                    " connected: each holds its connection",
                    "client_idle_timeout disconnects clients that do nothing, and pool_mode ="
                    " transaction lets go of connections",
                    limit_ms=1000.0 * limit_s,
                )
            elif limit_s and name == "server_idle_timeout" and least >= size:
                yield Ineffective(
                    name,
                    f"{name} = {limit_s} has no effect with min_pool_size = {least} and"
                    f" default_pool_size = {size}: so many connections are kept",
                    "set a smaller min_pool_size",
                    limit_ms=1000.0 * limit_s,
                )
        if least > size:
            yield Ineffective(
                "min_pool_size",
                f"min_pool_size = {least}: a pool has no more than default_pool_size = {size}",
                "raise default_pool_size too",
            )
        reserve = number_in(settings, "reserve_pool_size", 0)
        if reserve and settings.get("reserve_pool_timeout") == "0":
            yield Ineffective(
                "reserve_pool_size",
                f"reserve_pool_size = {reserve} has no effect with reserve_pool_timeout = 0",
                "set a reserve_pool_timeout",
            )

    def warnings(self, spec: Spec, version: Version) -> Iterator[str]:
        """Yield warnings that follow from the sizes. One that has sent nothing yet has no server
        connection in any mode."""
        settings, clients, senders = spec.pooler.settings, clients_of(spec), senders_of(spec)
        size = self.server_connections(spec)
        limit = number_in(settings, "max_client_conn", clients)
        if limit < clients:
            yield (
                f"max_client_conn = {limit}: PgBouncer refuses {clients - limit:,} of the"
                f" {clients:,} clients"
            )
        if settings.get("pool_mode", "session") != "session":
            yield from _held_open(spec, size)
        elif size < min(senders, limit):
            yield (
                f"pool_mode = session: {size} of the {senders:,} clients are served, and each keeps"
                " its connection; the others wait until query_wait_timeout. pool_mode ="
                " transaction shares connections"
            )


def _held_open(spec: Spec, size: int) -> Iterator[str]:
    """Yield the groups whose open transactions may hold half of the pool's connections or more."""
    holders = [group for group in spec.clients if group.hold_open_ms]
    held = sum(group.connections_max for group in holders)
    if 2 * held >= size:
        names = ", ".join(group.name for group in holders)
        yield (
            f"hold_open: transactions left open by {names} keep up to {min(held, size)} of the"
            f" pool's {size} server connections, idle in transaction, from the other clients"
        )


def _shrink(console: ConnInfo, size: int) -> None:
    """End the sessions of a pool that has more than ``size``, as clients give them back.

    In version 1.18 that makes a log-in that is under way fail, after which the pool waits for
    server_login_retry and refuses clients if it has no session. A pool above its size begins no
    log-in, so it is enough to wait for the last one; and the pool must not fall below its size
    between that look and the command, as it would if it still ended sessions, so that is waited
    for too.
    """
    if _wait_for(console, lambda sessions, logins: sessions <= size or not logins) > size:
        with connect_plain(console) as connection:
            connection.execute(b"reconnect")
        _wait_for(console, lambda sessions, logins: sessions <= size)


def _wait_for(console: ConnInfo, reached: Callable[[int, int], bool]) -> int:
    """Wait until a condition on sessions and log-ins holds; return the number of sessions then."""
    deadline_s = time.monotonic() + _SHRINK_S_MAX
    while not reached(*(found := _sessions(console))) and time.monotonic() < deadline_s:
        time.sleep(_POLL_S)
    return found[0]


def _sessions(console: ConnInfo) -> tuple[int, int]:
    """Return the sessions of the largest pool, and the log-ins under way of all, by SHOW POOLS."""
    (rows,) = ask_console(console, "show pools")
    pools = [row for row in rows if row["database"] != _CONSOLE]
    states = [name for name in pools[0] if name.startswith("sv_")] if pools else []
    sessions = (sum(int(pool[name]) for name in states) for pool in pools)
    return max(sessions, default=0), sum(int(pool["sv_login"]) for pool in pools)


def ask_console(entrance: ConnInfo, *commands: str) -> list[list[Row]]:
    """Return the rows of the console's answers, none of a command that has no rows; it understands
    the simple protocol only. Raises psycopg.Error."""
    import psycopg
    from psycopg.rows import dict_row

    from pgdyno.server.connecting.control import open_plain

    values = {**entrance.kwargs(), "dbname": _CONSOLE, "connect_timeout": _CONSOLE_S_MAX}
    values["application_name"] = "pgdyno probe"
    with open_plain(values, cursor_factory=psycopg.ClientCursor) as connection:
        cursor = connection.cursor(row_factory=dict_row)
        answers = (cursor.execute(command.encode()) for command in commands)
        return [each.fetchall() if each.description else [] for each in answers]


def queue_row(database: str, pools: list[Row], totals: Row) -> Row:
    """Return the row of metric_pooler of a database: from its ``pools`` of SHOW POOLS, and its
    ``totals`` of SHOW STATS."""

    def total(*names: str) -> int:
        return sum(int(pool.get(name) or 0) for pool in pools for name in names)

    waits_ms = [
        1000 * float(each.get("maxwait") or 0) + float(each.get("maxwait_us") or 0) / 1000
        for each in pools
    ]
    waited_us = totals.get("total_wait_time")
    return {
        "pool": database,
        "clients": total("cl_active", "cl_waiting"),
        "clients_waiting": total("cl_waiting"),
        "servers_active": total("sv_active"),
        "servers_idle": total("sv_idle", "sv_used", "sv_tested"),
        "wait_ms_max": max(waits_ms),
        "wait_ms": None if waited_us is None else float(waited_us) / 1000,
    }


_SWITCH = {"on": "1", "off": "0"}


def _tls(upstream: ConnInfo) -> dict[str, str]:
    if upstream.is_socket:
        return {}
    return {ours: upstream.options[name] for name, ours in _TLS.items() if name in upstream.options}


def _secret(server: ConnInfo) -> str:
    """Return the role's password as the server stores it, or in plain text if that is not visible.

    From a plain password PgBouncer derives its keys again at each log-in, which takes milliseconds
    in its only thread, and a storm of clients waits for that. Another secret of the same password
    would not do: PgBouncer logs in to the server with what clients prove to it. Only if the role
    has no password there, the server asks for none, and any secret will do.
    """
    import psycopg

    if not server.password:
        return ""
    try:
        with connect(server) as connection:
            row = connection.execute(query("pooler", "role_secret")).fetchone()
    except psycopg.errors.InsufficientPrivilege:
        return server.password
    if row is not None and row[0] is None:
        return _derived(server.user, server.password)
    kept = "" if row is None else str(row[0])
    return kept if kept.startswith(_SCRAM) else server.password


def _derived(user: str, password: str) -> str:
    """Return a secret of a password, which libpq derives, without a connection that works."""
    from psycopg.pq import PGconn

    connection = PGconn.connect_start(b"hostaddr=none")
    try:
        secret = connection.encrypt_password(password.encode(), user.encode(), b"scram-sha-256")
    finally:
        connection.finish()
    return secret.decode()


def _in_quotes(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


KIND = PgBouncer()

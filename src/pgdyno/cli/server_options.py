"""Options that say which server is loaded: one that runs, or one that pgdyno starts, and on which
disks, with which standbys and behind which pooler.

psql's letters keep their meaning: -h -p -U -d -w -W.
"""

from typing import Annotated

import click
from msgspec import Struct

from pgdyno.cli.grouping import sets
from pgdyno.cli.types import Duration, StandbyMode, Standbys, complete_directories


class ConnectOptions(Struct, frozen=True, kw_only=True):
    """A running server, as psql takes it, and the one behind it if it is a pooler."""

    host: Annotated[
        str | None,
        click.option(
            "-h", "--host", metavar="HOST", help="Host or socket directory of your server."
        ),
    ]
    port: Annotated[
        int | None,
        click.option(
            "-p",
            "--port",
            type=click.IntRange(1, 65_535),
            metavar="PORT",
            help="Port of your server.",
        ),
    ]
    username: Annotated[
        str | None,
        click.option("-U", "--username", metavar="NAME", help="User name to connect as."),
    ]
    dbname: Annotated[
        str | None,
        click.option(
            "-d", "--dbname", metavar="DB|CONNINFO", help="Database or connection string."
        ),
    ]
    prompt: Annotated[
        str | None,
        click.option(
            "-w",
            "--no-password",
            "prompt",
            flag_value="never",
            help="Never prompt for a password.",
        ),
        click.option(
            "-W",
            "--password",
            "prompt",
            flag_value="always",
            help="Prompt for a password before connecting (default: only if the server requires"
            " one).",
        ),
    ]
    """``never``, ``always``, or None: if the server requires one."""
    control: Annotated[
        str | None,
        click.option(
            "--control",
            metavar="CONNINFO",
            help="Connection string of the server behind the pooler, for set-up and probes.",
        ),
    ]


class DiskOptions(Struct, frozen=True, kw_only=True):
    """Disks and data of a server that pgdyno starts."""

    data_disk: Annotated[
        str | None,
        sets(
            "disk.data",
            "--data-disk",
            metavar="DISK",
            help="Data disk of the server to start: plain, plain:/dir, tmpfs:1GB, slow:flush=2ms,"
            " blackout.",
        ),
    ]
    wal_disk: Annotated[
        str | None,
        sets("disk.wal", "--wal-disk", metavar="DISK", help="Separate disk for its WAL."),
    ]
    checksums: Annotated[
        bool | None,
        sets(
            "server.checksums",
            "--checksums/--no-checksums",
            default=None,
            help="Data checksums (default depends on the version).",
        ),
    ]
    snapshot: Annotated[
        str | None,
        sets(
            "server.snapshot",
            "--snapshot",
            metavar="NAME",
            help="Start the server from this saved state (pgdyno snapshot).",
        ),
    ]


class StandbyOptions(Struct, frozen=True, kw_only=True):
    """Standbys of a server that pgdyno starts."""

    standby: Annotated[
        StandbyMode | None,
        click.option(
            "--standby",
            type=Standbys(),
            metavar="MODE[:COUNT]",
            help="Standbys of the server to start, and what commits wait for: async, remote_write,"
            " on, remote_apply, local.",
        ),
    ]
    standby_delay: Annotated[
        int | None,
        sets(
            "standby.delay",
            "--standby-delay",
            type=Duration(),
            help="Network delay to and from each standby.",
        ),
    ]
    """In milliseconds, as all durations of options."""
    manager: Annotated[
        str | None,
        sets(
            "standby.manager",
            "--manager",
            type=click.Choice(["none", "patroni"]),
            help="What runs the servers and manages failovers: pgdyno itself, or this program.",
        ),
    ]
    manager_settings: Annotated[
        tuple[str, ...],
        sets(
            "standby.manager_settings",
            "--manager-set",
            "manager_settings",
            multiple=True,
            metavar="NAME=VALUE",
            help="Setting of that manager, such as ttl=20.",
        ),
    ]


class PoolerOptions(Struct, frozen=True, kw_only=True):
    """Pooler that pgdyno starts in front of the server."""

    pooler: Annotated[
        str | None,
        sets(
            "pooler.kind",
            "--pooler",
            type=click.Choice(["none", "pgbouncer", "pgpool", "haproxy"]),
            help="Start this pooler in front of the server, for the clients to connect to.",
        ),
    ]
    pooler_settings: Annotated[
        tuple[str, ...],
        sets(
            "pooler.settings",
            "--pooler-set",
            "pooler_settings",
            multiple=True,
            metavar="NAME=VALUE",
            help="Setting of that pooler, such as default_pool_size=5.",
        ),
    ]


Bindir = Annotated[
    str | None,
    sets(
        "server.bindir",
        "--pg-bindir",
        metavar="DIR",
        shell_complete=complete_directories,
        help="Directory with the binaries of the server to start.",
    ),
]


class ServerOptions(Struct, frozen=True, kw_only=True):
    """The server of a load, and all that stands around it."""

    connect: ConnectOptions
    server_wait: Annotated[
        int | None,
        sets(
            "server.wait",
            "--server-wait",
            type=Duration(),
            help="How long to wait while another pgdyno loads your server (default 1 min; 0 means"
            " no wait).",
        ),
    ]
    pg_version: Annotated[
        int | None,
        sets(
            "server.version",
            "--pg-version",
            type=int,
            metavar="N",
            help="Major version of PostgreSQL to start.",
        ),
    ]
    disks: DiskOptions
    standbys: StandbyOptions
    pooling: PoolerOptions
    pg_bindir: Bindir = None


Bindirs = Annotated[
    tuple[str, ...],
    click.option(
        "--pg-bindir",
        multiple=True,
        metavar="DIR",
        help="Directory with the binaries of the server to start; given twice, both servers are"
        " tested and compared.",
    ),
]
"""The option of a command that compares two servers, in place of that of ``ServerOptions``."""

"""Options that several commands share; ``spec_options`` makes a spec of them.

pgbench's letters keep their meaning: -c -j -t -T -P -s -M -f -b -N -S -D -R -L -C -i -I -F -n -v;
psql's too: -h -p -U -d -w -W.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from pgdyno.cli.completing import directories, files, scripts, workloads
from pgdyno.cli.init_options import INIT_OPTIONS
from pgdyno.cli.types import (
    Cpus,
    Duration,
    FailuresLimit,
    LatencyLimit,
    Rate,
    Seed,
    Share,
    Standbys,
)
from pgdyno.errors import UsageError
from pgdyno.visible import is_utf8

_Command = TypeVar("_Command", bound=Callable[..., Any])


_WHAT = click.argument(
    "what",
    nargs=-1,
    metavar="[WORKLOAD|SPEC.toml|RUN.db] [DATABASE|CONNINFO]",
    shell_complete=workloads,
)
_CLIENTS = click.option(
    "-c",
    "--clients",
    "--client",
    "clients",
    type=click.IntRange(1),
    metavar="N",
    help="Number of clients.",
)
_CLIENTS_MAX = click.option(
    "-c",
    "--clients-max",
    "clients",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Most clients to try (default 16 for each core, at least 64, and no more than connections"
    " are free).",
)
_STORM_MAX = click.option(
    "-c",
    "--clients-max",
    "clients",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Clients of the largest storm to try (default 1,000, through a pooler 10,000).",
)
_THREADS = click.option(
    "-j",
    "--threads",
    "--jobs",
    "threads",
    type=click.IntRange(1),
    metavar="N",
    help="Number of load engine threads.",
)
_RAMP = click.option("--ramp", type=Duration(), help="Increase the load linearly over this time.")
_THINK = click.option("--think", type=Duration(), help="Pause of each client after a transaction.")

_ARRIVAL_OPTIONS = [
    click.option(
        "-R",
        "--rate",
        type=Rate(),
        metavar="TPS",
        help="Open loop: start this many transactions per second, over all clients.",
    ),
    click.option(
        "-L",
        "--latency-limit",
        type=LatencyLimit(),
        help="Count transactions above this latency as late (a bare number is in ms); with -R,"
        " skip those that are late before they are sent.",
    ),
    click.option(
        "--process",
        type=click.Choice(["poisson", "constant"]),
        help="Spacing of arrivals with -R (default poisson).",
    ),
    click.option(
        "--when-busy",
        type=click.Choice(["queue", "skip"]),
        help="With -R, queue or skip transactions that are due while all clients are busy (default"
        " queue).",
    ),
    click.option(
        "--queue-max",
        type=click.IntRange(1),
        metavar="N",
        help="Maximum length of that queue; transactions beyond it are skipped.",
    ),
]

_POOL_MAX = click.option(
    "--pool-max",
    type=click.IntRange(1),
    metavar="N",
    help="Let clients share a pool of N connections.",
)
_POOL_MAX_TRIED = click.option(
    "--pool-max",
    type=click.IntRange(1),
    metavar="N",
    help="Largest pool to try (default 16 connections for each core, at least 64, no more than"
    " there are clients and than connections are free).",
)
_CONNECTION_OPTIONS = [
    click.option(
        "-C", "--connect", is_flag=True, help="Open a new connection for each transaction."
    ),
    _POOL_MAX,
    click.option(
        "--pool-max-wait", type=Duration(), help="Maximum wait for a connection from the pool."
    ),
    click.option(
        "--connecting-max",
        type=click.IntRange(1, 100_000),
        metavar="N",
        help="Maximum number of connections being opened at the same time (default 100).",
    ),
]

_SCRIPT_OPTIONS = [
    click.option(
        "-s",
        "--scale",
        type=click.IntRange(1),
        metavar="N",
        help="Scale factor of pgbench's tables (default: number of clients, up to 100).",
    ),
    click.option(
        "-f",
        "--file",
        "files",
        multiple=True,
        metavar="FILE[@W]",
        shell_complete=files,
        help="Add a script with weight W; - reads standard input.",
    ),
    click.option(
        "-b",
        "--builtin",
        "builtins",
        multiple=True,
        metavar="NAME[@W]",
        shell_complete=scripts,
        help="Add a built-in script with weight W; -b list shows them.",
    ),
    click.option(
        "-N",
        "--skip-some-updates",
        "builtins",
        multiple=True,
        flag_value="simple-update",
        help="Same as -b simple-update.",
    ),
    click.option(
        "-S",
        "--select-only",
        "builtins",
        multiple=True,
        flag_value="select-only",
        help="Same as -b select-only.",
    ),
    click.option(
        "-D", "--define", multiple=True, metavar="NAME=VALUE", help="Set a variable for scripts."
    ),
    click.option(
        "-M",
        "--protocol",
        type=click.Choice(["simple", "extended", "prepared"]),
        help="Query protocol (default prepared).",
    ),
    click.option(
        "--parameters",
        type=click.Choice(["text", "binary"]),
        help="Format of parameter values with -M extended or prepared (default text).",
    ),
    click.option(
        "--max-tries",
        type=click.IntRange(0),
        metavar="N",
        help="Maximum number of tries of a transaction after serialization failures and deadlocks"
        " (default 10; 0 means no limit, and with -t requires -L).",
    ),
    click.option(
        "--max-failures",
        type=FailuresLimit(),
        metavar="N%|N",
        help="Maximum number or share of failed transactions for a trusted measurement (default"
        " 1%).",
    ),
    click.option(
        "--exit-on-abort",
        is_flag=True,
        default=None,
        help="End the run at the first transaction that fails permanently, or at the first lost"
        " connection.",
    ),
    click.option(
        "--seed",
        "--random-seed",
        "seed",
        type=Seed(),
        metavar="N|time|rand",
        help="Seed of the random number generators.",
    ),
]

_ENGINE_OPTIONS = [
    click.option(
        "--reactor",
        type=click.Choice(["auto", "mio", "io_uring"]),
        help="Event loop of the load engine (default auto).",
    ),
    click.option(
        "--cpus",
        type=Cpus(),
        metavar="LIST",
        help="CPUs for the load engine's threads, such as 0,2-3.",
    ),
    click.option(
        "--nice",
        type=click.IntRange(-20, 19),
        metavar="N",
        help="Nice level of the load engine's threads.",
    ),
    click.option(
        "--acks",
        metavar="DIR",
        shell_complete=directories,
        help="Directory for the ack ledger, the clients' record of every transaction.",
    ),
    click.option(
        "--metrics",
        metavar="[HOST:]PORT",
        help="Answer Prometheus on this address during the load (HOST is 127.0.0.1 by default).",
    ),
]

_TRUST_OPTIONS = [
    click.option(
        "--max-other-programs",
        type=Share(),
        metavar="SHARE",
        envvar="PGDYNO_MAX_OTHER_PROGRAMS",
        help="Maximum share of the server's cores that other programs may use for a trusted"
        " measurement (default 20%).",
    ),
]

_CONNECT_OPTIONS = [
    click.option("-h", "--host", metavar="HOST", help="Host or socket directory of your server."),
    click.option(
        "-p", "--port", type=click.IntRange(1, 65_535), metavar="PORT", help="Port of your server."
    ),
    click.option("-U", "--username", metavar="NAME", help="User name to connect as."),
    click.option("-d", "--dbname", metavar="DB|CONNINFO", help="Database or connection string."),
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
        help="Prompt for a password before connecting (default: only if the server requires one).",
    ),
    click.option(
        "--control",
        metavar="CONNINFO",
        help="Connection string of the server behind the pooler, for set-up and probes.",
    ),
]

_SERVER_OPTIONS = [
    *_CONNECT_OPTIONS,
    click.option(
        "--server-wait",
        type=Duration(),
        help="How long to wait while another pgdyno loads your server (default 1 min; 0 means no"
        " wait).",
    ),
    click.option(
        "--pg-version", type=int, metavar="N", help="Major version of PostgreSQL to start."
    ),
]

_DISK_OPTIONS = [
    click.option(
        "--data-disk",
        metavar="DISK",
        help="Data disk of the server to start: plain, plain:/dir, tmpfs:1GB, slow:flush=2ms,"
        " blackout.",
    ),
    click.option("--wal-disk", metavar="DISK", help="Separate disk for its WAL."),
    click.option(
        "--checksums/--no-checksums",
        default=None,
        help="Data checksums (default depends on the version).",
    ),
    click.option(
        "--snapshot",
        metavar="NAME",
        help="Start the server from this saved state (pgdyno snapshot).",
    ),
]

_STANDBY_OPTIONS = [
    click.option(
        "--standby",
        type=Standbys(),
        metavar="MODE[:COUNT]",
        help="Standbys of the server to start, and what commits wait for: async, remote_write, on,"
        " remote_apply, local.",
    ),
    click.option(
        "--standby-delay", type=Duration(), help="Network delay to and from each standby."
    ),
    click.option(
        "--manager",
        type=click.Choice(["none", "patroni"]),
        help="What runs the servers and manages failovers: pgdyno itself, or this program.",
    ),
    click.option(
        "--manager-set",
        "manager_settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="Setting of that manager, such as ttl=20.",
    ),
]

_POOLER_OPTIONS = [
    click.option(
        "--pooler",
        type=click.Choice(["none", "pgbouncer", "pgpool", "haproxy"]),
        help="Start this pooler in front of the server, for the clients to connect to.",
    ),
    click.option(
        "--pooler-set",
        "pooler_settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="Setting of that pooler, such as default_pool_size=5.",
    ),
]

_ONE_BINDIR = click.option(
    "--pg-bindir",
    metavar="DIR",
    shell_complete=directories,
    help="Directory with the binaries of the server to start.",
)
_BINDIRS = click.option(
    "--pg-bindir",
    multiple=True,
    metavar="DIR",
    help="Directory with the binaries of the server to start; given twice, both servers are tested"
    " and compared.",
)

_OUTPUT_OPTIONS = [
    click.option(
        "-o",
        "--output",
        metavar="FILE",
        shell_complete=files,
        help="Run file to write (default: a new file in pgdyno-runs/).",
    ),
    click.option(
        "--format",
        "output_format",
        type=click.Choice(["text", "json", "csv"]),
        default="text",
        help="Format of the result on stdout (default text).",
    ),
    click.option(
        "-P",
        "--progress",
        type=Duration(positive=True),
        default="5",
        help="Interval of progress lines when stderr is not a terminal (default 5 s).",
    ),
    click.option(
        "-q", "--quiet", is_flag=True, help="Print no progress, only warnings and errors."
    ),
]


def all_of(options: list[Callable[[Any], Any]]) -> Callable[[_Command], _Command]:
    """Return a decorator that adds these options to a command, in this order."""

    def decorate(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_LOADED_SERVER_OPTIONS = [
    *_CONNECTION_OPTIONS,
    *_SCRIPT_OPTIONS,
    *INIT_OPTIONS,
    *_ENGINE_OPTIONS,
    *_TRUST_OPTIONS,
    *_SERVER_OPTIONS,
    *_DISK_OPTIONS,
    *_STANDBY_OPTIONS,
    *_POOLER_OPTIONS,
]
_SHARED_OPTIONS = [
    *(_WHAT, _CLIENTS, _THREADS, _RAMP, _THINK),
    *_ARRIVAL_OPTIONS,
    *_LOADED_SERVER_OPTIONS,
]
_SEARCH_OPTIONS = [*(_WHAT, _CLIENTS_MAX, _THREADS, _THINK), *_LOADED_SERVER_OPTIONS]
_POOL_SEARCH_OPTIONS = [
    *(_WHAT, _CLIENTS, _THREADS, _THINK),
    *_ARRIVAL_OPTIONS,
    *(_POOL_MAX_TRIED if each is _POOL_MAX else each for each in _LOADED_SERVER_OPTIONS),
]
matters_option = click.option(
    "--matters",
    type=Share(),
    metavar="SHARE",
    help="Smallest effect that matters (default 3% of throughput, 10% of p99 at a held rate).",
)
load_options = all_of([*_SHARED_OPTIONS, _ONE_BINDIR])
search_options = all_of([*_SEARCH_OPTIONS, _ONE_BINDIR])
"""The options of a load whose clients or rate are looked for."""
storm_options = all_of([_WHAT, _STORM_MAX, _THREADS, _THINK, *_LOADED_SERVER_OPTIONS, _ONE_BINDIR])
pool_search_options = all_of([*_POOL_SEARCH_OPTIONS, _ONE_BINDIR])
"""The options of a load whose pool size is looked for."""
load_options_of_several = all_of([*_SHARED_OPTIONS, _BINDIRS])
connection_options = all_of(_CONNECT_OPTIONS)
output_options = all_of(_OUTPUT_OPTIONS)
progress_options = all_of(_OUTPUT_OPTIONS[2:])


def settings_option(*names: str, text: str) -> Callable[[_Command], _Command]:
    """Return an option that takes NAME=VALUE pairs of server settings."""
    return click.option(*names, "settings", multiple=True, metavar="NAME=VALUE", help=text)


def parse_assignments(pairs: tuple[str, ...], option: str) -> dict[str, str]:
    """Return ``("a=1", "b=2")`` as a mapping. Raises :class:`UsageError` for anything else."""
    values = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(
                f'{option} "{pair}" is not NAME=VALUE',
                code="bad-assignment",
                hint=f"for example {option} synchronous_commit=off",
            )
        if not is_utf8(pair):
            raise UsageError(f'{option} "{pair}" is not UTF-8 text', code="bad-assignment")
        values[name.strip()] = value.strip()
    return values

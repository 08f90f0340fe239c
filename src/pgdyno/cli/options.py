"""Options that several commands share; what they come to is worked out in ``asked``.

pgbench's letters keep their meaning: -c -j -t -T -P -s -M -f -b -N -S -D -R -L -C -i -I -F -n -v;
psql's keep theirs: -h -p -U -d -w -W.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from pgdyno.cli.completing import files, folders, scripts, workloads
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

_Command = TypeVar("_Command", bound=Callable[..., Any])


_LOAD_OPTIONS = [
    click.argument(
        "what",
        nargs=-1,
        metavar="[WORKLOAD|SPEC.toml|RUN.db] [DATABASE|CONNINFO]",
        shell_complete=workloads,
    ),
    click.option(
        "-c",
        "--clients",
        "--client",
        "clients",
        type=click.IntRange(1),
        metavar="N",
        help="Clients.",
    ),
    click.option(
        "-j",
        "--threads",
        "--jobs",
        "threads",
        type=click.IntRange(1),
        metavar="N",
        help="Threads of the load engine.",
    ),
    click.option("--ramp", type=Duration(), help="Linear ramp from no load to all of it."),
    click.option("--think", type=Duration(), help="Pause of a client after each transaction."),
]

_ARRIVAL_OPTIONS = [
    click.option(
        "-R",
        "--rate",
        type=Rate(),
        metavar="TPS",
        help="Open loop: so many transactions per second come due, over all clients.",
    ),
    click.option(
        "-L",
        "--latency-limit",
        type=LatencyLimit(),
        help="Later than this counts as late (a bare number is in ms); with -R, what is later"
        " before it is sent is skipped.",
    ),
    click.option(
        "--process",
        type=click.Choice(["poisson", "constant"]),
        help="How arrivals of an open loop are spaced (default poisson).",
    ),
    click.option(
        "--when-busy",
        type=click.Choice(["queue", "skip"]),
        help="What comes due with no client free (default queue).",
    ),
    click.option(
        "--queue-max", type=click.IntRange(1), metavar="N", help="Longest queue; beyond, skip."
    ),
]

_CONNECTION_OPTIONS = [
    click.option("-C", "--connect", is_flag=True, help="A new connection for each transaction."),
    click.option(
        "--pool-max", type=click.IntRange(1), metavar="N", help="Clients share a pool of N."
    ),
    click.option("--pool-max-wait", type=Duration(), help="How long a client waits for one."),
    click.option(
        "--connecting-max",
        type=click.IntRange(1, 100_000),
        metavar="N",
        help="Connections made at once (default 100); as many as clients for a storm.",
    ),
]

_SCRIPT_OPTIONS = [
    click.option(
        "-s",
        "--scale",
        type=click.IntRange(1),
        metavar="N",
        help="Scale of pgbench's tables (default as many as clients, up to 100).",
    ),
    click.option(
        "-f",
        "--file",
        "files",
        multiple=True,
        metavar="FILE[@W]",
        shell_complete=files,
        help="Script with weight; - is standard input.",
    ),
    click.option(
        "-b",
        "--builtin",
        "builtins",
        multiple=True,
        metavar="NAME[@W]",
        shell_complete=scripts,
        help="Built-in script with weight; list shows them.",
    ),
    click.option(
        "-N",
        "--skip-some-updates",
        "builtins",
        multiple=True,
        flag_value="simple-update",
        help="As -b simple-update.",
    ),
    click.option(
        "-S",
        "--select-only",
        "builtins",
        multiple=True,
        flag_value="select-only",
        help="As -b select-only.",
    ),
    click.option(
        "-D", "--define", multiple=True, metavar="NAME=VALUE", help="Variable for scripts."
    ),
    click.option(
        "-M",
        "--protocol",
        type=click.Choice(["simple", "extended", "prepared"]),
        help="How statements are sent (default prepared).",
    ),
    click.option(
        "--parameters",
        type=click.Choice(["text", "binary"]),
        help="How values are sent with -M extended or prepared (default text).",
    ),
    click.option(
        "--max-tries",
        type=click.IntRange(0),
        metavar="N",
        help="Tries of a transaction that a serialization failure or a deadlock ends (default 10;"
        " 0 is no limit, with -L or -T).",
    ),
    click.option(
        "--max-failures",
        type=FailuresLimit(),
        metavar="N%|N",
        help="Failed transactions up to which a measurement is trusted (default 1%).",
    ),
    click.option(
        "--exit-on-abort",
        is_flag=True,
        default=None,
        help="End with the first transaction that fails for good, or connection that is lost.",
    ),
    click.option(
        "--seed",
        "--random-seed",
        "seed",
        type=Seed(),
        metavar="N|time|rand",
        help="Seed of all randomness.",
    ),
]

_ENGINE_OPTIONS = [
    click.option(
        "--reactor",
        type=click.Choice(["auto", "mio", "io_uring"]),
        help="Event loop of the load engine (default auto).",
    ),
    click.option("--cpus", type=Cpus(), metavar="LIST", help="Processors for its threads: 0,2-3."),
    click.option(
        "--nice", type=click.IntRange(-20, 19), metavar="N", help="Nice level of its threads."
    ),
    click.option(
        "--acks",
        metavar="DIR",
        shell_complete=folders,
        help="Folder for a record of every transaction, kept by clients.",
    ),
]

_TRUST_OPTIONS = [
    click.option(
        "--max-other-programs",
        type=Share(),
        metavar="SHARE",
        envvar="PGDYNO_MAX_OTHER_PROGRAMS",
        help="Part of the server's cores that other programs may use before the measurement is not"
        " trusted (default 33%).",
    ),
]

_CONNECT_OPTIONS = [
    click.option("-h", "--host", metavar="HOST", help="Your server's host or socket folder."),
    click.option("-p", "--port", type=click.IntRange(1, 65_535), metavar="PORT", help="Its port."),
    click.option("-U", "--username", metavar="NAME", help="User to connect as."),
    click.option("-d", "--dbname", metavar="DB|CONNINFO", help="Database or connection string."),
    click.option(
        "-w",
        "--no-password",
        "prompt",
        flag_value="never",
        help="Never ask for a password.",
    ),
    click.option(
        "-W",
        "--password",
        "prompt",
        flag_value="always",
        help="Ask for a password before connecting (else where the server wants one).",
    ),
    click.option(
        "--control",
        metavar="CONNINFO",
        help="The server behind the pooler that you named, for set-up and probes.",
    ),
]

_SERVER_OPTIONS = [
    *_CONNECT_OPTIONS,
    click.option(
        "--server-wait",
        type=Duration(),
        help="How long to wait while another pgdyno loads your server (default 1 min; 0: not).",
    ),
    click.option("--pg-version", type=int, metavar="N", help="Major version to start."),
]

_DISK_OPTIONS = [
    click.option(
        "--data-disk",
        metavar="DISK",
        help="Disk of the server to start: plain, plain:/dir, tmpfs:1GB, slow:flush=2ms, blackout.",
    ),
    click.option("--wal-disk", metavar="DISK", help="Another one for its WAL."),
    click.option(
        "--checksums/--no-checksums",
        default=None,
        help="Data checksums (default as its version does).",
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
    click.option("--standby-delay", type=Duration(), help="Delay of their link, each way."),
]

_ONE_BINDIR = click.option(
    "--pg-bindir",
    metavar="DIR",
    shell_complete=folders,
    help="Programs of the server to start.",
)
_BINDIRS = click.option(
    "--pg-bindir",
    multiple=True,
    metavar="DIR",
    help="Programs of the server to start; given twice: the same on both servers, compared.",
)

_OUTPUT_OPTIONS = [
    click.option(
        "-o",
        "--output",
        metavar="FILE",
        shell_complete=files,
        help="Run file (default in pgdyno-runs/).",
    ),
    click.option(
        "--format",
        "output_format",
        type=click.Choice(["text", "json", "csv"]),
        default="text",
        help="Of the result on stdout.",
    ),
    click.option(
        "-P",
        "--progress",
        type=Duration(positive=True),
        default="5",
        help="Time between lines of progress, when stderr is no terminal (default 5 s).",
    ),
    click.option("-q", "--quiet", is_flag=True, help="No progress; warnings and errors stay."),
]


def all_of(options: list[Callable[[Any], Any]]) -> Callable[[_Command], _Command]:
    """A decorator that gives a command these options, in this order."""

    def decorate(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_SHARED_OPTIONS = [
    *_LOAD_OPTIONS,
    *_ARRIVAL_OPTIONS,
    *_CONNECTION_OPTIONS,
    *_SCRIPT_OPTIONS,
    *INIT_OPTIONS,
    *_ENGINE_OPTIONS,
    *_TRUST_OPTIONS,
    *_SERVER_OPTIONS,
    *_DISK_OPTIONS,
    *_STANDBY_OPTIONS,
]
load_options = all_of([*_SHARED_OPTIONS, _ONE_BINDIR])
load_options_of_several = all_of([*_SHARED_OPTIONS, _BINDIRS])
connection_options = all_of(_CONNECT_OPTIONS)
output_options = all_of(_OUTPUT_OPTIONS)


def settings_option(*names: str, text: str) -> Callable[[_Command], _Command]:
    """An option that takes NAME=VALUE pairs of server settings."""
    return click.option(*names, "settings", multiple=True, metavar="NAME=VALUE", help=text)


def parse_assignments(pairs: tuple[str, ...], option: str) -> dict[str, str]:
    """``("a=1", "b=2")`` as a mapping. Raises :class:`UsageError` for anything else."""
    values = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(
                f'{option} "{pair}" is not NAME=VALUE',
                code="bad-assignment",
                hint=f"for example {option} synchronous_commit=off",
            )
        values[name.strip()] = value.strip()
    return values

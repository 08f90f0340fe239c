"""Start a web application with a pool of connections before a server."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click
from msgspec import Struct

from pgdyno.cli.grouping import taking_options
from pgdyno.cli.options import Database, Quiet, StartSettings, parse_assignments
from pgdyno.cli.server_options import Bindir, ConnectOptions
from pgdyno.cli.types import Duration, complete_files
from pgdyno.errors import Interrupted, SetupError, UsageError
from pgdyno.files import check_writable, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgdyno.conduct.serving import Served
    from pgdyno.front import FrontSettings
    from pgdyno.json_types import Fields
    from pgdyno.spec import Spec

HELP_ORDER = 16
_USUAL_ENDS = (130, 143)
"""SIGINT and SIGTERM."""
Pool = Literal["dbcp2", "tomcat-jdbc", "hikari"]
_OWN_MAX: dict[Pool, int] = {"dbcp2": 8, "tomcat-jdbc": 100, "hikari": 10}
"""The most connections of each pool by its own default, for which the server must have room."""


class FrontOptions(Struct, frozen=True, kw_only=True):
    """The application, its pool, and how long it is there."""

    pool: Annotated[
        Pool,
        click.option(
            "--pool",
            type=click.Choice(list(_OWN_MAX)),
            default="dbcp2",
            help="The pool: Commons DBCP2, Tomcat JDBC or HikariCP (default dbcp2).",
        ),
    ]
    max_total: Annotated[
        int | None,
        click.option(
            "--max-total",
            type=click.IntRange(1, 10_000),
            metavar="N",
            help="Most connections of the pool, and as many kept idle (default: the pool's own: 8,"
            " 100, 10).",
        ),
    ]
    max_wait: Annotated[
        int | None,
        click.option(
            "--max-wait",
            type=Duration(positive=True),
            help="Longest wait of a request for a connection (default: the pool's own: without"
            " limit, 30 s, 30 s).",
        ),
    ]
    threads: Annotated[
        int | None,
        click.option(
            "-j",
            "--threads",
            type=click.IntRange(1, 10_000),
            metavar="N",
            help="Most threads of Tomcat's connector (default 200).",
        ),
    ]
    keepalive_requests: Annotated[
        int | None,
        click.option(
            "--keepalive-requests",
            type=click.IntRange(-1, 1_000_000_000),
            metavar="N",
            help="Requests after which Tomcat closes a client's connection, -1 for never (default"
            " 100).",
        ),
    ]
    listen_port: Annotated[
        int,
        click.option(
            "--listen-port",
            type=click.IntRange(0, 65535),
            default=0,
            metavar="PORT",
            help="Port to listen on, on 127.0.0.1 (default 0: a free one).",
        ),
    ]
    java: Annotated[
        str | None,
        click.option(
            "--java",
            metavar="PATH",
            shell_complete=complete_files,
            help="Java to use, 17 or newer (default: that of JAVA_HOME, or of the PATH).",
        ),
    ]
    scale: Annotated[
        int | None,
        click.option(
            "-s",
            "--scale",
            type=click.IntRange(1),
            metavar="N",
            help="Scale of the shop: 10,000 customers and products each (default 1).",
        ),
    ]
    initialize: Annotated[
        bool,
        click.option(
            "-i", "--initialize", is_flag=True, help="Make the shop's tables again, there."
        ),
    ]
    settings: StartSettings
    pg_bindir: Bindir
    time: Annotated[
        int | None,
        click.option(
            "-T",
            "--time",
            type=Duration(positive=True),
            help="Time after which to end (default: never).",
        ),
    ]
    log: Annotated[
        str | None,
        click.option(
            "--log",
            metavar="FILE",
            shell_complete=complete_files,
            help="File to which the end of the application's log is written when it ends.",
        ),
    ]
    output_format: Annotated[
        str,
        click.option(
            "--format",
            "output_format",
            type=click.Choice(["text", "json"]),
            default="text",
            help="Format of the figures on stdout, one line a second (default text).",
        ),
    ]
    quiet: Quiet


@click.command("front")
@taking_options
def command(what: Database, connect: ConnectOptions, options: FrontOptions) -> None:
    """Start a web application with a pool of connections before a server.

    The application is an order shop on Tomcat, which reaches PostgreSQL through the pool. Without a
    named server, pgdyno starts one. Prints address, pages and pool, and each second what requests
    waited for, until Ctrl-C or SIGTERM; then nothing is left. Needs Java 17, and Maven for the
    first time.

    \b
      pgdyno front                               DBCP2 with 8 connections
      pgdyno front --pool hikari --max-total 20
      pgdyno front postgresql://db.example.com/shop --threads 50
    """
    from pgdyno.cli.screen import watcher_for
    from pgdyno.conduct import stop_signals
    from pgdyno.conduct.serving import serve

    spec, settings = _spec(what, connect, options), _settings(options)
    log = _log_file(options.log)
    try:
        with stop_signals(), ExitStack() as stack:
            with watcher_for(quiet=options.quiet, every_s=1.0) as watcher:
                served = serve(spec, settings, options.java, stack, watcher)
            stack.enter_context(_keeping_log(served, log))
            _show(served, options)
    except Interrupted as stopped:
        if stopped.exit_status not in _USUAL_ENDS:
            raise


def _settings(options: FrontOptions) -> FrontSettings:
    from pgdyno.front import FrontSettings

    return FrontSettings(
        pool=options.pool,
        max_total=options.max_total,
        max_wait_ms=options.max_wait,
        threads=options.threads,
        keepalive_requests=options.keepalive_requests,
        port=options.listen_port,
    )


def _spec(what: tuple[str, ...], connect: ConnectOptions, options: FrontOptions) -> Spec:
    from pgdyno.spec import spec_from_fields

    return spec_from_fields(
        {
            "name": "front",
            "server": _server(what, connect, options),
            "workload": {
                "script": "business",
                "scale": options.scale or 1,
                "initialize": options.initialize,
            },
            "clients": [{"count": options.max_total or _OWN_MAX[options.pool]}],
        }
    )


def _server(what: tuple[str, ...], connect: ConnectOptions, options: FrontOptions) -> Fields:
    from pgdyno.cli.connection import conninfo_for, conninfo_of, positional_without_load

    conninfo = conninfo_of(positional_without_load(what, "front"), connect)
    own = {"settings": parse_assignments(options.settings, "--set"), "bindir": options.pg_bindir}
    if conninfo is None:
        if options.initialize:
            raise UsageError(
                "-i requires a named server: on one that pgdyno starts the tables are always made",
                code="contradiction",
            )
        return {name: value for name, value in own.items() if value}
    for name, option in (("settings", "--set"), ("bindir", "--pg-bindir")):
        if own[name]:
            raise UsageError(
                f"{option} cannot be used with a running server, only with one that pgdyno front"
                " starts",
                code="contradiction",
            )
    named = {"conninfo": conninfo_for(conninfo, connect.prompt), "control": connect.control}
    return {"kind": "existing"} | {name: value for name, value in named.items() if value}


def _log_file(name: str | None) -> Path | None:
    """Return the file of --log, which can be written."""
    if name is None:
        return None
    path = Path(name)
    with _writing(path):
        path.parent.stat()
        check_writable(path)
    return path


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise SetupError(
            f"--log {path} cannot be written: {problem.strerror}",
            code="front-log",
            hint="name a file in a directory that you may write to, with room for it",
        ) from None


@contextmanager
def _keeping_log(served: Served, path: Path | None) -> Iterator[None]:
    try:
        yield
    finally:
        if path is not None:
            with _writing(path):
                write_whole(path, served.front.log.encode(errors="replace"))


def _show(served: Served, options: FrontOptions) -> None:
    """Print what is served, and a line each second."""
    from pgdyno.report.words.front import line

    ends_s = None if options.time is None else time.monotonic() + options.time / 1000
    as_json = options.output_format == "json"
    for text in () if as_json else _introduction(served):
        _echo(text)
    for reading in served.readings():
        _echo(json.dumps(reading.to_json()) if as_json else line(reading))
        if ends_s is not None and time.monotonic() >= ends_s:
            return


def _introduction(served: Served) -> Iterator[str]:
    from pgdyno.report.words.front import introduction

    front = served.front
    yield from introduction(front.url, front.parts, front.pages, front.read()["pool"])
    what = f"PostgreSQL {served.started}, for this command" if served.started else "your server"
    yield f"{what}: {served.server.uri_without_password}"


def _echo(text: str) -> None:
    from pgdyno.cli.output import printable

    click.echo(printable(text))

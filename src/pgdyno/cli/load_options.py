"""Options that say what a load consists of: clients and their transactions, scripts or URLs,
tables, and the engine that plays them. ``spec_options`` makes a spec of them.

pgbench's letters keep their meaning: -c -j -t -T -P -s -M -f -b -N -S -D -R -L -C -i -I -F -n -v.
"""

from typing import Annotated

import click
from msgspec import Struct

from pgdyno.cli.arrival_options import ArrivalOptions
from pgdyno.cli.grouping import instead, sets
from pgdyno.cli.plan_options import Plans
from pgdyno.cli.server_options import ServerOptions
from pgdyno.cli.types import (
    Cpus,
    Duration,
    FailuresLimit,
    Scale,
    Seed,
    Share,
    complete_directories,
    complete_files,
    complete_scripts,
    complete_workloads,
)


class ConnectionOptions(Struct, frozen=True, kw_only=True):
    """Connections of the clients."""

    connect: Annotated[
        str | None,
        sets(
            "clients.connection",
            "-C",
            "--connect",
            is_flag=True,
            flag_value="per-transaction",
            help="Open a new connection for each transaction.",
        ),
    ]
    pool_max: Annotated[
        int | None,
        sets(
            "clients.pool.max",
            "--pool-max",
            type=click.IntRange(1),
            metavar="N",
            help="Let clients share a pool of N connections.",
        ),
    ]
    pool_max_wait: Annotated[
        int | None,
        sets(
            "clients.pool.max_wait",
            "--pool-max-wait",
            type=Duration(),
            help="Maximum wait for a connection from the pool.",
        ),
    ]
    connecting_max: Annotated[
        int | None,
        sets(
            "load.connecting_max",
            "--connecting-max",
            type=click.IntRange(1, 100_000),
            metavar="N",
            help="Maximum number of connections being opened at the same time (default 100).",
        ),
    ]


class ScriptOptions(Struct, frozen=True, kw_only=True):
    """Scripts of the clients, and the way in which they are sent."""

    scale: Annotated[
        float | None,
        sets(
            "workload.scale",
            "-s",
            "--scale",
            type=Scale(),
            metavar="N",
            help="Scale factor of pgbench's tables (default: number of clients, up to 100), or of"
            " a capture's rows, such as 0.01.",
        ),
    ]
    files: Annotated[
        tuple[str, ...],
        click.option(
            "-f",
            "--file",
            "files",
            multiple=True,
            metavar="FILE[@W]",
            shell_complete=complete_files,
            help="Add a script with weight W; - reads standard input.",
        ),
    ]
    builtins: Annotated[
        tuple[str, ...],
        click.option(
            "-b",
            "--builtin",
            "builtins",
            multiple=True,
            metavar="NAME[@W]",
            shell_complete=complete_scripts,
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
    ]
    define: Annotated[
        tuple[str, ...],
        click.option(
            "-D",
            "--define",
            multiple=True,
            metavar="NAME=VALUE",
            help="Set a variable for scripts.",
        ),
    ]
    protocol: Annotated[
        str | None,
        sets(
            "load.protocol",
            "-M",
            "--protocol",
            type=click.Choice(["simple", "extended", "prepared"]),
            help="Query protocol (default prepared).",
        ),
    ]
    parameters: Annotated[
        str | None,
        sets(
            "load.parameters",
            "--parameters",
            type=click.Choice(["text", "binary"]),
            help="Format of parameter values with -M extended or prepared (default text).",
        ),
    ]
    max_tries: Annotated[
        int | None,
        sets(
            "load.max_tries",
            "--max-tries",
            type=click.IntRange(0),
            metavar="N",
            help="Maximum number of tries of a transaction after serialization failures and"
            " deadlocks (default 10; 0 means no limit, and with -t requires -L).",
        ),
    ]
    max_failures: Annotated[
        str | None,
        sets(
            "load.max_failures",
            "--max-failures",
            type=FailuresLimit(),
            metavar="N%|N",
            help="Maximum number or share of failed transactions for a trusted measurement"
            " (default 1%).",
        ),
    ]
    exit_on_abort: Annotated[
        bool | None,
        sets(
            "load.exit_on_abort",
            "--exit-on-abort",
            is_flag=True,
            default=None,
            help="End the run at the first transaction that fails permanently, or at the first lost"
            " connection.",
        ),
    ]
    seed: Annotated[
        int | None,
        sets(
            "load.seed",
            "--seed",
            "--random-seed",
            "seed",
            type=Seed(),
            metavar="N|time|rand",
            help="Seed of the random number generators.",
        ),
    ]


class InitOptions(Struct, frozen=True, kw_only=True):
    """Creation of pgbench's tables."""

    initialize: Annotated[
        bool,
        sets(
            "workload.initialize",
            "-i",
            "--initialize",
            is_flag=True,
            help="Create pgbench's tables in your database; existing ones are dropped first.",
        ),
    ]
    init_steps: Annotated[
        str | None,
        sets(
            "workload.init.steps",
            "-I",
            "--init-steps",
            metavar="STEPS",
            help="Initialization steps, from dtgGvpf (default dtgvp).",
        ),
    ]
    fillfactor: Annotated[
        int | None,
        sets(
            "workload.init.fillfactor",
            "-F",
            "--fillfactor",
            type=click.IntRange(10, 100),
            metavar="N",
            help="Fillfactor of the tables.",
        ),
    ]
    partitions: Annotated[
        int | None,
        sets(
            "workload.init.partitions",
            "--partitions",
            type=click.IntRange(0),
            metavar="N",
            help="Number of partitions of pgbench_accounts, or of entity-resolution's large"
            " tables.",
        ),
    ]
    partition_method: Annotated[
        str | None,
        sets(
            "workload.init.partition_method",
            "--partition-method",
            type=click.Choice(["range", "hash"]),
            help="Partitioning method (default range).",
        ),
    ]
    foreign_keys: Annotated[
        bool,
        sets(
            "workload.init.foreign_keys",
            "--foreign-keys",
            is_flag=True,
            help="Create foreign keys between the tables.",
        ),
    ]
    tablespace: Annotated[
        str | None,
        sets(
            "workload.init.tablespace",
            "--tablespace",
            metavar="NAME",
            help="Tablespace of the tables.",
        ),
    ]
    index_tablespace: Annotated[
        str | None,
        sets(
            "workload.init.index_tablespace",
            "--index-tablespace",
            metavar="NAME",
            help="Tablespace of the primary keys.",
        ),
    ]
    unlogged_tables: Annotated[
        bool,
        sets(
            "workload.init.unlogged_tables",
            "--unlogged-tables",
            is_flag=True,
            help="Create unlogged tables.",
        ),
    ]
    no_vacuum: Annotated[
        bool,
        click.option("-n", "--no-vacuum", is_flag=True, help="Do not vacuum before the load."),
    ]
    vacuum_all: Annotated[
        bool,
        click.option(
            "-v",
            "--vacuum-all",
            is_flag=True,
            help="Vacuum and analyze pgbench's tables before the load.",
        ),
    ]


class EngineOptions(Struct, frozen=True, kw_only=True):
    """The load engine, and what it records or answers beside the run file."""

    reactor: Annotated[
        str | None,
        sets(
            "load.reactor",
            "--reactor",
            type=click.Choice(["auto", "mio", "io_uring"]),
            help="Event loop of the load engine (default auto).",
        ),
    ]
    cpus: Annotated[
        list[int] | None,
        sets(
            "load.cpus",
            "--cpus",
            type=Cpus(),
            metavar="LIST",
            help="CPUs for the load engine's threads, such as 0,2-3.",
        ),
    ]
    nice: Annotated[
        int | None,
        sets(
            "load.nice",
            "--nice",
            type=click.IntRange(-20, 19),
            metavar="N",
            help="Nice level of the load engine's threads.",
        ),
    ]
    acks: Annotated[
        str | None,
        sets(
            "load.acks",
            "--acks",
            metavar="DIR",
            shell_complete=complete_directories,
            help="Directory for the ack ledger, the clients' record of every transaction.",
        ),
    ]
    metrics: Annotated[
        str | None,
        sets(
            "metrics",
            "--metrics",
            metavar="[HOST:]PORT",
            help="Answer Prometheus on this address during the load (HOST is 127.0.0.1 by"
            " default).",
        ),
    ]
    max_other_programs: Annotated[
        float | None,
        sets(
            "load.max_other_programs",
            "--max-other-programs",
            type=Share(),
            metavar="SHARE",
            envvar="PGDYNO_MAX_OTHER_PROGRAMS",
            help="Maximum share of the server's cores that other programs may use for a trusted"
            " measurement (default 20%).",
        ),
    ]


AllowFiles = Annotated[
    bool,
    click.option(
        "--allow-files",
        is_flag=True,
        help="Read files that a JMeter plan names outside of its directory: their lines are sent to"
        " the plan's server.",
    ),
]


class UrlOptions(Struct, frozen=True, kw_only=True):
    """A web server to load, in place of PostgreSQL."""

    urls: Annotated[
        tuple[str, ...],
        click.option(
            "--url",
            "urls",
            multiple=True,
            metavar="URL",
            help="Send requests to a web server instead of SQL to PostgreSQL: this URL, one of"
            " several, or with -f the server that the script's requests go to.",
        ),
    ] = ()
    url_list: Annotated[
        str | None,
        click.option(
            "--url-list",
            metavar="FILE",
            help="The same, with a file of URLs, one a line.",
        ),
    ] = None
    front_metrics: Annotated[
        str | None,
        sets(
            "http.metrics",
            "--front-metrics",
            metavar="URL",
            help="Read the web server's own figures, of its pool and its threads, from this"
            " endpoint in Prometheus' text format.",
        ),
    ] = None
    allow_files: AllowFiles = False


class LoadOptions(Struct, frozen=True, kw_only=True):
    """A load and its server. What a command does not offer has its default."""

    what: Annotated[
        tuple[str, ...],
        click.argument(
            "what",
            nargs=-1,
            metavar="[WORKLOAD|SPEC.toml|RUN.db] [DATABASE|CONNINFO]",
            shell_complete=complete_workloads,
        ),
    ]
    clients: Annotated[
        int | None,
        sets(
            "clients.count",
            "-c",
            "--clients",
            "--client",
            "clients",
            type=click.IntRange(1),
            metavar="N",
            help="Number of clients.",
        ),
    ]
    threads: Annotated[
        int | None,
        sets(
            "load.threads",
            "-j",
            "--threads",
            "--jobs",
            "threads",
            type=click.IntRange(1),
            metavar="N",
            help="Number of load engine threads.",
        ),
    ]
    ramp: Annotated[
        int | None,
        sets(
            "load.ramp",
            "--ramp",
            type=Duration(),
            help="Increase the load linearly over this time.",
        ),
    ] = None
    think: Annotated[
        int | None,
        sets(
            "clients.think",
            "--think",
            type=Duration(),
            help="Pause of each client after a transaction (a bare number is in s).",
        ),
    ]
    plans: Plans = None
    arrival: ArrivalOptions = ArrivalOptions()
    connections: ConnectionOptions
    scripts: ScriptOptions
    init: InitOptions
    engine: EngineOptions
    server: ServerOptions
    urls: UrlOptions = UrlOptions()


DatabaseLoad = Annotated[LoadOptions, instead(urls=None)]
"""A load of PostgreSQL only."""
UnplannedLoad = Annotated[LoadOptions, instead(urls=None, plans=None)]
"""The same, of commands that look at no plans."""

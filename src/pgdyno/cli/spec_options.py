"""Make a spec from arguments and options.

Options override a spec file. Errors of a spec that was made of options alone name the options.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from pgdyno import credentials
from pgdyno.cli.connection import conninfo_of
from pgdyno.cli.load_options import ArrivalOptions, InitOptions, LoadOptions, ScriptOptions
from pgdyno.cli.options import parse_assignments
from pgdyno.cli.positional import Positional
from pgdyno.cli.run_options import LOG_PREFIX, LogOptions, RunOptions
from pgdyno.cli.scripts import (
    Urls,
    given_urls,
    http_fields,
    request_parts,
    script_parts,
    variables_of,
)
from pgdyno.cli.server_options import PoolerOptions, ServerOptions, StandbyOptions
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.shapes import Fields
    from pgdyno.spec import Spec

_OPTIONS = {
    "load.threads": "-j",
    "load.hold": "-T",
    "load.transactions": "-t",
    "load.ramp": "--ramp",
    "load.connecting_max": "--connecting-max",
    "load.max_tries": "--max-tries",
    "load.seed": "--random-seed",
    "load.nice": "--nice",
    "load.cpus": "--cpus",
    "load.log.prefix": "--log-prefix",
    "load.log.sampling_rate": "--sampling-rate",
    "load.log.aggregate_interval": "--aggregate-interval",
    "workload.scale": "-s",
    "workload.init.steps": "-I",
    "workload.init.fillfactor": "-F",
    "workload.init.partitions": "--partitions",
    "workload.init.partition_method": "--partition-method",
    "clients[0].count": "-c",
    "clients[0].think": "--think",
    "clients[0].pool.max": "--pool-max",
    "clients[0].pool.max_wait": "--pool-max-wait",
    "clients[0].arrival.rate": "-R",
    "clients[0].arrival.when_busy": "--when-busy",
    "clients[0].arrival.process": "--process",
    "clients[0].arrival.queue_max": "--queue-max",
    "clients[0].latency_limit": "-L",
    "disk.data": "--data-disk",
    "disk.wal": "--wal-disk",
    "standby.delay": "--standby-delay",
    "standby.manager": "--manager",
    "standby.manager_settings": "--manager-set",
    "pooler.kind": "--pooler",
    "pooler.settings": "--pooler-set",
    "metrics": "--metrics",
    "http.metrics": "--front-metrics",
}
"""Keys of a spec and the options that set them."""
_TABLES = (
    "standby",
    "pooler",
    "load.log",
    "workload.init",
    "load",
    "clients[0].arrival",
    "clients[0].pool",
)


def build_spec(
    positional: Positional,
    load: LoadOptions,
    *,
    settings: tuple[str, ...] = (),
    time_ms: int | None = None,
    matters: float | None = None,
    run: RunOptions | None = None,
    quiet: bool = False,
) -> tuple[Spec, str]:
    """Return the spec of arguments and options, and the spec file's text ('' without one).

    ``settings`` are those that the server is started with, ``time_ms`` is the time under load.
    """
    from pgdyno.conduct import check_server_named, read_spec_or_run
    from pgdyno.imports import is_foreign
    from pgdyno.spec import spec_from_fields

    path = positional.spec_path
    if path is None:
        _check_arrival(load.arrival)
    overrides = {
        **_tables(positional, load, settings, run),
        "load": _load_fields(load, time_ms, matters, run),
    }
    overrides = {key: fields for key, fields in overrides.items() if fields}
    if path is not None and is_foreign(path):
        return _imported(path, load, overrides, quiet=quiet), ""
    if path is not None:
        spec, text = read_spec_or_run(path, overrides, _group_fields(load))
        check_server_named(spec, path)
        return spec, text
    name = positional.builtin or _name_of(load.scripts, overrides)
    try:
        return spec_from_fields(
            {"name": _safe_name(name), **overrides, "clients": [_group_fields(load)]}
        ), ""
    except UsageError as problem:
        problem.message = _in_options(problem.message)
        raise


def _name_of(options: ScriptOptions, overrides: Fields) -> str:
    from pgdyno.spec.mix import DEFAULT_SCRIPT

    scripts = [*options.files, *options.builtins]
    if scripts:
        return Path(scripts[0].partition("@")[0]).stem
    return "http" if "http" in overrides else DEFAULT_SCRIPT


def _imported(path: Path, load: LoadOptions, overrides: Fields, *, quiet: bool) -> Spec:
    """Return the spec of a file of another tool. Raises UsageError."""
    from pgdyno.cli.output import notes
    from pgdyno.imports import Choices, fields_with_texts, read_foreign
    from pgdyno.spec.read import spec_over

    http = overrides.get("http") or {}
    choices = Choices(
        url=http.get("url"),
        variables=variables_of(load.scripts.define),
        credentials=credentials.are_kept(),
        outside_files=load.urls.allow_files,
    )
    imported = read_foreign(path, choices)
    for note in imported.notes:
        notes(quiet=quiet)(f"note: {note}")
    workload = overrides.get("workload", {})
    for key in ("script", "variables"):
        workload.pop(key, None)  # The URL is the server's, and the variables are the file's.
    return spec_over(fields_with_texts(imported), overrides, _group_fields(load), path=path)


def _tables(
    positional: Positional, load: LoadOptions, settings: tuple[str, ...], run: RunOptions | None
) -> Fields:
    """Return the tables of a spec that the options set, except load and clients."""
    urls = given_urls(load.urls)
    statements = run is not None and run.statements
    scripts, disks = load.scripts, load.server.disks
    return {
        "server": _server_fields(positional, load, settings, statements, urls),
        "disk": _without_none({"data": disks.data_disk, "wal": disks.wal_disk}),
        "standby": _standby(load.server.standbys),
        "pooler": _pooler(load.server.pooling),
        "workload": _without_none(
            {
                "script": script_parts(scripts, positional.builtin) or request_parts(urls, scripts),
                "scale": scripts.scale,
                "variables": variables_of(scripts.define) or None,
                **_init_fields(load.init),
            }
        ),
        "metrics": load.engine.metrics,
        "http": http_fields(urls, load.urls),
    }


def _load_fields(
    load: LoadOptions, time_ms: int | None, matters: float | None, run: RunOptions | None
) -> Fields:
    _check_tries(load, run)
    scripts, engine = load.scripts, load.engine
    return _without_none(
        {
            "threads": _threads(load),
            "ramp": _ms(load.ramp),
            "hold": _hold(time_ms, run),
            "transactions": run.transactions if run else None,
            "log": _log_fields(run.logging) if run else None,
            "verbose_errors": (run and run.verbose_errors) or None,
            "matters": matters,
            "connecting_max": load.connections.connecting_max,
            "protocol": scripts.protocol,
            "parameters": scripts.parameters,
            "max_tries": scripts.max_tries,
            "max_failures": scripts.max_failures,
            "exit_on_abort": scripts.exit_on_abort,
            "seed": scripts.seed,
            "reactor": engine.reactor,
            "cpus": engine.cpus,
            "nice": engine.nice,
            "acks": engine.acks,
            "max_other_programs": engine.max_other_programs,
        }
    )


def _server_fields(
    positional: Positional,
    load: LoadOptions,
    settings: tuple[str, ...],
    statements: bool,
    urls: Urls,
) -> Fields:
    server = load.server
    conninfo, control = conninfo_of(positional, server.connect), server.connect.control
    if conninfo is None and urls:
        conninfo, control = control, None  # The clients do not connect to it.
    if conninfo is None:
        _check_no_server_needed(load, control)
        return _without_none(
            {
                "bindir": server.pg_bindir,
                "version": server.pg_version,
                "settings": parse_assignments(settings, "--set") or None,
                "checksums": server.disks.checksums,
                "snapshot": server.disks.snapshot,
                "statements": statements or None,
            }
        )
    _check_runs_already(server, settings)
    return _without_none(
        {
            "kind": "existing",
            "conninfo": conninfo,
            "control": control,
            "wait": _ms(server.server_wait),
            "statements": statements or None,
        }
    )


def _check_no_server_needed(load: LoadOptions, control: str | None) -> None:
    """Raise UsageError for options that need a named server."""
    if control is not None:
        raise UsageError(
            "--control requires a server for the clients, named with -h or -d",
            code="contradiction",
        )
    if load.server.server_wait is not None:
        raise UsageError(
            "--server-wait requires a server named with -h or -d",
            code="contradiction",
        )
    if load.init.initialize:
        raise UsageError(
            "-i requires a named server",
            code="contradiction",
            hint="for example -d DATABASE; on a server started by pgdyno the tables are always"
            " created",
        )
    if load.server.connect.prompt is not None:
        option = "-W" if load.server.connect.prompt == "always" else "-w"
        raise UsageError(f"{option} requires a named server", code="contradiction")


def _check_runs_already(server: ServerOptions, settings: tuple[str, ...]) -> None:
    """Raise UsageError for options of a server that pgdyno starts."""
    disks, standbys = server.disks, server.standbys
    for option, value in (
        ("--pg-bindir", server.pg_bindir),
        ("--pg-version", server.pg_version),
        ("--data-disk", disks.data_disk),
        ("--wal-disk", disks.wal_disk),
        ("--checksums", disks.checksums),
        ("--snapshot", disks.snapshot),
        ("--standby", standbys.standby),
        ("--standby-delay", standbys.standby_delay),
        ("--manager", standbys.manager),
    ):
        if value is not None:
            raise UsageError(
                f"{option} cannot be used with a running server, only with one started by pgdyno",
                code="contradiction",
            )
    if settings:
        raise UsageError(
            "--set cannot be used with a running server, only with one started by pgdyno",
            code="contradiction",
            hint="pgdyno compare --set NAME=VALUE --apply tries a setting on your server",
        )


def _init_fields(init: InitOptions) -> Fields:
    """Return the fields of a spec's table ``workload`` that say how tables are made."""
    if init.no_vacuum and init.vacuum_all:
        raise UsageError("-n and -v exclude each other", code="contradiction")
    fields = _without_none(
        {
            "steps": init.init_steps,
            "fillfactor": init.fillfactor,
            "partitions": init.partitions,
            "partition_method": init.partition_method,
            "foreign_keys": init.foreign_keys or None,
            "tablespace": init.tablespace,
            "index_tablespace": init.index_tablespace,
            "unlogged_tables": init.unlogged_tables or None,
        }
    )
    vacuum = "none" if init.no_vacuum else "all" if init.vacuum_all else None
    return {"init": fields or None, "initialize": init.initialize or None, "vacuum": vacuum}


def _log_fields(options: LogOptions) -> Fields | None:
    """Return the spec fields of the log; ``None`` without a log. Raises :class:`UsageError`."""
    fields = {
        "prefix": options.log_prefix,
        "sampling_rate": options.sampling_rate,
        "aggregate_interval": _ms(options.aggregate_interval),
    }
    present = _without_none(fields)
    if not options.log:
        for name in present:
            raise UsageError(
                f"{_OPTIONS[f'load.log.{name}']} requires a transaction log",
                code="contradiction",
                hint="add -l",
            )
        return None
    detailed = {"failures_detailed": True} if options.failures_detailed else {}
    return {"prefix": LOG_PREFIX, **present, **detailed}


def _check_tries(load: LoadOptions, run: RunOptions | None) -> None:
    """Check that unlimited tries have another limit. Raises :class:`UsageError`."""
    counted = run is not None and run.transactions is not None
    if load.scripts.max_tries == 0 and counted and load.arrival.latency_limit is None:
        raise UsageError(
            "--max-tries 0 with -t: a transaction that always fails would be retried forever",
            code="contradiction",
            hint="limit the retries with -L, or the run with -T",
        )


def _standby(options: StandbyOptions) -> Fields:
    settings = parse_assignments(options.manager_settings, "--manager-set")
    return _without_none(
        {
            **(asdict(options.standby) if options.standby else {}),
            "delay": _ms(options.standby_delay),
            "manager": options.manager,
            "manager_settings": settings or None,
        }
    )


def _pooler(options: PoolerOptions) -> Fields:
    settings = parse_assignments(options.pooler_settings, "--pooler-set")
    return _without_none({"kind": options.pooler, "settings": settings or None})


def _group_fields(load: LoadOptions) -> Fields:
    """Return the fields that the options set in every client group."""
    connections, limit_us = load.connections, load.arrival.latency_limit
    pool = {"max": connections.pool_max, "max_wait": _ms(connections.pool_max_wait)}
    return _without_none(
        {
            "count": load.clients,
            "think": _ms(load.think),
            "arrival": _arrival(load.arrival),
            "latency_limit": None if limit_us is None else f"{limit_us}us",
            "pool": _without_none(pool) or None,
            "connection": "per-transaction" if connections.connect else None,
        }
    )


def _arrival(options: ArrivalOptions) -> Fields | None:
    fields = {
        "rate": options.rate,
        "process": options.process,
        "when_busy": options.when_busy,
        "queue_max": options.queue_max,
    }
    return _without_none(fields) or None


def _check_arrival(options: ArrivalOptions) -> None:
    """Raise UsageError for options of an open loop without a rate."""
    for option, value in (
        ("--process", options.process),
        ("--when-busy", options.when_busy),
        ("--queue-max", options.queue_max),
    ):
        if value is not None and options.rate is None:
            raise UsageError(
                f"{option} requires an open loop, with -R",
                code="rate-missing",
                hint="for example -R 500",
            )


def _threads(load: LoadOptions) -> int | None:
    """Return the number of threads: as in pgbench, at most the number of clients."""
    if load.threads is None or load.clients is None:
        return load.threads
    return min(load.threads, load.clients)


def _hold(time_ms: int | None, run: RunOptions | None) -> str | None:
    """Return the duration of the load; with -t, a limit of one day."""
    if run is None or run.transactions is None:
        return _ms(time_ms)
    if time_ms is not None:
        raise UsageError("-t and -T exclude each other", code="contradiction")
    return "1d"


def _without_none(fields: Mapping[str, object]) -> Fields:
    return {key: value for key, value in fields.items() if value is not None}


def _ms(duration_ms: int | None) -> str | None:
    return None if duration_ms is None else f"{duration_ms}ms"


def _safe_name(name: str) -> str:
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name)
    return kept.lstrip("._-")[:80] or "run"


def _in_options(message: str) -> str:
    """Return the message of an invalid spec with options instead of the keys that they set."""
    return "\n".join(map(_line_in_options, message.split("\n")))


def _line_in_options(line: str) -> str:
    found = re.match(r"(\s*)([\w.\[\]]+): (.*)", line)
    if found is None:
        return line
    indent, key, text = found.groups()
    if key in _OPTIONS:
        return f"{indent}{_OPTIONS[key]}: {text}"
    if key not in _TABLES:
        return line
    keys = {name.removeprefix(f"{key}."): option for name, option in _OPTIONS.items()}
    said = re.sub(r"[a-z][a-z_.]*[a-z]", lambda word: keys.get(word[0], word[0]), text)
    said = re.sub(r'(--[a-z-]+) = "([^"]*)"', r"\1 \2", said)
    return f"{indent}{said}" if said != text else line

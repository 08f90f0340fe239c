"""Make a spec from arguments and options.

Options override a spec file. Errors of a spec that was made of options alone name the options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

from pgdyno import credentials
from pgdyno.cli.arrival_options import ArrivalOptions
from pgdyno.cli.connection import conninfo_of
from pgdyno.cli.grouping import Sets, set_options
from pgdyno.cli.load_options import LoadOptions, ScriptOptions
from pgdyno.cli.options import parse_assignments
from pgdyno.cli.output import notes
from pgdyno.cli.positional import Positional
from pgdyno.cli.scripts import (
    Urls,
    given_urls,
    request_parts,
    script_parts,
    server_url,
    variables_of,
)
from pgdyno.cli.server_options import ServerOptions
from pgdyno.cli.types import Duration, LatencyLimit
from pgdyno.errors import UsageError
from pgdyno.numbers import listed

if TYPE_CHECKING:
    from pgdyno.json_types import Fields
    from pgdyno.spec import Spec

Given = dict[str, Any]
"""Values of the spec's keys, as options set them; keys as those of ``Sets``."""
_COUNTING = ("run", "snapshot save")
"""Commands whose load may have a number of transactions."""


def build_spec(
    command: str,
    positional: Positional,
    load: LoadOptions,
    *own: Struct,
    varied: str | None = None,
    adapt: Callable[[Given], None] | None = None,
    quiet: bool = False,
) -> tuple[Spec, str]:
    """Return the spec of arguments and options, and the spec file's text ('' without one).

    ``own`` are groups of options that ``command`` has alone, ``varied`` is a key that is not set
    because the command varies it, and ``adapt`` may refuse or change what the options set.
    """
    _check_arrival(load.arrival, has_file=positional.spec_path is not None)
    given = _given(positional, load, own, varied)
    if adapt is not None:
        adapt(given)
    spec, text = _spec(command, positional, load, own, given, varied=varied, quiet=quiet)
    return _at_speed(spec, load.arrival.speed, quiet=quiet), text


def _spec(
    command: str,
    positional: Positional,
    load: LoadOptions,
    own: tuple[Struct, ...],
    given: Given,
    *,
    varied: str | None,
    quiet: bool,
) -> tuple[Spec, str]:
    """Return the spec with what the options set, and the spec file's text."""
    from pgdyno.conduct import check_server_named, read_spec_or_run
    from pgdyno.imports import is_foreign
    from pgdyno.spec import spec_from_fields

    path = positional.spec_path
    tables = _tables(given)
    group = tables.pop("clients", {})
    if path is not None and is_foreign(path):
        chosen = any(getattr(each, "group", None) is not None for each in own)
        one_group = bool(group) or (varied is not None and not chosen)
        return _imported(path, load, tables, group, one_group=one_group, quiet=quiet), ""
    if path is not None:
        spec, text = read_spec_or_run(path, tables, group)
        check_server_named(spec, path)
        if command not in _COUNTING:
            spec = _timed(spec, path, command, has_time="load.hold" in given, quiet=quiet)
        return spec, text
    name = _safe_name(positional.builtin or _name_of(load.scripts, tables))
    fields = {"name": name, **tables, "clients": [group]}
    return spec_from_fields(fields, names=_names(load, *own)), ""


def _at_speed(spec: Spec, speed: float | None, *, quiet: bool) -> Spec:
    """Return the spec with its rates so many times as high. Raises UsageError without a rate."""
    if speed is None:
        return spec
    closed = [group.name for group in spec.clients if not (group.open_loop or group.idle)]
    if not any(group.open_loop for group in spec.clients):
        raise UsageError(
            "--speed requires transactions that begin at a rate; those of this load follow each"
            " other as fast as they are answered",
            code="rate-missing",
            hint="-c makes more clients of it, and -R has its transactions begin at a rate",
        )
    if closed:
        notes(quiet=quiet)(
            f"note: transactions of {listed(closed)} follow each other as fast as they are"
            " answered, at any --speed"
        )
    try:
        return spec.at_speed(speed)
    except ValueError as problem:
        raise UsageError(f"--speed {speed:g} makes {problem}", code="bad-rate") from None


def _given(
    positional: Positional, load: LoadOptions, own: tuple[Struct, ...], varied: str | None
) -> Given:
    """Return the keys that the options set. Raises UsageError for options that exclude others."""
    urls = given_urls(load.urls)
    options = [(each, value) for each, value in set_options(load, *own) if each.key != varied]
    settings = next((pair for pair in options if pair[0].key == "server.settings"), None)
    server = _server(positional, load, settings, urls)
    single = {each.key: _value(each, value) for each, value in options}
    several = {**_standbys(load), **_workload(positional, load, urls)}
    given = _without_none({**server, **single, **several})
    if "load.threads" in given and "clients.count" in given:  # As in pgbench.
        given["load.threads"] = min(given["load.threads"], given["clients.count"])
    return given


def _value(each: Sets, value: Any) -> Any:
    """Return the value of an option as the spec has it; None if it was not given."""
    if each.attributes.get("multiple"):
        return parse_assignments(value, each.option) or None
    if value is None or each.attributes.get("is_flag"):
        return value or None
    match each.attributes.get("type"):
        case Duration():
            return f"{value}ms"
        case LatencyLimit():
            return f"{value}us"
    return value


def _tables(given: Given) -> Fields:
    """Return the tables of a spec with these keys."""
    tables: Fields = {}
    for key, value in given.items():
        *names, last = key.split(".")
        table = tables
        for name in names:
            table = table.setdefault(name, {})
        table[last] = value
    return tables


def _names(*groups: Struct) -> dict[str, str]:
    """Return the options by the keys that they set in a spec with one client group."""
    keys = {each.key: each.option for each, _ in set_options(*groups)}
    return {
        f"clients[0].{below}" if table == "clients" else key: name
        for key, name in keys.items()
        for table, _, below in [key.partition(".")]
    }


def _timed(spec: Spec, path: Path, command: str, *, has_time: bool, quiet: bool) -> Spec:
    """Return the spec of a run file without its number of transactions, and without the limit of
    the time for them: the command measures for a time."""
    from pgdyno.conduct.repeating import is_spec_of_run

    if spec.load.transactions is None or not is_spec_of_run(path):
        return spec
    notes(quiet=quiet)(
        f"note: {path} is of a run with a number of transactions (-t); pgdyno {command} measures"
        " for a time instead"
    )
    hold = {} if has_time else {"hold_ms": type(spec.load)().hold_ms}
    load = spec.load.model_copy(update={"transactions": None, **hold})
    if not has_time:
        load.model_fields_set.discard("hold_ms")
    return spec.model_copy(update={"load": load})


def _name_of(options: ScriptOptions, tables: Fields) -> str:
    from pgdyno.spec.workload import DEFAULT_SCRIPT

    scripts = [*options.files, *options.builtins]
    if scripts:
        return Path(scripts[0].partition("@")[0]).stem
    return "http" if "http" in tables else DEFAULT_SCRIPT


def _imported(
    path: Path, load: LoadOptions, tables: Fields, group: Fields, *, one_group: bool, quiet: bool
) -> Spec:
    """Return the spec of a file of another tool, a capture's in ``one_group`` if options are about
    all of its clients. Raises UsageError."""
    from pgdyno.conduct.source_settings import with_source_settings
    from pgdyno.imports import Choices, fields_with_texts, read_foreign
    from pgdyno.spec.read import spec_over

    choices = Choices(
        url=tables.get("http", {}).get("url"),
        variables=variables_of(load.scripts.define),
        credentials=credentials.are_kept(),
        outside_files=load.urls.allow_files,
        scale=tables.get("workload", {}).get("scale", 1),
        one_group=one_group,
    )
    imported = read_foreign(path, choices)
    # The URL is the server's, the variables are the file's, and the setup has the scale.
    for key in ("script", "variables", *(["scale"] if imported.setups else [])):
        tables.get("workload", {}).pop(key, None)
    spec = spec_over(fields_with_texts(imported), tables, group, path=path)
    spec, of_settings = with_source_settings(spec, imported.settings)
    for note in (*imported.notes, *of_settings):
        notes(quiet=quiet)(f"note: {note}")
    return spec


def _server(
    positional: Positional, load: LoadOptions, settings: tuple[Sets, Any] | None, urls: Urls
) -> Given:
    """Return which server is loaded. Raises UsageError for options of another one."""
    server = load.server
    conninfo, control = conninfo_of(positional, server.connect), server.connect.control
    if conninfo is None and urls:
        conninfo, control = control, None  # The clients do not connect to it.
    if conninfo is None:
        _check_no_server_needed(load, control)
        return {}
    _check_runs_already(server, settings)
    return {"server.kind": "existing", "server.conninfo": conninfo, "server.control": control}


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


def _check_runs_already(server: ServerOptions, settings: tuple[Sets, Any] | None) -> None:
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
    if settings is not None and settings[1]:
        raise UsageError(
            f"{settings[0].option} cannot be used with a running server, only with one started by"
            " pgdyno",
            code="contradiction",
            hint="pgdyno compare --set NAME=VALUE --apply tries a setting on your server",
        )


def _standbys(load: LoadOptions) -> Given:
    standby = load.server.standbys.standby
    return {f"standby.{key}": value for key, value in asdict(standby).items()} if standby else {}


def _workload(positional: Positional, load: LoadOptions, urls: Urls) -> Given:
    """Return scripts or requests, their variables and what is vacuumed. Raises UsageError."""
    scripts, init = load.scripts, load.init
    mix = script_parts(scripts, positional.builtin) or request_parts(urls, scripts)
    variables = variables_of(scripts.define) or None
    if init.no_vacuum and init.vacuum_all:
        raise UsageError("-n and -v exclude each other", code="contradiction")
    return {
        "workload.script": mix,
        "workload.variables": variables,
        "workload.vacuum": "none" if init.no_vacuum else "all" if init.vacuum_all else None,
        "http.url": server_url(urls, load.urls),
    }


def _check_arrival(options: ArrivalOptions, *, has_file: bool) -> None:
    """Raise UsageError for options of an open loop without a rate, and for two that give it."""
    if options.rate is not None and options.speed is not None:
        raise UsageError(
            "-R and --speed exclude each other: one is a rate, the other multiplies rates",
            code="contradiction",
        )
    for each, value in set_options(options):
        of_rate = each.key.startswith("clients.arrival.")
        if of_rate and value is not None and options.rate is None and not has_file:
            raise UsageError(
                f"{each.option} requires an open loop, with -R",
                code="rate-missing",
                hint="for example -R 500",
            )


def _without_none(given: Mapping[str, Any]) -> Given:
    return {key: value for key, value in given.items() if value is not None}


def _safe_name(name: str) -> str:
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name)
    return kept.lstrip("._-")[:80] or "run"

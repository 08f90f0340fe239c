"""Make a spec from arguments and options.

Options override a spec file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pgdyno.cli.connection import conninfo_of
from pgdyno.cli.init_options import init_fields
from pgdyno.cli.option_words import in_options
from pgdyno.cli.options import parse_assignments
from pgdyno.cli.positional import Positional
from pgdyno.cli.run_options import check_tries, log_fields
from pgdyno.cli.scripts import script_parts, variables_of
from pgdyno.cli.urls import given_urls, http_fields, request_parts
from pgdyno.errors import UsageError

# Options that are keys of the spec's table load, under the same name.
_LOAD_KEYS = (
    "threads", "connecting_max", "protocol", "parameters", "max_tries", "seed", "reactor", "cpus",
    "nice", "acks", "max_failures", "exit_on_abort", "max_other_programs",
)  # fmt: skip

# Options for a server that pgdyno starts, not for a running server.
_STARTED_ONLY = (
    "pg_bindir", "pg_version", "data_disk", "wal_disk", "checksums", "snapshot", "standby",
    "standby_delay", "manager",
)  # fmt: skip


def build_spec(positional: Positional, given: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the spec of arguments and options, and the spec file's text ('' without one)."""
    from pgdyno.conduct import check_server_named, read_spec_or_run
    from pgdyno.imports import is_foreign
    from pgdyno.spec import spec_from_fields
    from pgdyno.spec.mix import DEFAULT_SCRIPT

    if positional.spec_path is None:
        _check_arrival(given)
    overrides = _overrides(positional, given)
    if positional.spec_path is not None and is_foreign(positional.spec_path):
        return _imported(positional.spec_path, given, overrides), ""
    if positional.spec_path is not None:
        spec, text = read_spec_or_run(positional.spec_path, overrides, _group_fields(given))
        check_server_named(spec, positional.spec_path)
        return spec, text
    scripts = [*given["files"], *given["builtins"]]
    name = positional.builtin or (
        Path(scripts[0].partition("@")[0]).stem
        if scripts
        else "http"
        if "http" in overrides
        else DEFAULT_SCRIPT
    )
    fields = {"name": _safe_name(name), **overrides, "clients": [_group_fields(given)]}
    try:
        return spec_from_fields(fields), ""
    except UsageError as problem:
        problem.message = in_options(problem.message)
        raise


def _imported(path: Path, given: Mapping[str, Any], overrides: dict[str, Any]) -> Any:
    """Return the spec of a file of another tool. Raises UsageError."""
    from pgdyno.cli.printed import notes
    from pgdyno.imports import Choices, fields_with_texts, read_foreign
    from pgdyno.spec.read import spec_over

    http = overrides.get("http") or {}
    choices = Choices(url=http.get("url"), variables=variables_of(given["define"]))
    imported = read_foreign(path, choices)
    for note in imported.notes:
        notes(quiet=bool(given.get("quiet")))(f"note: {note}")
    workload = overrides.get("workload", {})
    for key in ("script", "variables"):
        workload.pop(key, None)  # The URL is the server's, and the variables are the file's.
    return spec_over(fields_with_texts(imported), overrides, _group_fields(given), path=path)


def _overrides(positional: Positional, given: Mapping[str, Any]) -> dict[str, Any]:
    check_tries(given)
    overrides: dict[str, Any] = {}
    urls = given_urls(given)
    server = _server_fields(positional, given, has_urls=bool(urls))
    if server:
        overrides["server"] = server
    workload = {
        "script": script_parts(given, positional.builtin) or request_parts(urls, given),
        "scale": given["scale"],
        "variables": variables_of(given["define"]) or None,
        **init_fields(given),
    }
    load = {
        "ramp": _ms(given["ramp"]),
        "hold": _hold(given),
        "transactions": given.get("transactions"),
        "log": log_fields(given),
        "verbose_errors": given.get("verbose_errors") or None,
        "matters": given.get("matters"),
        **{name: given[name] for name in _LOAD_KEYS},
    }
    load["threads"] = _threads(given)
    disk = {"data": given["data_disk"], "wal": given["wal_disk"]}
    standby = _standby(given)
    tables = {
        "disk": disk,
        "standby": standby,
        "pooler": _pooler(given),
        "workload": workload,
        "load": load,
    }
    for key, fields in tables.items():
        if present := _without_none(fields):
            overrides[key] = present
    alone = {"metrics": given.get("metrics"), "http": http_fields(urls, given)}
    return overrides | _without_none(alone)


def _server_fields(
    positional: Positional, given: Mapping[str, Any], *, has_urls: bool
) -> dict[str, Any]:
    conninfo, control = conninfo_of(positional, given), given["control"]
    if conninfo is None and has_urls:
        conninfo, control = control, None  # The clients do not connect to it.
    if conninfo is None:
        if control is not None:
            raise UsageError(
                "--control requires a server for the clients, named with -h or -d",
                code="contradiction",
            )
        if given["server_wait"] is not None:
            raise UsageError(
                "--server-wait requires a server named with -h or -d",
                code="contradiction",
            )
        if given["initialize"]:
            raise UsageError(
                "-i requires a named server",
                code="contradiction",
                hint="for example -d DATABASE; on a server started by pgdyno the tables are always"
                " created",
            )
        if given["prompt"] is not None:
            option = "-W" if given["prompt"] == "always" else "-w"
            raise UsageError(f"{option} requires a named server", code="contradiction")
        settings = parse_assignments(given.get("settings", ()), "--set")
        return _without_none(
            {
                "bindir": given["pg_bindir"],
                "version": given["pg_version"],
                "settings": settings or None,
                "checksums": given["checksums"],
                "snapshot": given["snapshot"],
                "statements": given.get("statements") or None,
            }
        )
    for option in _STARTED_ONLY:
        if given[option] is not None:
            raise UsageError(
                f"--{option.replace('_', '-')} cannot be used with a running server, only"
                " with one started by pgdyno",
                code="contradiction",
            )
    if given.get("settings"):
        raise UsageError(
            "--set cannot be used with a running server, only with one started by pgdyno",
            code="contradiction",
            hint="pgdyno compare --set NAME=VALUE --apply tries a setting on your server",
        )
    return _without_none(
        {
            "kind": "existing",
            "conninfo": conninfo,
            "control": control,
            "wait": _ms(given["server_wait"]),
            "statements": given.get("statements") or None,
        }
    )


def _standby(given: Mapping[str, Any]) -> dict[str, Any]:
    settings = parse_assignments(given.get("manager_settings", ()), "--manager-set")
    return {
        **(given["standby"] or {}),
        "delay": _ms(given["standby_delay"]),
        "manager": given.get("manager"),
        "manager_settings": settings or None,
    }


def _pooler(given: Mapping[str, Any]) -> dict[str, Any]:
    settings = parse_assignments(given.get("pooler_settings", ()), "--pooler-set")
    return {"kind": given.get("pooler"), "settings": settings or None}


def _group_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that the options set in every client group."""
    pool = _without_none({"max": given["pool_max"], "max_wait": _ms(given["pool_max_wait"])})
    limit_us = given["latency_limit"]
    return _without_none(
        {
            "count": given["clients"],
            "think": _ms(given["think"]),
            "arrival": _arrival(given),
            "latency_limit": None if limit_us is None else f"{limit_us}us",
            "pool": pool or None,
            "connection": "per-transaction" if given["connect"] else None,
        }
    )


def _arrival(given: Mapping[str, Any]) -> dict[str, Any] | None:
    keys = ("rate", "process", "when_busy", "queue_max")
    return _without_none({key: given[key] for key in keys}) or None


def _check_arrival(given: Mapping[str, Any]) -> None:
    """Raise UsageError for options of an open loop without a rate."""
    for key in ("process", "when_busy", "queue_max"):
        if given[key] is not None and given["rate"] is None:
            raise UsageError(
                f"--{key.replace('_', '-')} requires an open loop, with -R",
                code="rate-missing",
                hint="for example -R 500",
            )


def _threads(given: Mapping[str, Any]) -> int | None:
    """Return the number of threads: as in pgbench, at most the number of clients."""
    threads: int | None = given["threads"]
    clients: int | None = given["clients"]
    return threads if threads is None or clients is None else min(threads, clients)


def _hold(given: Mapping[str, Any]) -> str | None:
    """Return the duration of the load; with -t, a limit of one day."""
    if given.get("transactions") is None:
        return _ms(given.get("time"))
    if given.get("time") is not None:
        raise UsageError("-t and -T exclude each other", code="contradiction")
    return "1d"


def _without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _ms(duration_ms: int | None) -> str | None:
    return None if duration_ms is None else f"{duration_ms}ms"


def _safe_name(name: str) -> str:
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name)
    return kept.lstrip("._-")[:80] or "run"

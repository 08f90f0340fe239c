"""Options that several commands share, and how they become a spec.

pgbench's letters keep their meaning: -c -j -T -P -s -M -f -D; psql's keep theirs: -h -p -U -d.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from pgdyno.errors import UsageError

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Duration(click.ParamType[int]):
    """A duration on the command line, in milliseconds; a bare number is seconds, as in pgbench."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from pgdyno.spec.units import parse_duration_ms

        if isinstance(value, int):
            return value
        try:
            return parse_duration_ms(value, bare_unit="s")
        except ValueError as problem:
            self.fail(str(problem), param, ctx)


_LOAD_OPTIONS = [
    click.argument("what", nargs=-1, metavar="[WORKLOAD|SPEC.toml] [CONNINFO]"),
    click.option("-c", "--clients", type=click.IntRange(1), metavar="N", help="Clients."),
    click.option(
        "-j", "--threads", type=click.IntRange(1), metavar="N", help="Threads of the load engine."
    ),
    click.option("--ramp", type=Duration(), help="Linear ramp from no client to all of them."),
    click.option(
        "--pool-max", type=click.IntRange(1), metavar="N", help="Clients share a pool of N."
    ),
    click.option("--pool-max-wait", type=Duration(), help="How long a client waits for one."),
    click.option("--think", type=Duration(), help="Pause of a client after each transaction."),
    click.option(
        "-s", "--scale", type=click.IntRange(1), metavar="N", help="Scale of pgbench's tables."
    ),
    click.option(
        "-f", "--file", "files", multiple=True, metavar="FILE[@W]", help="Script with weight."
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
        "--max-tries",
        type=click.IntRange(1),
        metavar="N",
        help="Tries of a transaction that a serialization failure or a deadlock ends (default 10).",
    ),
    click.option("--seed", type=click.IntRange(0), metavar="N", help="Seed of all randomness."),
]

_SERVER_OPTIONS = [
    click.option("-h", "--host", metavar="HOST", help="Your server's host or socket folder."),
    click.option("-p", "--port", type=click.IntRange(1, 65_535), metavar="PORT", help="Its port."),
    click.option("-U", "--username", metavar="NAME", help="User to connect as."),
    click.option("-d", "--dbname", metavar="DB|CONNINFO", help="Database or connection string."),
    click.option("--pg-bindir", metavar="DIR", help="Programs of the server to start."),
    click.option("--pg-version", type=int, metavar="N", help="Major version to start."),
]

_OUTPUT_OPTIONS = [
    click.option("-o", "--output", metavar="FILE", help="Run file (default in pgdyno-runs/)."),
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
        type=Duration(),
        default="5",
        help="Time between lines of progress, when stderr is no terminal (default 5 s).",
    ),
    click.option("-q", "--quiet", is_flag=True, help="No progress."),
]


def _all_of(options: list[Callable[[Any], Any]]) -> Callable[[_Command], _Command]:
    def decorate(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


load_options = _all_of([*_LOAD_OPTIONS, *_SERVER_OPTIONS])
output_options = _all_of(_OUTPUT_OPTIONS)


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


@dataclass(frozen=True)
class Asked:
    """What the positional arguments name: at most one workload or spec, at most one server."""

    builtin: str | None = None
    spec_path: Path | None = None
    conninfo: str | None = None


def sort_out(what: tuple[str, ...]) -> Asked:
    """Tell workloads, spec files and connection strings apart."""
    found: dict[str, Any] = {}
    for word in what:
        kind = _kind_of(word)
        if kind in found or (kind != "conninfo" and ("builtin" in found or "spec_path" in found)):
            raise UsageError(
                f'"{word}": only one workload or spec and one connection string can be given',
                code="too-many-arguments",
            )
        found[kind] = Path(word) if kind == "spec_path" else word
    return Asked(**found)


def _kind_of(word: str) -> str:
    from pgdyno.spec.model import BUILTIN_SCRIPTS

    if word in BUILTIN_SCRIPTS:
        return "builtin"
    if "://" in word or "=" in word:
        return "conninfo"
    if word.endswith(".toml"):
        return "spec_path"
    hint = f"workloads are {', '.join(BUILTIN_SCRIPTS)}; a script file is given with -f"
    raise UsageError(
        f'"{word}" is neither a built-in workload, nor a .toml file, nor a connection string',
        code="unknown-argument",
        hint=hint,
    )


def build_spec(asked: Asked, given: Mapping[str, Any]) -> tuple[Any, str]:
    """The spec that arguments and options ask for, and the spec file's text ('' without one)."""
    from pgdyno.spec import read_spec, spec_from_fields

    overrides = _overrides(asked, given)
    if asked.spec_path is not None:
        return read_spec(asked.spec_path, overrides, _each_group(given))
    name = asked.builtin or (
        Path(given["files"][0].partition("@")[0]).stem if given["files"] else "run"
    )
    return spec_from_fields(
        {"name": _safe_name(name), **overrides, "clients": [_each_group(given)]}
    ), ""


def _overrides(asked: Asked, given: Mapping[str, Any]) -> dict[str, Any]:
    overrides: dict[str, Any] = {}
    server = _server_fields(asked, given)
    if server:
        overrides["server"] = server
    workload = {
        "script": _script_files(given["files"]) or asked.builtin,
        "scale": given["scale"],
        "variables": parse_assignments(given["define"], "-D") or None,
    }
    load = {
        "ramp": _ms(given["ramp"]),
        "hold": _ms(given.get("time")),
        "threads": given["threads"],
        "protocol": given["protocol"],
        "max_tries": given["max_tries"],
        "seed": given["seed"],
    }
    for key, fields in (("workload", workload), ("load", load)):
        if present := _without_none(fields):
            overrides[key] = present
    return overrides


def _server_fields(asked: Asked, given: Mapping[str, Any]) -> dict[str, Any]:
    conninfo = asked.conninfo
    parts = {
        "host": given["host"],
        "port": given["port"],
        "user": given["username"],
        "dbname": given["dbname"],
    }
    if conninfo is None and not _without_none(parts):
        settings = parse_assignments(given.get("settings", ()), "--set")
        return _without_none(
            {
                "bindir": given["pg_bindir"],
                "version": given["pg_version"],
                "settings": settings or None,
            }
        )
    if given["pg_bindir"] or given["pg_version"]:
        raise UsageError(
            "--pg-bindir and --pg-version choose a server to start; you named one that runs",
            code="contradiction",
        )
    if given.get("settings"):
        raise UsageError(
            "--set is for a server that pgdyno starts; you named one that runs",
            code="contradiction",
            hint="pgdyno compare --set NAME=VALUE --apply tries a setting on your server",
        )
    return {"kind": "existing", "conninfo": _join_conninfo(conninfo, parts)}


def _join_conninfo(conninfo: str | None, parts: Mapping[str, Any]) -> str:
    """libpq's connection string of a positional one and -h -p -U -d, where -d may be one too."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    given = _without_none(parts)
    try:
        database = given.get("dbname")
        if database is not None and ("://" in database or "=" in database):
            given |= conninfo_to_dict(given.pop("dbname"))
        return make_conninfo(conninfo or "", **given)
    except ProgrammingError as problem:
        raise UsageError(
            f"connection string: {str(problem).strip()}", code="bad-conninfo"
        ) from None


def _each_group(given: Mapping[str, Any]) -> dict[str, Any]:
    """What the options say of every client group."""
    pool = _without_none({"max": given["pool_max"], "max_wait": _ms(given["pool_max_wait"])})
    return _without_none(
        {"count": given["clients"], "think": _ms(given["think"]), "pool": pool or None}
    )


def _script_files(files: tuple[str, ...]) -> list[dict[str, Any]] | None:
    """``-f file@weight``, pgbench's way."""
    scripts = []
    for each in files:
        name, at, weight = each.rpartition("@")
        if not at:
            name, weight = each, "1"
        if not weight.isdecimal():
            raise UsageError(
                f'-f {each}: the weight "{weight}" is not a whole number', code="bad-weight"
            )
        scripts.append({"file": name, "weight": int(weight)})
    return scripts or None


def _without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _ms(duration_ms: int | None) -> str | None:
    return None if duration_ms is None else f"{duration_ms}ms"


def _safe_name(name: str) -> str:
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name)
    return kept.lstrip("._-")[:80] or "run"

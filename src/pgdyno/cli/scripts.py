"""Scripts with their variables, and requests to a web server: the options -f, -b, -D, --url and
--url-list."""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgdyno.cli.load_options import ScriptOptions, UrlOptions
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.spec.http import Url

Part = dict[str, object]
"""A script of a mix, as a spec file has it."""
Urls = list[tuple[str, "Url"]]
"""Each URL as it was given, and taken apart."""
_URLS_MAX = 1000

DESCRIBED = {
    "tpcb-like": "<builtin: TPC-B (sort of)>",
    "simple-update": "<builtin: simple update>",
    "select-only": "<builtin: select only>",
    "business": "an order of six or seven items, 30 or 34 statements",
    "business-browse": "a page of the shop",
    "business-payment": "the payment of an order",
    "business-stream": "a batch of a stream consumer",
    "business-desk": "a screen of the help desk",
    "entity-resolution": "a record on its way through entity resolution, about 85 statements",
    "tpcc-new-order": "an order of 5 to 15 items, 26 to 66 statements",
    "tpcc-payment": "the payment of a customer",
    "tpcc-order-status": "the last order of a customer",
    "tpcc-delivery": "the delivery of an order in each district, up to 42 statements",
    "tpcc-stock-level": "how many items of the last orders have little stock",
}
"""Built-in scripts, the first three with pgbench's descriptions."""

_VARIABLE = r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*"
"""Not compiled on import: that takes longer than that of the module."""


def script_parts(options: ScriptOptions, workload: str | None) -> str | list[Part] | None:
    """Return the mix of -f and -b, or the named workload."""
    parts = [_file_part(each) for each in options.files]
    parts += [_builtin_part(each) for each in options.builtins]
    if parts and workload:
        raise UsageError(
            f"the workload {workload} cannot be combined with -f or -b",
            code="contradiction",
            hint=f"to mix them: -b {workload}@1 -f FILE@1"
            if workload in DESCRIBED
            else "give each a client group of its own, in a spec",
        )
    return parts or workload


def _file_part(text: str) -> Part:
    """Parse ``file@weight``; ``-`` is standard input."""
    from pgdyno.imports import is_foreign

    name, weight = _weighted(text, "-f")
    if is_foreign(Path(name)):
        raise UsageError(
            f"-f {text}: this is no script",
            code="script-foreign",
            hint=f"pgdyno run {shlex.quote(name)} runs it, and pgdyno import writes it as scripts",
        )
    if name == "-":
        return {"file": "stdin", "weight": weight, "text": _standard_input()}
    return {"file": name, "weight": weight}


@cache
def _standard_input() -> str:
    """Return all of standard input, which can be read only once."""
    try:
        return sys.stdin.buffer.read().decode()
    except (UnicodeDecodeError, OSError) as problem:
        raise UsageError(
            f"-f -: standard input cannot be read: {problem}", code="script-unreadable"
        ) from None


def _builtin_part(text: str) -> Part:
    """Parse ``name@weight``; as in pgbench, a prefix is enough, and ``list`` prints all names."""
    if text == "list":
        click.echo("Available builtin scripts:")
        for name, described in DESCRIBED.items():
            click.echo(f"  {name:>16}: {described}")
        raise click.exceptions.Exit(0)
    name, weight = _weighted(text, "-b")
    return {"builtin": builtin_named(name, f"-b {text}"), "weight": weight}


def builtin_named(beginning: str, option: str) -> str:
    """Return the built-in script whose name has this prefix. Raises UsageError if not unique."""
    if beginning in DESCRIBED:
        return beginning
    matching = [name for name in DESCRIBED if name.startswith(beginning)]
    if len(matching) != 1 or not beginning:
        problem = "matches more than one script" if matching else "is not a built-in script"
        raise UsageError(
            f'{option}: "{beginning}" {problem}',
            code="unknown-builtin",
            hint=f"built-in scripts are {', '.join(DESCRIBED)}",
        )
    return matching[0]


def _weighted(text: str, option: str) -> tuple[str, int]:
    """Parse ``name@weight`` as pgbench does."""
    name, at, weight = text.rpartition("@")
    if not at:
        name, weight = text, "1"
    if not (weight.isascii() and weight.isdecimal()):
        raise UsageError(
            f'{option} {text}: the weight "{weight}" is not a whole number, 0 or more',
            code="bad-weight",
        )
    return name, int(weight)


def variables_of(definitions: tuple[str, ...]) -> dict[str, str]:
    """Return ``-D name=value`` as a mapping, checked as by pgbench. Raises :class:`UsageError`."""
    values = {}
    for definition in definitions:
        name, _, value = definition.partition("=")
        if not name or not value:
            raise UsageError(
                f'-D "{definition}" is not NAME=VALUE',
                code="bad-assignment",
                hint="for example -D batch=100",
            )
        if not re.fullmatch(_VARIABLE, name):
            raise UsageError(
                f'-D "{definition}": invalid variable name "{name}"',
                code="bad-assignment",
                hint="letters, digits and underscores, not starting with a digit",
            )
        values[name] = value
    return values


def server_url(urls: Urls, options: UrlOptions) -> str | None:
    """Return the URL of the web server, or None. Raises UsageError."""
    origins = dict.fromkeys(parsed.origin for _, parsed in urls)
    if len(origins) > 1:
        raise UsageError(
            f"the URLs are on several servers: {', '.join(origins)}",
            code="several-web-servers",
            hint="a load is of one web server; run the others on their own",
        )
    if options.front_metrics is not None:
        check_url(options.front_metrics, "--front-metrics")
    return urls[0][0] if urls else None


def request_parts(urls: Urls, options: ScriptOptions) -> list[Part] | None:
    """Return a script for each URL; None without a URL, or with scripts that request others."""
    if not urls or options.files or options.builtins:
        return None
    from pgdyno.spec.http import request_part

    weights = Counter(parsed.target for _, parsed in urls)
    return [request_part(target, weight) for target, weight in weights.items()]


def given_urls(options: UrlOptions) -> Urls:
    """Return the URLs of both options. Raises UsageError."""
    urls = [("--url", url) for url in options.urls]
    if options.url_list:
        from pgdyno.workload import read_urls

        urls += read_urls(options.url_list)
    if len(urls) > _URLS_MAX:
        raise UsageError(
            f"{len(urls):,} URLs are more than {_URLS_MAX:,}, each of which has its own figures",
            code="too-many-urls",
            hint="request them with one script, with variables in its paths: -f FILE",
        )
    return [(url, check_url(url, where)) for where, url in urls]


def check_url(url: str, where: str) -> Url:
    """Return a URL, given at ``where``, taken apart. Raises UsageError."""
    from pgdyno.spec.http import parse_url

    try:
        return parse_url(url)
    except ValueError as problem:
        raise UsageError(f"{where}: {problem}", code="bad-url") from None

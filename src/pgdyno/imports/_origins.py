"""The one server whose requests are taken, of those that a file names."""

from __future__ import annotations

import shlex
from collections import Counter

from pgdyno.errors import UsageError
from pgdyno.imports._model import Choices
from pgdyno.numbers import listed
from pgdyno.spec.http import parse_url

_SHOWN_MAX = 6


def chosen_origin(origins: Counter[str], nowhere: list[int], file: str, choices: Choices) -> str:
    """Return scheme, host and port. ``nowhere`` are lines of requests that name no server.

    Raises UsageError if there is none, or several and no choice.
    """
    if choices.origin is not None:
        return _asked(choices.origin, origins, file)
    if len(origins) > 1:
        raise UsageError(
            f"{file}: the requests go to several servers: {_listed(origins)}",
            code="import-several-servers",
            hint="take those to one: pgdyno import --origin"
            f" {origins.most_common(1)[0][0]} {shlex.quote(file)}",
        )
    if choices.url is not None and not origins:
        return parse_url(choices.url).origin
    if not origins:
        where = f":{nowhere[0]}" if nowhere else ""
        raise UsageError(
            f"{file}{where}: no server is named",
            code="import-no-server",
            hint="name it with --url http://HOST:PORT",
        )
    return next(iter(origins))


def _asked(asked: str, origins: Counter[str], file: str) -> str:
    try:
        origin = parse_url(asked).origin
    except ValueError as problem:
        raise UsageError(f"--origin: {problem}", code="import-origin") from None
    if origin not in origins:
        raise UsageError(
            f"{file}: no request goes to {origin}",
            code="import-other-server",
            hint=f"they go to {_listed(origins)}" if origins else None,
        )
    return origin


def _listed(origins: Counter[str]) -> str:
    return listed([f"{origin} ({count})" for origin, count in origins.most_common()], _SHOWN_MAX)

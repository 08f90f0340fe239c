"""The servers among which a connection chooses, tried one after the other as libpq tries them.

libpq's own choice among a list waits in one call, without a time limit for each server; psycopg's,
which has the limit, looks neither into services nor stops at a server that refuses the role. So the
parameters that choose are taken out of services and the environment here, and each attempt is a
connection to one server.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import sample
from typing import Any

CHOOSING = ("target_session_attrs", "load_balance_hosts")
"""Parameters that choose among several servers."""
_LISTS = ("host", "hostaddr", "port")
_GO_ON = (
    r"failed to resolve host|could not translate host name|Is the server running"
    r"|timeout expired|session is (?:not )?read-only|server is (?:not )?in hot standby mode"
    r"|database system is (?:starting up|shutting down|in recovery mode|not (?:yet )?accepting)"
)
"""Messages after which libpq tries the next server (fe-connect.c): it cannot be reached, it is
starting (57P03), or it is not of the wanted kind. All others end the connection's attempts."""


def spelled_out(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return libpq's parameters with those that choose a server in them, wherever they come from: a
    service, which counts before the environment, or the environment."""
    from psycopg.pq import Conninfo

    service = params.get("service")
    try:
        with _service(None if service is None else str(service)):
            found = Conninfo.get_defaults()
    except MemoryError:  # There is no such service, which libpq says when it connects.
        return dict(params)
    given = {
        option.keyword.decode(): option.val.decode()
        for option in found
        if option.val and option.val != option.compiled
    }
    chosen = {name: given[name] for name in (*_LISTS, *CHOOSING) if name in given}
    return {**chosen, **params}


def servers_of(params: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return host, hostaddr and port of each server in libpq's lists, as far as they are given; a
    single port applies to all of them. Lists that do not fit each other are left to libpq, which
    says so: then, and without a list, nothing is given."""
    lists = {name: _split(params.get(name)) for name in _LISTS}
    count = max(len(lists["host"]), len(lists["hostaddr"]))
    if len(lists["port"]) == 1:
        lists["port"] *= count
    lists = {name: values for name, values in lists.items() if values}
    if count < 1 or any(len(values) != count for values in lists.values()):
        return [{}]
    return [{name: lists[name][each] for name in lists} for each in range(count)]


def attempts(params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return libpq's parameters of each attempt to connect, in their order, each to one server;
    ``params`` are spelled out."""
    servers = servers_of(params)
    if params.get("load_balance_hosts") == "random":
        servers = sample(servers, len(servers))
    kinds = [params.get("target_session_attrs")]
    if kinds == ["prefer-standby"]:
        kinds = ["standby", "any"]
    kept = {name: value for name, value in params.items() if name not in CHOOSING}
    return [
        {**kept, **server, **({} if kind is None else {"target_session_attrs": kind})}
        for kind in kinds
        for server in servers
    ]


def goes_on(said: str) -> bool:
    """True if libpq tries the next server after this message."""
    return re.search(_GO_ON, said) is not None


def _split(value: object) -> list[str]:
    return [] if value in (None, "") else str(value).split(",")


@contextmanager
def _service(name: str | None) -> Iterator[None]:
    """Within the block, libpq's defaults are those of a service, if one is named."""
    before = os.environ.get("PGSERVICE")
    if name is None or name == before:
        yield
        return
    os.environ["PGSERVICE"] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ["PGSERVICE"]
        else:
            os.environ["PGSERVICE"] = before

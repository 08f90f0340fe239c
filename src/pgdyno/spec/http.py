"""The table ``http`` of a spec: the web server that the clients send requests to."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, field_validator, model_validator

from pgdyno.json_types import Fields
from pgdyno.spec._base import PositiveDuration, SpecTable

PORTS = {"http": 80, "https": 443}
"""Port of each scheme where the URL names none."""
SHOP_MIX = {"/product": 2, "/customer": 1, "/order": 2, "/pay": 1}
"""Requests of a front end without a script, with weights."""
_UNSENDABLE = r"[^\x21-\x7e]"


class Url(NamedTuple):
    """A URL, taken apart."""

    secure: bool
    host: str
    port: int
    target: str
    """Path and query; ``/`` if there is no path."""

    @property
    def origin(self) -> str:
        """Scheme, host and port: what the URLs of one load have in common."""
        scheme = "https" if self.secure else "http"
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == PORTS[scheme] else f":{self.port}"
        return f"{scheme}://{host}{port}"


def parse_url(text: str) -> Url:
    """Take a URL apart. Raises ValueError for one that cannot be requested."""
    try:
        parts: SplitResult = urlsplit(text)
        port = parts.port
    except ValueError as problem:
        raise ValueError(f'"{text}" is not a URL: {problem}') from None
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError(f'"{text}" is not a URL such as http://127.0.0.1:8080/path')
    if parts.username is not None:
        raise ValueError("a URL with a user name: send the header Authorization with a script")
    if port == 0:
        raise ValueError(f'"{text}" names no port')
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if re.search(_UNSENDABLE, target):
        raise ValueError(f'"{text}" has characters that a URL must percent-encode')
    return Url(parts.scheme == "https", parts.hostname, port or PORTS[parts.scheme], target)


class HttpSpec(SpecTable):
    """The web server that all clients send their requests to."""

    url: str | None = Field(
        None,
        description="URL of the web server; without a script, its path is what is requested. Not"
        " given with front, which has an address of its own",
    )
    timeout_ms: PositiveDuration = Field(
        60_000,
        alias="timeout",
        description="Longest wait for the first byte of a response, and for the rest of it",
    )
    verify: bool = Field(True, description="Check the certificate of an https server")
    ca_file: str | None = Field(
        None,
        min_length=1,
        description="File of the certificates that are trusted (default: those of the system)",
    )
    cookies: bool = Field(True, description="Each client keeps the cookies that it is given")

    metrics: str | None = Field(
        None,
        description="URL of the web server's own figures in Prometheus' text format: its pool of"
        " connections, its threads",
    )

    @field_validator("url", "metrics")
    @classmethod
    def _url(cls, url: str | None) -> str | None:
        if url is not None:
            parse_url(url)
        return url

    @model_validator(mode="after")
    def _certificates_of_https(self) -> Self:
        secure = self.url is not None and self.parsed.secure
        if self.ca_file is not None and not (self.verify and secure):
            raise ValueError("ca_file can only be used with an https URL and verify = true")
        return self

    @property
    def parsed(self) -> Url:
        """The URL, taken apart."""
        assert self.url is not None, "the address of a front end is known once it runs"
        return parse_url(self.url)

    def at(self, url: str) -> Self:
        """Return a copy for the web server at ``url``."""
        return self.model_copy(update={"url": url})


def request_part(target: str, weight: int = 1) -> dict[str, object]:
    """Return the part of a mix that requests ``target``."""
    return {"request": target, "weight": weight}


def with_defaults(fields: Fields) -> Fields:
    """Return the fields of a spec; one with a web server needs no database server, and without a
    script its clients request the URL, or those pages of a front end that sell."""
    if fields.get("front") is not None:
        return _with_shop(fields)
    http = fields.get("http")
    url = http.get("url") if isinstance(http, Mapping) else None
    if not isinstance(url, str):
        return fields
    filled = dict(fields)
    if not filled.get("server"):
        filled["server"] = {"kind": "none"}
    workload = filled.get("workload") or {}
    groups = filled.get("clients") or [{}]
    if isinstance(workload, Mapping) and "script" not in workload and _lack_script(groups):
        try:
            filled["workload"] = {**workload, "script": [request_part(parse_url(url).target)]}
        except ValueError:
            return fields  # The table's own validator says what is wrong.
    return filled


def _with_shop(fields: Fields) -> Fields:
    """Return the fields of a spec with a front end, to which the clients send requests."""
    filled = {**fields, "http": fields.get("http") or {}}
    workload = filled.get("workload") or {}
    groups = filled.get("clients") or [{}]
    if isinstance(workload, Mapping) and "script" not in workload and _lack_script(groups):
        shop = [request_part(target, weight) for target, weight in SHOP_MIX.items()]
        filled["workload"] = {**workload, "script": shop}
    return filled


def _lack_script(groups: Any) -> bool:
    listed = groups if isinstance(groups, list) else []
    return any(isinstance(group, Mapping) and not group.get("script") for group in listed)


def _check_foreign(http: HttpSpec, spec: Any) -> None:
    """Raise ValueError for a web server of the user's that is not named, or with a server that
    pgdyno would start."""
    if http.url is None:
        raise ValueError("http needs the url of the web server")
    if spec.server.kind == "embedded":
        raise ValueError(
            "http: pgdyno starts no PostgreSQL server behind a web server; name the one that is"
            " there with server.conninfo, or leave the table server out"
        )


def check_http(http: HttpSpec | None, spec: Any) -> None:
    """Raise ValueError for what does not go together with the table in ``spec``, or without it."""
    if http is None:
        if spec.server.kind == "none":
            raise ValueError(
                'server.kind = "none" is for a load of a web server; give its http.url'
            )
        return
    if spec.front is None:
        _check_foreign(http, spec)
    elif http.url is not None:
        raise ValueError("http.url cannot be used with front, which has an address of its own")
    elif spec.server.kind == "none":
        raise ValueError('front needs a server behind it; server.kind = "none" is for http alone')
    if http.metrics is not None and (spec.front is not None or spec.server.kind == "none"):
        raise ValueError(
            "http.metrics is for a web server of your own with a database that is known: give"
            " server.conninfo, or --control"
        )
    given = {
        "pooler": spec.pooler.in_use,
        "load.acks": spec.load.acks,
        "load.protocol": spec.load.protocol != "prepared",
        "load.parameters": spec.load.parameters != "text",
        "workload.setup": spec.workload.setup,
        "workload.superuser = false": not spec.workload.superuser,
        "workload.update_last": spec.workload.update_last,
        "workload.initialize": spec.front is None and spec.workload.initialize,
        "events": spec.server.kind == "none" and spec.events,
    }
    for key, value in given.items():
        if value:
            raise ValueError(f"{key} cannot be used with http")
    for group in spec.clients:
        if group.idle or group.hold_open_ms or (group.pool and group.pool.validation):
            raise ValueError(
                f"the client group {group.name}: idle, hold_open and validation are for sessions"
                " of a database, not for requests"
            )
        if isinstance(spec.mix_of(group), str):
            raise ValueError(
                f"the client group {group.name} has a built-in script, which is SQL; with http its"
                " scripts are requests"
            )

"""The options --url and --url-list: a web server, and what is requested of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.spec.http import Url

Urls = list[tuple[str, "Url"]]
"""Each URL as it was given, and taken apart."""
_URLS_MAX = 1000


def http_fields(urls: Urls, given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what is given of the spec's table ``http``, or None. Raises UsageError."""
    origins = dict.fromkeys(parsed.origin for _, parsed in urls)
    if len(origins) > 1:
        raise UsageError(
            f"the URLs are on several servers: {', '.join(origins)}",
            code="several-web-servers",
            hint="a load is of one web server; run the others on their own",
        )
    metrics = given.get("front_metrics")
    if metrics is not None:
        check_url(metrics, "--front-metrics")
    fields = {"url": urls[0][0] if urls else None, "metrics": metrics}
    return {name: value for name, value in fields.items() if value is not None} or None


def request_parts(urls: Urls, given: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return a script for each URL; None without a URL, or with scripts that request others."""
    if not urls or given["files"] or given["builtins"]:
        return None
    from pgdyno.spec.http import request_part

    weights = Counter(parsed.target for _, parsed in urls)
    return [request_part(target, weight) for target, weight in weights.items()]


def given_urls(given: Mapping[str, Any]) -> Urls:
    """Return the URLs of both options. Raises UsageError."""
    urls = [("--url", url) for url in given.get("urls") or ()]
    if given.get("url_list"):
        from pgdyno.workload import read_urls

        urls += read_urls(given["url_list"])
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

"""A HAR file, which a browser recorded, as a script: its requests one after the other."""

from __future__ import annotations

import string
from collections import Counter
from pathlib import Path
from urllib.parse import quote

from pgdyno.credentials import is_credential
from pgdyno.errors import UsageError
from pgdyno.imports._lines import (
    HOP_BY_HOP,
    METHODS,
    CannotTake,
    body_lines,
    comment,
    in_form,
    in_text,
    in_url,
    one_line,
    pause_line,
    slug,
)
from pgdyno.imports._model import Account, Choices, Imported
from pgdyno.imports._origins import chosen_origin
from pgdyno.imports._recording_model import Entry, Posted, read_entries, seconds_between
from pgdyno.spec.http import Url, parse_url

_OF_BROWSERS = ("sec-", "dnt", "priority", "upgrade-insecure-requests")
"""Beginnings of headers that say something about the browser only."""
_PAUSE_S_MIN, _PAUSE_S_MAX = 0.1, 3600
_REQUESTS_MAX = 20_000


def import_recording(content: bytes, path: Path, choices: Choices) -> Imported:
    """Return the spec of a recording. Raises UsageError for what is not supported."""
    entries = read_entries(content, str(path))
    writer = _Writer(path, choices)
    origin = writer.origin(entries)
    text = writer.script(entries, origin)
    writer.account.check(partial=choices.partial)
    name = slug(path.stem)
    file = f"{name}.http"
    http: dict[str, object] = {"url": choices.url or f"{origin}/"}
    group = {"name": "visitors", "count": 1, "script": [{"file": file}]}
    fields = {"name": name, "http": http, "clients": [group]}
    account = writer.account
    return Imported(name, fields, {file: text}, {}, account.all_missing, account.all_notes)


class _Writer:
    """Writes the script of a recording."""

    def __init__(self, path: Path, choices: Choices) -> None:
        self.account = Account(str(path))
        self._choices = choices
        self._left_out: Counter[str] = Counter()
        self._lines: list[str] = []

    def origin(self, entries: list[Entry]) -> str:
        """Return the server of the requests. Raises UsageError if there are several."""
        origins = Counter(url.origin for entry in entries if (url := _web_url(entry)))
        if not origins:
            raise UsageError(
                f"{self.account.file}: there is no request to a web server in it",
                code="import-empty-recording",
            )
        return chosen_origin(origins, [], self.account.file, self._choices)

    def script(self, entries: list[Entry], origin: str) -> str:
        """Return the text of the script."""
        before: Entry | None = None
        for number, entry in enumerate(entries):
            url = _web_url(entry)
            if (why := _left_out(entry, url, origin)) is not None:
                self._left_out[why] += 1
                continue
            assert url is not None
            if before is not None:
                self._pause(before, entry)
            before = entry
            self._request(number, entry, url)
        if len(self._lines) > _REQUESTS_MAX * 10:
            raise UsageError(
                f"{self.account.file}: more than {_REQUESTS_MAX:,} requests",
                code="import-too-long",
            )
        if before is None:
            raise UsageError(
                f"{self.account.file}: none of its requests to {origin} can be repeated",
                code="import-empty-recording",
            )
        for why, count in sorted(self._left_out.items()):
            self.account.note(0, f"left out ({count}): {why}")
        return "\n".join(self._lines) + "\n"

    def _pause(self, before: Entry, entry: Entry) -> None:
        """Pause where a new page begins, as long as the visitor did."""
        if not self._choices.pauses or entry.page is None or entry.page == before.page:
            return
        pause_s = seconds_between(before, entry)
        if pause_s > _PAUSE_S_MAX:
            self.account.note(0, f"a pause of {pause_s / 3600:.0f} h between pages is one of 1 h")
        if pause_s >= _PAUSE_S_MIN:
            self._lines += ["", pause_line(min(pause_s, _PAUSE_S_MAX) * 1000)]

    def _request(self, number: int, entry: Entry, url: Url) -> None:
        try:
            lines = self._of(entry, url)
        except CannotTake as problem:
            where = f"log.entries[{number}], {entry.request.method[:20]} {url.target[:80]}"
            text = self.account.missing(0, f"{where}: {problem}")
            lines = [comment(f"not taken, {text}")]
        self._lines += [] if not self._lines else [""]
        self._lines += lines

    def _of(self, entry: Entry, url: Url) -> list[str]:
        method = entry.request.method.upper()
        if method not in METHODS:
            raise CannotTake(f"the method {method[:20]} is not supported")
        lines = [f"\\{method.lower()} {in_url(url.target)}"]
        lines += self._headers(entry)
        if entry.request.posted is not None:
            body = _body(entry.request.posted)
            if body and method in ("GET", "HEAD"):
                raise CannotTake(f"a body of a {method} request is not supported")
            lines += body
        if not 200 <= entry.response.status < 400:
            lines.append(f"\\status {entry.response.status}")
        return lines

    def _headers(self, entry: Entry) -> list[str]:
        lines = []
        for header in entry.request.headers:
            name = header.name.lower()
            if name.startswith(":") or name in ("host", *HOP_BY_HOP):
                self._left_out["headers of the connection, which pgdyno sets itself"] += 1
            elif name.startswith(_OF_BROWSERS):
                self._left_out["headers about the browser: sec-*, dnt, priority"] += 1
            elif is_credential(name) and not self._choices.credentials:
                self._left_out[f"headers {header.name}, which --credentials keeps"] += 1
            else:
                value = one_line(in_text(header.value), f"the header {header.name[:60]}")
                lines.append(f"\\header {header.name}: {value}")
        return lines


def _web_url(entry: Entry) -> Url | None:
    """Return the URL of a request to a web server; None for others, such as ``data:``."""
    try:
        # Browsers encode what must be encoded, other programs may not.
        return parse_url(quote(entry.request.url.partition("#")[0], safe=string.punctuation))
    except ValueError:
        return None


def _left_out(entry: Entry, url: Url | None, origin: str) -> str | None:
    """Return why a request is left out, if it is."""
    if url is None:
        return "requests that are not of HTTP, such as data: and ws:, or whose URL cannot be sent"
    if url.origin != origin:
        return f"requests to {url.origin}"
    if entry.from_cache:
        return "requests that the browser answered from its cache"
    if not 100 <= entry.response.status <= 599:
        return "requests that had no response"
    if entry.response.status == 101:
        return "requests that became a WebSocket"
    return None


def _body(posted: Posted) -> list[str]:
    if posted.encoding:
        raise CannotTake(f"a body in {posted.encoding[:20]} is not supported")
    if posted.mime_type.startswith("multipart/"):
        raise CannotTake("a body of several parts is not supported")
    if posted.text:
        return body_lines(in_text(posted.text))
    fields = posted.params or []
    if any(each.file_name for each in fields):
        raise CannotTake("an upload of files is not supported")
    pairs = (f"{in_form(each.name)}={in_form(each.value)}" for each in fields)
    return body_lines("&".join(pairs))

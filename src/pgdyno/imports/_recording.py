"""A HAR file, which a browser recorded, as a script: its requests one after the other."""

from __future__ import annotations

import base64
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
    variables_of_lines,
)
from pgdyno.imports._model import Choices, ImportAccount, Imported, chosen_origin
from pgdyno.imports._recording_model import HarEntry, Posted, Recording, read_recording
from pgdyno.json_types import Fields
from pgdyno.spec.http import Url, parse_url

_OF_BROWSERS = ("sec-", "dnt", "priority", "upgrade-insecure-requests")
"""Beginnings of headers that say something about the browser only."""
_PAUSE_S_MIN, _PAUSE_S_MAX = 0.1, 3600
_IDLE_S_MIN = 1.0
"""Without a new page, a time without requests that is taken for the visitor's pause: scripts of a
page send what belongs to one click sooner."""
_REQUESTS_MAX = 20_000


def import_recording(content: bytes, path: Path, choices: Choices) -> Imported:
    """Return the spec of a recording. Raises UsageError for what is not supported."""
    recording = read_recording(content, str(path))
    writer = _Writer(path, choices, recording)
    origin = writer.origin()
    text = writer.script(origin)
    writer.account.check(partial=choices.partial)
    name = slug(path.stem)
    file = f"{name}.http"
    http: dict[str, object] = {"url": choices.url or f"{origin}/"}
    group = {"name": "visitors", "count": 1, "script": [{"file": file}]}
    fields: Fields = {"name": name, "http": http, "clients": [group]}
    if variables := variables_of_lines([text]):
        fields["workload"] = {"variables": variables}
    account = writer.account
    return Imported(name, fields, {file: text}, {}, account.all_missing, account.all_notes)


class _Writer:
    """Writes the script of a recording."""

    def __init__(self, path: Path, choices: Choices, recording: Recording) -> None:
        self.account = ImportAccount(str(path))
        self._recording = recording
        self._choices = choices
        self._left_out: Counter[str] = Counter()
        self._lines: list[str] = []
        self._pauses = 0

    def origin(self) -> str:
        """Return the server of the requests. Raises UsageError if there are several."""
        urls = (_web_url(entry) for _, entry in self._recording.entries)
        origins = Counter(url.origin for url in urls if url)
        if not origins:
            raise UsageError(
                f"{self.account.file}: there is no request to a web server in it",
                code="import-empty-recording",
            )
        return chosen_origin(origins, [], self.account.file, self._choices)

    def script(self, origin: str) -> str:
        """Return the text of the script."""
        before: HarEntry | None = None
        idle_from_s = 0.0
        for number, entry in self._recording.entries:
            url = _web_url(entry)
            if (why := self._reason(entry, url, origin)) is not None:
                self._left_out[why] += 1
                continue
            assert url is not None
            if before is not None:
                self._pause(entry.starts_s - idle_from_s, same_page=entry.page == before.page)
            before, idle_from_s = entry, max(idle_from_s, entry.ends_s)
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
        self._note_all()
        return "\n".join(self._lines) + "\n"

    def _note_all(self) -> None:
        if self._recording.without_time:
            self._left_out["requests without a time, whose place nobody knows"] = (
                self._recording.without_time
            )
        for why, count in sorted(self._left_out.items()):
            self.account.note(0, f"left out ({count}): {why}")
        if self._choices.pauses and not self._pauses:
            self.account.note(
                0, "the recording has no pauses: each request follows the response before it"
            )

    def _pause(self, idle_s: float, *, same_page: bool) -> None:
        """Pause as long as the visitor did: before a new page, or a while after the last response
        of a page (Safari has all in one page)."""
        if not self._choices.pauses or idle_s < (_IDLE_S_MIN if same_page else _PAUSE_S_MIN):
            return
        if idle_s > _PAUSE_S_MAX:
            self.account.note(0, f"a pause of {idle_s / 3600:.0f} h is one of 1 h")
        self._pauses += 1
        self._lines += ["", pause_line(min(idle_s, _PAUSE_S_MAX) * 1000)]

    def _reason(self, entry: HarEntry, url: Url | None, origin: str) -> str | None:
        """Return why a request is left out, if it is."""
        if url is None:
            return (
                "requests that are not of HTTP, such as data: and ws:, or whose URL cannot be sent"
            )
        if url.origin != origin:
            return f"requests to {url.origin}"
        if entry.is_cached(self._recording.browser):
            return "requests that the browser answered itself, from its cache"
        if not 100 <= entry.response.status <= 599:
            return "requests that had no response"
        if entry.response.status == 101:
            return "requests that became a WebSocket"
        return None

    def _request(self, number: int, entry: HarEntry, url: Url) -> None:
        try:
            lines = self._of(entry, url)
        except CannotTake as problem:
            where = f"log.entries[{number}], {entry.request.method[:20]} {url.target[:80]}"
            text = self.account.missing(0, f"{where}: {problem}")
            lines = [comment(f"not taken, {text}")]
        self._lines += [] if not self._lines else [""]
        self._lines += lines

    def _of(self, entry: HarEntry, url: Url) -> list[str]:
        method = entry.request.method.upper()
        if method not in METHODS:
            raise CannotTake(f"the method {method[:20]} is not supported")
        lines = [f"\\{method.lower()} {in_url(url.target)}"]
        lines += self._headers(entry)
        if entry.request.posted is not None and (text := _body_text(entry.request.posted)):
            if method in ("GET", "HEAD"):
                raise CannotTake(f"a body of a {method} request is not supported")
            lines += self._body(entry, text, entry.request.posted.mime_type or "")
        if not 200 <= entry.response.status < 400:
            lines.append(f"\\status {entry.response.status}")
        return lines

    def _body(self, entry: HarEntry, text: str, mime_type: str) -> list[str]:
        """Return the lines of a body, and one for its type if the headers have none."""
        length = _header(entry, "content-length") or ""
        if length.isdecimal() and int(length) != (found := len(text.encode())):
            problem = f"a body of {length} bytes, of which the recording has {found:,}"
            if mime_type.startswith("multipart/"):
                raise CannotTake(problem)
            self.account.note(
                0,
                f"{entry.request.method[:20]} {entry.request.url[:80]}: the browser sent {problem}",
            )
        content_type = _header(entry, "content-type")
        typed = []
        if content_type is None and mime_type:
            content_type = mime_type
            typed = [f"\\header Content-Type: {one_line(in_text(mime_type), 'a type')}"]
        return typed + body_lines(in_text(text), content_type)

    def _headers(self, entry: HarEntry) -> list[str]:
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


def _web_url(entry: HarEntry) -> Url | None:
    """Return the URL of a request to a web server; None for others, such as ``data:``."""
    try:
        # Browsers encode what must be encoded, other programs may not.
        return parse_url(quote(entry.request.url.partition("#")[0], safe=string.punctuation))
    except ValueError:
        return None


def _header(entry: HarEntry, name: str) -> str | None:
    """Return the value of a header of the request."""
    found = (each.value for each in entry.request.headers if each.name.lower() == name)
    return next(found, None)


def _body_text(posted: Posted) -> str:
    """Return the text that was sent. Raises CannotTake."""
    fields = posted.params or []
    if posted.text and posted.encoding:
        return _decoded(posted.text, posted.encoding)
    if any(each.file_name for each in fields):
        raise CannotTake("an upload of files is not supported")
    if posted.text:
        return posted.text
    if (posted.mime_type or "").startswith("multipart/"):
        raise CannotTake("a body of several parts, whose text the recording does not have")
    return "&".join(f"{in_form(each.name)}={in_form(each.value)}" for each in fields)


def _decoded(text: str, encoding: str) -> str:
    if encoding.lower() != "base64":
        raise CannotTake(f"a body in {encoding[:20]} is not supported")
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode()
    except UnicodeDecodeError:
        raise CannotTake("a body of bytes that are not UTF-8 text is not supported") from None
    except ValueError:
        raise CannotTake("a body that is not valid base64") from None

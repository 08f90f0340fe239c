"""HTTP samplers of a JMeter plan as requests of a script, with the elements that apply to them.

A plan whose requests all use another protocol is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote_plus, urlsplit

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
)
from pgdyno.imports._model import ImportAccount
from pgdyno.imports._plan_checks import CHECKS, check_lines
from pgdyno.imports._plan_texts import Texts
from pgdyno.imports._plan_timers import PAUSES, RATES, pause_lines
from pgdyno.imports._plan_tree import Element, PlanRecord
from pgdyno.spec.http import parse_url

SAMPLERS = frozenset({"HTTPSamplerProxy", "HTTPSampler", "HTTPSampler2"})
IN_SCOPE = frozenset({"HeaderManager", "CookieManager", "Arguments", *CHECKS, *PAUSES, *RATES})
"""Elements that apply to the requests beside and below them."""
ONCE = frozenset({"CSVDataSet", "CounterConfig", "RandomVariableConfig"})
"""Elements that set variables when a transaction begins."""
_WITH_QUERY = {"GET", "HEAD", "DELETE", "OPTIONS"}
_SQL = "JDBCSampler"
_KINDS_SHOWN_MAX = 6
_RAW = "text/plain; charset=UTF-8"
"""Type that JMeter sends with a body that is no form."""


def is_defaults(element: Element) -> bool:
    """True if it has defaults for HTTP requests."""
    return element.kind == "ConfigTestElement" and (
        "Http" in element.node.attributes.get("guiclass", "")
    )


@dataclass
class Sampler:
    """A sampler, and the elements that apply to it, outermost first."""

    element: Element
    scope: Sequence[Element]

    def text(self, key: str) -> str:
        """Return a property: its own, or that of the nearest defaults."""
        defaults = [each for each in self.scope if is_defaults(each)]
        texts = (each.text(key) for each in [self.element, *reversed(defaults)])
        return next((text for text in texts if text.strip()), "")

    def arguments(self) -> list[PlanRecord]:
        """Return its arguments, after those of its defaults."""
        own = self.element.records("HTTPsampler.Arguments")
        names = {each.text("Argument.name") for each in own}
        given = [
            record
            for each in self.scope
            if is_defaults(each)
            for record in each.records("HTTPsampler.Arguments")
            if record.text("Argument.name") not in names
        ]
        return [*given, *own]

    def of_kind(self, kinds: frozenset[str]) -> list[Element]:
        """Return the elements in its scope of these kinds."""
        return [each for each in self.scope if each.kind in kinds]

    def origin(self, texts: Texts) -> str | None:
        """Return scheme, host and port of its server; None if it names none. Raises CannotTake."""
        path = self.text("HTTPSampler.path").strip()
        if path.startswith(("http://", "https://")):
            parts = urlsplit(texts.fixed_text(path))
            url = f"{parts.scheme}://{parts.netloc}/"
        else:
            domain = texts.fixed_text(self.text("HTTPSampler.domain")).strip()
            if not domain:
                return None
            scheme = texts.fixed_text(self.text("HTTPSampler.protocol")).strip().lower() or "http"
            port = texts.fixed_text(self.text("HTTPSampler.port")).strip()
            url = f"{scheme}://{domain}{f':{port}' if port else ''}/"
        try:
            return parse_url(url).origin
        except ValueError as problem:
            raise CannotTake(str(problem)) from None


def unusable(sampler: Sampler) -> Iterator[str]:
    """Yield the parts of a sampler that a request cannot have."""
    element = sampler.element
    if element.flag("HTTPSampler.DO_MULTIPART_POST") or element.node.named("HTTPsampler.Files"):
        files = element.records("HTTPsampler.Files")
        multipart = element.flag("HTTPSampler.DO_MULTIPART_POST")
        if multipart or any(each.text("File.path") for each in files):
            yield "an upload of files"
    if element.flag("HTTPSampler.image_parser"):
        yield "the resources that a page names are loaded with it"
    if sampler.text("HTTPSampler.proxyHost"):
        yield "a proxy"
    if not element.flag("HTTPSampler.use_keepalive", default=True):
        yield "no keep-alive for this request"
    if element.flag("HTTPSampler.md5"):
        yield "the MD5 sum of the response"


def request_lines(sampler: Sampler, texts: Texts, account: ImportAccount) -> list[str]:
    """Return the lines of a request, pauses before it included. Raises CannotTake."""
    for what in unusable(sampler):
        raise CannotTake(what)
    before: list[str] = []
    method = texts.fixed_text(sampler.text("HTTPSampler.method")).upper() or "GET"
    if method not in METHODS:
        raise CannotTake(f"the method {method}")
    target = _target(sampler, method, texts, before)
    headers = _headers(sampler, texts, account, before)
    content_type = next((text for name, text in headers if name.lower() == "content-type"), None)
    body = _body(sampler, method, content_type, texts, before)
    if body and content_type is None and _is_raw(sampler):
        headers.append(("Content-Type", _RAW))
    lines = [f"\\header {name}: {value}" for name, value in headers] + body
    for check in sampler.of_kind(CHECKS):
        lines += _checked(check, texts, account)
    if any(
        sampler.element.flag(f"HTTPSampler.{key}") for key in ("follow_redirects", "auto_redirects")
    ):
        lines.append("\\follow")
    pauses = pause_lines(sampler.of_kind(PAUSES), texts, account)
    return [*pauses, *before, f"\\{method.lower()} {target}", *lines]


def _checked(check: Element, texts: Texts, account: ImportAccount) -> list[str]:
    try:
        return check_lines(check, texts, account)
    except CannotTake as problem:
        text = f"{check.described}: {problem}"
        return [comment(f"not taken, {account.missing(check.line, text)}")]


def _target(sampler: Sampler, method: str, texts: Texts, before: list[str]) -> str:
    path = sampler.text("HTTPSampler.path").strip()
    if path.startswith(("http://", "https://")):
        parts = path.split("/", 3)
        path = f"/{parts[3]}" if len(parts) > 3 else "/"
    target = texts.render(path, in_url, before)
    is_link = path.startswith("${") and target.startswith(":")
    if not target.startswith("/") and not is_link:
        target = f"/{target}"
    if method in _WITH_QUERY and not _is_raw(sampler):
        query = _joined(sampler.arguments(), in_url, texts, before)
        if query:
            target += ("&" if "?" in target else "?") + query
    return target


def _is_raw(sampler: Sampler) -> bool:
    arguments = sampler.arguments()
    named = any(each.text("Argument.name") for each in arguments)
    return sampler.element.flag("HTTPSampler.postBodyRaw") or (bool(arguments) and not named)


def _joined(
    arguments: list[PlanRecord], as_written: Callable[[str], str], texts: Texts, before: list[str]
) -> str:
    """Return a query or the body of a form; ``as_written`` is for values encoded in the plan."""
    pairs = []
    for each in arguments:
        encode = each.text("HTTPArgument.always_encode").strip().lower() == "true"
        literal = in_form if encode else as_written
        name = texts.render(each.text("Argument.name"), literal, before)
        value = texts.render(each.text("Argument.value"), literal, before)
        bare = not value and each.text("HTTPArgument.use_equals", "true").lower() == "false"
        pairs.append(name if bare else f"{name}={value}")
    return "&".join(pairs)


def _body(
    sampler: Sampler, method: str, content_type: str | None, texts: Texts, before: list[str]
) -> list[str]:
    arguments = sampler.arguments()
    if not arguments or (method in _WITH_QUERY and not _is_raw(sampler)):
        return []
    if not _is_raw(sampler):
        return body_lines(_joined(arguments, _encoded_anew, texts, before), content_type)
    text = "".join(each.text("Argument.value") for each in arguments)
    lines = body_lines(texts.render(text, in_text, before), content_type or _RAW)
    if lines and method in ("GET", "HEAD"):
        raise CannotTake(f"a body of a {method} request")
    return lines


def _encoded_anew(text: str) -> str:
    """Return a value of a form as JMeter sends one that is encoded in the plan: decoded first."""
    return in_form(unquote_plus(text))


def _headers(
    sampler: Sampler, texts: Texts, account: ImportAccount, before: list[str]
) -> list[tuple[str, str]]:
    """Return the headers of the managers in scope: of two alike the nearer one's."""
    found: dict[str, tuple[str, str]] = {}
    for manager in sampler.of_kind(frozenset({"HeaderManager"})):
        for record in manager.records("HeaderManager.headers"):
            name = texts.fixed_text(record.text("Header.name")).strip()
            if not name:
                continue
            if name.lower() in HOP_BY_HOP:
                account.note(record.line, f"the header {name} is set by pgdyno")
                continue
            value = texts.render(record.text("Header.value"), in_text, before)
            found[name.lower()] = (name, one_line(value, f"the header {name}"))
    if sampler.of_kind(CHECKS) and "accept-encoding" in found:
        account.note(
            sampler.element.line,
            "Accept-Encoding is left out of this request: its response is looked into, and pgdyno"
            " decompresses nothing",
        )
        del found["accept-encoding"]
    return list(found.values())


def check_protocol(plan: Element, file: str) -> None:
    """Raise UsageError if a plan has requests, and none by HTTP."""
    kinds = Counter(each.kind for each in plan.walk() if each.kind.endswith("Sampler"))
    if not kinds or SAMPLERS & {each.kind for each in plan.walk()}:
        return
    shown = ", ".join(f"{kind} ({count})" for kind, count in kinds.most_common(_KINDS_SHOWN_MAX))
    what, hint = "none of its requests is by HTTP", "pgdyno run -f FILE plays a script"
    if _SQL in kinds:
        what = "its requests are SQL by JDBC, and none is by HTTP"
        hint = "put the SQL into a script: pgdyno run -f FILE.sql -d DATABASE"
    raise UsageError(f"{file}: {what}: {shown}", code="import-no-http", hint=hint)

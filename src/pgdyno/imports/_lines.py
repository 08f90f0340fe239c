"""Lines of scripts: texts of other tools as the words of pgdyno's language."""

from __future__ import annotations

import re
from urllib.parse import quote

from pgdyno.workload import ENGINE_VARIABLES

_NAMES = re.compile(r":\{?([A-Za-z_]\w*)", re.ASCII)
_KEPT_IN_URL = "/:?@!$&'()*+,;=%~-._[]"
_METACHARACTERS = re.compile(r"[\\.^$*+?()\[\]{}|]")
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
HOP_BY_HOP = {
    *("connection", "content-length", "expect", "keep-alive", "proxy-authenticate"),
    *("proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
}
"""Headers of a connection, or that pgdyno sets itself."""


class CannotTake(Exception):
    """Something that the language cannot say; its text says why."""


def names_after_colons(text: str) -> set[str]:
    """Return what would be variables in ``text`` if they were defined."""
    return set(_NAMES.findall(text))


def in_url(text: str) -> str:
    """Return literal text for a path or query: with what must be encoded, encoded."""
    return _without_variables(quote(text, safe=_KEPT_IN_URL), "%3A")


def in_form(text: str) -> str:
    """Return literal text for a value of a form."""
    return quote(text, safe="~-._")


def in_text(text: str) -> str:
    """Return literal text for a header or a body. Raises CannotTake."""
    return _without_variables(text, None)


def _without_variables(text: str, colon: str | None) -> str:
    for name in sorted(names_after_colons(text) & ENGINE_VARIABLES):
        if colon is None:
            raise CannotTake(f"the text :{name}, which is a variable of every script")
        text = re.sub(rf":(?={name}\b)", colon, text)
    return text


def one_line(text: str, what: str) -> str:
    """Return a text that a line of a script can hold. Raises CannotTake."""
    if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", text):
        raise CannotTake(f"{what} with control characters")
    if text.endswith("\\"):
        raise CannotTake(f"{what} that ends with a backslash")
    return text.strip()


def body_lines(text: str) -> list[str]:
    """Return the lines ``\\body`` of a body. Raises CannotTake for one that they cannot say."""
    lines = text.replace("\r\n", "\n").strip().split("\n")
    markup = text.lstrip()[:1] in ("{", "[", "<")
    if markup:
        lines = [line for line in lines if line.strip()]
    elif any(not line.strip() or line != line.strip() for line in lines):
        raise CannotTake("a body with empty or indented lines, other than JSON or XML")
    return [f"\\body {one_line(line, 'a body')}" for line in lines if text.strip()]


def is_plain(pattern: str) -> bool:
    """True if a regular expression matches only its own text."""
    return not _METACHARACTERS.search(pattern)


def regex_of(text: str) -> str:
    """Return the regular expression that matches ``text``."""
    return _METACHARACTERS.sub(lambda found: "\\" + found[0], text)


def checked_regex(pattern: str) -> str:
    """Return a regular expression of Java's or Perl's kind that means the same in scripts.

    Raises CannotTake for what only those have.
    """
    if re.search(r"\(\?(?:[=!>]|<[=!])", pattern):
        raise CannotTake(f"the regular expression {pattern}: it looks ahead or behind")
    if re.search(r"(?<!\\)(?:\\\\)*\\[1-9]", pattern):
        raise CannotTake(f"the regular expression {pattern}: it refers back to a group")
    return one_line(pattern, "a regular expression")


def pointer_of(path: str) -> str:
    """Return the JSON pointer of a simple JSONPath or JMESPath expression. Raises CannotTake."""
    rest = path.strip().removeprefix("$")
    step = re.compile(r"\.?([A-Za-z_][\w-]*)|\[(\d+)\]|\[(?:'([^'\]]+)'|\"([^\"\]]+)\")\]")
    pointer, at = "", 0
    while at < len(rest):
        found = step.match(rest, at)
        if found is None:
            raise CannotTake(f"the JSON path {path}: only names and numbers of elements are taken")
        name = next(each for each in found.groups() if each is not None)
        pointer += "/" + name.replace("~", "~0").replace("/", "~1")
        at = found.end()
    if not pointer:
        raise CannotTake(f'the JSON path "{path}" names no element')
    return pointer


def slug(text: str) -> str:
    """Return a text as a part of a file name, and as the name of a run."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-._")[:60] or "plan"


def comment(text: str) -> str:
    """Return a line that only people read."""
    return "-- " + re.sub(r"[\x00-\x1f\x7f]+", " ", text)


def pause_line(time_ms: float) -> str:
    """Return the line that waits for so long."""
    return f"\\sleep {round(time_ms)} ms"

"""Lines of scripts: texts of other tools as the words of pgdyno's language."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote

from pgdyno.workload import ENGINE_VARIABLES

_NAMES = re.compile(r":\{?([A-Za-z_]\w*)", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_VALUES = {"empty": "", "cr": "\r"}
"""Variables of imported scripts for what a line cannot hold, or could not end with."""
RESERVED = frozenset({*ENGINE_VARIABLES, *_VALUES})
"""Names that no variable of a plan has in scripts."""
_NOTHING, _RETURN = ":{empty}", ":{cr}"
_OWN_NAMES = re.compile(rf":(?=\{{?(?:{'|'.join(sorted(RESERVED))})(?!\w))", re.ASCII)
"""Colons before what is a variable of every imported script."""
FORM = "application/x-www-form-urlencoded"
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
    """Return the names in ``text`` that would be variables if they were defined."""
    return set(_NAMES.findall(text))


def in_url(text: str) -> str:
    """Return literal text for a path or query: with what must be encoded, encoded."""
    return _OWN_NAMES.sub("%3A", quote(text, safe=_KEPT_IN_URL))


def in_form(text: str) -> str:
    """Return literal text for a value of a form."""
    return quote(text, safe="~-._")


def in_text(text: str) -> str:
    """Return literal text for a header or a body."""
    return _OWN_NAMES.sub(f":{_NOTHING}", text)


def one_line(text: str, what: str) -> str:
    """Return a text that a line of a script can hold. Raises CannotTake."""
    if _CONTROL.search(text):
        raise CannotTake(f"{what} with control characters")
    if text.endswith("\\"):
        raise CannotTake(f"{what} that ends with a backslash")
    return text.strip()


def body_lines(text: str, content_type: str | None) -> list[str]:
    """Return the lines ``\\body`` of a body, which they say byte for byte.

    Raises CannotTake for one that they cannot say.
    """
    lines = [_body_line(line) for line in text.split("\n")] if text else []
    if content_type is None:  # The engine then sends the type that the first letter stands for.
        is_form = text != "" and lines[0][0] not in "{[<"
    else:
        is_form = content_type.lower().startswith(FORM)
    if is_form and "\r" in text:  # Values of variables are encoded in it.
        raise CannotTake("a form with carriage returns")
    return [f"\\body {line}" for line in lines]


def _body_line(line: str) -> str:
    """Return a line with variables where scripts would leave out blanks, or it has no text."""
    line = line.replace("\r", _RETURN)
    if _CONTROL.search(line):
        raise CannotTake("a body with control characters")
    start = _NOTHING if not line or line[0].isspace() else ""
    end = _NOTHING if line[-1:].isspace() or line.endswith("\\") else ""
    return f"{start}{line}{end}"


def variables_of_lines(texts: Iterable[str]) -> dict[str, str]:
    """Return the variables of scripts that stand for what their lines cannot hold."""
    names = {name for text in texts for name in names_after_colons(text)}
    return {name: value for name, value in _VALUES.items() if name in names}


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

"""Assertions and extractors of a JMeter plan as lines after a request."""

from __future__ import annotations

import re
from collections.abc import Callable

from pgdyno.imports._lines import (
    CannotTake,
    checked_regex,
    in_text,
    is_plain,
    one_line,
    pointer_of,
    regex_of,
)
from pgdyno.imports._model import ImportAccount
from pgdyno.imports._plan_texts import Texts
from pgdyno.imports._plan_tree import Element

# Bits of an assertion's type.
_MATCH, _CONTAINS, _NOT, _EQUALS, _SUBSTRING, _OR = 1, 2, 4, 8, 16, 32
_FIRST = {"", "1"}


def extracted_names(element: Element) -> list[str]:
    """Return the variables that an extractor sets."""
    return [name for name, _ in _names(element)]


def check_lines(element: Element, texts: Texts, account: ImportAccount) -> list[str]:
    """Return the lines of an assertion or an extractor. Raises CannotTake."""
    lines = _WRITERS[element.kind](element, texts, account)
    return [one_line(line, "a text") for line in lines]


def _names(element: Element) -> list[tuple[str, str]]:
    """Return the variables of an extractor, each with its expression."""
    key, expression = _EXTRACTOR_KEYS[element.kind]
    names = element.text(key).split(";")
    expressions = element.text(expression).split(";") if len(names) > 1 else [
        element.text(expression)
    ]  # fmt: skip
    return list(zip((name.strip() for name in names), expressions, strict=False))


def _assertion(element: Element, texts: Texts, _: ImportAccount) -> list[str]:
    kind = texts.whole(element.text("Assertion.test_type", "2"), "the type")
    wanted = [texts.fixed_text(each.own_text) for each in element.records("Asserion.test_strings")]
    if element.text("Assertion.scope", "parent") in ("children", "variable"):
        raise CannotTake("an assertion about other things than the response itself")
    field = element.text("Assertion.test_field").removeprefix("Assertion.")
    if field == "response_code":
        return [_statuses(wanted, kind)]
    if field not in ("response_data", "response_data_as_document"):
        raise CannotTake(f"an assertion about {field.replace('_', ' ')}")
    lines = [_ANY_STATUS] if element.flag("Assertion.assume_success") else []
    if kind & _OR and len(wanted) > 1:
        if kind & _NOT:
            raise CannotTake("an assertion that one of several texts is not there")
        patterns = [f"(?:{_pattern(each, kind)})" for each in wanted]
        return [*lines, f"\\matches {'|'.join(patterns)}"]
    return [*lines, *(_about_body(each, kind) for each in wanted)]


def _about_body(wanted: str, kind: int) -> str:
    plain = kind & _SUBSTRING or (kind & _CONTAINS and is_plain(wanted))
    if kind & _NOT:
        if not plain:
            raise CannotTake(f'an assertion that "{wanted[:60]}" does not match')
        return f"\\lacks {in_text(wanted)}"
    return f"\\contains {in_text(wanted)}" if plain else f"\\matches {_pattern(wanted, kind)}"


def _pattern(wanted: str, kind: int) -> str:
    if kind & (_SUBSTRING | _EQUALS):
        wanted = regex_of(wanted)
    wanted = checked_regex(wanted)
    return rf"(?s)\A(?:{wanted})\z" if kind & (_MATCH | _EQUALS) else wanted


_ANY_STATUS = "\\status 1xx 2xx 3xx 4xx 5xx"


def _statuses(wanted: list[str], kind: int) -> str:
    codes: list[str] = []
    for pattern in wanted:
        for each in pattern.strip("^$()").split("|"):
            found = re.fullmatch(r"([1-5])(\d\d|\.\.|\\d\\d|\.\*|\\d\{2\})", each)
            if found is None or kind & _NOT:
                raise CannotTake(f'an assertion about the response code "{pattern[:60]}"')
            codes.append(each if found[2].isdigit() else f"{found[1]}xx")
    if not codes:
        raise CannotTake("an assertion without a response code")
    return f"\\status {' '.join(dict.fromkeys(codes))}"


def _regex(element: Element, texts: Texts, account: ImportAccount) -> list[str]:
    ((name, pattern),) = _names(element)
    _check_match(element.text("RegexExtractor.match_number"))
    _note_default(element, element.text("RegexExtractor.default"), account)
    pattern = checked_regex(texts.fixed_text(pattern))
    template = element.text("RegexExtractor.template", "$1$") or "$1$"
    source = element.text("RegexExtractor.useHeaders", "false")
    name = texts.changes(name)
    if source == "code" and template in ("$0$", "$1$"):
        return [f"\\extract {name} status"]
    if source == "true":
        header = re.fullmatch(r"\^?([\w-]+):\s*\(\.[*+]\??\)\$?", pattern)
        if header is None:
            raise CannotTake(f"the regular expression {pattern} for headers")
        return [f"\\extract {name} header {header[1]}"]
    if source not in ("false", "unescaped"):
        raise CannotTake(f'an extractor from "{source}"')
    if template == "$0$":
        pattern = f"({pattern})"
    elif template != "$1$":
        raise CannotTake(f'the template "{template}"')
    return [f"\\extract {name} body {pattern}"]


def _boundary(element: Element, texts: Texts, account: ImportAccount) -> list[str]:
    _check_match(element.text("BoundaryExtractor.match_number"))
    _note_default(element, element.text("BoundaryExtractor.default"), account)
    if element.text("BoundaryExtractor.useHeaders", "false") != "false":
        raise CannotTake("boundaries in other things than the body")
    left, right = (
        regex_of(texts.fixed_text(element.text(f"BoundaryExtractor.{each}boundary")))
        for each in "lr"
    )
    if not left or not right:
        raise CannotTake("an extractor without both boundaries")
    name = texts.changes(element.text("BoundaryExtractor.refname").strip())
    return [f"\\extract {name} body (?s){left}(.*?){right}"]


def _json(element: Element, texts: Texts, account: ImportAccount) -> list[str]:
    prefix = {"JMESPathExtractor": "JMESExtractor.matchNumber"}
    match = element.text(prefix.get(element.kind, "JSONPostProcessor.match_numbers"))
    for number in match.split(";"):
        _check_match(number)
    default = element.text("JSONPostProcessor.defaultValues") or element.text(
        "JMESExtractor.defaultValue"
    )
    _note_default(element, default, account)
    return [
        f"\\extract {texts.changes(name)} json {pointer_of(texts.fixed_text(path))}"
        for name, path in _names(element)
    ]


def _check_match(number: str) -> None:
    if number.strip() not in _FIRST:
        raise CannotTake(f"match number {number.strip()}: only the first one is taken")


def _note_default(element: Element, default: str, account: ImportAccount) -> None:
    if default:
        account.note(
            element.line,
            f"{element.described} has a default value; here a response without the value fails",
        )


_EXTRACTOR_KEYS = {
    "RegexExtractor": ("RegexExtractor.refname", "RegexExtractor.regex"),
    "BoundaryExtractor": ("BoundaryExtractor.refname", "BoundaryExtractor.lboundary"),
    "JSONPostProcessor": (
        "JSONPostProcessor.referenceNames",
        "JSONPostProcessor.jsonPathExprs",
    ),
    "JMESPathExtractor": ("JMESExtractor.referenceName", "JMESExtractor.jmesPathExpr"),
}
_WRITERS: dict[str, Callable[[Element, Texts, ImportAccount], list[str]]] = {
    "ResponseAssertion": _assertion,
    "RegexExtractor": _regex,
    "BoundaryExtractor": _boundary,
    "JSONPostProcessor": _json,
    "JMESPathExtractor": _json,
}
EXTRACTORS = frozenset(_EXTRACTOR_KEYS)
"""Elements that set variables from responses."""
CHECKS = frozenset(_WRITERS)
"""Elements that say something about responses."""

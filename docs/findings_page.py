"""The reference page of findings, made from the docstrings of rules and of the modules that they
share, and from the list of looks.

A constant named in a docstring stands on the page with its value, a rule or a shared module as a
link to its section.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from pgdyno.looks.look import Look, looks
from pgdyno.numbers import duration, size
from pgdyno.rules.rule import Rule, rules_of_loads, rules_of_looks

_HEAD = """\
# Findings

Made from the rules by `make docs`: the object of each, when it says "found", and where its
threshold is from. [Findings of a load](#findings-of-a-load) are ranked: one of rank 1 owns at least
a tenth of the response time; [How it measures](../measuring.md) says how findings are ranked.
[Findings of a check](#findings-of-a-check) need no load.

# Findings of a load
"""
_CHECK_HEAD = """\
# Findings of a check

They judge what `pgdyno check` looks at once: settings, catalogs, counters since the statistics
began, files of the kernel. A finding that needs a load is one of the window that the check watches.
How much it matters: *will fail* (the server stops or refuses work), *limit* (of the load at
present), *costs* (time, space or safety), *minor*.
"""
_LOOKS_HEAD = """\
# Looks

Each look is one read-only query with time limits of its own, or a few files of the machine. What
cannot be looked at is listed in the result, with what would allow it, and its rules judge nothing.

| look | subject | needs |
|---|---|---|
"""
_MACHINE = "the server's machine"
_NAME = re.compile(r"``([^`]+)``")
_ROLE = re.compile(r":(?:func|class|meth|data|mod):`~?(?:[\w.]*\.)?(\w+)`")


def page() -> str:
    """Return the page: a section for each rule and for each module that they refer to, and the
    table of looks."""
    of_loads, of_looks = rules_of_loads(), rules_of_looks()
    shared = {name for rule in (*of_loads, *of_looks) for name in _referred(rule.text)}
    parts = [_HEAD, *map(_section, of_loads), _CHECK_HEAD, *map(_section, of_looks)]
    parts += ["# Shared rules\n", *(_shared_section(name) for name in sorted(shared, key=_title))]
    return "\n".join((*parts, _LOOKS_HEAD + "".join(map(_row, looks()))))


def _section(rule: Rule[Any]) -> str:
    text = _markdown(rule.text, importlib.import_module(rule.examine.__module__))
    covered = ", ".join(f"[{name}](#{name})" for name in rule.covered_by)
    parts = [f"## {rule.id}", text, f"False positives: {rule.false_positives}."]
    parts += [f"Left out where the window shows {covered}."] if covered else []
    return "\n\n".join(parts) + "\n"


def _shared_section(name: str) -> str:
    module = _module(name)
    return f"## {_title(name)}\n\n{_markdown(module.__doc__ or '', module)}\n"


def _title(name: str) -> str:
    return name.split(".")[-1].strip("_").replace("_", " ").capitalize()


def _row(look: Look) -> str:
    needs = _MACHINE if look.read else look.role or ("a grant" if look.grant else "")
    needs = ", ".join(filter(None, (needs, look.extension)))
    return f"| `{look.name}` | {look.subject} | {needs} |\n"


def _markdown(docstring: str, home: ModuleType) -> str:
    scopes = [home, *map(_module, _referred(docstring))]
    text = _NAME.sub(lambda found: _in_page(found[1], scopes), docstring)
    return _ROLE.sub(r"`\1`", text).strip()


def _in_page(name: str, scopes: Sequence[ModuleType]) -> str:
    """Return the value of a constant, a link to a section, or the name as it is."""
    for scope in scopes:
        value = getattr(scope, name, None)
        if name.isupper() and isinstance(value, int | float):
            return _value(name, value)
    if _is_rule(name):
        return f"[{name.replace('_', '-')}](#{name.replace('_', '-')})"
    if _is_shared(name):
        return f"[{_title(name)}](#{_title(name).lower().replace(' ', '-')})"
    return f"`{name}`"


def _value(name: str, value: float) -> str:
    parts = name.split("_")
    if "SHARE" in parts:
        return f"{100 * value:.3g} %"
    if "_PER_S" in name:
        return f"{value:,g}"
    if "BYTES" in parts:
        return size(value) + ("/s" if "S" in parts else "")
    if "TIMES" in parts:
        return f"{value:g} times"
    if "S" in parts:
        return duration(value) if value >= 1e-3 else f"{1e6 * value:.3g} us"
    unit = " ms" if "MS" in parts else " kB" if "KB" in parts else ""
    return f"{value:,.10g}{unit}"


def _referred(docstring: str) -> list[str]:
    """Return the shared modules that a docstring refers to."""
    return [name for name in _NAME.findall(docstring) if _is_shared(name)]


def _is_rule(name: str) -> bool:
    ids = {rule.id for rule in (*rules_of_loads(), *rules_of_looks())}
    return name.replace("_", "-") in ids


def _is_shared(name: str) -> bool:
    if not re.fullmatch(r"facts\.[a-z_]+|_[a-z_]+", name):
        return False
    return importlib.util.find_spec(_path(name)) is not None


def _module(name: str) -> ModuleType:
    return importlib.import_module(_path(name))


def _path(name: str) -> str:
    return f"pgdyno.{name}" if "." in name else f"pgdyno.rules.{name}"

"""The reference page of rules, which judge what the looks of ``pgdyno check`` see, made from their
docstrings and from the list of looks.
"""

from __future__ import annotations

import importlib
import pkgutil

import findings_page

from pgdyno.check import rules as package
from pgdyno.check._look import Look, looks
from pgdyno.check._rule import Rule

_HEAD = """\
# Rules

Made from the rules by `make docs`. A rule judges what `pgdyno check` looks at once: settings,
catalogs, counters since the statistics began, files of the kernel. What needs a load to be seen is
a [finding](findings.md) of the window that the check watches. How much it matters: *will fail* (the
server stops or refuses work), *limit* (of the load at present), *costs* (time, space or safety),
*minor*.
"""
_LOOKS_HEAD = """\
# Looks

Each look is one read-only query with time limits of its own, or a few files of the machine. What
cannot be looked at is listed in the result, with what would allow it, and its rules judge nothing.

| look | subject | needs |
|---|---|---|
"""
_MACHINE = "the server's machine"


def page() -> str:
    """Return the page: a section for each rule, and the table of looks."""
    modules = [
        importlib.import_module(f"{package.__name__}.{module.name}")
        for module in pkgutil.iter_modules(package.__path__)
    ]
    sections = [
        _section(module.RULE, findings_page.text(module))
        for module in sorted(modules, key=lambda module: module.RULE.id)
    ]
    return "\n".join((_HEAD, *sections, _LOOKS_HEAD + "".join(map(_row, looks()))))


def _section(rule: Rule, text: str) -> str:
    covered = ", ".join(f"[{name}](findings.md#{name})" for name in rule.covered_by)
    parts = [f"## {rule.id}", text, f"False positives: {rule.false_positives}."]
    parts += [f"Left out where the window shows {covered}."] if covered else []
    return "\n\n".join(parts) + "\n"


def _row(look: Look) -> str:
    needs = _MACHINE if look.read else look.role or ("a grant" if look.grant else "")
    needs = ", ".join(filter(None, (needs, look.extension)))
    return f"| `{look.name}` | {look.subject} | {needs} |\n"

"""The reference page of findings, made from the docstrings of signatures and of their shared rules.

A constant named in a docstring stands on the page with its value, and a module of the diagnosis as
a link to its section.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType

from pgdyno.diagnose import signatures as package
from pgdyno.numbers import duration, size

_HEAD = """\
# Findings

Made from the signatures by `make docs`: what each check looks for, when it says "found", and where
its threshold is from. A finding of rank 1 owns at least a tenth of the response time;
[How it measures](../measuring.md) says how findings are ranked.
"""
_NAME = re.compile(r"``([^`]+)``")
_ROLE = re.compile(r":(?:func|class|meth|data|mod):`~?(?:[\w.]*\.)?(\w+)`")
_SHARED = "pgdyno.diagnose"


def page() -> str:
    """Return the page: a section for each signature, and one for each module that they refer to."""
    found = sorted(_signatures(), key=lambda module: module.SIGNATURE.id)
    shared = sorted({name for module in found for name in _referred(module)}, key=_title)
    parts = [_HEAD, *(_section(module) for module in found), "# Shared rules\n"]
    parts += [_rules(name) for name in shared]
    return "\n".join(parts)


def _signatures() -> Iterator[ModuleType]:
    for module in pkgutil.iter_modules(package.__path__):
        yield importlib.import_module(f"{package.__name__}.{module.name}")


def _section(module: ModuleType) -> str:
    signature = module.SIGNATURE
    return f"## {signature.id}\n\n{text(module)}\n\nFalse positives: {signature.false_positives}.\n"


def _rules(name: str) -> str:
    return f"## {_title(name)}\n\n{text(importlib.import_module(f'{_SHARED}.{name}'))}\n"


def _title(name: str) -> str:
    return name.split(".")[-1].strip("_").replace("_", " ").capitalize()


def text(module: ModuleType) -> str:
    """Return a module's docstring as Markdown."""
    scopes = [module, *(importlib.import_module(f"{_SHARED}.{n}") for n in _referred(module))]
    text = _NAME.sub(lambda found: _in_page(found[1], scopes), module.__doc__ or "")
    return _ROLE.sub(r"`\1`", text).strip()


def _in_page(name: str, scopes: list[ModuleType]) -> str:
    """Return the value of a constant, a link to a module's section, or the name as it is."""
    for scope in scopes:
        value = getattr(scope, name, None)
        if name.isupper() and isinstance(value, int | float):
            return _value(name, value)
    if name in _siblings():
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


def _referred(module: ModuleType) -> list[str]:
    """Return the modules of the diagnosis that a docstring refers to."""
    return [name for name in _NAME.findall(module.__doc__ or "") if _is_shared(name)]


def _siblings() -> set[str]:
    return {module.name for module in pkgutil.iter_modules(package.__path__)}


def _is_shared(name: str) -> bool:
    if not re.fullmatch(r"(facts\.)?_?[a-z_]+", name) or name in _siblings():
        return False
    return importlib.util.find_spec(f"{_SHARED}.{name}") is not None

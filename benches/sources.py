"""Python sources as the rules of the house and its figures read them: parsed, never imported."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path


@cache
def syntax_tree(path: Path) -> ast.Module:
    """Return the syntax tree of a module, which is parsed once."""
    return ast.parse(path.read_text())


def docstrings(tree: ast.Module) -> Iterator[tuple[ast.Expr, str]]:
    """Yield docstrings with their text, those of constants and fields included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str):
                yield node, text


def module_name(path: Path, package: Path) -> str:
    """Return the dotted name of a module of the package."""
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(tree: ast.Module, known: Collection[str]) -> Iterator[str]:
    """Yield the modules that a module imports anywhere, within functions and for types too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                part = f"{node.module}.{alias.name}"
                yield part if part in known else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@cache
def imports_within(package: Path) -> dict[str, set[str]]:
    """Return the modules of the package by name, with those that each imports; found once."""
    modules = {module_name(path, package): path for path in sorted(package.rglob("*.py"))}
    return {
        name: {*imported_modules(syntax_tree(path), modules)} & modules.keys() - {name}
        for name, path in modules.items()
    }

"""Shell completion of arguments whose type does not define their values."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem


def workloads(
    _context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Complete built-in workloads, and files, as specs are files."""
    from pgdyno.spec.mix import BUILTIN_SCRIPTS

    names = [name for name in BUILTIN_SCRIPTS if name.startswith(begun)]
    return [*map(CompletionItem, names), CompletionItem(begun, type="file")]


def scripts(
    _context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Complete built-in scripts that can be part of a mix."""
    from pgdyno.spec.mix import MIXABLE_SCRIPTS

    return [CompletionItem(name) for name in MIXABLE_SCRIPTS if name.startswith(begun)]


def faults(
    _context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Complete the faults of drills."""
    from pgdyno.drill.faults import fault_names

    return [CompletionItem(name) for name in fault_names() if name.startswith(begun)]


def files(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete any file."""
    return [CompletionItem(begun, type="file")]


def directories(
    _context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Complete any directory."""
    return [CompletionItem(begun, type="dir")]

"""Positional arguments: a built-in workload, a spec or run file, a connection string, a database.

A bare word is a database, as for pgbench and psql, unless it is the name of a workload. A word that
looks like a host, a script or a misspelt workload is refused.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from msgspec import Struct

from pgdyno.errors import UsageError

_LIKENESS = 0.75
"""Similarity (``difflib``'s ratio) from which a word counts as a misspelt workload."""
_LETTERS_MIN = 3
_STARTING = ("age", "price", "drill", "snapshot save")
"""Commands that are only for servers that pgdyno starts."""
_SCRIPT_ENDINGS = (".sql", ".pgbench", ".bench")


class Positional(Struct, frozen=True):
    """Positional arguments by kind: at most one workload or spec, at most one server."""

    builtin: str | None = None
    spec_path: Path | None = None
    conninfo: str | None = None
    database: str | None = None
    """A bare word; then ``conninfo`` is ``None``."""


def parse_positional(what: tuple[str, ...]) -> Positional:
    """Sort arguments into workloads, spec files, connection strings and databases."""
    found: dict[str, str] = {}
    for word in what:
        kind = _kind_of(word)
        alike = ("conninfo", "database") if kind in ("conninfo", "database") else (
            "builtin", "spec_path"
        )  # fmt: skip
        if any(each in found for each in alike):
            raise UsageError(
                f'"{word}": only one workload or spec and one database or connection string can be'
                " given",
                code="too-many-arguments",
            )
        found[kind] = word
    spec_path = found.get("spec_path")
    return Positional(
        builtin=found.get("builtin"),
        spec_path=None if spec_path is None else Path(spec_path),
        conninfo=found.get("conninfo"),
        database=found.get("database"),
    )


def positional_for(command: str, what: tuple[str, ...]) -> Positional:
    """Sort the arguments of a command with a load. Raises UsageError for a bare word where the
    command is for servers that pgdyno starts: here a workload was meant."""
    from pgdyno.spec.workload import BUILTIN_SCRIPTS

    positional = parse_positional(what)
    if positional.database is not None and command in _STARTING:
        raise UsageError(
            f'"{positional.database}" is not a workload',
            code="unknown-argument",
            hint=f"workloads are {', '.join(BUILTIN_SCRIPTS)}; pgdyno {command} is only for servers"
            " that pgdyno starts, so it takes no database",
        )
    return positional


def _kind_of(word: str) -> str:
    from pgdyno.imports import FOREIGN_SUFFIXES
    from pgdyno.record import is_run_file
    from pgdyno.spec.workload import BUILTIN_SCRIPTS

    if word in BUILTIN_SCRIPTS:
        return "builtin"
    if "://" in word or word.lower().startswith("jdbc:"):
        return "conninfo"
    if is_run_file(Path(word)):
        return "spec_path"
    if "=" in word:
        return "conninfo"
    if word.lower().endswith((".toml", ".db", *FOREIGN_SUFFIXES)):
        return "spec_path"
    if (problem := _not_a_database(word, BUILTIN_SCRIPTS)) is not None:
        message, hint = problem
        raise UsageError(message, code="unknown-argument", hint=hint)
    return "database"


def _not_a_database(word: str, workloads: tuple[str, ...]) -> tuple[str, str] | None:
    """Return message and hint if a bare word is probably not meant as a database."""
    quoted = shlex.quote(word)
    if not word.strip():
        return "an empty argument is neither a workload nor a database", (
            "leave it out to use a server started by pgdyno, or name your server with -d DATABASE"
            " or -h HOST"
        )
    if word.endswith(_SCRIPT_ENDINGS) or ("/" in word and Path(word).is_file()):
        return f'"{word}" looks like a script', f"use -f for a script file: -f {quoted}"
    if ":" in word.rpartition("@")[0]:  # not quoted: it contains a password
        return "an argument of the form USER:PASSWORD@HOST is not a connection string", (
            "a URI begins with postgresql://"
        )
    if word.startswith("/") or word == "localhost" or "." in word or ":" in word:
        return f'"{word}" looks like a host', (
            f"use -h for a host or socket directory: -h {quoted}, or -d for a database of that"
            f" name: -d {quoted}"
        )
    if alike := _alike(word, workloads):
        return f'"{word}" is not a workload; {alike} is', (
            f"workloads are {', '.join(workloads)}; use -d for a database of that name: -d {quoted}"
        )
    return None


def _alike(word: str, workloads: tuple[str, ...]) -> str | None:
    """Return the workload that ``word`` abbreviates or misspells, if any."""
    lower = word.lower()
    if len(lower) >= _LETTERS_MIN:
        for name in workloads:
            if name.startswith(lower):
                return name
    import difflib

    return next(iter(difflib.get_close_matches(lower, workloads, 1, _LIKENESS)), None)

"""What positional words name: a built-in workload, a spec or run file, a connection string, a
database.

A bare word is a database, as for pgbench and psql, unless it is the name of a workload, or looks
like something that is given in another way.
"""

from __future__ import annotations

import difflib
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgdyno.errors import UsageError

_LIKENESS = 0.75
"""From here on a word is taken for a workload that is misspelt (``difflib``'s ratio)."""
_LETTERS_MIN = 3
_SCRIPT_ENDINGS = (".sql", ".pgbench", ".bench")


@dataclass(frozen=True)
class Asked:
    """What the positional words name: at most one workload or spec, at most one server."""

    builtin: str | None = None
    spec_path: Path | None = None
    conninfo: str | None = None
    database: str | None = None
    """The database of a bare word; then there is no ``conninfo``."""


def sort_out(what: tuple[str, ...]) -> Asked:
    """Tell workloads, spec files, connection strings and databases apart."""
    found: dict[str, Any] = {}
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
        found[kind] = Path(word) if kind == "spec_path" else word
    return Asked(**found)


def _kind_of(word: str) -> str:
    from pgdyno.record import is_run_file
    from pgdyno.spec.mix import BUILTIN_SCRIPTS

    if word in BUILTIN_SCRIPTS:
        return "builtin"
    if "://" in word:
        return "conninfo"
    if is_run_file(Path(word)):
        return "spec_path"
    if "=" in word:
        return "conninfo"
    if word.endswith((".toml", ".db")):
        return "spec_path"
    if (problem := _not_a_database(word, BUILTIN_SCRIPTS)) is not None:
        message, hint = problem
        raise UsageError(message, code="unknown-argument", hint=hint)
    return "database"


def _not_a_database(word: str, workloads: tuple[str, ...]) -> tuple[str, str] | None:
    """What a bare word is taken for instead of a database, and what to do about it."""
    quoted = shlex.quote(word)
    if not word.strip():
        return "an empty word names neither a workload nor a database", (
            "leave it out for a server that pgdyno starts; your server is given as -d DATABASE or"
            " -h HOST"
        )
    if word.endswith(_SCRIPT_ENDINGS) or ("/" in word and Path(word).is_file()):
        return f'"{word}" looks like a script', f"a script file is given with -f: -f {quoted}"
    if ":" in word.rpartition("@")[0]:  # not repeated: it has a password in it
        return "what looks like USER:PASSWORD@HOST is no connection string", (
            "a URI begins with postgresql://"
        )
    if word.startswith("/") or word == "localhost" or "." in word or ":" in word:
        return f'"{word}" looks like a host', (
            f"a host or socket folder is given with -h: -h {quoted}; a database of that name with"
            f" -d {quoted}"
        )
    if alike := _alike(word, workloads):
        return f'"{word}" is not a workload; {alike} is', (
            f"workloads are {', '.join(workloads)}; a database of that name is given with"
            f" -d {quoted}"
        )
    return None


def _alike(word: str, workloads: tuple[str, ...]) -> str | None:
    """The workload that ``word`` may be meant for: its beginning, or nearly it."""
    lower = word.lower()
    if len(lower) >= _LETTERS_MIN:
        for name in workloads:
            if name.startswith(lower):
                return name
    return next(iter(difflib.get_close_matches(lower, workloads, 1, _LIKENESS)), None)

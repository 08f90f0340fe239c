r"""Queries that a script joins by ``\;``: the server takes them in one message, and plans each."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from pgdyno._engine import ScriptError, check_script

if TYPE_CHECKING:
    from pgdyno._engine import SampledStatement


def queries_of(statement: SampledStatement) -> list[SampledStatement]:
    """Return the queries of a statement, each as one by itself; a single one as it is."""
    texts = _split(statement["text"]) if ";" in statement["text"] else ()
    if len(texts) < 2:
        return [statement]
    queries = [joined(statement, [each]) for each in texts]
    for each in queries[:-1]:
        each["captures"] = None
    return queries


@lru_cache(maxsize=1024)
def _split(text: str) -> tuple[str, ...]:
    try:
        return tuple(each for each in check_script(text, "joined")["statements"] if each != ";")
    except ScriptError:
        # It is no script. What may end the transaction must be seen, wherever it stands.
        return tuple(text.split(";"))


def joined(statement: SampledStatement, texts: Iterable[str]) -> SampledStatement:
    """Return a statement with other queries, joined."""
    return {**statement, "text": "; ".join(texts), "parameterized": None, "parameters": []}

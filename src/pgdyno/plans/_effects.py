"""Functions that a statement calls and whose effects no rollback undoes.

The catalog tells which functions of the names that the statement and its plan have are volatile;
all others are to have no effects. A function in a trusted language is judged by what its text calls
in turn, as triggers of the tables that the statement changes are. Any other, in C or in an
untrusted language, may do anything, unless it is one of ``_HARMLESS``. What is called without being
named escapes: by operators, casts, policies and domains, and by statements that a function puts
together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from pgdyno.plans.tree import Plan
from pgdyno.server.sql_files import query_at

if TYPE_CHECKING:
    from pgdyno.json_types import Row
    from pgdyno.server.connecting.control import Control

_CALLED = re.compile(r'(?:"((?:[^"]|"")+)"|\b([a-z_\x80-\U0010ffff][\w$]*))\s*\(', re.IGNORECASE)
_DEPTH_MAX = 5
_EVENTS = {"Insert": 4, "Delete": 8, "Update": 16}
"""Operation of a node that changes rows → event of pg_trigger.tgtype."""
_ANY_EVENT = sum(_EVENTS.values())
_HARMLESS = re.compile(
    r"random\w*|setseed|clock_timestamp|timeofday|gen_random_\w+|gen_salt|uuid\w*|currval|lastval"
    r"|txid_current\w*|pg_current_xact_id\w*|pg_sleep\w*|set_config|pg_\w+_size|pg_stat_get_\w+"
    r"|pg_(?:try_)?advisory_xact_lock\w*"
)
"""Functions that are volatile because each call gives another value or takes time, and those whose
effects end with the transaction (PostgreSQL's documentation, "Functions and Operators")."""
_UNDONE_BELOW = frozenset(("nextval", "pg_notify"))
"""Functions that pass in statements that change rows, and where a default, a trigger or another
function calls them: numbers drawn from a sequence are missing afterwards, as they are after any
INSERT that fails, and notifications are sent by a commit."""


def effects_of(
    conn: Control, statement: str, plan: Plan | None = None, explained: Row | None = None
) -> tuple[str, ...]:
    """Return the functions whose effects no rollback undoes, of those that a statement, the
    functions below it and the triggers of its tables call; ``explained`` is its plan as the server
    gives it. Raises psycopg.Error."""
    changes = [each for each in plan.nodes() if each.kind == "ModifyTable"] if plan else []
    text = json.dumps(explained)
    events = 0
    for each in changes:
        events |= _EVENTS.get(each.strategy, _ANY_EVENT)
    if explained is not None and _updates_on_conflict(explained["Plan"]):
        events |= _EVENTS["Update"]
    called = _names(statement) - (_UNDONE_BELOW if changes else frozenset())
    judging = _Judging(conn, events)
    judging.judge(
        called | (_names(text) - called - _UNDONE_BELOW), {each.relation for each in changes}
    )
    return tuple(sorted(judging.found))


def _updates_on_conflict(node: Row) -> bool:
    return node.get("Conflict Resolution") == "UPDATE" or any(
        map(_updates_on_conflict, node.get("Plans", ()))
    )


class _Judging:
    def __init__(self, conn: Control, events: int) -> None:
        self._conn = conn
        self._events = events
        self._known: set[str] = set()
        self.found: set[str] = set()

    def judge(self, names: Collection[str], tables: Iterable[str]) -> None:
        """Find the functions with effects among those of these names and those of triggers."""
        query = query_at(self._conn, "plans", "functions_with_effects")
        names, tables = set(names), list(tables)
        for _ in range(_DEPTH_MAX):
            new = names - self._known
            if not new and not tables:
                return
            self._known |= new
            rows = self._conn.execute(query, (tables, self._events, sorted(new))).fetchall()
            names, tables = set(), []
            for name, is_trusted, body in rows:
                if is_trusted and body:
                    names |= _names(body) - _UNDONE_BELOW
                elif not _HARMLESS.fullmatch(name):
                    self.found.add(name)


def _names(text: str) -> set[str]:
    """Return what stands before a parenthesis: the names of functions, and other words."""
    return {quoted.replace('""', '"') or plain.lower() for quoted, plain in _CALLED.findall(text)}

"""Indexes that may cost more than they give, and SQL that is tried against them.

Those that statements write and no scan has read are dropped; those that keep a list of pending
entries are built again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pgdyno.plans._queries import sql_of
from pgdyno.plans.tree import Plan
from pgdyno.record import SuspectIndex, Suspicion
from pgdyno.spec.change import Change
from pgdyno.spec.sql_text import relation

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control

TRIED_MAX = 3


def suspect_indexes(conn: Control, plans: Sequence[Plan]) -> list[SuspectIndex]:
    """Ask for the indexes of the tables that plans read or write."""
    relations = {node.relation for plan in plans for node in plan.nodes() if node.relation}
    if not relations:
        return []
    return [*_suspects(conn, relations, plans)]


def _suspects(conn: Control, relations: set[str], plans: Sequence[Plan]) -> Iterator[SuspectIndex]:
    nodes = [node for plan in plans for node in plan.nodes()]
    written = {node.relation for node in nodes if node.kind == "ModifyTable"}
    read = {node.index for node in nodes}
    unread: dict[str, list[str]] = {}
    for of, name, is_unread, has_pending_list in conn.execute(
        sql_of(conn, "suspect_indexes"), ([*relations],)
    ):
        is_read = name.split(".", 1)[1] in read
        if is_unread and of in written and not is_read:
            unread.setdefault(of, []).append(name)
        if has_pending_list and is_read:
            yield SuspectIndex(of, name, Suspicion.PENDING, f"reindex index {relation(name)}")
    for of, names in unread.items():
        make = f"drop index {', '.join(map(relation, names))}"
        for name in names:
            yield SuspectIndex(of, name, Suspicion.UNREAD, make)


def of_suspects(suspects: Iterable[SuspectIndex]) -> list[Change]:
    """Return what is tried, each statement a change of its own."""
    made = dict.fromkeys(each.make for each in suspects)
    return [Change(sql={"make": (each,)}) for each in [*made][:TRIED_MAX]]

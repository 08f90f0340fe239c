"""Changes that may make the load's statements faster, by their plans and by the settings in force.

Whether one does is measured afterwards; a candidate is no finding. Indexes are of columns that a
scan of a whole table compares, or that a foreign key without an index needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.plans._queries import sql_of
from pgdyno.plans.tree import IN_MEMORY, Node, Plan
from pgdyno.record import UnusableIndex, UnusualSetting
from pgdyno.spec.change import Change
from pgdyno.spec.sql_text import columns_text

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control

SCANNED_SHARE_MAX = 0.2
"""Part of the rows of a scan that a condition may leave for an index to be tried: beyond, fetching
rows one by one reads every page anyway."""
ROWS_MIN = 1000
"""Rows of a scan below which no index is tried."""
INDEXED_BYTES_MAX = 256 << 20
"""Largest table for which an index is made for a trial."""
INDEXES_MAX = 3
COLUMNS_MAX = 3
WORK_MEM_MB_MAX = 1024
_COMPARED = r"(?<![\w.\"]){column}\)?(?:::[\w ]+(?:\([\d,]+\))?)?\s*(?P<operator>=|<=|>=|<|>|~~\*?)"
_JOINS = ("Hash Cond", "Merge Cond", "Join Filter")


def index_candidates(conn: Control, plans: Sequence[Plan]) -> list[Change]:
    """Return the indexes to try, each a change of its own, those of the longest scans first."""
    wanted: dict[tuple[str, str], float] = {}
    for relation, columns, time_ms in (*_of_scans(conn, plans), *_of_foreign_keys(conn, plans)):
        key = (relation, columns_text(columns))
        wanted[key] = wanted.get(key, 0.0) + time_ms
    longest = sorted(wanted, key=lambda key: -wanted[key])[:INDEXES_MAX]
    return [Change(indexes={relation: columns}) for relation, columns in longest]


class _Column(Struct, frozen=True):
    name: str
    leads_index: bool
    size_bytes: int


def _of_scans(conn: Control, plans: Sequence[Plan]) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """Yield table, columns and time of the scans that an index might shorten."""
    scans = [(node, conditions) for plan in plans for node, conditions in _scans(plan.root, ())]
    known = _columns(conn, {node.relation for node, _ in scans})
    for node, conditions in scans:
        columns = _compared(node, conditions, known.get(node.relation, []))
        if columns:
            yield node.relation, columns, node.time_ms or node.cost


def _scans(node: Node, above: tuple[str, ...]) -> Iterator[tuple[Node, tuple[str, ...]]]:
    """Yield the sequential scans of many rows, with the conditions that apply to them: their own,
    and those of the joins above."""
    if node.reads_whole_table and node.relation and reads_much_for_little(node):
        yield node, (*(node.conditions.get("Filter", ""),), *above)
    joined = tuple(node.conditions[name] for name in _JOINS if name in node.conditions)
    for child in node.children:
        yield from _scans(child, (*above, *joined))


def reads_much_for_little(node: Node) -> bool:
    """True if a scan finds a small part of the rows that it reads, or serves a join; where it was
    not executed, every one may."""
    if node.rows is None or not node.loops:
        return True
    if node.read / node.loops < ROWS_MIN:
        return False
    return "Filter" not in node.conditions or node.rows <= SCANNED_SHARE_MAX * node.read


def _columns(conn: Control, relations: Iterable[str]) -> dict[str, list[_Column]]:
    found: dict[str, list[_Column]] = {}
    for relation, name, leads, size in conn.execute(sql_of(conn, "columns"), ([*relations],)):
        found.setdefault(relation, []).append(_Column(name, leads, size))
    return found


def _compared(node: Node, conditions: Iterable[str], columns: Sequence[_Column]) -> tuple[str, ...]:
    """Return the columns of the scanned table that its conditions compare, equalities first; none
    if an index begins with the first of them, or the table is too large for a trial."""
    operators: dict[str, str] = {}
    by_name = {each.name: each for each in columns}
    for condition in conditions:
        for each in columns:
            operator = _operator(condition, node.alias, each.name)
            if operator is not None and operators.get(each.name) != "=":
                operators[each.name] = operator
        if operators:
            break  # What applies to the scan itself decides before the joins above it.
    equal = [name for name, operator in operators.items() if operator == "="]
    ranges = [name for name, operator in operators.items() if operator != "="]
    chosen = (*equal, *ranges[:1])[:COLUMNS_MAX]
    if not chosen or any(by_name[name].leads_index for name in chosen):
        return ()
    return () if by_name[chosen[0]].size_bytes > INDEXED_BYTES_MAX else chosen


def _operator(condition: str, alias: str, column: str) -> str | None:
    """Return the operator with which a condition of EXPLAIN compares a column; None if it does
    not. Of two columns either side may be this one."""
    names = [f'"?{re.escape(alias)}"?\\."?{re.escape(column)}"?', f'"?{re.escape(column)}"?']
    for name in names:
        found = re.search(_COMPARED.format(column=name), condition)
        if found is not None:
            return found["operator"]
        if re.search(rf"=\s*\(?{name}(?![\w.])", condition):
            return "="
    return None


def _of_foreign_keys(
    conn: Control, plans: Sequence[Plan]
) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """Yield table, columns and time of foreign keys whose triggers look for rows without an
    index."""
    times: dict[str, float] = {}
    for trigger in (each for plan in plans for each in plan.triggers if each.constraint):
        times[trigger.constraint] = times.get(trigger.constraint, 0.0) + trigger.time_ms
    if not times:
        return
    rows = conn.execute(sql_of(conn, "foreign_key_without_index"), ([*times],))
    for constraint, relation, columns in rows:
        yield relation, tuple(columns), times[constraint]


def of_spilling(plans: Iterable[Plan], *, is_default: bool) -> list[Change]:
    """Return a work_mem that holds the largest sort or hash that was written to disk, if there is
    one; with ``is_default``, more than the built-in value."""
    spilled_kb = max((n.spilled_kb for plan in plans for n in plan.nodes()), default=0.0)
    wanted_mb = 8 if is_default else 1
    while wanted_mb * 1024 < IN_MEMORY * spilled_kb:
        wanted_mb *= 2
    if not spilled_kb or wanted_mb > WORK_MEM_MB_MAX:
        return []
    return [Change(settings={"work_mem": f"{wanted_mb}MB"})]


def of_workers(plans: Iterable[Plan]) -> list[Change]:
    """Return execution without parallel workers, if a plan started some."""
    if not any(node.workers_launched for plan in plans for node in plan.nodes()):
        return []
    return [Change(settings={"max_parallel_workers_per_gather": "0"})]


def of_unusable(unusable: Iterable[UnusableIndex]) -> list[Change]:
    """Return what would let statements use an index, each a change of its own."""
    made = dict.fromkeys(each.make for each in unusable if each.make)
    return [Change(sql={"make": (each,)}) for each in [*made][:INDEXES_MAX]]


def of_protocol(protocol: str) -> list[Change]:
    """Return the change to prepared statements, unless the load has them."""
    return [] if protocol == "prepared" else [Change(spec={"load.protocol": "prepared"})]


def of_plan_cache(
    unusual: Mapping[str, UnusualSetting], *, protocol: str, has_parameters: bool, is_generic: bool
) -> list[Change]:
    """Return the other kind of plan for prepared statements with parameters: for the values of each
    execution where it is for any values, and the reverse."""
    if protocol != "prepared" or not has_parameters or "plan_cache_mode" in unusual:
        return []
    mode = "force_custom_plan" if is_generic else "force_generic_plan"
    return [Change(settings={"plan_cache_mode": mode})]


def of_compiling(unusual: Mapping[str, UnusualSetting], plans: Iterable[Plan]) -> list[Change]:
    """Return JIT turned off, if a plan is compiled with the settings at their defaults."""
    if any(name.startswith("jit") for name in unusual) or not any(p.is_compiled for p in plans):
        return []
    return [Change(settings={"jit": "off"})]

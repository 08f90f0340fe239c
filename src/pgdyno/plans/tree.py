"""A plan as EXPLAIN (FORMAT JSON) gives it, read into a tree of nodes.

Times and rows of a node are those of all its executions together, workers included: EXPLAIN gives
means of a loop. Without ANALYZE they are None, as nothing was executed. The documentation of
PostgreSQL, "Using EXPLAIN", describes the fields; those that a version lacks are None or 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from pgdyno.json_types import Fields

WHOLES = "Partitioned"
"""Key under which a plan that is kept has the tables and indexes that partitions belong to, which
EXPLAIN does not tell."""
FIRST_KEYS = "First Keys"
"""The same of the first keys of indexes."""
WITH_RULES = "Rules"
"""Kind of a node over the plans of a statement and of those that rules add to it."""
JOINED = "Joined queries"
"""Kind of a node over the plans of queries that one message has."""
_CONDITIONS = ("Index Cond", "Recheck Cond", "Hash Cond", "Merge Cond", "Join Filter", "Filter")
_OF_SCAN = ("Index Cond", "Recheck Cond", "Filter")
_REMOVED = ("Rows Removed by Filter", "Rows Removed by Join Filter")
_SEQUENTIAL = ("Seq Scan", "Parallel Seq Scan")
_OF_INDEX = ("Index Scan", "Index Only Scan")
_BITMAP_HEAP, _BITMAP_INDEX = "Bitmap Heap Scan", "Bitmap Index Scan"
_KEEPING = ("CTE Scan", "Materialize", "Function Scan", "Table Function Scan", "WindowAgg")
"""Nodes that keep rows, in files where work_mem is too small for them."""
_BLOCK_KB = 8
IN_MEMORY = 2.5
"""Memory that rows take, of their size in a temporary file."""
ESTIMATE_TIMES = 10.0
"""Factor between estimate and rows from which on an estimate is looked at: plans of joins change
with factors of that size."""
ESTIMATED_ROWS_MIN = 100.0
APPENDS = ("Append", "Merge Append")
"""Kinds of nodes that read one partition after the other."""
_COMPILING = ("Generation", "Inlining", "Optimization", "Emission")


class Node(Struct, frozen=True):
    """A node of a plan."""

    kind: str
    """Its type, as "Seq Scan"."""
    relation: str
    """schema.name of the table that it reads; '' if none."""
    alias: str
    index: str
    """Index that it reads; '' if none."""
    strategy: str
    """Of a join, a sort or an aggregate, its strategy; '' if none."""
    conditions: Mapping[str, str]
    """Kind of condition → expression, as "Filter" and "Index Cond"."""
    sort_keys: tuple[str, ...]
    """Of a sort, its expressions, each with its direction."""
    output: tuple[str, ...]
    """Expressions of the columns that it gives."""
    rows_planned: float
    """Rows that each execution was expected to give."""
    cost: float
    """Total cost, as estimated."""
    rows: float | None
    """Rows that it gave, in all executions."""
    removed: float
    """Rows that its filters removed, in all executions."""
    loops: float | None
    time_ms: float | None
    """Time of its executions with those of its children; of parallel ones, that of all processes
    divided by their number."""
    startup_ms: float | None
    """Time until its first row, of all its executions, as ``time_ms``."""
    heap_fetches: float | None
    """Rows that an index-only scan had to look up in the table."""
    spilled_kb: float
    """Space on disk that a sort, a hash or rows kept for later used."""
    subplans_removed: int
    """Partitions left out when the execution began."""
    workers_planned: int
    workers_launched: int
    is_apart: bool = False
    """True if its rows are not those that its parent reads: it gives a value of an expression."""
    children: tuple[Node, ...] = ()

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def own_ms(self) -> float | None:
        """Time without that of the children."""
        if self.time_ms is None:
            return None
        return max(0.0, self.time_ms - sum(child.time_ms or 0.0 for child in self.children))

    @property
    def scan_conditions(self) -> tuple[str, ...]:
        """The conditions of the rows that it reads, those of joins apart."""
        return tuple(self.conditions[name] for name in _OF_SCAN if name in self.conditions)

    @property
    def reads_whole_table(self) -> bool:
        """True for a scan of a whole table, or of a worker's part of it."""
        return self.kind in _SEQUENTIAL

    @property
    def index_searches(self) -> list[Node]:
        """The nodes that search an index for the rows that this one gives; none if it reads no
        table by an index."""
        if self.kind in _OF_INDEX:
            return [self]
        is_bitmap = self.kind == _BITMAP_HEAP
        return [each for each in self.walk() if each.kind == _BITMAP_INDEX] if is_bitmap else []

    @property
    def read(self) -> float:
        """Rows that it looked at, in all executions."""
        return (self.rows or 0.0) + self.removed


def misestimated(plan: Plan) -> list[Node]:
    """Return the nodes that read a table and gave ``ESTIMATE_TIMES`` more or fewer rows than was
    expected, where these are ``ESTIMATED_ROWS_MIN`` or more."""
    return [node for node in plan.nodes() if node.relation and _is_misestimated(node)]


def _is_misestimated(node: Node) -> bool:
    if not node.loops or node.rows is None:
        return False
    rows, planned = node.rows / node.loops, node.rows_planned
    more, fewer = max(rows, planned), min(rows, planned)
    return more >= ESTIMATED_ROWS_MIN and more >= ESTIMATE_TIMES * max(1.0, fewer)


class Trigger(Struct, frozen=True):
    """A trigger that a statement executed."""

    name: str
    constraint: str
    """The foreign key that it belongs to; '' if none."""
    relation: str
    time_ms: float
    calls: float


class Plan(Struct, frozen=True):
    """A plan of one statement."""

    root: Node
    planning_ms: float | None
    execution_ms: float | None
    """None without ANALYZE."""
    compiling_ms: float
    """Time of JIT compilation, of all processes together (ExplainPrintJITSummary adds them up)."""
    is_compiled: bool
    """True if its expressions are compiled (JIT)."""
    triggers: tuple[Trigger, ...]
    settings: Mapping[str, str]
    """Settings of the planner that are not at their built-in values."""
    wholes: Mapping[str, str]
    """Partition, as schema.name → the partitioned table; and of the indexes, the index of it."""
    first_keys: Mapping[str, str]
    """Index of several keys, as schema.name → the first one, as SQL has it."""

    def nodes(self) -> list[Node]:
        """Return all nodes, from the top."""
        return list(self.root.walk())

    @property
    def only_reads(self) -> bool:
        """True if it neither changes rows nor locks them."""
        return not any(node.kind in ("ModifyTable", "LockRows") for node in self.root.walk())


def read_plan(explained: Fields) -> Plan:
    """Read one element of the list that EXPLAIN (FORMAT JSON) gives; a look has added ``WHOLES``
    and ``FIRST_KEYS``.

    Raises KeyError or TypeError for anything else.
    """
    top = explained["Plan"]
    jit = explained.get("JIT") or {}
    return Plan(
        root=_node(top),
        planning_ms=explained.get("Planning Time"),
        execution_ms=explained.get("Execution Time"),
        compiling_ms=_compiling_ms(jit),
        is_compiled=bool(jit),
        triggers=tuple(_trigger(each) for each in explained.get("Triggers", ())),
        settings=dict(explained.get("Settings", {})),
        wholes=dict(explained.get(WHOLES, {})),
        first_keys=dict(explained.get(FIRST_KEYS, {})),
    )


def _node(given: Fields, processes: int = 1) -> Node:
    """Return a node that so many processes execute at the same time."""
    loops = given.get("Actual Loops")
    rows = given.get("Actual Rows")
    time_ms = given.get("Actual Total Time")
    startup_ms = given.get("Actual Startup Time")
    times = loops or 0
    relation = given.get("Relation Name", "")
    launched = int(given.get("Workers Launched", 0))
    below = processes if given.get("Workers Planned") is None else launched + 1
    return Node(
        kind=given["Node Type"],
        relation=f"{given['Schema']}.{relation}" if relation and "Schema" in given else relation,
        alias=given.get("Alias", ""),
        index=given.get("Index Name", ""),
        strategy=given.get("Join Type") or given.get("Strategy") or given.get("Operation") or "",
        conditions={name: str(given[name]) for name in _CONDITIONS if name in given},
        sort_keys=tuple(map(str, given.get("Sort Key", ()))),
        output=tuple(map(str, given.get("Output", ()))),
        rows_planned=float(given.get("Plan Rows", 0)),
        cost=float(given.get("Total Cost", 0)),
        rows=None if rows is None else float(rows) * times,
        removed=sum(float(given.get(name, 0)) for name in _REMOVED) * times,
        loops=loops,
        time_ms=None if time_ms is None else float(time_ms) * times / processes,
        startup_ms=None if startup_ms is None else float(startup_ms) * times / processes,
        heap_fetches=given.get("Heap Fetches"),
        spilled_kb=_spilled_kb(given),
        subplans_removed=int(given.get("Subplans Removed", 0)),
        workers_planned=int(given.get("Workers Planned", 0)),
        workers_launched=launched,
        is_apart=given.get("Parent Relationship") in ("InitPlan", "SubPlan"),
        children=tuple(_node(child, below) for child in given.get("Plans", ())),
    )


def _spilled_kb(given: Fields) -> float:
    """Return the space on disk that a sort, a hash, an aggregate or a node that keeps rows used."""
    own = given.get("Disk Usage", 0)
    if given.get("Sort Space Type") == "Disk":
        own += given.get("Sort Space Used", 0)
    if given.get("Hash Batches", 1) > 1:
        own += given.get("Peak Memory Usage", 0) * (given["Hash Batches"] - 1)
    if given["Node Type"] in _KEEPING:
        below = sum(_written_blocks(child) for child in given.get("Plans", ()))
        own += max(0, _written_blocks(given) - below) * _BLOCK_KB
    return float(own)


def _written_blocks(given: Fields) -> int:
    """Return the blocks of temporary files that a node and those below it wrote."""
    return int(given.get("Temp Written Blocks", 0))


def _compiling_ms(jit: Fields) -> float:
    timing = jit.get("Timing", {})
    each = (timing.get(name, 0.0) for name in _COMPILING)
    # From version 17 generation has a part of its own, which its total includes.
    return float(sum(value["Total"] if isinstance(value, Mapping) else value for value in each))


def _trigger(given: Fields) -> Trigger:
    return Trigger(
        name=given.get("Trigger Name", ""),
        constraint=given.get("Constraint Name", ""),
        relation=given.get("Relation", ""),
        time_ms=float(given.get("Time", 0.0)),
        calls=float(given.get("Calls", 0)),
    )

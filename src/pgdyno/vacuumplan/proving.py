"""The plan against the present settings, on a server of pgdyno's own and in a shorter time.

Measured in rounds, each side once in every round and first in every other one, so that a difference
has an interval. A model: each planned table becomes a table of ``ROWS_MAX`` rows at most, with its
rates, HOT share and triggers at the same scale, and hours become seconds. Both sides begin from
copies of one data directory and do the same work. What depends on the real rows, indexes and disks
is not in it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from statistics import fmean
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno import numbers
from pgdyno.errors import UsageError
from pgdyno.json_types import Row
from pgdyno.results.vacuum_plan import (
    PlannedTable,
    Proof,
    ProofEffect,
    ProofEffects,
    ProofSide,
    VacuumPlanResult,
)
from pgdyno.server import Cluster, connect, find_installation
from pgdyno.server.sql_files import query_at
from pgdyno.server.versions import major_of
from pgdyno.stats import paired_effect
from pgdyno.vacuumplan._advising import shown

if TYPE_CHECKING:
    import psycopg

ROUNDS_DEFAULT = 6
"""With fewer than six pairs, an interval must assume how their ratios are distributed."""
ROWS_MAX, ROWS_MIN = 50_000, 200
TABLES_MAX = 8
ROWS_S_MAX = 2_000.0
"""Rows changed per second on all tables: the rate of one busy core without a queue."""
PERIOD_S = 8.0
"""The aim of the plan in the model: autovacuum looks once a second, and no more often."""
_ROUND_S = 0.05
_IN_ROWS = (
    "autovacuum_vacuum_threshold",
    "autovacuum_vacuum_insert_threshold",
    "autovacuum_vacuum_max_threshold",
)
_KEPT = ("autovacuum_vacuum_scale_factor", "autovacuum_vacuum_insert_scale_factor",
         "autovacuum_freeze_min_age", "autovacuum_enabled", "fillfactor")  # fmt: skip
"""Parameters that need no scale."""
_SERVER = {
    "autovacuum_naptime": "1s",
    "synchronous_commit": "off",
    "shared_buffers": "2MB",
    "track_io_timing": "on",
}


class Model(Struct, frozen=True):
    """A table of the model, with its work per second."""

    name: str
    rows: int
    inserts_s: float
    updates_s: float
    deletes_s: float
    hot_share: float
    present: Mapping[str, str]
    planned: Mapping[str, str]


def prove(
    plan: VacuumPlanResult,
    present: Mapping[str, Mapping[str, float]],
    *,
    seconds: float,
    rounds: int,
    note: Callable[[str], None],
) -> Proof:
    """Return the outcome of both sides, each of ``seconds`` in every round. ``present`` has the
    parameters in force, by table.

    Raises UsageError without a table to plan for, SetupError if no server of this version is
    installed.
    """
    tables = _changed(plan)
    if not tables:
        raise UsageError(
            "--prove: the plan changes no table",
            code="nothing-to-prove",
            hint="watch a time of the usual load, longer (-T)",
        )
    installation = find_installation(None, major_of(plan.version))
    faster = _faster(tables, plan.every_h)
    models = models_of(plan, present, faster)
    with ExitStack() as stack:
        start = stack.enter_context(_at(Cluster.create(installation, _SERVER)))
        start.configure({"autovacuum": "off"})
        start.start()
        _make(start, models)
        start.stop()
        sides: dict[str, list[ProofSide]] = {"present": [], "plan": []}
        for number in range(rounds):
            for name in ("present", "plan") if number % 2 == 0 else ("plan", "present"):
                note(
                    f"proving on PostgreSQL {installation.version}: round {number + 1} of {rounds},"
                    f" {name}, {seconds:g} s"
                )
                source = start.data_dir
                with _at(Cluster.create(installation, _SERVER, source=source)) as cluster:
                    cluster.start()
                    side = _side(cluster, models, name, plan, seconds, faster)
                    sides[name].append(side)
    return Proof(
        seconds=seconds,
        rounds=rounds,
        times_faster=faster,
        tables=tuple(each.relation for each in tables),
        present=_mean(sides["present"]),
        plan=_mean(sides["plan"]),
        effects=effects_of(sides["present"], sides["plan"]),
    )


def _mean(sides: Sequence[ProofSide]) -> ProofSide:
    """Return the means over the rounds; a figure that one round lacks has none."""
    rows = [dict(each) for each in sides]
    means = {
        name: None if None in values else fmean(values)
        for name in rows[0]
        if (values := [row[name] for row in rows])
    }
    return ProofSide.model_validate(means)


def effects_of(present: Sequence[ProofSide], plan: Sequence[ProofSide]) -> ProofEffects | None:
    """Return the effects of the plan, paired by round; None for a single round."""
    if len(present) < 2:
        return None
    return ProofEffects(
        size_ratio=_effect(present, plan, "size_ratio"),
        dead_share=_effect(present, plan, "dead_share"),
        vacuum_io_share=_effect(present, plan, "vacuum_io_share"),
        p99_ms=_effect(present, plan, "p99_ms"),
    )


def _effect(
    present: Sequence[ProofSide], plan: Sequence[ProofSide], name: str
) -> ProofEffect | None:
    before, after = ([getattr(each, name) or 0.0 for each in side] for side in (present, plan))
    if not all(value > 0 for value in (*before, *after)):
        return None
    effect = paired_effect(before, after)
    return ProofEffect(
        ratio=numbers.rounded(effect.ratio),
        ci95=(numbers.rounded(effect.lo), numbers.rounded(effect.hi)),
    )


def _changed(plan: VacuumPlanResult) -> list[PlannedTable]:
    return [each for each in plan.tables if each.statement][:TABLES_MAX]


def models_of(
    plan: VacuumPlanResult, present: Mapping[str, Mapping[str, float]], faster: float
) -> list[Model]:
    """Return the models of the tables that the plan changes."""
    turned_on = any(each.name == "autovacuum" for each in plan.settings)
    return [
        _model(n, each, present[each.relation], faster, turned_on=turned_on)
        for n, each in enumerate(_changed(plan))
    ]


@contextmanager
def _at(cluster: Cluster) -> Iterator[Cluster]:
    try:
        yield cluster
    finally:
        cluster.destroy()


def _faster(tables: Sequence[PlannedTable], every_h: float) -> float:
    """Return how much faster the model is: a period of the plan in ``PERIOD_S``, unless the work
    were too much for that."""
    wanted = 3600 * every_h / PERIOD_S
    rows_h = sum(
        _scale(each) * (each.inserts_h + each.updates_h + each.deletes_h) for each in tables
    )
    return max(1.0, min(wanted, ROWS_S_MAX * 3600 / max(rows_h, 1e-9)))


def _scale(table: PlannedTable) -> float:
    return min(1.0, ROWS_MAX / max(table.rows, 1.0))


def _model(
    number: int,
    table: PlannedTable,
    present: Mapping[str, float],
    faster: float,
    *,
    turned_on: bool,
) -> Model:
    """Return the model of a table; with ``turned_on``, the plan turns autovacuum on."""
    scale = _scale(table)
    per_s = scale * faster / 3600
    wanted = {**present, **({"autovacuum_enabled": 1.0} if turned_on else {})}
    wanted |= {each.name: float(each.value) for each in table.options}
    return Model(
        name=f"public.modelled_{number}",
        rows=max(ROWS_MIN, round(table.rows * scale)),
        inserts_s=table.inserts_h * per_s,
        updates_s=table.updates_h * per_s,
        deletes_s=table.deletes_h * per_s,
        hot_share=table.hot_share or 0.0,
        present=_scaled(present, scale),
        planned=_scaled(wanted, scale),
    )


def _scaled(options: Mapping[str, float], scale: float) -> dict[str, str]:
    found = {name: shown(name, options[name]) for name in _KEPT if name in options}
    for name in _IN_ROWS:
        if name in options:
            value = options[name]
            found[name] = str(round(value * scale) if value > 0 else round(value))
    return found


def _make(cluster: Cluster, models: Sequence[Model]) -> None:
    with connect(cluster.conninfo) as conn:
        for each in models:
            conn.execute(_text(conn, "model").format(table=each.name, rows=each.rows).encode())
            conn.execute(f"vacuum (analyze) {each.name}".encode())


def _text(conn: psycopg.Connection, name: str) -> str:
    return query_at(conn, "vacuumplan", name).decode()


def _side(
    cluster: Cluster,
    models: Sequence[Model],
    side: str,
    plan: VacuumPlanResult,
    seconds: float,
    faster: float,
) -> ProofSide:
    with connect(cluster.conninfo) as conn:
        for each in models:
            options = each.planned if side == "plan" else each.present
            if options:
                listed = ", ".join(f"{name} = {value}" for name, value in options.items())
                conn.execute(f"alter table {each.name} set ({listed})".encode())
        before = _measured(conn)
        latencies_ms = _work(cluster, models, seconds)
        # The counters of other sessions arrive within a second.
        time.sleep(1.2)
        after = _measured(conn)
    latencies_ms.sort()
    vacuum_io, all_io = (after[name] - before[name] for name in ("vacuum_io", "all_io"))
    xids = after["next_xid"] - before["next_xid"]
    age = after["next_xid"] - max(before["next_xid"], after["oldest_xid"])
    return ProofSide(
        statements=len(latencies_ms),
        size_ratio=after["bytes"] / max(1.0, before["bytes"]),
        dead_share=after["dead"] / max(1.0, after["dead"] + after["live"]),
        vacuums=int(after["vacuums"] - before["vacuums"]),
        vacuum_io_share=vacuum_io / all_io if all_io > 0 else None,
        p99_ms=latencies_ms[int(0.99 * len(latencies_ms))] if latencies_ms else None,
        to_forced_vacuum_h=_left_h(plan, age / max(1.0, xids), seconds * faster / 3600),
    )


def _left_h(plan: VacuumPlanResult, unfrozen: float, hours: float) -> float | None:
    """Return the time to forced freezing at the end: the oldest table of the model has not been
    frozen for the part ``unfrozen`` of the ``hours`` that it stands for."""
    if not plan.xids_h or plan.freeze_max_age is None:
        return None
    return max(0.0, plan.freeze_max_age / plan.xids_h - unfrozen * hours)


def _measured(conn: psycopg.Connection) -> dict[str, float]:
    from psycopg.rows import dict_row

    conn.execute("select pg_stat_clear_snapshot()")
    found: dict[str, float] = {}
    with conn.cursor(row_factory=dict_row) as cursor:
        for name in ("model_tables", "model_io"):
            query = query_at(conn, "vacuumplan", name)
            row: Row = cursor.execute(query).fetchone() or {}
            found |= {key: float(value) for key, value in row.items()}
    return found


def _work(cluster: Cluster, models: Sequence[Model], seconds: float) -> list[float]:
    """Do the work of all tables, one session for each; return the latencies of all statements."""
    latencies_ms: list[float] = []
    problems: list[BaseException] = []

    def of_one(model: Model) -> None:
        try:
            with connect(cluster.conninfo) as conn:
                latencies_ms.extend(_work_on(conn, model, seconds))
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=of_one, args=(each,), daemon=True) for each in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return latencies_ms


def _work_on(conn: psycopg.Connection, model: Model, seconds: float) -> list[float]:
    """Do one table's work at its rates, in rounds; rows that are due are done late, never left."""
    latencies_ms = []
    begun_s = time.monotonic()
    done = {"insert": 0, "update_hot": 0, "update": 0, "delete": 0}
    rates = {
        "insert": model.inserts_s,
        "update_hot": model.updates_s * model.hot_share,
        "update": model.updates_s * (1 - model.hot_share),
        "delete": model.deletes_s,
    }
    statements = {
        name: _text(conn, f"model_{name}").format(table=model.name).encode() for name in rates
    }
    while (passed_s := time.monotonic() - begun_s) < seconds:
        for name, per_s in rates.items():
            count = int(per_s * passed_s) - done[name]
            if count <= 0:
                continue
            sent_s = time.monotonic()
            conn.execute(statements[name], {"done": done[name], "count": count, "rows": model.rows})
            latencies_ms.append(1000 * (time.monotonic() - sent_s))
            done[name] += count
        time.sleep(_ROUND_S)
    return latencies_ms

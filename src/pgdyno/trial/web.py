"""A load by HTTP over some slices, with the figures of what is behind the web server."""

from __future__ import annotations

from pgdyno.facts.slices import Facts
from pgdyno.record import RunFile
from pgdyno.record.finding import Skip
from pgdyno.results.run_parts import DatabaseBehind, FrontBehind, WebSide
from pgdyno.trial.result import latency


def web_side(run: RunFile, slice_ids: list[int]) -> WebSide | None:
    """Return the figures of ``slice_ids``, slices under one change; None without requests."""
    facts = Facts(run, slice_ids)
    sent = sum(total.requests for total in run.http_totals(slice_ids))
    if not facts.is_http or not sent:
        return None
    return WebSide(
        requests_s=round(sent / facts.seconds, 2),
        latency_ms=latency(run.histogram("response", slice_ids)),
        front=_front(facts),
        database=_database(facts),
    )


def _front(facts: Facts) -> FrontBehind | None:
    if facts.front is None:
        return None
    try:
        load = facts.front_load
    except Skip:
        return None
    return FrontBehind(
        pool=facts.front.pool_title,
        pool_max=round(load.pool_max),
        pool_active=round(load.pool_active, 2),
        pool_waiting=round(load.waiting, 2),
        pool_ms=round(load.mean("pool_ms"), 3),
        application_ms=round(load.mean("application_ms"), 3),
        threads_busy=round(load.threads_busy, 2),
        threads_max=round(load.threads_max),
        jvm_cores=round(load.jvm_cores, 2),
        collecting=round(load.collecting, 4),
    )


def _database(facts: Facts) -> DatabaseBehind | None:
    if not facts.run.run.server.get("version"):
        return None
    committed = facts.run.delta("metric_database", "xact_commit", facts.slice_ids)
    each_ms = statements = None
    try:
        at_work: float | None = round(facts.sessions_at_work, 2)
        if facts.front is not None:
            each_ms = round(facts.front_load.mean("database_ms"), 3)
            statements = round(facts.front_load.mean("statements"), 2)
    except Skip:
        at_work = None
    return DatabaseBehind(
        transactions_s=None if committed is None else round(committed / facts.seconds, 2),
        ms_per_request=each_ms,
        statements_per_request=statements,
        sessions_at_work=at_work,
    )

"""An interval of a front end, from what its probe answered at the beginning and at the end."""

from __future__ import annotations

from pgdyno.front._process import FrontEnd
from pgdyno.json_types import Json
from pgdyno.results.front import (
    FrontConnector,
    FrontJvm,
    FrontPage,
    FrontPool,
    FrontReading,
    FrontTimes,
)


def reading(front: FrontEnd, first: Json, before: Json, after: Json) -> FrontReading:
    """Return the interval from ``before`` to ``after``; ``first`` is from when the front end began.
    All three are answers of its probe to ``read``."""
    seconds = (after["at_ns"] - before["at_ns"]) / 1e9
    pages = [
        {"path": path, **_risen(before["pages"][path], counts)}
        for path, counts in after["pages"].items()
    ]
    requests = sum(page["requests"] for page in pages)
    return FrontReading(
        schema_version=1,
        url=front.url,
        at_s=round((after["at_ns"] - first["at_ns"]) / 1e9, 3),
        requests_s=round(requests / seconds, 1),
        failed=sum(page["failed"] for page in pages),
        times=_times(pages, requests),
        pages=tuple(
            FrontPage(path=page["path"], requests=page["requests"], failed=page["failed"])
            for page in pages
            if page["requests"]
        ),
        pool=_pool(front, before["pool"], after["pool"]),
        connector=_connector(after["connector"]),
        jvm=_jvm(_risen(before["jvm"], after["jvm"]), after["jvm"], seconds),
    )


def _risen(before: Json, after: Json) -> dict[str, int]:
    return {name: value - before[name] for name, value in after.items()}


def _times(pages: list[Json], requests: int) -> FrontTimes | None:
    if not requests:
        return None
    took, pool, database = (
        sum(page[name] for page in pages) / requests / 1e6
        for name in ("took_ns", "pool_ns", "database_ns")
    )
    return FrontTimes(
        pool_ms=round(pool, 3),
        database_ms=round(database, 3),
        application_ms=round(took - pool - database, 3),
    )


def _pool(front: FrontEnd, before: Json, after: Json) -> FrontPool:
    gauges = ("max", "idle_max", "wait_ms_max", "active", "idle", "waiting")
    return FrontPool(
        name=front.parts["pool"],
        **{name: after[name] for name in gauges},
        **{name: after[name] - before[name] for name in ("created", "refused")},
    )


def _connector(now: Json) -> FrontConnector:
    return FrontConnector(
        threads_max=now["threads_max"],
        threads_busy=now["busy"],
        queue=now["queue"],
        connections=now["connections"],
    )


def _jvm(risen: Json, now: Json, seconds: float) -> FrontJvm:
    return FrontJvm(
        cores=round(risen["cpu_ns"] / 1e9 / seconds, 2),
        heap_bytes=now["heap_bytes"],
        collection_s=risen["collection_ms"] / 1000,
        compile_s=risen["compile_ms"] / 1000,
    )

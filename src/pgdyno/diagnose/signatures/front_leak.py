"""Connection leak: requests of the web application ended without returning their connection.

Trigger: at least ``KEPT_MIN`` connection was borrowed from the pool by a request that has ended,
and not returned, by the application's own count. Such a connection is lent for ever: the pool
becomes smaller by each, until requests wait for one that nobody returns.

Threshold: one, as no request gives it back; calibrated by injection, a page that keeps its
connection in 2 requests, with a pool of 4.
"""

from __future__ import annotations

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.numbers import counted, figure, percent

KEPT_MIN = 1
FULL_SHARE = 0.9
ADVICE = (
    "find where the application forgets to return a connection (leakDetectionThreshold of HikariCP,"
    " logAbandoned and removeAbandonedOnBorrow of DBCP and Tomcat JDBC); a larger pool only lasts"
    " longer"
)


def examine(s: Situation) -> Found | Cleared:
    """Count the connections that ended requests have kept."""
    load, share = s.front_load, s.budget.share("front pool")
    evidence = [
        s.evidence("connections never returned", load.pool_kept, "count", f"at least {KEPT_MIN}"),
        s.evidence("connections lent", load.pool_active, "count"),
        s.evidence("pool size", load.pool_max, "count"),
        s.evidence("wait for a connection / response time", share, "share"),
    ]
    kept = counted(round(load.pool_kept), "connection", "connections")
    of = f"{kept} of {figure(load.pool_max)} of the application's pool"
    if load.pool_kept < KEPT_MIN:
        return Cleared("every request returned its connection", evidence)
    return Found(
        sentence=f"{of} were never returned: requests wait {percent(share)} of their time for one",
        share=share,
        liftable=min(1.0, load.pool_kept / load.pool_max),
        confidence=0.9,
        evidence=evidence,
        advice=ADVICE,
        about_to_fail=load.pool_active >= FULL_SHARE * load.pool_max,
    )


SIGNATURE = Signature(
    id="front-leak",
    false_positives="connections lent to work that goes on after the response, and returns them",
    examine=examine,
    of_clients=True,
)

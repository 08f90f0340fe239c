"""Pools of pairs: PgBouncer keeps a pool for each pair of user and database, and together they may
make more connections than the server has.

Each application is then within its own pool, and the server refuses some of them all the same, for
as long as the others are busy. Nothing in the server or in a single pool shows it before.

Trigger: the sizes of the pools of all pairs that the console of the user's own PgBouncer shows,
with their reserve and the limits of their databases, add up to more than max_connections less the
reserved ones. Threshold: arithmetic, no time of this load: it fails when all pools are full. Pools
of a pooler that pgdyno starts are those of one pair, whose size is checked before the load.
"""

from __future__ import annotations

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.numbers import counted, figure
from pgdyno.record.finding import Skip

ADVICE = (
    "default_pool_size is of one pair: make it smaller, limit all of a database or a user"
    " (max_db_connections, max_user_connections), let applications share a user (user= in"
    " [databases]), or raise max_connections"
)


def examine(s: Situation) -> Found | Cleared:
    """Compare what the pools may make with what the server has."""
    server = s.run.run.server
    pairs = server.get("pooler_pairs")
    if not server.get("entrance_uri"):
        evidence = [s.evidence("poolers of the user's own", 0, "count")]
        return Cleared("clients connect to no pooler of the user's own", evidence)
    if not pairs:
        raise Skip(
            "the pooler is no PgBouncer, or its console is closed to this role (stats_users)"
        )
    most, free = float(pairs["connections"]), float(pairs["free"])
    evidence = [
        s.evidence("connections that the pools may make", most, "count", f"above {figure(free)}"),
        s.evidence("connections that the server has for them", free, "count"),
        s.evidence("pairs of user and database", float(pairs["count"]), "count"),
    ]
    sentence = (
        f"the pools of {counted(pairs['count'], 'pair', 'pairs')} of user and database may make"
        f" {counted(most, 'connection', 'connections')}, and the server has {figure(free)} for them"
    )
    if most <= free:
        return Cleared(sentence, evidence)
    return Found(
        sentence=sentence, share=0.0, liftable=0.0, confidence=0.8, evidence=evidence, advice=ADVICE
    )


SIGNATURE = Signature(
    id="pooler-pairs",
    false_positives="applications that are never busy at the same time",
    examine=examine,
    of_clients=True,
)

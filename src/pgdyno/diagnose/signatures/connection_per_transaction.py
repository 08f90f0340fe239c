"""A connection for each transaction, or few: the time goes into connecting, not into work.

Trigger: connecting takes at least ``CONNECTING_SHARE`` of the response time, and no more than
``TRANSACTIONS_MAX`` transactions are done for each connection made. The server starts a process for
each connection, which checks the role and fills caches of its own, so the first statement on it
takes longer too; that part is not counted here.

Distinct from connections that were lost and made again, which are few, and from a wait for a pooled
connection, which the clients measure by itself (``client_pool``).

Thresholds: that of a part of the latency budget that can be the limit; ten transactions divide the
cost of a connection by ten. Calibrated by injection: 4 clients that read a row on 2 cores;
connecting for each transaction took half of the response time, and nothing where they kept their
connections.
"""

from __future__ import annotations

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.numbers import figure, percent
from pgdyno.record.finding import Evidence
from pgdyno.record.latencies import ConnectKind

CONNECTING_SHARE = 0.15
TRANSACTIONS_MAX = 10.0
_PHASES: dict[ConnectKind, str] = {
    "tcp": "connecting the socket",
    "tls": "TLS handshake",
    "auth": "authentication",
    "ready": "from authentication until ready",
}
ADVICE = (
    "keep connections open for many transactions: a pool in the application, or a pooler such as"
    " PgBouncer on the clients' side of the network"
)


def examine(s: Situation) -> Found | Cleared:
    """Compare the time of connecting with the response time."""
    share, connecting_ms = s.budget.share("connecting"), s.budget.parts_ms.get("connecting", 0.0)
    made = sum(account.connects.made for account in s.accounts)
    each = s.throughput_tps * s.seconds / made if made else None
    evidence = _evidence(s, share, each)
    of = f"{figure(connecting_ms)} of {figure(s.budget.response_ms)} ms"
    if share < CONNECTING_SHARE:
        return Cleared(f"connecting takes {of}", evidence, parts=("connecting",))
    if each is None or each > TRANSACTIONS_MAX:
        return Cleared(f"connecting takes {of}, but few connections were made", evidence)
    return Found(
        sentence=f"clients connect again for {_how_often(each)}, which takes {of}",
        parts=("connecting",),
        liftable=share,
        confidence=0.9,
        evidence=evidence,
        advice=ADVICE,
    )


def _how_often(transactions: float) -> str:
    number = round(transactions)
    return "each transaction" if number <= 1 else f"every {number} transactions"


def _evidence(s: Situation, share: float, each: float | None) -> list[Evidence]:
    bar = f"at least {percent(CONNECTING_SHARE)}"
    evidence = [
        s.evidence("connecting / response time", share, "share", bar),
        s.evidence(
            "transactions per connection made", each, "count", f"at most {TRANSACTIONS_MAX:g}"
        ),
    ]
    for kind, words in _PHASES.items():
        phase = s.run.histogram(kind, s.slice_ids)
        if phase.count:
            evidence.append(s.evidence(f"{words}, mean", phase.mean / 1e6, "ms"))
    return evidence


SIGNATURE = Signature(
    id="connection-per-transaction",
    false_positives=(
        "a load that reconnects on purpose, to measure connecting itself; an application whose pool"
        " was only just filling"
    ),
    examine=examine,
    of_clients=True,
)

"""Batches: the application inserts rows in batches, and its driver sends each row as a statement of
its own.

pgjdbc sends a batch of addBatch whole and waits once for the answers, so that no round trips show;
but the server still executes a statement for each row. With reWriteBatchedInserts the driver makes
statements of up to 128 rows out of it: of 100 rows, three.

Trigger: the driver of the front end that pgdyno started does not do so, and the statements beyond
those are estimated to take at least ``COST_SHARE`` of what is left of the response time without
queues for a thread or a connection, which are as long as what is in front of them.

Threshold: that of other uses of the CPU. Calibrated: a batch of 100 rows took the server 726 us in
100 statements and 513 in three; throughput rose 1.29 times (1.21 to 1.39, 6 pairs), predicted 1.24.
"""

from __future__ import annotations

from pgdyno.diagnose._budget import QUEUES
from pgdyno.diagnose._cpu_uses import cpu_parts, cpu_uses, ratio_without, response_share
from pgdyno.diagnose._pools import worthwhile
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.front import NO_FRONT
from pgdyno.numbers import figure, percent
from pgdyno.record.finding import Proposal, Skip
from pgdyno.spec.change import Change

COST_SHARE = 0.1
ADVICE = "set reWriteBatchedInserts=true in the URL of pgjdbc, or write multi-row INSERTs or COPY"


def examine(s: Situation) -> Found | Cleared:
    """Look at the rows that batches insert, and at how the driver sends them."""
    if s.front is None:
        raise Skip(NO_FRONT)
    rows_s = s.front_load.batched_rows_s
    alone = 1.0 - s.budget.share(*QUEUES)
    share = response_share(s, "front-batches") / alone if alone > 0 else 0.0
    evidence = [
        s.evidence("rows inserted in batches", rows_s, "per s"),
        s.evidence("reWriteBatchedInserts", str(s.front.rewrites_batches).lower(), ""),
        s.evidence(
            "a statement for each row / response time without queues (estimate)",
            share,
            "share",
            f"at least {percent(COST_SHARE)}",
        ),
    ]
    if not rows_s:
        return Cleared("the application inserts nothing in batches", evidence)
    if s.front.rewrites_batches:
        return Cleared("the driver inserts many rows with one statement", evidence)
    if share < COST_SHARE:
        return Cleared(
            f"{percent(share)} of the time without queues is statements for rows of batches",
            evidence,
        )
    part = cpu_uses(s)["front-batches"]
    ratio = ratio_without(s, part)
    return Found(
        sentence=(
            f"the application inserts {figure(rows_s)} rows/s in batches, of which its driver sends"
            " each as a statement of its own (reWriteBatchedInserts = false): about"
            f" {percent(part)} of the server's CPU time"
        ),
        parts=cpu_parts(s),
        share=response_share(s, "front-batches"),
        liftable=ratio.lifted,
        confidence=0.7,
        evidence=evidence,
        proposals=worthwhile(
            [
                Proposal(
                    remedy_id="rewritten-batches",
                    change=Change(spec={"front.rewrite_batched_inserts": "true"}),
                    predicted_ratio=ratio,
                    why="the server would execute a few statements for each batch",
                    specific=True,
                )
            ]
        ),
        advice=ADVICE,
    )


SIGNATURE = Signature(
    id="front-batches",
    false_positives="rows that are large, or whose constraints and indexes take most of their time",
    examine=examine,
    of_clients=True,
)

"""Login storm: many connections are made within a second, or so many that few transactions are
done on each.

The server starts a process for each, checks the role and fills its caches; while many do so at
once, all others are slower, and clients that give up and try again make it worse.

Trigger, either of:

* ``HERD_MIN`` or more connections were made in one second, ``HERD_FACTOR`` times the average of the
  whole period, and at least ``HERD_SHARE`` of those that were open: a herd, as after a restart of
  an application or a pooler;
* in a check, where clients cannot be asked: ``CHURN_MIN`` or more per second for each core, and no
  more than ``TRANSACTIONS_MAX`` transactions were done for each. For a load of pgdyno's own, the
  clients' own clock judges this ("connection per transaction").

Thresholds: on a machine with 2 cores a connection took 3.2 ms of the server's CPU, 3.5 ms with its
first statement, so that ten per second and core are 3 % of the cores; fewer do not matter. A herd
of fifty keeps a core busy for 0.16 s. Calibrated by injection.
"""

from __future__ import annotations

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.client_sessions import Churn, churn
from pgdyno.numbers import figure, percent
from pgdyno.record.finding import Evidence, Skip

HERD_MIN = 50
HERD_FACTOR = 5.0
HERD_SHARE = 0.25
CHURN_MIN = 10.0
TRANSACTIONS_MAX = 10.0
ADVICE = (
    "let a pooler keep the server's connections (PgBouncer, pgpool-II), and clients make theirs a"
    " few at a time, with a pause that grows and is random"
)


def examine(s: Situation) -> Found | Cleared:
    """Examine the connections made."""
    made = churn(s.run, s.slice_ids)
    if made is None:
        raise Skip("connections made were not recorded")
    open_ones = _open(s)
    each = s.throughput_tps * s.seconds / made.made if made.made else None
    evidence = _evidence(s, made, open_ones, each)
    if is_herd(made, open_ones):
        sentence = (
            f"{figure(made.peak_per_s)} connections were made in one second, where"
            f" {figure(open_ones)} were open and {figure(made.per_s)} per second are made on"
            " average"
        )
        return _found(sentence, evidence)
    sentence = f"{figure(made.per_s)} connections are made per second"
    often = made.per_s >= CHURN_MIN * s.cores and each is not None and each <= TRANSACTIONS_MAX
    if s.is_observed and often and each is not None:
        return _found(f"{sentence}, one for {figure(each)} transactions", evidence)
    return Cleared(f"{sentence}, at most {figure(made.peak_per_s)} in one second", evidence)


def is_herd(made: Churn, open_ones: float) -> bool:
    """True if many connections were made at once."""
    return (
        made.peak_per_s >= HERD_MIN
        and made.peak_per_s >= HERD_FACTOR * made.per_s
        and made.peak_per_s >= HERD_SHARE * open_ones
    )


def _open(s: Situation) -> float:
    """Return the median number of connections to the database."""
    import numpy as np

    rows = s.run.series("metric_database", s.slice_ids)
    return float(np.median(rows["numbackends"])) if len(rows["at_ms"]) else 0.0


def _found(sentence: str, evidence: list[Evidence]) -> Found:
    return Found(
        sentence=sentence,
        liftable=0.0,
        confidence=0.8,
        evidence=evidence,
        momentary=True,
        advice=ADVICE,
    )


def _evidence(s: Situation, made: Churn, open_ones: float, each: float | None) -> list[Evidence]:
    return [
        s.evidence(
            "connections made in the busiest second",
            made.peak_per_s,
            "per s",
            f"at least {HERD_MIN}, {HERD_FACTOR:g} times the average, and"
            f" {percent(HERD_SHARE)} of those open",
        ),
        s.evidence("connections made, on average", made.per_s, "per s"),
        s.evidence("connections open, median", open_ones, "count"),
        s.evidence("transactions per connection made", each, "count",
                   f"in a check at most {TRANSACTIONS_MAX:g}, with {CHURN_MIN:g} per s and core"),
        s.evidence("connections ended by an error", float(made.broken), "count"),
    ]  # fmt: skip


SIGNATURE = Signature(
    id="login-storm",
    false_positives=(
        "the start of the clients within the period, as of a ramp; a pooler that is restarted on"
        " purpose"
    ),
    examine=examine,
)

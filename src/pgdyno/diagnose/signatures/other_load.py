"""Other load: the server works for others than pgdyno's clients while it is measured.

Trigger: of the sessions at work, or of the rows written, at least ``FOUND_SHARE`` are others'.
Above ``DISTRUST_SHARE`` other findings are doubtful, and the measurement is not trusted.

Thresholds: as for other programs. WAL is not counted by database, so rows written stand in for it.
"""

from __future__ import annotations

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.other_load import DISTRUST_SHARE, FOUND_SHARE, ForeignLoad, foreign_load
from pgdyno.numbers import figure, percent
from pgdyno.record.finding import Evidence, Skip


def examine(s: Situation) -> Found | Cleared:
    """Examine sessions that are not pgdyno's and the statistics of other databases."""
    load = foreign_load(s.run, s.slice_ids)
    if load is None:
        raise Skip("other load on the server was not recorded")
    evidence = _evidence(s, load)
    if load.share < FOUND_SHARE:
        return Cleared(f"other clients have {figure(load.at_work)} working sessions", evidence)
    return Found(
        sentence=load.sentence,
        liftable=0.0,
        confidence=0.9,
        evidence=evidence,
        causes_distrust=load.causes_distrust,
    )


def _evidence(s: Situation, load: ForeignLoad) -> list[Evidence]:
    bar = (
        f"at least {percent(FOUND_SHARE)};"
        f" above {percent(DISTRUST_SHARE)} the measurement is not trusted"
    )
    return [
        s.evidence("others' sessions / working sessions", load.sessions_share, "share", bar),
        s.evidence("rows written by others / rows written", load.rows_share, "share", bar),
        s.evidence("working sessions of others", load.at_work, "sessions"),
        s.evidence("transactions in other databases", load.transactions_s, "tps"),
        *(
            s.evidence("WAL of all clients", wal.bytes / s.seconds, "bytes/s")
            for wal in [s.wal_if_recorded]
            if wal is not None
        ),
    ]


SIGNATURE = Signature(
    id="other-load",
    false_positives=(
        "scripts that set another application_name; a pooler that gives its connections a name of"
        " its own; work in other databases that the load itself causes (dblink, a queue of jobs)"
    ),
    examine=examine,
    of_clients=True,
)

"""Other load: the server serves clients other than pgdyno's while it is measured.

Trigger: at least ``FOUND_SHARE`` of the active sessions, or of the rows written, are not pgdyno's.
Above ``SPOILT_SHARE`` all other findings are doubtful, and the measurement is not trusted.

Thresholds: as for other programs. WAL is not counted by database, so rows written stand in for it.
"""

from __future__ import annotations

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.finding import Evidence, Skip
from pgdyno.diagnose.other_load import FOUND_SHARE, SPOILT_SHARE, ForeignLoad, foreign_load
from pgdyno.diagnose.words import counted, percent


def examine(s: Situation) -> Found | Cleared:
    """Check for sessions that are not pgdyno's, and other databases' statistics."""
    load = foreign_load(s.run, s.slice_ids)
    if load is None:
        raise Skip("load of other clients on the server was not recorded")
    evidence = _evidence(s, load)
    if load.share < FOUND_SHARE:
        return Cleared(
            f"other clients have {counted(load.at_work, 'active session', 'active sessions')}",
            evidence,
        )
    return Found(
        sentence=load.sentence,
        share=0.0,
        liftable=0.0,
        confidence=0.9,
        evidence=evidence,
        spoils=load.spoils,
    )


def _evidence(s: Situation, load: ForeignLoad) -> list[Evidence]:
    threshold = (
        f"at least {percent(FOUND_SHARE)}; above {percent(SPOILT_SHARE)} no figure is trusted"
    )
    return [
        s.evidence(
            "other clients' active sessions / all active sessions",
            load.sessions_share,
            "share",
            threshold,
        ),
        s.evidence(
            "rows written by other clients / all rows written", load.rows_share, "share", threshold
        ),
        s.evidence("other clients' active sessions", load.at_work, "sessions"),
        s.evidence("transactions in other databases", load.transactions_s, "tps"),
        *(
            s.evidence("WAL written by all sessions", wal.bytes / s.seconds, "bytes/s")
            for wal in [s.wal_if_recorded]
            if wal is not None
        ),
    ]


SIGNATURE = Signature(
    id="other-load",
    false_positives=(
        "scripts that set another application_name; a pooler that sets its own; work in other"
        " databases that the load itself causes (dblink, a job queue)"
    ),
    examine=examine,
)

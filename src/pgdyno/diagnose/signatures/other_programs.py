"""Other programs: programs on the server's machine that use its CPU during the measurement.

Trigger: programs that belong neither to the measured server nor to pgdyno use at least
``FOUND_SHARE`` of the cores. Above ``load.max_other_programs`` all other findings are doubtful, and
the measurement is not trusted.

Thresholds: a tenth is several times the difference between the kernel's two counts of CPU time (by
tick for the host, by the clock for processes) on an otherwise idle machine; a third, the default of
load.max_other_programs, is more than the predicted gain of any remedy that pgdyno proposes for a
saturated CPU.
"""

from __future__ import annotations

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.finding import Evidence, Skip
from pgdyno.diagnose.other_programs import FOUND_SHARE, OtherPrograms, other_programs
from pgdyno.diagnose.words import counted, percent

_NAMED_MAX = 5


def examine(s: Situation) -> Found | Cleared:
    """Check which programs used the CPU of the server's machine."""
    others = other_programs(s.run, s.slice_ids)
    if others is None:
        raise Skip(
            "the CPU time of the server's machine, or its processes, was not recorded for at least"
            " a second, so the load of other programs is not known"
        )
    evidence = _evidence(s, others)
    if others.share < FOUND_SHARE:
        return Cleared(
            f"other programs use {percent(others.share)} of"
            f" {counted(others.cores, 'core', 'cores')}",
            evidence,
        )
    return Found(
        sentence=f"{others.sentence}; stop them, or move them to another machine",
        share=0.0,
        liftable=0.0,
        confidence=0.9 if others.unseen < others.used / 2 else 0.7,
        evidence=evidence,
        spoils=others.spoils,
    )


def _evidence(s: Situation, others: OtherPrograms) -> list[Evidence]:
    threshold = (
        f"at least {percent(FOUND_SHARE)}; above {percent(others.limit_share)} no figure is trusted"
    )
    return [
        s.evidence("other programs / cores", others.share, "share", threshold),
        *(
            s.evidence(f"{each.name} × {each.processes}", each.cores, "cores")
            for each in others.programs[:_NAMED_MAX]
        ),
        s.evidence("short-lived or not visible from here", others.unseen, "cores"),
        s.evidence("kernel threads and interrupts", others.kernel, "cores"),
    ]


SIGNATURE = Signature(
    id="other-programs",
    false_positives=(
        "programs that belong to the load: a pooler that is not recognized by its name, an"
        " application server, a standby on the same machine; programs that only use CPU that the"
        " server leaves idle"
    ),
    examine=examine,
)

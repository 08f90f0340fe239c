"""Other programs: something else on the server's machine takes the CPU that is measured.

Trigger: programs that are neither the measured server's nor pgdyno's use at least ``FOUND_SHARE``
of the cores. Above ``load.max_other_programs`` other findings are doubtful, and the measurement
is not trusted. If they use more than the load itself, the queue for a core is theirs. They rank
behind every finding that owns more of the response time: what lifting that would gain is predicted
for the crowded cores.

Thresholds: a tenth is twice the largest difference seen between the CPU time of the cores and that
of all processes, on a machine that does nothing else (5 % with one client, which wakes and sleeps
all the time; 2 % with 1,000); a fifth, the other's default, changes what is measured by more than
most of the remedies that pgdyno proposes for a saturated CPU.
"""

from __future__ import annotations

from pgdyno.diagnose._budget import Part
from pgdyno.diagnose._crowding import crowded
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.other_programs import (
    FOUND_SHARE,
    NOBODYS_SHARE,
    OtherPrograms,
    other_programs,
)
from pgdyno.diagnose.facts.quota import is_crowded_out, is_stolen, is_throttled
from pgdyno.diagnose.facts.sessions import round_trips, sessions
from pgdyno.numbers import counted, percent
from pgdyno.record.finding import Evidence, Skip

_NAMED_MAX = 5


def examine(s: Situation) -> Found | Cleared:
    """Examine the CPU usage of the server's machine by program."""
    others = other_programs(s.run, s.slice_ids)
    if others is None:
        raise Skip(
            "the CPU usage of the server's machine by process was not recorded for at least a"
            " second"
        )
    evidence = _evidence(s, others)
    if others.share < FOUND_SHARE:
        return Cleared(
            f"other programs use {percent(others.share)} of"
            f" {counted(others.cores, 'core', 'cores')}{_of_nobody(others)}",
            evidence,
        )
    parts = _parts(s)
    return Found(
        parts=parts,
        sentence=f"{others.sentence}; stop them, or move them to another machine",
        liftable=1.0 if parts else 0.0,
        confidence=0.9 if others.unseen < others.machine_used / 2 else 0.7,
        evidence=evidence,
        crowds_others=True,
        causes_distrust=others.causes_distrust,
    )


def _parts(s: Situation) -> tuple[Part, ...]:
    """Return the waits for a core if they are mostly the other programs', and nobody else's.

    A process that was woken by a message and has no core yet is not seen at work: on crowded cores
    the time between client and server beyond the round trips is a queue for a core too.
    """
    if not is_crowded_out(s) or is_throttled(s) or is_stolen(s) or crowded(s):
        return ()
    return ("ready", "between") if _messages_wait(s) else ("ready",)


def _messages_wait(s: Situation) -> bool:
    """True if most of the time between client and server is neither round trips nor a pooler's."""
    try:
        trips_ms = round_trips(s).total_ms
        return not sessions(s).shared and trips_ms < s.budget.parts_ms.get("between", 0.0) / 2
    except Skip:
        return False


def _of_nobody(others: OtherPrograms) -> str:
    """Words for the cores that were busy with nothing that was seen."""
    if (others.nobodys or 0.0) < NOBODYS_SHARE * others.cores:
        return ""
    cores = counted(others.nobodys or 0.0, "core", "cores")
    return f"; {cores} were busy, and no process was seen to use them"


def _evidence(s: Situation, others: OtherPrograms) -> list[Evidence]:
    bar = (
        f"at least {percent(FOUND_SHARE)};"
        f" above {percent(others.limit_share)} the measurement is not trusted"
    )
    return [
        s.evidence("other programs / cores", others.share, "share", bar),
        *(
            s.evidence(f"{each.name} × {each.processes}", each.cores, "cores")
            for each in others.programs[:_NAMED_MAX]
        ),
        *_of_the_rest(s, others),
        s.evidence("the kernel's threads and interrupts", others.kernel, "cores"),
    ]


def _of_the_rest(s: Situation, others: OtherPrograms) -> list[Evidence]:
    if others.nobodys is None:
        return [s.evidence("short-lived, or not visible from here", others.unseen, "cores")]
    return [
        s.evidence("others with little each", others.unseen, "cores"),
        s.evidence("busy, but with no process that was seen", others.nobodys, "cores"),
    ]


SIGNATURE = Signature(
    id="other-programs",
    false_positives=(
        "programs that belong to the load: a pooler that the run does not go through by name, an"
        " application server, a standby on the same machine; programs that only use what the server"
        " leaves idle"
    ),
    examine=examine,
)

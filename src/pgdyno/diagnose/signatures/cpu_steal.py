"""Stolen CPU time: the hypervisor runs other machines while this one's processes are ready.

Trigger: at least ``STOLEN_SHARE`` of the machine's CPU time was stolen (/proc/stat, "steal").
Ranked behind every finding that owns more of the response time, as other programs are: what lifting
that would gain is predicted for the cores that are left.
Above ``DISTRUST_SHARE`` other findings are doubtful: every time measured is as long as the
hypervisor made it. Distinct from saturated cores, which are busy with this machine's own work.

Thresholds: a tenth as for other programs (see ``other_programs``), which take CPU time in the same
way from inside; a third, because on many clouds some is stolen at any time. Made-up runs only:
stealing cannot be injected from within a machine.
"""

from __future__ import annotations

from pgdyno.diagnose._budget import Part
from pgdyno.diagnose._crowding import crowded
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.quota import STOLEN_SHARE, is_stolen, stolen_share
from pgdyno.numbers import percent

DISTRUST_SHARE = 1 / 3
ADVICE = (
    "move the virtual machine to a host that is less busy, or to a class of machines with dedicated"
    " cores or more CPU credits"
)


def examine(s: Situation) -> Found | Cleared:
    """Examine the time that the hypervisor took, on the server's machine."""
    cpu = s.cpu
    share = stolen_share(s)
    evidence = [
        s.evidence(
            "stolen / CPU time of the machine",
            share,
            "share",
            f"at least {percent(STOLEN_SHARE)};"
            f" above {percent(DISTRUST_SHARE)} the measurement is not trusted",
        ),
        s.evidence("host CPU busy, stolen time included", cpu.busy_share, "share"),
    ]
    sentence = f"the hypervisor takes {percent(share)} of the CPU time of the server's machine"
    if not is_stolen(s):
        return Cleared(sentence, evidence)
    parts: tuple[Part, ...] = () if crowded(s) else ("ready",)
    return Found(
        sentence=f"{sentence} for other machines",
        parts=parts,
        liftable=share,
        confidence=0.9,
        evidence=evidence,
        crowds_others=True,
        causes_distrust=share > DISTRUST_SHARE,
        advice=ADVICE,
    )


SIGNATURE = Signature(
    id="cpu-steal",
    false_positives=(
        "a hypervisor that does not report stolen time, or reports as stolen what it had announced"
        " as the machine's share"
    ),
    examine=examine,
)
